/* When a fault strikes, whom, and what it does. Phases follow each other, so that deep states are
 * reached and left again, and what must happen when nothing goes wrong can be asked for. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

const char *const mode_names[MODE_COUNT] = {"mem",       "file", "redis",  "zookeeper",
                                            "memcached", "etcd", "redlock"};
const char *const step_names[STEP_COUNT] = {"acquire", "renew", "release", "cancel",
                                            "idle"};

/* Why a fault can't be in a mode: every empty cell of the matrix says one of these. */
#define NO_WIRE                                                                          \
    {                                                                                    \
        [MODE_MEM] = "no wire: a request is a call into memory",                         \
        [MODE_FILE] = "no wire: a request is a call into memory",                        \
    }
#define NO_SERVER                                                                        \
    {                                                                                    \
        [MODE_MEM] = "no server: the table is the process' own memory",                  \
        [MODE_FILE] =                                                                    \
            "no server; a file that was replaced or truncated: backends/local",          \
    }
#define NO_MUTEX                                                                         \
    {                                                                                    \
        [MODE_MEM] = "one process: who stops or dies inside takes everybody along",      \
        [MODE_REDIS] = "clients of a server share no mutex",                             \
        [MODE_ZOOKEEPER] = "clients of a server share no mutex",                         \
        [MODE_MEMCACHED] = "clients of a server share no mutex",                         \
        [MODE_ETCD] = "clients of a server share no mutex",                              \
        [MODE_REDLOCK] = "clients of a server share no mutex",                           \
    }
#define NO_ENSEMBLE                                                                      \
    {                                                                                    \
        [MODE_MEM] = "no server: the table is the process' own memory",                  \
        [MODE_FILE] = "no server: the table is a file",                                  \
        [MODE_REDIS] = "one server, and no sessions",                                    \
        [MODE_MEMCACHED] = "one server, and no sessions",                                \
        [MODE_REDLOCK] = "the nodes know nothing of each other",                         \
    }
/* What only a Redis may have happen to it. */
#define NOT_ZOOKEEPER(why)                                                               \
    {                                                                                    \
        [MODE_MEM] = "no wire: a request is a call into memory",                         \
        [MODE_FILE] = "no wire: a request is a call into memory",                        \
        [MODE_ZOOKEEPER] = (why),                                                        \
        [MODE_MEMCACHED] = "one connection, no news, and nobody repeats a request",      \
        [MODE_REDLOCK] = "one connection to each node, and no news",                     \
    }
#define NO_SUCH_ENSEMBLE(why, memcached)                                                 \
    {                                                                                    \
        [MODE_MEM] = "no server: the table is the process' own memory",                  \
        [MODE_FILE] =                                                                    \
            "no server; a file that was replaced or truncated: backends/local",          \
        [MODE_ZOOKEEPER] = (why), [MODE_ETCD] = (why), [MODE_MEMCACHED] = (memcached),   \
    }

const fault_info fault_infos[FAULT_COUNT] = {
    [FAULT_DROP_REQUEST] = {"request lost", NO_WIRE},
    [FAULT_DROP_REPLY] = {"cut after send", NO_WIRE},
    [FAULT_LATE_REQUEST] = {"cut but arrives", NO_WIRE},
    [FAULT_DUPLICATE] = {"duplicated",
                         {[MODE_MEM] = "no wire: a request is a call into memory",
                          [MODE_FILE] = "no wire: a request is a call into memory",
                          [MODE_ZOOKEEPER] = "nobody repeats a request by itself",
                          [MODE_MEMCACHED] = "nobody repeats a request by itself",
                          [MODE_ETCD] = "nobody repeats a request"}},
    [FAULT_SLOW] = {"slow", NO_WIRE},
    [FAULT_HALF_OPEN] = {"half-open", NO_WIRE},
    [FAULT_DEAF] = {"answers lost", NO_WIRE},
    [FAULT_REORDER] = {"reordered", NOT_ZOOKEEPER("news and answers share a connection")},
    [FAULT_NO_NEWS] = {"messages lost", NOT_ZOOKEEPER("only with their connection")},
    [FAULT_NEWS_CUT] = {"subscriber cut", NOT_ZOOKEEPER("there is one connection")},
    [FAULT_UNREACHABLE] = {"unreachable", NO_WIRE},
    [FAULT_FREEZE] = {"server frozen", NO_SERVER},
    [FAULT_REFUSE] = {"server loading", NO_SERVER},
    [FAULT_RESTART] = {"server restarted", NO_SERVER},
    [FAULT_WIPE] = {"server wiped",
                    NO_SUCH_ENSEMBLE("tokens begin anew with servers without data",
                                     NULL)},
    [FAULT_EVICT] = {"key evicted", NO_SUCH_ENSEMBLE("nothing is evicted", NULL)},
    [FAULT_FAILOVER] = {"lagging failover",
                        NO_SUCH_ENSEMBLE("who leads has all that was decided",
                                         "there are no replicas")},
    [FAULT_SERVER_CLOCK] = {"server clock jump",
                            NO_SUCH_ENSEMBLE("sessions end by a clock that isn't set",
                                             "items end by a clock that isn't set")},
    [FAULT_BREAK] = {"operator breaks", {NULL}},
    [FAULT_PAUSE] = {"client stopped", {NULL}},
    [FAULT_SUSPEND] = {"machine suspended", {NULL}},
    [FAULT_STARVE] = {"client starved", {NULL}},
    [FAULT_CLIENT_CLOCK] = {"client clock jump", {NULL}},
    [FAULT_CLOSE] = {"client closed", {NULL}},
    [FAULT_DEATH] = {"client killed",
                     {[MODE_MEM] = "one process: its death leaves no lock and nobody"}},
    [FAULT_DEATH_INSIDE] = {"killed in mutex", NO_MUTEX},
    [FAULT_STOP_INSIDE] = {"stopped in mutex", NO_MUTEX},
    [FAULT_REBUILD] = {"table rebuilt",
                       {[MODE_REDIS] = "there is no table",
                        [MODE_ZOOKEEPER] = "there is no table",
                        [MODE_MEMCACHED] = "there is no table",
                        [MODE_ETCD] = "there is no table",
                        [MODE_REDLOCK] = "there is no table"}},
    [FAULT_SPURIOUS] = {"woken for nothing",
                        {[MODE_MEMCACHED] = "nobody is told of anything",
                         [MODE_REDLOCK] = "nobody is told of anything"}},
    [FAULT_EXPIRE] = {"session ended", NO_ENSEMBLE},
    [FAULT_LEADER] = {"leader died", NO_ENSEMBLE},
    [FAULT_LAG] = {"server lags", NO_ENSEMBLE},
    [FAULT_COMPACT] = {"history compacted",
                       {[MODE_MEM] = "there is no history",
                        [MODE_FILE] = "there is no history",
                        [MODE_REDIS] = "there is no history",
                        [MODE_ZOOKEEPER] = "there is no history",
                        [MODE_MEMCACHED] = "there is no history",
                        [MODE_REDLOCK] = "there is no history"}},
};

/* ---- phases ---- */

typedef enum weather { CALM, DRIZZLE, RAIN, STORM, FOCUS, SWIZZLE } weather;

static struct {
    uint64_t number;
    int64_t until;
    weather weather;
    fault focus;
    unsigned subset, cut;    /* swizzle: who is to be cut off, and who has been */
    step steps[MAX_CLIENTS]; /* … at which request */
} phase;

static event nemesis;
static uint32_t ticks;

/* Those that can be drawn. */
static int fault_kinds(void)
{
    if (s.config.mode == MODE_ETCD)
        return FAULT_COUNT;
    return s.config.mode == MODE_ZOOKEEPER ? FAULT_COMPACT : FAULT_SINGLE_COUNT;
}

static void next_phase(void)
{
    dlk_rand dice = {mix(s.config.seed, 1, phase.number++)};
    static const weather often[] = {CALM,  DRIZZLE, RAIN,  STORM,
                                    STORM, FOCUS,   FOCUS, SWIZZLE};
    phase.weather = often[between(&dice, 0, 7)];
    phase.focus = (fault)between(&dice, 0, fault_kinds() - 1);
    phase.until = s.now + between(&dice, 500 * MS, 6 * SEC);
    phase.subset = (unsigned)dlk_rand_next(&dice);
    phase.cut = 0;
    for (int i = 0; i < MAX_CLIENTS; i++)
        phase.steps[i] = (step)between(&dice, STEP_ACQUIRE, STEP_CANCEL);
    /* A calm is long enough for what must have been mended by then to be asked for. */
    if (phase.weather == CALM)
        phase.until += 9 * SEC;
}

static bool possible(fault what)
{
    return (s.config.faults & FAULT_BIT(what)) != 0 &&
           !fault_infos[what].not_in[s.config.mode];
}

static fault any_fault(dlk_rand *dice)
{
    for (int i = 0; i < 8; i++) {
        fault what = (fault)between(dice, 0, fault_kinds() - 1);
        if (possible(what))
            return what;
    }
    return FAULT_NONE;
}

/* The rarer the request, the likelier it is struck. */
static fault by_weather(dlk_rand *dice, step at)
{
    static const int in_thousand[] = {0, 4, 15, 60, 120, 0};
    static const int scarcity[STEP_COUNT] = {1, 2, 3, 5, 1};
    if (!chance(dice, in_thousand[phase.weather] * scarcity[at]))
        return FAULT_NONE;
    if (phase.weather == FOCUS)
        return possible(phase.focus) ? phase.focus : FAULT_NONE;
    return any_fault(dice);
}

/* Cuts off one after another; they come back each at its own time, so in any order. */
static fault swizzle(int index, step at)
{
    fault what = is_local() ? FAULT_PAUSE : FAULT_UNREACHABLE;
    unsigned bit = 1u << index;
    if (!(phase.subset & bit) || (phase.cut & bit) || phase.steps[index] != at ||
        !possible(what))
        return FAULT_NONE;
    phase.cut |= bit;
    return what;
}

/* ---- drawing ---- */

static void remember(uint32_t who, uint32_t nth, fault what)
{
    if (s.struck_count == s.struck_room) {
        s.struck_room = s.struck_room ? s.struck_room * 2 : 256;
        struck *more = realloc(s.struck, s.struck_room * sizeof(*more));
        if (!more)
            abort();
        s.struck = more;
    }
    s.struck[s.struck_count++] = (struck){who, nth, what};
}

/* The schedule is given: what else could happen doesn't. */
static fault chosen(uint32_t who, uint32_t nth)
{
    for (size_t i = 0; i < s.config.only_count; i++) {
        const struck *one = &s.config.only[i];
        if (one->who == who && one->nth == nth && possible(one->what))
            return one->what;
    }
    return FAULT_NONE;
}

static fault draw(uint32_t who, step at)
{
    uint32_t nth = ++s.asked[who];
    if (s.ending)
        return FAULT_NONE;
    if (s.config.chosen)
        return chosen(who, nth);
    while (s.now >= phase.until)
        next_phase();
    dlk_rand dice = {mix(s.config.seed, 100 + who, nth)};
    fault what = phase.weather == SWIZZLE && who > 0 ? swizzle((int)who - 1, at)
                                                     : by_weather(&dice, at);
    if (what != FAULT_NONE)
        remember(who, nth, what);
    return what;
}

fault fault_draw(client *c, step at)
{
    return draw((uint32_t)c->index + 1, at);
}

void fault_count(fault what, step at)
{
    s.totals.faults[s.config.mode][what][at]++;
}

bool fault_is_of_wire(fault what)
{
    return what >= FAULT_DROP_REQUEST && what <= FAULT_SLOW;
}

step step_of(const dlk_ask *ask)
{
    if (ask->verb == DLK_ACQUIRE || ask->verb == DLK_IMPORT)
        return STEP_ACQUIRE;
    if (ask->verb == DLK_RENEW || ask->verb == DLK_VERIFY || ask->verb == DLK_SIGNAL)
        return STEP_RENEW;
    return atomic_load(&ask->grant->state) == 0 ? STEP_CANCEL : STEP_RELEASE;
}

/* ---- what they do ---- */

static void cut_all(dlk_rand *dice, const char *why)
{
    s.server.down_until = s.now + between(dice, 1 * MS, 500 * MS);
    server_restart();
    for (int i = 0; i < s.config.clients; i++) {
        net_cut(&s.clients[i], why);
        net_cut_news(&s.clients[i]);
    }
}

static void lost_everywhere(int64_t orphans_for)
{
    for (int n = 0; n < s.config.names; n++)
        state_lost(n, orphans_for);
}

/* What the replica has confirmed isn't lost with the master; that it was given back may be. */
static void failed_over(void)
{
    s.failed_over_at = s.now;
    for (int n = 0; n < s.config.names; n++)
        if (s.config.kind == KIND_REPLICATED)
            orphans_may_last(n, 40 * SEC);
        else
            state_lost(n, 40 * SEC);
}

static void jump_server_clock(dlk_rand *dice)
{
    bool back = chance(dice, 400);
    int64_t by = between(dice, 1, 100) * between(dice, 1, back ? 100 : 600) * MS;
    s.server.wall += back ? -by : by;
    s.server.wall_was_back |= back;
    s.server.set_back += back ? by : 0;
    tell(SERVER, ALL_NAMES, "the server's clock jumps by %.3f s",
         (double)(back ? -by : by) / (double)SEC);
    lost_everywhere(40 * SEC + (back ? by : 0));
}

bool server_fault(fault what, dlk_rand *dice, client *c, int name)
{
    (void)c; /* one server, and everybody's */
    switch ((int)what) {
    case FAULT_FREEZE:
        if (s.now < s.server.frozen_until)
            return false; /* a shorter one would let requests overtake the longer one's */
        s.server.frozen_until =
            s.now + (chance(dice, 300) ? between(dice, 1 * SEC, 8 * SEC)
                                       : between(dice, 10 * MS, 1 * SEC));
        tell(SERVER, ALL_NAMES, "the server stands still until %.0f",
             (double)s.server.frozen_until / (double)MS);
        return true;
    case FAULT_REFUSE:
        s.server.refuses_until = s.now + between(dice, 10 * MS, 2 * SEC);
        tell(SERVER, ALL_NAMES, "the server refuses everything until %.0f",
             (double)s.server.refuses_until / (double)MS);
        return true;
    case FAULT_RESTART:
        tell(SERVER, ALL_NAMES, "the server is restarted");
        cut_all(dice, "the server was restarted");
        return true;
    case FAULT_WIPE:
        tell(SERVER, ALL_NAMES, "the server loses everything");
        server_wipe();
        lost_everywhere(0);
        if (chance(dice, 500))
            cut_all(dice, "the server was restarted, empty");
        return true;
    case FAULT_EVICT:
        return server_evict(name, chance(dice, 300));
    case FAULT_FAILOVER:
        tell(SERVER, ALL_NAMES, "the server fails over to what was at %.0f",
             (double)s.server.snapshot_at / (double)MS);
        server_failover();
        failed_over();
        cut_all(dice, "the server failed over");
        return true;
    case FAULT_SERVER_CLOCK:
        jump_server_clock(dice);
        return true;
    default:
        return server_break(name);
    }
}

static bool wire_fault(fault what, dlk_rand *dice, client *c)
{
    if (!c->connected || c->dead)
        return false;
    client_upset(c, s.now);
    switch ((int)what) {
    case FAULT_HALF_OPEN:
        s.service->silence(c, true);
        tell(c->index, ALL_NAMES, "its connections are half-open from now on");
        return true;
    case FAULT_DEAF:
        s.service->silence(c, false);
        tell(c->index, ALL_NAMES, "nothing reaches it from now on");
        return true;
    case FAULT_REORDER:
        c->news_late = chance(dice, 500);
        c->news_odd_until = s.now + between(dice, 50 * MS, 3 * SEC);
        client_upset(c, c->news_odd_until);
        tell(c->index, ALL_NAMES, "messages come %s for a while",
             c->news_late ? "long after answers" : "before answers");
        return true;
    case FAULT_NO_NEWS:
        c->news_lost_until = s.now + between(dice, 50 * MS, 3 * SEC);
        client_upset(c, c->news_lost_until);
        tell(c->index, ALL_NAMES, "loses messages for a while");
        return true;
    case FAULT_NEWS_CUT:
        s.service->cut_news(c);
        return true;
    default:
        c->unreachable_until = s.now + between(dice, 10 * MS, 5 * SEC);
        s.service->cut(c, "the network is away");
        return true;
    }
}

static void jump_client_clock(dlk_rand *dice, client *c)
{
    int64_t by = between(dice, -3600 * SEC, 3600 * SEC);
    tell(c->index, ALL_NAMES, "its time of day jumps by %.0f s",
         (double)by / (double)SEC);
    c->wall += by;
    for (int i = 0; i < s.config.clients; i++) /* one machine, one clock */
        if (is_local() && &s.clients[i] != c)
            s.clients[i].wall = c->wall;
}

static void suspend(dlk_rand *dice, client *c)
{
    int64_t ns = chance(dice, 300) ? between(dice, 1 * SEC, 60 * SEC)
                                   : between(dice, 50 * MS, 2 * SEC);
    for (int i = 0; i < s.config.clients; i++)
        if (is_local() || &s.clients[i] == c)
            client_suspend(&s.clients[i], ns);
    if (!is_local() && chance(dice, 500))
        s.service->cut(c, "the server gave up on it");
}

static bool client_fault(fault what, dlk_rand *dice, client *c, int name)
{
    if (c->dead || c->closing || (client_stopped(c) && what != FAULT_DEATH))
        return false;
    switch ((int)what) {
    case FAULT_PAUSE:
        client_pause(c, chance(dice, 300) ? between(dice, 1 * SEC, 40 * SEC)
                                          : between(dice, 1 * MS, 500 * MS));
        return true;
    case FAULT_SUSPEND:
        suspend(dice, c);
        return true;
    case FAULT_STARVE:
        c->starved_until = s.now + between(dice, 100 * MS, 5 * SEC);
        client_upset(c, c->starved_until);
        tell(c->index, ALL_NAMES, "its timers come late for a while");
        return true;
    case FAULT_CLIENT_CLOCK:
        jump_client_clock(dice, c);
        return true;
    case FAULT_CLOSE:
        client_close(c);
        return true;
    case FAULT_DEATH:
        client_kill(c);
        return true;
    default:
        return is_local() ? table_wake(c) : s.service->spurious(c, name);
    }
}

bool fault_apply(fault what, client *c, int name)
{
    dlk_rand dice = {mix(s.config.seed, 200 + (uint64_t)what,
                         s.asked[c->index + 1] * 8 + (unsigned)c->index)};
    if (s.ending)
        return false;
    if (what == FAULT_REBUILD)
        return table_rebuild();
    if (what == FAULT_BREAK && is_local())
        return table_break(name);
    if ((what >= FAULT_FREEZE && what <= FAULT_BREAK) || what >= FAULT_EXPIRE)
        return s.service->fault(what, &dice, c, name);
    if (what >= FAULT_HALF_OPEN && what <= FAULT_UNREACHABLE)
        return wire_fault(what, &dice, c);
    return client_fault(what, &dice, c, name);
}

/* ---- what happens though nobody asks for anything ---- */

static void run_nemesis(event *e)
{
    if (s.ending)
        return;
    dlk_rand dice = {mix(s.config.seed, 2, ++ticks)};
    client *c = &s.clients[between(&dice, 0, s.config.clients - 1)];
    int name = (int)between(&dice, 0, s.config.names - 1);
    if (s.config.mode == MODE_REDIS && chance(&dice, 200))
        server_snapshot();
    fault what = draw(0, STEP_IDLE);
    bool needs_request =
        fault_is_of_wire(what) || what == FAULT_DEATH_INSIDE || what == FAULT_STOP_INSIDE;
    if (what != FAULT_NONE && !needs_request && fault_apply(what, c, name))
        fault_count(what, STEP_IDLE);
    event_at(e, s.now + between(&dice, 1 * MS, 200 * MS), run_nemesis, NULL);
}

void nemesis_begin(void)
{
    event_at(&nemesis, s.now + 50 * MS, run_nemesis, NULL);
}

void faults_begin(void)
{
    memset(&phase, 0, sizeof(phase));
    nemesis = (event){0};
    ticks = 0;
}
