/* One run: the clients work, things go wrong, then all is healed and must come to rest. */
#include "sim.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

static void heal(void)
{
    s.ending = true;
    s.server.frozen_until = s.server.refuses_until = s.server.down_until = s.now;
    for (int i = 0; i < s.config.clients; i++) {
        client *c = &s.clients[i];
        c->unreachable_until = c->news_lost_until = c->news_odd_until = s.now;
        c->starved_until = s.now;
        if (!is_local() && s.service->is_quiet(c)) {
            s.service->cut(c, "healed");
            s.service->cut_news(c);
        }
    }
    if (!is_local() && s.service->heal)
        s.service->heal();
}

static void begin(const config *how)
{
    free(s.struck);
    s = (sim){.config = *how, .rand = {how->seed}};
    s.violated_name = ALL_NAMES;
    static const service *const services[MODE_COUNT] = {[MODE_REDIS] = &redis_service,
                                                        [MODE_ZOOKEEPER] = &zk_service,
                                                        [MODE_MEMCACHED] = &mc_service,
                                                        [MODE_REDLOCK] = &redlock_service,
#ifdef DLK_WITH_ETCD
                                                        [MODE_ETCD] = &etcd_service
#endif
    };
    s.service = services[how->mode];
    story_begin();
    faults_begin();
    dlk_list_init(&s.limbo);
    dlk_list_init(&s.wires);
    s.now = SEC;
    s.table.inside = NOBODY;
    s.server.rate = 1.0 + (double)between(&s.rand, -4000, 4000) / 1e6;
    if (is_local())
        table_begin();
    else
        s.service->begin();
    for (int i = 0; i < s.config.clients; i++)
        client_init(&s.clients[i], i);
    nemesis_begin();
    watchdog_begin();
}

static void end(void)
{
    for (int i = 0; i < s.config.clients; i++)
        client_free(&s.clients[i]);
    net_free();
    if (is_local())
        table_end();
    else
        s.service->end();
    events_free();
}

static void live(const config *how)
{
    begin(how);
    go_until(s.now + s.config.duration);
    heal();
    /* The longest pause, lease and hold of a caller, and its release. */
    go_until(s.now + 200 * SEC);
    if (!s.violation[0])
        check_rest();
    end();
}

/* ---- a failed assertion is a violation like any other ---- */

static sigjmp_buf out;

static void on_abort(int signal)
{
    siglongjmp(out, signal);
}

bool run(const config *how, totals *ret)
{
    void (*before)(int) = signal(SIGABRT, on_abort);
    if (sigsetjmp(out, 1) == 0)
        live(how);
    else /* what it had is lost, for nobody knows what is whole of it */
        violated(ALL_NAMES, "an assertion failed");
    (void)signal(SIGABRT, before); /* can't fail: it was that */
    s.totals.runs = s.totals.runs_of[how->mode] = 1;
    s.totals.hash = mix(s.totals.hash, s.rand.state, (uint64_t)s.now);
    *ret = s.totals;
    return !s.violation[0];
}
