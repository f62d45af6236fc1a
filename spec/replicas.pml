/* Replicas of one fragment: crashing, hanging, fenced, joining.
 *
 * Lives 1 and 3 are of one node, 2 of another; each computes, as in an active standby. A life may die at any step, or
 * be fenced while it goes on: then it is a ghost that has not noticed yet. The last one stays. Nothing here goes round
 * in circles, so what nothing moves from any more is an end, and at each end all must have been published.
 * LOGGED: a stateless fragment that is not deterministic; each computation of an epoch draws a value.
 */
#ifndef LIVES
#define LIVES 3
#endif
#ifndef EPOCHS
#define EPOCHS 2
#endif
#define INPUTS EPOCHS
#include "verbs.pml"

byte k, m, p, b; /* of the verbs, 0 between them */

/* The state is the input position up to which everything was folded in once. An output is that position, and a draw. */
#define LOST_OR_TWICE 63
#define OUTPUT(position, draw) ((position) * 2 + (draw))
#define POSITION(output) ((output) / 2)

#define NO_FILES 0
#define WRITTEN 1 /* a power cut takes it */
#define DURABLE 2

bit dead[LIVES + 1], calm;
byte enlisted;
byte disk[LIVES + 1], memory[LIVES + 1]; /* the checkpoint in a life's own folder: its epoch, its state */
byte copied, copied_memory;              /* the newest safe point */
byte attempt[LIVES + 1];                 /* segments that a life has written and not published */
byte segments[EPOCHS + 1];               /* those of a published epoch */

inline check_everything() {
    check_records();
    d_step {
        for (k : 1 .. EPOCHS) {
            assert(!published[k] || segments[k] == DURABLE);                       /* 6: visible only when durable */
            assert(!published[k] || POSITION(value[k]) == first_through[k]);       /* 7: each input once, by the claims */
        }
        k = 0
    }
}

proctype Replica(byte i) {
    byte e, state, a, t, v;
    life[i] != NOBODY;
    {
        atomic { /* where it starts: recovery/policy.py, furthest */
#ifdef LOGGED
            e = head;
            state = first_through[head];
#else
            e = copied; state = copied_memory; /* restore, or replay from nothing */
            if
            :: for (k : 1 .. LIVES) { /* fork */
                   if
                   :: disk[k] > e -> e = disk[k]; state = memory[k]
                   :: else
                   fi
               }
               k = 0
            :: skip /* this host has no checkpoint */
            fi;
#endif
            printf("life %d joins after epoch %d\n", i, e)
        }
        do
        :: e == EPOCHS -> break
        :: e < EPOCHS ->
            atomic {
                if
                :: claimed[e + 1]
                :: !claimed[e + 1] && head_in > first_through[e] -> a = first_through[e]; t = head_in /* propose */
                fi
            }
            atomic {
                if
                :: claimed[e + 1] && t == 0 -> answer = LOST
                :: else -> claim(e + 1, a, t, i)
                fi;
                assert(answer != REFUSED);
                if
                :: answer == GHOST -> goto over
                :: answer == LOST && (KEPT(ADOPT) || t == 0) -> a = after[e + 1]; t = through[e + 1]
                :: else
                fi;
                answer = 0;
                check_everything();
                state = (state == a -> t : LOST_OR_TWICE);
                a = 0; t = 0
            }
            if
            :: atomic { published[e + 1] -> /* on record: computed for its state only */
#ifndef LOGGED
                assert(OUTPUT(state, 0) == value[e + 1]) /* 7 */
#endif
               }
            :: !published[e + 1] ->
               atomic { /* Spark has computed it */
                v = OUTPUT(state, 0);
#ifdef LOGGED
                if
                :: v = OUTPUT(state, 0)
                :: v = OUTPUT(state, 1)
                fi;
#endif
                attempt[i] = WRITTEN;
                printf("life %d has computed and written epoch %d: %d\n", i, e + 1, v);
                if
                :: !KEPT(OWN_FOLDER) && published[e + 1] -> value[e + 1] = v; segments[e + 1] = WRITTEN
                :: else
                fi
               }
               if
               :: KEPT(FSYNC) -> attempt[i] = DURABLE
               :: else
               fi;
               if
               :: !KEPT(COMMIT_AFTER_PUBLISH) -> disk[i] = e + 1; memory[i] = state
               :: else
               fi;
               atomic {
                   publish(e + 1, v, i);
                   assert(answer != REFUSED);
                   if
                   :: answer == GHOST -> goto over
                   :: answer == DONE -> segments[e + 1] = attempt[i]
                   :: else
                   fi;
                   attempt[i] = NO_FILES;
                   answer = 0;
                   check_everything()
               }
               if
               :: winner[e + 1] == i -> /* the answer was lost: the keeper is asked again; who has lost drops his segments */
                   atomic {
                       publish(e + 1, v, i);
                       if
                       :: answer == LOST && winner[e + 1] == i -> segments[e + 1] = NO_FILES
                       :: else
                       fi;
                       answer = 0;
                       check_everything()
                   }
               :: skip
               fi
            fi;
            atomic { /* Spark commits the batch */
                e++;
                printf("life %d commits epoch %d\n", i, e);
                v = 0;
#ifndef LOGGED
                disk[i] = e; memory[i] = state;
#endif
                if
                :: e > copied && owner == i -> copied = e; copied_memory = state /* its owner ships it */
                :: skip
                fi
            }
        od
    } unless { dead[i] };
over:
    atomic { e = 0; state = 0; a = 0; t = 0; v = 0; answer = 0 }
}

/* Removes what lives that are over have written and not published: node/process.py, clean_up. */
proctype Sweep() {
    bit over[LIVES + 1];
    byte seen;
    if
    :: KEPT(SWEEP_ORDER)
    :: else -> seen = head
    fi;
    d_step {
        for (k : 1 .. LIVES) {
            over[k] = (life[k] == FENCED)
        }
        k = 0
    }
    if
    :: KEPT(SWEEP_ORDER) -> seen = head
    :: else
    fi;
    atomic {
        printf("the sweep removes what fenced lives wrote after %d\n", seen);
        for (k : 1 .. LIVES) {
            if
            :: over[k] -> attempt[k] = NO_FILES
            :: else
            fi
        }
        for (k : 1 .. EPOCHS) {
            if
            :: published[k] && k > seen && over[winner[k]] -> segments[k] = NO_FILES
            :: else
            fi
        }
        for (k : 1 .. LIVES) {
            over[k] = 0
        }
        k = 0;
        seen = 0;
        check_everything()
    }
}

/* The supervisor, and what befalls the nodes. */
#define MAY_FAIL(i) ((i) < LIVES && life[i] != NOBODY && (!dead[i] || life[i] == LIVE))

active proctype World() {
    byte i;
    atomic {
        for (i : 1 .. LIVES) {
            run Replica(i);
        }
#ifdef SWEEP
        run Sweep();
#endif
        i = 0
    }
    atomic { enlist(1); enlist(2); enlisted = 2 }
    do
    :: atomic { head_in < INPUTS -> head_in++; printf("input epoch %d comes\n", head_in) }
    :: atomic { enlisted < LIVES -> enlisted++; enlist(enlisted); check_everything() }
    :: atomic { !calm && (MAY_FAIL(1) || MAY_FAIL(2)) ->
        if
        :: MAY_FAIL(1) -> i = 1
        :: MAY_FAIL(2) -> i = 2
        fi;
        if
        :: !dead[i] -> /* the host loses power, or just the process dies */
            dead[i] = 1;
            printf("life %d dies\n", i);
            attempt[i] = NO_FILES;
            for (k : 1 .. EPOCHS) {
                if
                :: published[k] && winner[k] == i && segments[k] == WRITTEN -> segments[k] = NO_FILES
                :: else
                fi
            }
            k = 0;
            check_everything()
        :: life[i] == LIVE -> life[i] = FENCED; printf("life %d is fenced, and may go on\n", i)
        fi;
        i = 0
       }
    :: atomic { KEPT(SUPERVISOR_FENCES) ->
        if
        :: dead[1] && life[1] == LIVE -> life[1] = FENCED; printf("dead life 1 is fenced\n")
        :: dead[2] && life[2] == LIVE -> life[2] = FENCED; printf("dead life 2 is fenced\n")
        fi
       }
    :: !calm -> calm = 1
    :: timeout ->
        assert(head == EPOCHS);
        break
    od
}
