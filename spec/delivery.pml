/* Delivery: published epochs, drawn anew by whoever computes them, on their way to a sink.
 *
 * Any life, a ghost too, may publish; each stands ready to deliver, and its owner does. A life may die at any step, or
 * be fenced while it goes on; the last one stays. At each end all must have been delivered.
 */
#define LIVES 2
#define EPOCHS 3
#define INPUTS 1
#include "verbs.pml"

byte k, m, p, b; /* of the verbs, 0 between them */

bit dead[LIVES + 1], calm;
#define UP(i) (!dead[i] && (life[i] == LIVE || (life[i] != NOBODY && !again))) /* a ghost tries once */
byte got, sink[EPOCHS + 1]; /* what the sink has */

inline check_everything() {
    check_records();
    d_step {
        for (k : 1 .. EPOCHS) {
            assert(k > got || (published[k] && sink[k] == value[k])) /* the promise: what was delivered never changes */
        }
        k = 0
    }
}

inline take(n) {
    d_step {
        printf("the sink is given epoch %d: %d\n", n, value[n]);
        if
        :: KEPT(SINK_KEY) && n <= got -> assert(sink[n] == value[n]) /* it knows the key; the re-issue is the same */
        :: else ->
            assert(n == got + 1); /* the promise: nothing twice, nothing left out */
            sink[n] = value[n];
            got = n
        fi
    }
}

proctype Deliver(byte i) {
    byte n;
    life[i] != NOBODY;
    {
        do
        :: atomic {
            owner == 0 || owner == i || life[owner] != LIVE && KEPT(OWN_SUCCESSION) || !KEPT(OWN_LIVE_STAYS) ->
            own(i);
            if
            :: answer == GHOST -> goto over
            :: answer == DONE -> answer = 0; n = delivered + 1; break
            :: else -> goto over
            fi
           }
        od;
        do
        :: n > EPOCHS -> break
        :: n <= EPOCHS && published[n] ->
            if
            :: KEPT(RECORD_AFTER_DELIVERY) -> take(n)
            :: else
            fi;
            atomic {
                record_delivery(n, i);
                assert(answer != REFUSED);
                if
                :: answer == GHOST -> goto over
                :: else
                fi;
                answer = 0
            }
            if
            :: !KEPT(RECORD_AFTER_DELIVERY) -> take(n)
            :: else
            fi;
            n++
        od
    } unless { dead[i] };
over:
    atomic { n = 0; answer = 0 }
}


/* The replicas, one step an epoch; the supervisor; and what befalls the nodes. */
active proctype World() {
    byte i, e, v;
    bit again;
    atomic {
        for (i : 1 .. LIVES) {
            run Deliver(i)
        }
        i = 0;
        enlist(1);
        enlist(2)
    }
    do
    :: atomic { (head < EPOCHS || !again) && (UP(1) || UP(2)) -> /* the next epoch is published, or the newest again */
        if
        :: UP(1) -> i = 1
        :: UP(2) -> i = 2
        fi;
        select(v : 0 .. 1);
        if
        :: head < EPOCHS && life[i] == LIVE -> e = head + 1; claim(e, 0, 0, i); publish(e, v, i)
        :: head > 0 && !again -> again = 1; e = head; publish(e, v, i)
        :: else -> again = 1
        fi;
        i = 0; e = 0; v = 0; answer = 0;
        check_everything()
       }
    :: atomic { !calm ->
        if
        :: !dead[1] -> dead[1] = 1; printf("life 1 dies\n")
        :: life[1] == LIVE -> life[1] = FENCED; printf("life 1 is fenced, and may go on\n")
        :: calm = 1
        fi
       }
    :: KEPT(SUPERVISOR_FENCES) && dead[1] && life[1] == LIVE -> life[1] = FENCED
    :: timeout ->
        assert(head == EPOCHS && got == EPOCHS && delivered == EPOCHS); /* progress: nothing is left undone */
        break
    od
}
