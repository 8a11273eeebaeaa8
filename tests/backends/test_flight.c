/* What is under way when a client goes: whether it may be delivered late, and how many steps it takes to
 * find out. flight.c is compiled for this once more, with a call before each of its branches. */
#include "harness/harness.h"

#include "contract/flight.h"

#include <stdlib.h>

enum { MANY = 10000 };

static int64_t steps;

/* What the compiler calls. */
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    steps++;
}

static dlk_flight flight;
static dlk_key keys[2];
static dlk_ask asks[2 * MANY];
static int count;

static void begin(void)
{
    static dlk_host host;
    dlk_flight_init(&flight, &host);
    count = 0;
}

static dlk_ask *send(dlk_verb verb, int key, uint64_t number)
{
    dlk_ask *ask = &asks[count++];
    *ask = (dlk_ask){.verb = verb, .key = &keys[key], .number = number};
    dlk_list_init(&ask->link);
    dlk_flight_await(&flight, ask);
    return ask;
}

TEST(what_gets_a_lock_is_undone_by_its_own_release_behind_it_and_by_no_other)
{
    begin();
    CHECK(dlk_flight_undoes_itself(&flight));
    (void)send(DLK_RELEASE, 0, 1);
    (void)send(DLK_VERIFY, 0, 1);
    CHECK(dlk_flight_undoes_itself(&flight));
    (void)send(DLK_ACQUIRE, 0, 1); /* behind the release */
    CHECK(!dlk_flight_undoes_itself(&flight));
    (void)send(DLK_RELEASE, 1, 1);
    (void)send(DLK_RELEASE, 0, 2);
    CHECK(!dlk_flight_undoes_itself(&flight));
    send(DLK_RELEASE, 0, 1)->next = 7; /* begins another lease */
    CHECK(!dlk_flight_undoes_itself(&flight));
    (void)send(DLK_RELEASE, 0, 1);
    CHECK(!dlk_flight_undoes_itself(&flight)); /* but for that lease */
    (void)send(DLK_RELEASE, 0, 7);
    CHECK(dlk_flight_undoes_itself(&flight));
    begin();
    (void)send(DLK_ACQUIRE, 0, 1);
    (void)send(DLK_IMPORT, 0, 2);
    (void)send(DLK_RELEASE, 0, 2);
    (void)send(DLK_RELEASE, 0, 1);
    CHECK(dlk_flight_undoes_itself(&flight));
    (void)send(DLK_RENEW, 0, 3);
    CHECK(!dlk_flight_undoes_itself(&flight));
}

/* Those that were asked last are given back first, or last, or in any order. */
static uint64_t in_order(int how, int i, int of)
{
    if (how == 0)
        return (uint64_t)i;
    return how == 1 ? (uint64_t)(of - 1 - i) : (uint64_t)i * 7919 % (uint64_t)of;
}

static int64_t steps_for(int many, int how)
{
    begin();
    for (int i = 0; i < many; i++)
        (void)send(DLK_ACQUIRE, 0, (uint64_t)i);
    for (int i = 0; i < many; i++)
        (void)send(DLK_RELEASE, 0, in_order(how, i, many));
    steps = 0;
    bool undone = dlk_flight_undoes_itself(&flight);
    int64_t taken = steps;
    (void)harness_check(__FILE__, __LINE__, undone, "each is undone");
    return taken;
}

TEST(so_many_take_so_many_steps)
{
    (void)steps_for(1, 0);
    if (steps == 0)
        SKIP("the compiler doesn't count");
    for (int how = 0; how < 3; how++) {
        int64_t few = steps_for(MANY / 10, how), many = steps_for(MANY, how);
        harness_note("%lld steps for %d, %lld for %d", (long long)few, MANY / 10,
                     (long long)many, MANY);
        CHECK(many <
              50 * few); /* each with each would be 100; compilers count differently */
    }
}
