/* The members' order, and what they say put together. */
#include "multi/sum.h"

#include <assert.h>
#include <string.h>

/* ---- the order ---- */

/* By name first: programs may reach one server under several addresses. */
static int compare(const dlk_sum_key *a, const dlk_sum_key *b)
{
    int by = strcmp(a->name, b->name);
    if (by == 0)
        by = (int)a->kind - (int)b->kind;
    return by != 0 ? by : strcmp(a->uri, b->uri);
}

size_t dlk_sum_order(const dlk_sum_key *keys, size_t count, uint8_t *order)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && compare(&keys[i], &keys[order[at - 1]]) < 0; at--)
            order[at] = order[at - 1];
        order[at] = (uint8_t)i;
    }
    for (size_t i = 1; i < count; i++)
        if (compare(&keys[order[i - 1]], &keys[order[i]]) == 0)
            return order[i];
    return count;
}

/* ---- what they say ---- */

/* Those that say most of the whole come first; the others are all the same, and DLOCK_OK is less. */
static size_t rank(dlock_err code)
{
    static const dlock_err ranks[] = {DLOCK_EFORKED, DLOCK_ELOST, DLOCK_ENOTHELD};
    size_t at = 0;
    while (at < sizeof(ranks) / sizeof(*ranks) && ranks[at] != code)
        at++;
    return code == DLOCK_OK ? at + 1 : at;
}

bool dlk_sum_worse(dlock_err than, dlock_err code)
{
    return rank(code) < rank(than);
}

dlock_state dlk_sum_state(const dlock_state *of, size_t count)
{
    dlock_state worst = DLOCK_HELD;
    for (size_t i = 0; i < count; i++) {
        if (of[i] == DLOCK_LOST)
            return DLOCK_LOST;
        if (of[i] == DLOCK_SUSPECT)
            worst = DLOCK_SUSPECT;
    }
    return worst;
}

int64_t dlk_sum_least(const int64_t *of, size_t count)
{
    assert(count > 0); /* of no locks none is made */
    int64_t least = of[0];
    for (size_t i = 1; i < count; i++)
        least = of[i] < least ? of[i] : least;
    return least;
}

dlk_sum_news dlk_sum_tell(dlock_state told, dlock_state now, bool revoked)
{
    if (told == DLOCK_LOST) /* that is the last word */
        return (dlk_sum_news){.state = told};
    return (dlk_sum_news){.revoked = revoked, .changed = now != told, .state = now};
}
