/* Any caller, live, fenced or gone, calls any verb with any arguments in any order: the records hold all the same.
 * LINE, TRIMMING or OWNERS says which verbs are offered together.
 */
#if defined(LINE)
#define EPOCHS 3
#define INPUTS 2
#define LIVES 2
#elif defined(TRIMMING)
#define EPOCHS 3
#define INPUTS 3
#define LIVES 2
#else
#define EPOCHS 1
#define INPUTS 1
#define LIVES 3
#endif
#include "verbs.pml"

byte k, m, p, b; /* of the verbs, 0 between them */

#define ANY(x, low, high) select(x : low .. high)

active proctype Anybody() {
    byte e, a, t, by;
#ifdef TRIMMING
    life[1] = LIVE;
    life[2] = FENCED;
#endif
    do
    :: atomic {
        ANY(by, 1, LIVES);
        ANY(e, 1, EPOCHS);
        if
#ifndef TRIMMING
        :: life[by] == NOBODY -> enlist(by)
        :: life[by] == LIVE -> life[by] = FENCED; printf("life %d is fenced\n", by)
        :: life[by] == LIVE -> life[by] = LEFT; printf("life %d leaves\n", by)
#endif
#ifdef OWNERS
        :: life[by] != NOBODY -> own(by)
#else
        :: head_in < INPUTS -> head_in++; printf("input epoch %d comes\n", head_in)
#endif
#ifdef LINE
        :: life[by] != NOBODY -> ANY(a, 0, INPUTS); ANY(t, 0, INPUTS); claim(e, a, t, by)
        :: life[by] != NOBODY -> ANY(t, 0, 1); publish(e, t, by)
#endif
#ifdef TRIMMING
        /* what any claim may be is LINE's matter: here they are right ones, of one epoch or none */
        :: e <= last_claim + 1 -> a = first_through[e - 1]; ANY(t, a, MIN(a + 1, head_in)); claim(e, a, t, 1)
        :: publish(e, 0, 1)
        :: delivered > 0 || e >= oldest -> record_delivery(e, by) /* whose first delivery is recorded after that epoch was trimmed has lost nothing */
        :: ANY(a, 0, e); record_safe(e, a, by)
        :: retire(e + 1, by)
        /* that what follows a kept safe point is there still is the horizon's matter (horizon.pml) */
        :: first_claim <= e && oldest_in <= first_through[e] + 1 -> pin(e)
        :: pinned[e] -> pinned[e] = 0
        :: trim_input(e + 1, by)
        :: trim_output(e + 1, by)
        :: trim_claims(e + 1, by)
#endif
        fi;
        check_records();
        e = 0; a = 0; t = 0; by = 0; answer = 0
    }
    od
}
