/* What goes wrong with a memcached: it evicts, is flushed, runs out of memory, stands still, is
 * restarted; and others use its items: an operator who deletes what stands there, a client of
 * another library that locks by add and delete. */
#include "memcached/model.h"

static void lost_everywhere(void)
{
    for (int n = 0; n < s.config.names; n++) {
        mc_rules_look(n);
        state_lost(n, 0);
    }
}

/* Others use the cache, too, and theirs are taken first: sometimes as many as bring a number that one
 * of ours goes by next. */
static uint64_t numbers_again(dlk_rand *dice)
{
    const mc_item *item = mc_item_of((int)between(dice, 0, s.config.names - 1));
    uint64_t before = (uint64_t)between(dice, 1, 3);
    return item && item->cas > before && chance(dice, 500) ? item->cas - before : 0;
}

/* What was on its way to the old process is lost with it. The new one begins in another second:
 * whoever starts it again waits for a moment. */
static bool restart(dlk_rand *dice)
{
    if (mc_is_down())
        return false;
    tell(SERVER, ALL_NAMES, "the server is restarted");
    mc_restart(s.now + between(dice, 1 * MS, 500 * MS), numbers_again(dice));
    for (int i = 0; i < s.config.clients; i++)
        net_cut(&s.clients[i], "the server was restarted");
    net_orphan();
    lost_everywhere();
    return true;
}

static void flush(void)
{
    tell(SERVER, ALL_NAMES, "the server is flushed");
    for (int n = 0; n < s.config.names; n++)
        (void)mc_drop(n);
    lost_everywhere();
}

static bool drop_one(int name, const char *why)
{
    if (!mc_drop(name))
        return false;
    tell(SERVER, name, "%s %c", why, 'a' + name);
    mc_rules_look(name);
    state_lost(name, 0);
    return true;
}

/* Who locks as pymemcache's and pylibmc's users do; it gives back when it is met again. */
static bool meddle(dlk_rand *dice, int name)
{
    if (mc_rules_is_foreign(name) && mc_drop(name)) {
        tell(SERVER, name, "another library's client gives back %c", 'a' + name);
        return true;
    }
    if (mc_item_of(name))
        return drop_one(name, "an operator deletes");
    int64_t seconds = between(dice, 1, 4);
    mc_add(name, "1", seconds);
    tell(SERVER, name, "another library's client has %c for %lld s", 'a' + name,
         (long long)seconds);
    mc_rules_foreign(name);
    return true;
}

/* What was stored by the clock of before ends sooner than was asked for, by all that the server stood
 * still: nobody can tell but by looking again. (1.6.18 does so, stopped and sent on.) */
static void run_clock_again(event *e)
{
    (void)e;
    lost_everywhere();
}

static bool stand_still(dlk_rand *dice, client *c, int name)
{
    if (!server_fault(FAULT_FREEZE, dice, c, name))
        return false;
    int64_t until = s.server.frozen_until + between(dice, 0, MS);
    mc_stop_clock(until);
    event_at(event_new(), until, run_clock_again, NULL);
    return true;
}

bool mc_fault(fault what, dlk_rand *dice, client *c, int name)
{
    switch ((int)what) {
    case FAULT_REFUSE:
        s.server.refuses_until = s.now + between(dice, 10 * MS, 2 * SEC);
        tell(SERVER, ALL_NAMES, "the server has no memory left until %.0f",
             (double)s.server.refuses_until / (double)MS);
        return true;
    case FAULT_RESTART:
        return restart(dice);
    case FAULT_WIPE:
        flush();
        return true;
    case FAULT_EVICT:
        return drop_one(name, "evicted is");
    case FAULT_BREAK:
        return meddle(dice, name);
    default:
        return stand_still(dice, c, name);
    }
}
