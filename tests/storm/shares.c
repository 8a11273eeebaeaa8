/* What those who hold a share say of it; see the header. */
#include "shares.h"

bool shares_enter(shares *all, int slot, uint64_t process, int64_t take, int64_t size,
                  bool (*is_dead)(uint64_t process), _Atomic int64_t *dead)
{
    int64_t taken = take;
    /* First said, then looked: of two who are too many the later one sees the other. */
    atomic_store(&all->slots[slot], process << 32 | (uint64_t)take);
    for (int i = 0; i < SHARES_MOST; i++) {
        uint64_t other = i == slot ? 0 : atomic_load(&all->slots[i]);
        if (other == 0)
            continue;
        if (is_dead(other >> 32))
            *dead += atomic_compare_exchange_strong(&all->slots[i], &other, 0);
        else if (atomic_load(&all->slots[i]) == other) /* not gone meanwhile */
            taken += (int64_t)(other & UINT32_MAX);
    }
    return taken <= size;
}

void shares_leave(shares *all, int slot)
{
    atomic_store(&all->slots[slot], 0);
}

bool shares_token(shares *all, int64_t token, bool alone)
{
    int64_t last = atomic_load(&all->last_token);
    bool right = token > (alone ? last : atomic_load(&all->last_alone));
    while (token > last && !atomic_compare_exchange_weak(&all->last_token, &last, token))
        ;
    if (alone)
        atomic_store(&all->last_alone, token);
    return right;
}
