/* The keeper: its records, its verbs, and what must always hold of the records.
 *
 * One fragment reads one input stream and publishes one stream that one sink takes. A verb is one step: that it is one
 * transaction is the database's affair. GUARD(NAME, c) is a condition that a verb refuses by, or goes another way by;
 * -DWITHOUT=NAME takes it away. Arguments are put in as text: give variables, and none that the verb writes. What ever happened is kept beside the records, in first_*, so that a record that
 * changes is seen.
 */
#include "guards.pml"

#define GUARD(name, refused) (WITHOUT != name && (refused))
#define KEPT(name) (WITHOUT != name)
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))

#define NOBODY 0 /* a life: not enlisted yet, live, fenced, or gone by itself */
#define LIVE 1
#define FENCED 2
#define LEFT 3

#define DONE 1    /* an answer: written */
#define LOST 2    /* somebody was first: this is what is in force */
#define REFUSED 3 /* BrokenInvariant, StillNeeded */
#define GHOST 4   /* Fenced */

byte life[LIVES + 1];
byte answer;

byte head_in;       /* the newest epoch of the input stream */
byte oldest_in = 1; /* its oldest one that is kept */

bit claimed[EPOCHS + 2];
byte after[EPOCHS + 2], through[EPOCHS + 2];
byte last_claim, first_claim = 1; /* of those that are kept */

bit published[EPOCHS + 1];
byte value[EPOCHS + 1], winner[EPOCHS + 1];
byte head, oldest = 1;

byte delivered;
bit safe[EPOCHS + 1], pinned[EPOCHS + 1];
byte newest_safe;
byte owner;
bit owns[LIVES + 1]; /* who was told that he is the owner */

bit ever_claimed[EPOCHS + 1], ever_published[EPOCHS + 1];
byte first_after[EPOCHS + 2], first_through[EPOCHS + 2], first_value[EPOCHS + 1], first_winner[EPOCHS + 1];

#define WRITES_AS(by) assert(life[by] == LIVE) /* 5: a fenced replica writes nothing */

/* -- lives -- */

#define SAME_NODE(i, j) (((i) & 1) == ((j) & 1)) /* 1 and 3 are lives of one node, 2 of the other */

inline enlist(it) {
    d_step {
        life[it] = LIVE;
        if
        :: KEPT(ENLIST_FENCES) ->
            for (k : 1 .. LIVES) {
                if
                :: k != it && SAME_NODE(k, it) && life[k] == LIVE -> life[k] = FENCED
                :: else
                fi
            }
        :: else
        fi;
        k = 0;;
        printf("life %d is enlisted\n", it)
    }
}

inline own(by) {
    d_step {
        if
        :: GUARD(OWN_FENCE, life[by] != LIVE) -> answer = GHOST
        :: else ->
            if
            :: owner == 0 || owner == by || (KEPT(OWN_SUCCESSION) && life[owner] != LIVE) || !KEPT(OWN_LIVE_STAYS) ->
                WRITES_AS(by);
                owner = by;
                owns[by] = 1;
                answer = DONE
            :: else -> answer = LOST
            fi
        fi;
        printf("life %d asks to own: #%d\n", by, answer)
    }
}

/* -- claim and publish -- */

inline claim(e, a, t, by) {
    d_step {
        if
        :: GUARD(CLAIM_FENCE, life[by] != LIVE) -> answer = GHOST
        :: else ->
            if
            :: GUARD(CLAIM_ONCE, claimed[e]) -> answer = LOST
            :: else ->
                if
                :: GUARD(CLAIM_NEXT, e > last_claim + 1 || e < first_claim) ||
                    GUARD(CLAIM_CONTINUES, a != (e == 1 -> 0 : first_through[e - 1])) ||
                    GUARD(CLAIM_FORWARD, t < a) || GUARD(CLAIM_PUBLISHED, t > head_in) -> answer = REFUSED
                :: else ->
                    WRITES_AS(by);
                    claimed[e] = 1;
                    after[e] = a;
                    through[e] = t;
                    last_claim = MAX(last_claim, e);
                    if
                    :: !ever_claimed[e] -> ever_claimed[e] = 1; first_after[e] = a; first_through[e] = t
                    :: else
                    fi;
                    answer = DONE
                fi
            fi
        fi;
        printf("life %d claims epoch %d as (%d, %d]: #%d\n", by, e, a, t, answer)
    }
}

/* v is what the segments of by say, which no other writes to. */
inline publish(e, v, by) {
    d_step {
        if
        :: GUARD(PUBLISH_FENCE, life[by] != LIVE) -> answer = GHOST
        :: else ->
            if
            :: GUARD(PUBLISH_CLAIMED, !claimed[e]) || GUARD(PUBLISH_NEXT, e > head + 1) || e < oldest -> answer = REFUSED
            :: else ->
                if
                :: GUARD(PUBLISH_ONCE, e <= head) ->
                    answer = (KEPT(PUBLISH_REPEATS) && winner[e] == by && value[e] == v -> DONE : LOST)
                :: else ->
                    WRITES_AS(by);
                    published[e] = 1;
                    value[e] = v;
                    winner[e] = by;
                    head = MAX(head, e);
                    if
                    :: !ever_published[e] -> ever_published[e] = 1; first_value[e] = v; first_winner[e] = by
                    :: else
                    fi;
                    answer = DONE
                fi
            fi
        fi;
        printf("life %d publishes epoch %d as %d: #%d\n", by, e, v, answer)
    }
}

/* -- the sink -- */

inline record_delivery(e, by) {
    d_step {
        if
        :: GUARD(DELIVERY_FENCE, life[by] != LIVE) -> answer = GHOST
        :: else ->
            if
            :: GUARD(DELIVERY_GROWS, e <= delivered) -> answer = LOST
            :: else ->
                if
                :: GUARD(DELIVERY_NEXT, e > delivered + 1 && !(delivered == 0 && e <= oldest)) ||
                    GUARD(DELIVERY_PUBLISHED, e > head) -> answer = REFUSED
                :: else ->
                    WRITES_AS(by);
                    assert(e > delivered);                                        /* the record only grows, */
                    assert(e == delivered + 1 || (delivered == 0 && e == oldest)); /* and passes over nothing */
                    delivered = e;
                    answer = DONE
                fi
            fi
        fi;
        printf("life %d records the delivery of epoch %d: #%d\n", by, e, answer)
    }
}

/* -- safe points: a chain -- */

inline record_safe(e, on, by) {
    d_step {
        if
        :: GUARD(SAFE_FENCE, life[by] != LIVE) -> answer = GHOST
        :: else ->
            if
            :: GUARD(SAFE_CHAIN, on != newest_safe) || GUARD(SAFE_GROWS, e <= newest_safe) -> answer = LOST
            :: else ->
                if
                :: GUARD(SAFE_CLAIMED, !ever_claimed[e] || e < first_claim) -> answer = REFUSED
                :: else ->
                    WRITES_AS(by);
                    assert(on == newest_safe && e > newest_safe); /* each is built on the newest before it */
                    assert(ever_claimed[e]);
                    safe[e] = 1;
                    newest_safe = e;
                    answer = DONE
                fi
            fi
        fi;
        printf("life %d records a safe point at %d built on %d: #%d\n", by, e, on, answer)
    }
}

inline retire(from, by) { /* forget the safe points before from */
    d_step {
        if
        :: GUARD(RETIRE_FENCE, life[by] != LIVE) -> answer = GHOST
        :: GUARD(RETIRE_NEWEST, from > newest_safe) && !GUARD(RETIRE_FENCE, life[by] != LIVE) -> answer = REFUSED
        :: else ->
            for (k : 1 .. EPOCHS) {
                if
                :: safe[k] && k < from && !GUARD(RETIRE_PINNED, pinned[k]) ->
                    WRITES_AS(by);
                    safe[k] = 0
                :: else
                fi
            }
            k = 0;
            answer = DONE
        fi;
        printf("life %d retires the safe points before %d: #%d\n", by, from, answer)
    }
}

inline pin(e) {
    d_step {
        if
        :: GUARD(PIN_KEPT, !safe[e]) -> answer = REFUSED
        :: else -> pinned[e] = 1; answer = DONE
        fi;
        printf("safe point %d is pinned: #%d\n", e, answer)
    }
}

/* -- trimming: the oldest goes first; what others need is refused -- */

/* The oldest input epoch that somebody needs who has published up to p. */
#define NEEDS_AFTER(p) (claimed[(p) + 1] -> after[(p) + 1] + 1 : first_through[p] + 1)

inline oldest_pin(found) {
    found = 0;
    for (k : 1 .. EPOCHS) {
        if
        :: pinned[k] && found == 0 -> found = k
        :: else
        fi
    }
    k = 0
}

inline trim_input(before, by) {
    d_step {
        oldest_pin(p);
        if
        :: GUARD(TRIM_FENCE, life[by] != LIVE) -> answer = GHOST
        :: else ->
            b = (KEPT(TRIM_HEAD) -> MIN(before, head_in) : before);
            if
            :: b <= oldest_in -> answer = LOST
            :: else ->
                if
                :: GUARD(TRIM_READER, NEEDS_AFTER(head) < b) || GUARD(TRIM_PIN, p > 0 && NEEDS_AFTER(p) < b) -> answer = REFUSED
                :: else ->
                    WRITES_AS(by);
                    oldest_in = b;
                    answer = DONE
                fi
            fi
        fi;
        p = 0; b = 0;
        printf("life %d trims the input before %d: #%d\n", by, before, answer)
    }
}

inline trim_output(before, by) {
    d_step {
        if
        :: GUARD(TRIM_FENCE, life[by] != LIVE) -> answer = GHOST
        :: else ->
            b = (KEPT(TRIM_HEAD) -> MIN(before, head) : before);
            if
            :: b <= oldest -> answer = LOST
            :: else ->
                if
                :: GUARD(TRIM_SINK, delivered > 0 && delivered + 1 < b) -> answer = REFUSED
                :: else ->
                    WRITES_AS(by);
                    for (k : 1 .. EPOCHS) {
                        if
                        :: k < b -> published[k] = 0
                        :: else
                        fi
                    }
                    k = 0;
                    oldest = b;
                    answer = DONE
                fi
            fi
        fi;
        b = 0;
        printf("life %d trims the output before %d: #%d\n", by, before, answer)
    }
}

inline trim_claims(before, by) {
    d_step {
        oldest_pin(p);
        if
        :: GUARD(TRIM_FENCE, life[by] != LIVE) -> answer = GHOST
        :: else ->
            b = (KEPT(TRIM_LAST_CLAIMS) -> (last_claim == 0 -> 0 : MIN(before, last_claim - 1)) : before);
            if
            :: b <= first_claim -> answer = LOST
            :: else ->
                if
                :: GUARD(TRIM_CLAIM_OF_EPOCH, oldest < b) || GUARD(TRIM_CLAIM_OF_PIN, p > 0 && p < b) -> answer = REFUSED
                :: else ->
                    WRITES_AS(by);
                    for (k : 1 .. EPOCHS) {
                        if
                        :: k < b -> claimed[k] = 0; after[k] = 0; through[k] = 0
                        :: else
                        fi
                    }
                    k = 0;
                    first_claim = b;
                    answer = DONE
                fi
            fi
        fi;
        p = 0; b = 0;
        printf("life %d trims the claims before %d: #%d\n", by, before, answer)
    }
}

/* -- what must hold after every verb -- */

inline check_records() {
    d_step {
        for (k : 1 .. EPOCHS) {
            if /* 1: a claim never changes, an epoch never changes; what was trimmed stays gone */
            :: claimed[k] -> assert(after[k] == first_after[k] && through[k] == first_through[k] && k >= first_claim)
            :: else -> assert(!(first_claim <= k && k <= last_claim)) /* claims are dense */
            fi;
            if
            :: published[k] ->
                assert(value[k] == first_value[k] && winner[k] == first_winner[k]);
                assert(ever_claimed[k] && claimed[k]) /* 7: what is kept can be computed again */
            :: else -> assert(!(oldest <= k && k <= head)) /* 2: epochs are dense */
            fi;
            if /* 3: claims are monotone, pass over nothing, and never run ahead of what is published */
            :: ever_claimed[k] ->
                assert(first_after[k] == (k == 1 -> 0 : first_through[k - 1]));
                assert(first_after[k] <= first_through[k] && first_through[k] <= head_in)
            :: else
            fi;
            if /* 4: what a snapshot needs is kept: its safe point, the claims from it on, their inputs */
            :: pinned[k] -> assert(safe[k] && first_claim <= k && oldest_in <= first_through[k] + 1)
            :: else
            fi
        }
        k = 0;
        assert(last_claim == 0 || (claimed[last_claim] && first_claim <= MAX(1, last_claim - 1)));
        assert(head == 0 || oldest <= head);
        assert(head_in == 0 || oldest_in <= head_in);
        assert(oldest_in <= first_through[head] + 1);        /* 4: what the fragment computes next is kept */
        assert(delivered == 0 || oldest <= delivered + 1);   /* 4: and what the sink takes next */
        assert(delivered <= head);
        assert(newest_safe == 0 || safe[newest_safe]);       /* 7: the newest safe point is never forgotten */
        for (k : 1 .. LIVES) {                               /* one life a node, one owner */
            for (m : 1 .. LIVES) {
                assert(k == m || !(life[k] == LIVE && life[m] == LIVE && SAME_NODE(k, m)));
                assert(k == m || !(life[k] == LIVE && life[m] == LIVE && owns[k] && owns[m]))
            }
        }
        k = 0; m = 0
    }
}
