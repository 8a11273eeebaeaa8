/* The plans that there are; see the header. Marks and parents are those of Curator 5.9 and of kazoo
 * 2.11, byte for byte. */
#include "backends/zookeeper/plan.h"

#include "util/error.h"
#include "util/kind.h"
#include "util/settings.h"

#define LOCK   DLK_ZK_BIT(DLK_SORT_LOCK)
#define WRITE  DLK_ZK_BIT(DLK_SORT_WRITE)
#define READ   DLK_ZK_BIT(DLK_SORT_READ)
#define LATCH  DLK_ZK_BIT(DLK_SORT_LATCH)
#define LEASE  DLK_ZK_BIT(DLK_SORT_LEASE)
#define KLOCK  DLK_ZK_BIT(DLK_SORT_KLOCK)
#define KREAD  DLK_ZK_BIT(DLK_SORT_KREAD)
#define BRIDGE DLK_ZK_BIT(DLK_SORT_BRIDGE)

/* Curator's. It doesn't see kazoo's nodes, but kazoo can be told to see these: so we also wait for
 * kazoo's, and the two exclude each other. A bridge is not to be mixed with that: it would wait for
 * us, and kazoo's for it. */
static const dlk_zk_rule lock = {
    .mark = "lock-", .sort = DLK_SORT_LOCK, .behind = LOCK | KLOCK | KREAD};
static const dlk_zk_rule write_lock = {
    .mark = "__WRIT__", .sort = DLK_SORT_WRITE, .behind = WRITE | READ | KLOCK | KREAD};
static const dlk_zk_rule read_lock = {.mark = "__READ__",
                                      .sort = DLK_SORT_READ,
                                      .behind = WRITE | KLOCK,
                                      .beside = READ | KREAD};
static const dlk_zk_rule latch = {
    .mark = "latch-", .sort = DLK_SORT_LATCH, .behind = LATCH};
static const dlk_zk_rule queue = {.mark = "lock-", .sort = DLK_SORT_LOCK, .behind = LOCK};
static const dlk_zk_rule lease = {
    .mark = "lease-", .sort = DLK_SORT_LEASE, .counts = true};

static const dlk_zk_plan curator[] = {
    {.kind = DLOCK_MUTEX, .tokens = true, .steps = 1, .step = {{.rule = &lock}}},
    {.kind = DLOCK_WRITE, .tokens = true, .steps = 1, .step = {{.rule = &write_lock}}},
    {.kind = DLOCK_WRITE,
     .shared = true,
     .tokens = true,
     .steps = 1,
     .step = {{.rule = &read_lock}}},
    {.kind = DLOCK_ELECTION,
     .publishes = true,
     .tokens = true,
     .steps = 1,
     .step = {{.rule = &latch}}},
    {.kind = DLOCK_ELECTION,
     .selector = true,
     .publishes = true,
     .tokens = true,
     .steps = 1,
     .step = {{.rule = &lock}}},
    {.kind = DLOCK_SEMAPHORE,
     .steps = 2,
     .step = {{.rule = &queue, .below = "/locks", .passing = true},
              {.rule = &lease, .below = "/leases"}}},
    {.steps = 0},
};

/* kazoo's. Those of it that were told of Curator's nodes wait for them, and so do we. */
static const dlk_zk_rule klock = {.mark = "__lock__",
                                  .sort = DLK_SORT_KLOCK,
                                  .kazoo = true,
                                  .persistent = true,
                                  .behind = KLOCK | BRIDGE | LOCK};
static const dlk_zk_rule kwrite = {.mark = "__lock__",
                                   .sort = DLK_SORT_KLOCK,
                                   .kazoo = true,
                                   .persistent = true,
                                   .behind = KLOCK | KREAD | BRIDGE | WRITE | READ};
static const dlk_zk_rule kread = {.mark = "__rlock__",
                                  .sort = DLK_SORT_KREAD,
                                  .kazoo = true,
                                  .persistent = true,
                                  .behind = KLOCK | BRIDGE | WRITE,
                                  .beside = KREAD | READ};

static const dlk_zk_plan kazoo[] = {
    {.kind = DLOCK_MUTEX, .tokens = true, .steps = 1, .step = {{.rule = &klock}}},
    {.kind = DLOCK_WRITE, .tokens = true, .steps = 1, .step = {{.rule = &kwrite}}},
    {.kind = DLOCK_WRITE,
     .shared = true,
     .tokens = true,
     .steps = 1,
     .step = {{.rule = &kread}}},
    {.kind = DLOCK_ELECTION,
     .publishes = true,
     .tokens = true,
     .steps = 1,
     .step = {{.rule = &klock}}},
    {.steps = 0},
};

/* Both, kazoo's first: one order for all, so no two bridges wait for each other. The second waits
 * for Curator's only: whoever is behind our first node would otherwise be waited for. */
static const dlk_zk_rule bridge_kazoo = {.mark = "__lock__",
                                         .sort = DLK_SORT_BRIDGE,
                                         .kazoo = true,
                                         .bridge = true,
                                         .behind = KLOCK | BRIDGE,
                                         .beside = LOCK};
static const dlk_zk_rule bridge_curator = {
    .mark = "lock-", .sort = DLK_SORT_LOCK, .behind = LOCK, .beside = KLOCK | BRIDGE};

static const dlk_zk_plan bridge[] = {
    {.kind = DLOCK_MUTEX,
     .tokens = true,
     .steps = 2,
     .step = {{.rule = &bridge_kazoo}, {.rule = &bridge_curator}}},
    {.kind = DLOCK_ELECTION,
     .publishes = true,
     .tokens = true,
     .steps = 2,
     .step = {{.rule = &bridge_kazoo}, {.rule = &bridge_curator}}},
    {.steps = 0},
};

/* One plain node at the name itself. Those of us who wait stand in a line beside it, so that only
 * the first of them watches the node. */
static const dlk_zk_rule plain = {.sort = DLK_SORT_OTHER, .plain = true};

static const dlk_zk_plan exclusive[] = {
    {.kind = DLOCK_MUTEX,
     .tokens = true,
     .steps = 2,
     .step = {{.rule = &queue, .below = DLK_ZK_BESIDE, .passing = true},
              {.rule = &plain}}},
    {.kind = DLOCK_ELECTION,
     .publishes = true,
     .tokens = true,
     .steps = 2,
     .step = {{.rule = &queue, .below = DLK_ZK_BESIDE, .passing = true},
              {.rule = &plain}}},
    {.steps = 0},
};

/* Whatever zookeeper.node says; pattern.c makes names and parents of it. */
static const dlk_zk_rule form = {.mark = "", .sort = DLK_SORT_OTHER, .persistent = true};

static const dlk_zk_plan pattern[] = {
    {.kind = DLOCK_MUTEX, .tokens = true, .steps = 1, .step = {{.rule = &form}}},
    {.kind = DLOCK_WRITE, .tokens = true, .steps = 1, .step = {{.rule = &form}}},
    {.kind = DLOCK_WRITE,
     .shared = true,
     .tokens = true,
     .steps = 1,
     .step = {{.rule = &form}}},
    {.kind = DLOCK_ELECTION, .tokens = true, .steps = 1, .step = {{.rule = &form}}},
    {.steps = 0},
};

/* Ours alone, whatever the layout. */
static const dlk_zk_rule waiter = {
    .mark = "wait-", .sort = DLK_SORT_WAIT, .signals = true};
static const dlk_zk_plan condition = {
    .kind = DLK_KIND_CONDITION, .tokens = true, .steps = 1, .step = {{.rule = &waiter}}};

static const struct {
    const char *name;
    const dlk_zk_plan *plans;
} layouts[DLK_ZK_LAYOUTS] = {
    [DLK_ZK_CURATOR] = {"curator", curator},
    [DLK_ZK_KAZOO] = {"kazoo", kazoo},
    [DLK_ZK_BRIDGE] = {"bridge", bridge},
    [DLK_ZK_EXCLUSIVE] = {"exclusive", exclusive},
    [DLK_ZK_PATTERN] = {"pattern", pattern},
};

const dlk_zk_plan *dlk_zk_plan_of(const dlk_settings *settings, dlock_kind kind,
                                  bool shared, dlock_error **err)
{
    int64_t layout = dlk_settings_int(settings, DLK_KEY_ZOOKEEPER_LAYOUT);
    if (kind == DLK_KIND_CONDITION)
        return &condition;
    bool selector = kind == DLOCK_ELECTION && layout == DLK_ZK_CURATOR &&
                    dlk_settings_int(settings, DLK_KEY_ZOOKEEPER_ELECTION) == 1;
    for (const dlk_zk_plan *plan = layouts[layout].plans; plan && plan->steps; plan++)
        if (plan->kind == kind && plan->shared == shared && plan->selector == selector)
            return plan;
    dlk_error_set(err, DLOCK_ENOTSUP,
                  "zookeeper: zookeeper.layout=%s has no %s in this version",
                  layouts[layout].name, dlk_kind_of((int)kind)->plural);
    return NULL;
}
