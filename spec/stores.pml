/* Safe points and the objects that they are made of: two replicas ship, retire and sweep; one may be a ghost.
 *
 * Each takes what its checkpoint stands at, stores it as one object, builds on the newest safe point or packs
 * everything anew, records, forgets the older safe points, and removes what none that is kept refers to.
 */
#define LIVES 2
#define EPOCHS 3
#define INPUTS 3
#include "verbs.pml"

byte k, m, p, b; /* of the verbs, 0 between them */

#define OBJECT(e, i) (1 << (2 * (e) + (i)-3)) /* each life writes to folders of its own */
#define UP_TO(e) ((1 << (2 * (e))) - 1)       /* all objects of epochs up to e */

byte stored;
byte manifest[EPOCHS + 1]; /* the objects that a safe point refers to */
bit dead;

inline check_everything() {
    check_records();
    d_step {
        for (k : 1 .. EPOCHS) {
            assert(!safe[k] || (stored & manifest[k]) == manifest[k]) /* 7: every safe point that is kept can be restored */
        }
        k = 0
    }
}

proctype Ship(byte i) {
    byte base, e, objects, top;
    {
        do
        :: newest_safe == EPOCHS -> break
        :: atomic { newest_safe < EPOCHS ->
            base = newest_safe;
            select(e : base + 1 .. EPOCHS);
            objects = OBJECT(e, i);
            printf("life %d ships epoch %d, the newest safe point is %d\n", i, e, base);
            if
            :: objects = objects | manifest[base]
            :: skip
            fi
           }
           if
           :: KEPT(STORE_BEFORE_RECORD) -> stored = stored | OBJECT(e, i)
           :: else
           fi;
           atomic {
               record_safe(e, base, i);
               assert(answer != REFUSED);
               if
               :: answer == GHOST -> goto over
               :: answer == DONE -> manifest[e] = objects
               :: else
               fi;
               objects = 0;
               answer = 0;
               check_everything()
           }
           if
           :: !KEPT(STORE_BEFORE_RECORD) -> stored = stored | OBJECT(e, i)
           :: else
           fi;
           atomic {
               e = newest_safe;
               retire(e, i);
               if
               :: answer == GHOST -> goto over
               :: else
               fi;
               answer = 0;
               for (k : 1 .. EPOCHS) {
                   if
                   :: safe[k] -> objects = objects | manifest[k]; top = k
                   :: else
                   fi
               }
               k = 0;
               check_everything()
           }
           atomic {
               objects = (KEPT(SWEEP_SPARES_NAMED) -> objects : OBJECT(top, i));
               stored = stored & (objects | (KEPT(SWEEP_SPARES_NEWER) -> 63 - UP_TO(top) : 0));
               printf("life %d sweeps up to epoch %d: objects left %x\n", i, top, stored);
               base = 0; e = 0; objects = 0; top = 0;
               check_everything()
           }
        od
    } unless { dead && i == 1 };
over:
    atomic { base = 0; e = 0; objects = 0; top = 0; answer = 0 }
}

active proctype World() {
    byte n, s;
    atomic {
        enlist(1);
        enlist(2);
        head_in = INPUTS;
        for (n : 1 .. EPOCHS) {
            s = n - 1;
            claim(n, s, n, 1)
        }
        s = 0; answer = 0;
        run Ship(1);
        run Ship(2)
    }
    do
    :: atomic { !dead -> dead = 1; printf("life 1 dies\n") }
    :: atomic { life[1] == LIVE -> life[1] = FENCED; printf("life 1 is fenced, and may go on\n") }
    :: atomic {
        if
        :: safe[1] && !pinned[1] -> n = 1
        :: safe[2] && !pinned[2] -> n = 2
        fi;
        pin(n);
        n = 0; answer = 0;
        check_everything()
       }
    :: timeout ->
        assert(newest_safe == EPOCHS);
        break
    od
}
