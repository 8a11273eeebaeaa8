/* What a client tells of what it has and waits for; see told.h. */
#include "locks/inner.h"
#include "util/kind.h"

#include <string.h>

/* So many grants are looked at for each line that there is room for. */
#define LOOKS 4

typedef struct telling {
    dlk_told *lines;
    size_t most;
    int64_t now, after;
    dlk_told_sum sum;
} telling;

static uint64_t thread_of(uint64_t owner)
{
    return dlk_owner_is_thread(owner) ? owner : 0;
}

static void add(telling *to, const dlk_told *line)
{
    if (to->now - line->since < to->after) {
        int64_t at = line->since + to->after;
        to->sum.next = at < to->sum.next ? at : to->sum.next;
    } else if (to->sum.count < to->most) {
        to->lines[to->sum.count++] = *line;
    } else {
        to->sum.more++;
    }
}

static void add_holder(telling *to, const dlk_grant *grant)
{
    const dlk_told line = {.key = &grant->name->key,
                           .since = grant->since,
                           .number = grant->number,
                           .thread = thread_of(grant->owner),
                           .token = grant->token,
                           .shared = grant->terms.shared};
    add(to, &line);
}

/* Only of the first who waits something is known at the server. */
static void add_waiters(telling *to, const dlk_name *name)
{
    const dlk_wait *head = dlk_name_head(name);
    DLK_CHAIN_FOR (it, &name->queue) {
        const dlk_wait *wait = DLK_LIST_ITEM(it, dlk_wait, link);
        const dlk_told line = {
            .key = &name->key,
            .since = wait->began,
            .number = wait == head && name->trying ? name->trying->number : 0,
            .thread = thread_of(wait->owner),
            .waits = true,
            .shared = wait->terms.shared};
        if (!wait->once) /* a try doesn't wait */
            add(to, &line);
    }
}

/* Whoever waits does so by an attempt, or behind a grant of this client: so all are found by the grants. */
dlk_told_sum dlk_core_told(const dlk_core *core, int64_t now, int64_t after,
                           dlk_told *ret, size_t most)
{
    telling to = {ret, most, now, after, {.next = DLK_NEVER}};
    size_t looked = 0;
    DLK_LIST_FOR (it, &core->grants) {
        const dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (to.sum.count == most || looked == most * LOOKS) {
            to.sum.more += (int64_t)(core->grant_count - looked);
            break;
        }
        looked++;
        if (dlk_grant_lives(grant))
            add_holder(&to, grant);
        if (grant->name->grants.first == &grant->link)
            add_waiters(&to, grant->name);
    }
    return to.sum;
}

static dlk_wait *wait_of(const dlk_name *name, uint64_t thread, int64_t before)
{
    DLK_CHAIN_FOR (it, &name->queue) {
        dlk_wait *wait = DLK_LIST_ITEM(it, dlk_wait, link);
        if (wait->owner == thread && !wait->once && wait->began < before)
            return wait;
    }
    return NULL;
}

bool dlk_core_break_wait(dlk_core *core, const char *name, uint64_t thread,
                         int64_t before, const char *text, int64_t now)
{
    for (int kind = 1; kind < DLK_KIND_COUNT; kind++) {
        dlk_name *found = NULL;
        while (
            (found = dlk_name_find(core, (dlock_kind)kind, name, strlen(name), found))) {
            dlk_wait *wait = wait_of(found, thread, before);
            if (!wait)
                continue;
            dlk_acquire_break(core, wait, text, now);
            return true;
        }
    }
    return false;
}
