/* Trimming: a node that trims by what it has seen, and a replica that joins meanwhile on another node.
 *
 * Epoch e takes input epoch e. Node 1 publishes, delivers, ships and trims; node 2 joins: it decides from where, and
 * then computes up to the head; its heartbeats tell what it has in hand. Whatever it reaches for must be there.
 */
#define LIVES 2
#define EPOCHS 3
#define INPUTS 3
#define TURNS 2
#include "verbs.pml"

byte k, m, p, b; /* of the verbs, 0 between them */

#define NOTHING_YET 15 /* no replica in the report */

byte in_hand = NOTHING_YET; /* of the replica on node 2; 0 while it makes up its mind */
byte report = NOTHING_YET;  /* what the last heartbeat said */
byte beats;                 /* since the survey; 2 and more are alike */
bit joined;

inline check_everything() {
    check_records();
    assert(oldest <= delivered + 1) /* 4: also before the sink is on record */
}

proctype Join() {
    byte start;
    in_hand = 0;
    start = newest_safe; /* restore it, or replay from nothing */
    atomic { in_hand = start + 1; start = 0; printf("node 2 starts with epoch %d\n", in_hand) }
    do
    :: in_hand > EPOCHS -> break
    :: atomic { in_hand <= head ->
        assert(claimed[in_hand] && oldest_in <= after[in_hand] + 1); /* 4, 7 */
        assert(in_hand == 1 || claimed[in_hand - 1]); /* where the span starts */
        printf("node 2 has read claim and input of epoch %d\n", in_hand);
        in_hand++
       }
    od;
    joined = 1
}

proctype Heart() {
    byte said, count;
    do
    :: count < 3 && !joined ->
        said = in_hand; /* and what is said takes its time to arrive */
        atomic {
            report = said;
            printf("a heartbeat of node 2 says: in hand %d\n", said);
            beats = MIN(beats + 1, 2);
            count++;
            said = 0
        }
    :: count == 3 || joined -> break
    od
}

/* A turn looks what is needed now, and trims what this look and an earlier one let go: node/trim.py. */
proctype Trim() {
    byte heard, needed, survey, before, turns; /* needed: from here on, in epochs of the fragment */
    bit awaited, ripe;
    do
    :: turns < TURNS ->
        atomic { /* the reports */
            heard = beats;
            needed = EPOCHS + 1;
            if
            :: life[2] == LIVE && KEPT(HORIZON_IN_HAND) && report != NOTHING_YET ->
                needed = (report > 0 -> report : (KEPT(HORIZON_UNDECIDED) -> 1 : needed))
            :: else
            fi
        }
        atomic { /* then where it may start: what follows the oldest safe point that is kept */
            if
            :: !KEPT(HORIZON_SAFE) -> needed = MIN(needed, head + 1)
            :: KEPT(HORIZON_SAFE) && newest_safe == 0 -> needed = 1
            :: else ->
                k = 1;
                do
                :: safe[k] -> break
                :: else -> k++
                od;
                needed = MIN(needed, k + 1);
                k = 0
            fi
        }
        atomic { /* at last the beats, since what is reported next is waited for */
            if
            :: !KEPT(RIPE_HEARD) -> heard = beats
            :: else
            fi;
            ripe = (!awaited || life[2] != LIVE || !KEPT(RIPE) || heard >= (KEPT(RIPE_TWICE) -> 2 : 1));
            if
            :: ripe ->
                before = MIN(survey, needed);
                survey = needed;
                awaited = (life[2] == LIVE);
                beats = 0
            :: else
            fi;
            printf("a look says needed from %d, ripe %d\n", needed, ripe);
            heard = 0;
            needed = 0;
            ripe = 0
        }
        if
        :: before > 1 ->
            atomic { trim_input(before, 1); answer = 0; check_everything() }
            atomic {
                needed = (KEPT(HORIZON_SINK) -> MIN(before, delivered + 1) : before);
                trim_output(needed, 1);
                needed = (KEPT(HORIZON_CLAIM_BEFORE) -> before - 1 : before);
                needed = MIN(needed, oldest);
                trim_claims(needed, 1);
                needed = 0; before = 0; answer = 0;
                check_everything()
            }
        :: else -> before = 0
        fi;
        turns++
    :: turns == TURNS -> break
    od
}

active proctype World() {
    byte n, s;
    atomic {
        enlist(1);
        head_in = INPUTS;
        for (n : 1 .. 2) {
            s = n - 1;
            claim(n, s, n, 1);
            publish(n, 0, 1)
        }
        n = 0; s = 0; answer = 0;
        run Trim()
    }
    do
    :: atomic { head < EPOCHS -> s = head; n = head + 1; claim(n, s, n, 1); publish(n, 0, 1); n = 0; s = 0; answer = 0; check_everything() }
    :: atomic { delivered < head -> n = delivered + 1; record_delivery(n, 1); n = 0; answer = 0; check_everything() }
    :: atomic { newest_safe < head ->
        s = newest_safe; n = head;
        record_safe(n, s, 1);
        retire(n, 1);
        n = 0; s = 0; answer = 0;
        check_everything()
       }
    :: atomic { life[2] == NOBODY -> enlist(2); run Join(); run Heart() }
    :: timeout ->
        assert(joined && head == EPOCHS);
        break
    od
}
