/* client.order: what is learnt of the locks that threads take, and what isn't. Each test has classes of its own:
 * "<letter of the test>a/1" is of the class "<letter>a". */
#include "harness/kept.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of these settings, whose log lines come as events. */
static dlock_client *heard(const char *settings)
{
    dlock_client *client = world_client(settings);
    if (client)
        (void)dlock_client_event_fd(client); /* turns them on */
    return client;
}

/* The next line that tells of an order, yours to free; NULL when none has come up to now. */
static char *told(dlock_client *client)
{
    for (;;) {
        DLOCK_AUTO(dlock_event) event = dlock_client_next_event(client);
        if (!event)
            return NULL;
        if (dlock_event_what(event) == DLOCK_EVENT_LOG &&
            strstr(dlock_event_text(event), "order"))
            return strdup(dlock_event_text(event));
    }
}

static bool is_told(dlock_client *client)
{
    char *text = told(client);
    free(text);
    return text != NULL;
}

/* Takes them one in the other, and gives both back. */
static dlock_err nest(dlock_client *client, const char *first, dlock_client *other,
                      const char *second, int64_t wait_ms)
{
    DLOCK_AUTO(dlock_hold) outer = NULL;
    DLOCK_AUTO(dlock_hold) inner = NULL;
    dlock_err code = dlock_acquire(client, first, patience_ms(), &outer, NULL);
    return code == DLOCK_OK ? dlock_acquire(other, second, wait_ms, &inner, NULL) : code;
}

typedef struct nesting {
    dlock_client *client;
    const char *first, *second;
    dlock_err code;
} nesting;

static void *nest_in_thread(void *arg)
{
    nesting *n = arg;
    n->code = nest(n->client, n->first, n->client, n->second, patience_ms());
    return NULL;
}

/* The same in a thread of its own. */
static dlock_err elsewhere(dlock_client *client, const char *first, const char *second)
{
    pthread_t thread;
    nesting n = {.client = client, .first = first, .second = second};
    if (pthread_create(&thread, NULL, nest_in_thread, &n) != 0)
        return DLOCK_ENOMEM;
    pthread_join(thread, NULL);
    return n.code;
}

#define NESTS(client, first, second)                                                     \
    CHECK_EQ_INT(nest((client), (first), (client), (second), patience_ms()), DLOCK_OK)

TEST(two_threads_that_contradict_each_other_are_told_before_they_ever_wait)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = heard("client.order=warn");
    NESTS(client, "ta/1", "tb/2");
    CHECK_EQ_INT(elsewhere(client, "tb/3", "ta/4"), DLOCK_OK);
    char *text = told(client);
    CHECK_STR(text ? text : "", "ta/4: lock order: asked for while 'tb/3' is held, 'tb' "
                                "before 'ta'; before, it was "
                                "the other way round: 'tb/2' while 'ta/1' was held");
    free(text);
    CHECK_EQ_INT(elsewhere(client, "tb/3", "ta/4"), DLOCK_OK);
    CHECK(!is_told(client));
}

TEST(it_can_be_refused)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = heard("client.order=error");
    DLOCK_AUTO(dlock_lock) inner = world_lock(client, "ea/1", NULL);
    DLOCK_AUTO(dlock_error) err = NULL;
    NESTS(client, "ea/1", "eb/1");
    DLOCK_AUTO(dlock_hold) outer = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_EQ_INT(dlock_acquire(client, "eb/1", patience_ms(), &outer, NULL), DLOCK_OK);
    for (int i = 0; i < 2; i++) { /* each time */
        CHECK_ERR(dlock_lock_acquire(inner, patience_ms(), &none, &err), DLOCK_EDEADLK,
                  err);
        CHECK_CONTAINS(dlock_error_text(err), "'eb/1' while 'ea/1' was held");
    }
    CHECK(is_told(client));
    CHECK(!is_told(client));
    CHECK_EQ_INT(dlock_hold_check(outer), DLOCK_OK);
    CHECK_EQ_INT(world_try("ea/1"), DLOCK_OK); /* nothing is left of it */
    /* Who doesn't wait is in nobody's way. */
    CHECK_EQ_INT(dlock_lock_acquire(inner, 0, &none, NULL), DLOCK_OK);
}

TEST(it_is_off_unless_asked_for)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = heard(NULL);
    NESTS(client, "oa", "ob");
    NESTS(client, "ob", "oa");
    CHECK(!is_told(client));
}

TEST(the_locks_of_several_clients_are_in_one_order)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) one = heard("client.order=warn");
    DLOCK_AUTO(dlock_client) other = heard("client.order=warn");
    DLOCK_AUTO(dlock_client) off = heard(NULL);
    CHECK_EQ_INT(nest(one, "sa", other, "sb", patience_ms()), DLOCK_OK);
    CHECK_EQ_INT(nest(off, "sb", one, "sa", patience_ms()), DLOCK_OK);
    CHECK(!is_told(one)); /* what that one holds isn't known */
    CHECK_EQ_INT(nest(other, "sb", one, "sa", patience_ms()), DLOCK_OK);
    CHECK(is_told(one));
    CHECK(!is_told(other));
}

TEST(tries_teach_nothing_and_contradict_nothing)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = heard("client.order=warn");
    CHECK_EQ_INT(nest(client, "ya", client, "yb", 0), DLOCK_OK);
    NESTS(client, "yb", "ya");
    CHECK_EQ_INT(nest(client, "ya", client, "yb", 0), DLOCK_OK);
    CHECK(!is_told(client));
    /* What a try has got is held like all else. */
    DLOCK_AUTO(dlock_hold) tried = NULL;
    DLOCK_AUTO(dlock_hold) inner = NULL;
    CHECK_EQ_INT(dlock_acquire(client, "ya", 0, &tried, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_acquire(client, "yb", patience_ms(), &inner, NULL), DLOCK_OK);
    CHECK(is_told(client));
}

TEST(another_hold_of_what_the_thread_has_is_no_asking)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = heard("client.order=warn");
    NESTS(client, "ra", "rb");
    DLOCK_AUTO(dlock_hold) a = NULL;
    DLOCK_AUTO(dlock_hold) b = NULL;
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK_EQ_INT(dlock_acquire(client, "ra", patience_ms(), &a, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_acquire(client, "rb", patience_ms(), &b, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_acquire(client, "ra", patience_ms(), &again, NULL), DLOCK_OK);
    CHECK(!is_told(client));
    /* It is held until its last hold goes. */
    CHECK_EQ_INT(dlock_hold_release(b, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(a, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) c = NULL;
    CHECK_EQ_INT(dlock_acquire(client, "rc", patience_ms(), &c, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(c, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(again, NULL), DLOCK_OK);
    NESTS(client, "rc", "ra");
    CHECK(is_told(client));
}

/* Both ways, by whom no order is learnt of. */
static void has_no_order(const char *settings, bool by_op)
{
    DLOCK_AUTO(dlock_client) client = heard("client.order=warn");
    DLOCK_AUTO(dlock_lock) a = world_lock(client, "na", settings);
    DLOCK_AUTO(dlock_lock) b = world_lock(client, "nb", settings);
    for (int i = 0; i < 2; i++) {
        dlock_lock *const both[] = {i ? b : a, i ? a : b};
        dlock_hold *holds[2] = {0};
        for (int k = 0; k < 2; k++) {
            DLOCK_AUTO(dlock_op)
            op = by_op ? dlock_lock_acquire_start(both[k], patience_ms()) : NULL;
            if (op) {
                ENDS(op, DLOCK_OK);
                holds[k] = dlock_op_take_hold(op);
            } else {
                holds[k] = world_take(both[k]);
            }
        }
        dlock_hold_free(holds[1]);
        dlock_hold_free(holds[0]);
    }
    CHECK(!is_told(client));
}

TEST(owners_that_are_no_threads_teach_nothing)
{
    BEGIN();
    has_no_order("lock.owner=none", false);
    has_no_order(NULL, true);
}

TEST(operations_of_a_thread_teach_as_its_calls_do)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = heard("client.order=error");
    DLOCK_AUTO(dlock_lock) a = world_lock(client, "pa", "lock.owner=thread");
    NESTS(client, "pa", "pb");
    DLOCK_AUTO(dlock_hold) outer = NULL;
    CHECK_EQ_INT(dlock_acquire(client, "pb", patience_ms(), &outer, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(a, patience_ms());
    ENDS(op, DLOCK_EDEADLK);
}

TEST(the_members_of_a_multi_lock_have_no_order_among_themselves)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = heard("client.order=warn");
    DLOCK_AUTO(dlock_lock) a = world_lock(client, "ma", NULL);
    DLOCK_AUTO(dlock_lock) b = world_lock(client, "mb", NULL);
    dlock_lock *const members[] = {b, a};
    DLOCK_AUTO(dlock_lock) multi = NULL;
    CHECK_EQ_INT(dlock_multi_new(members, 2, NULL, &multi, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) all = world_take(multi);
    DLOCK_AUTO(dlock_hold) c = NULL;
    CHECK_EQ_INT(dlock_acquire(client, "mc", patience_ms(), &c, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(c, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(all, NULL), DLOCK_OK);
    NESTS(client, "mb", "ma"); /* they are taken by their names */
    CHECK(!is_told(client));
    NESTS(client, "mc", "mb"); /* but with others */
    CHECK(is_told(client));
}

/* Of two who read neither waits for the other. */
TEST(who_gives_the_write_side_back_and_reads_on_is_a_reader)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = heard("client.order=warn");
    if (!world_has_kind(client, "read"))
        LEAVE_OUT("it has no read/write locks");
    DLOCK_AUTO(dlock_lock) write = api_lock(client, DLOCK_WRITE, "wa", NULL);
    DLOCK_AUTO(dlock_lock) read = api_lock(client, DLOCK_READ, "wa", NULL);
    DLOCK_AUTO(dlock_hold) b = NULL;
    DLOCK_AUTO(dlock_hold) writes = world_take(write);
    DLOCK_AUTO(dlock_hold) reads = world_take(read);
    CHECK_EQ_INT(dlock_hold_release(writes, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_acquire(client, "wb", patience_ms(), &b, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(reads, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) again = world_take(read);
    CHECK_EQ_INT(dlock_hold_release(again, NULL), DLOCK_OK);
    CHECK(!is_told(client));
    DLOCK_AUTO(dlock_hold) anew = world_take(write); /* who writes waits for the reader */
    CHECK(is_told(client));
}

TEST(what_is_only_kept_is_held_by_nobody_and_then_by_whoever_takes_it_up)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = heard("client.order=warn");
    NEED(client, "keep", "locks can't be kept");
    DLOCK_AUTO(dlock_lock) a = world_lock(client, "va", "lock.keep_ms=60000");
    CHECK(kept_begins(client, a, patience_ms(), 0));
    NESTS(client, "vb", "vc");
    DLOCK_AUTO(dlock_hold) b = NULL;
    CHECK_EQ_INT(dlock_acquire(client, "vb", patience_ms(), &b, NULL), DLOCK_OK);
    dlock_hold_free(world_take(a)); /* "vb" before "va", as it wasn't held before */
    CHECK_EQ_INT(dlock_hold_release(b, NULL), DLOCK_OK);
    CHECK(!is_told(client));
    DLOCK_AUTO(dlock_hold) taken_up = world_take(a);
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK_EQ_INT(dlock_acquire(client, "vb", patience_ms(), &again, NULL), DLOCK_OK);
    CHECK(is_told(client));
}

TEST(what_is_handed_on_is_held_no_longer)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = heard("client.order=warn");
    NEED(client, "handoff", "locks can't be handed on");
    DLOCK_AUTO(dlock_hold) given = NULL;
    DLOCK_AUTO(dlock_hold) taken = NULL;
    const char *ticket;
    CHECK_EQ_INT(dlock_acquire(client, "ha", patience_ms(), &given, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_export(given, &ticket, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) b = NULL;
    DLOCK_AUTO(dlock_hold) c = NULL;
    CHECK_EQ_INT(dlock_acquire(client, "hb", patience_ms(), &b, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_import(client, ticket, &taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(b, NULL), DLOCK_OK);
    /* An import belongs to no thread. */
    CHECK_EQ_INT(dlock_acquire(client, "hc", patience_ms(), &c, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(c, NULL), DLOCK_OK);
    NESTS(client, "hb", "ha");
    NESTS(client, "hc", "ha");
    CHECK(!is_told(client));
}

TEST(a_condition_s_taking_again_teaches_nothing)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = heard("client.order=error");
    NEED(client, "kinds.condition", "it has no conditions");
    DLOCK_AUTO(dlock_cond) cond = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(dlock_cond_new(client, "cond", NULL, &cond, &err), err);
    DLOCK_AUTO(dlock_hold) a = NULL;
    DLOCK_AUTO(dlock_hold) b = NULL;
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK_EQ_INT(dlock_acquire(client, "ca", patience_ms(), &a, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_acquire(client, "cb", patience_ms(), &b, NULL), DLOCK_OK);
    CHECK_ERR(dlock_cond_wait(cond, a, 1, &again, &err), DLOCK_ETIMEDOUT, err);
    CHECK(again != NULL);
    CHECK(!is_told(client));
}

TEST(a_client_that_closes_holds_nothing_any_more)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) one = heard("client.order=warn");
    DLOCK_AUTO(dlock_client) other = heard("client.order=warn");
    DLOCK_AUTO(dlock_hold) left = NULL;
    CHECK_EQ_INT(dlock_acquire(one, "la", patience_ms(), &left, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_close(one, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) b = NULL;
    CHECK_EQ_INT(dlock_acquire(other, "lb", patience_ms(), &b, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(b, NULL), DLOCK_OK);
    NESTS(other, "lb", "la");
    CHECK(!is_told(other));
}

TEST(what_is_learnt_is_forgotten_with_the_last_client)
{
    BEGIN();
    DLOCK_AUTO(dlock_lock) kept = NULL; /* closed is enough */
    for (int i = 0; i < 2; i++) {
        DLOCK_AUTO(dlock_client) client = heard("client.order=warn");
        NESTS(client, i ? "fb" : "fa", i ? "fa" : "fb");
        CHECK(!is_told(client));
        if (i == 0)
            kept = world_lock(client, "fa", NULL);
    }
}

TEST(with_owners_that_are_no_threads_it_is_refused)
{
    BEGIN();
    dlock_conf *conf = api_conf("client.order=warn lock.owner=none");
    DLOCK_AUTO(dlock_client) none = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_ERR(dlock_client_open(world_uri(), conf, &none, &err), DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "lock.owner=none");
    dlock_conf_free(conf);
}

/* ---- in a fork's child ---- */

static void other_way_round(void *arg)
{
    (void)arg;
    DLOCK_AUTO(dlock_client) client = heard("client.order=warn");
    NESTS(client, "kb", "ka");
    CHECK(!is_told(client));
}

TEST(a_fork_s_child_has_learnt_nothing_and_its_parent_forgets_nothing)
{
    BEGIN();
    if (THREAD_SANITIZER)
        LEAVE_OUT("it can't follow threads of a child");
    DLOCK_AUTO(dlock_client) client = heard("client.order=warn");
    NESTS(client, "ka", "kb");
    CHECK_EQ_INT(world_child(other_way_round, NULL), 0);
    NESTS(client, "kb", "ka");
    CHECK(is_told(client));
}
