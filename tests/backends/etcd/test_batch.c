/* Transactions that go out in one request (backends/etcd/batch.c), with an etcd of the test's. */
#include "called.h"
#include "harness/harness.h"
#include "harness/time.h"
#include "util/clock.h"

#include <stdio.h>
#include <string.h>

enum { TOGETHER = 40 };

/* As if answers took long: who comes while one is under way waits for its answer. */
static void let_them_queue(void)
{
    caller.calls.batches.quickest = 1;
    caller.calls.batches.usual = INT64_MAX / 2;
}

/* Makes "<name>/key" with that value and lease, where it isn't there, or reads it. */
static dlk_etcd_call *send_about(const char *name, const char *value, int64_t lease)
{
    char key[40];
    dlk_etcd_txn txn;
    dlk_etcd_bytes at = {(size_t)snprintf(key, sizeof(key), "%s/key", name),
                         (uint8_t *)key};
    dlk_etcd_txn_begin(&txn);
    (void)dlk_etcd_txn_if(&txn, at);
    DlkEtcd__PutRequest *put = dlk_etcd_txn_put(&txn, DLK_ETCD_THEN, at);
    put->value = (dlk_etcd_bytes){strlen(value), (uint8_t *)(uintptr_t)value};
    put->lease = lease;
    (void)dlk_etcd_txn_range(&txn, DLK_ETCD_THEN, at);
    (void)dlk_etcd_txn_range(&txn, DLK_ETCD_ELSE, at);
    dlk_etcd_call *call = caller_call(DLK_ETCD_TXN, dlk_etcd_txn_end(&txn));
    call->about = (dlk_etcd_bytes){strlen(name), (uint8_t *)(uintptr_t)name};
    dlk_etcd_calls_send(&caller.calls, call, caller.now);
    return call;
}

static bool await_over(int count)
{
    for (int i = 0; i < count; i++)
        if (!called_next_over())
            return false;
    return dlk_etcd_calls_take(&caller.calls) == NULL;
}

/* What it found, of its own key. */
static bool has_found(const dlk_etcd_call *call, bool made, const char *value)
{
    const DlkEtcd__TxnResponse *said = (const void *)call->answer;
    const DlkEtcd__KeyValue *kv =
        call->end == DLK_ETCD_OK ? dlk_etcd_kv(dlk_etcd_response(said, made ? 1 : 0), 0)
                                 : NULL;
    return kv && said->succeeded == made && call->term >= 2 &&
           strlen(value) == kv->value.len &&
           memcmp(kv->value.data, value, kv->value.len) == 0 &&
           (!made || kv->create_revision == call->revision);
}

TEST(what_comes_while_answers_take_long_goes_out_together_and_each_has_its_own_answer)
{
    static char names[TOGETHER][8];
    dlk_etcd_call *calls[TOGETHER];
    int others = 0;
    if (!called_begin())
        return;
    let_them_queue();
    for (int i = 0; i < TOGETHER; i++) {
        snprintf(names[i], sizeof(names[i]), "n%02d",
                 i < TOGETHER - 1 ? i : i - 1); /* twins */
        calls[i] = send_about(names[i], names[i], 0);
    }
    CHECK(await_over(TOGETHER));
    for (int i = 0; i < TOGETHER; i++) {
        CHECK(has_found(calls[i], i < TOGETHER - 1, names[i]));
        others += i > 0 && calls[i]->revision != calls[i - 1]->revision;
    }
    CHECK_EQ_INT(others,
                 3); /* the first alone, 16, 16, 6; the twin has changed nothing */
    for (int i = 0; i < TOGETHER; i++)
        dlk_etcd_call_free(calls[i]);
    called_end();
}

TEST(those_that_may_have_keys_in_common_dont_go_together)
{
    const char *names[] = {"first", "a", "a/b", "b", "a"};
    dlk_etcd_call *calls[5];
    if (!called_begin())
        return;
    let_them_queue();
    for (int i = 0; i < 5; i++)
        calls[i] = send_about(names[i], names[i], 0);
    CHECK(await_over(5));
    CHECK(calls[1]->revision == calls[3]->revision); /* a, b */
    CHECK(calls[2]->revision > calls[1]->revision);  /* a/b */
    CHECK(has_found(calls[1], true, "a") && has_found(calls[2], true, "a/b"));
    CHECK(has_found(calls[4], false, "a")); /* it saw the other one's */
    for (int i = 0; i < 5; i++)
        dlk_etcd_call_free(calls[i]);
    called_end();
}

TEST(one_that_is_refused_spoils_none_of_those_it_went_with)
{
    const char *names[] = {"first", "a", "b", "c"};
    dlk_etcd_call *calls[4];
    if (!called_begin())
        return;
    let_them_queue();
    for (int i = 0; i < 4; i++)
        calls[i] = send_about(names[i], names[i],
                              i == 2 ? 4711 : 0); /* there is no such lease */
    CHECK(await_over(4));
    CHECK_EQ_INT(calls[2]->end, DLK_ETCD_NO_LEASE);
    for (int i = 0; i < 4; i++) {
        CHECK(i == 2 || has_found(calls[i], true, names[i]));
        dlk_etcd_call_free(calls[i]);
    }
    CHECK_EQ_INT(caller.calls.batches.under_way, 0);
    called_end();
}

TEST(who_doesnt_wait_any_more_takes_no_answer_from_those_behind_it)
{
    const char *names[] = {"first", "a", "b", "c", "d"};
    dlk_etcd_call *calls[5];
    if (!called_begin())
        return;
    let_them_queue();
    server_freeze(called.server.pid);
    for (int i = 0; i < 4; i++)
        calls[i] = send_about(names[i], names[i], 0);
    calls[4] = NULL;
    dlk_etcd_calls_drop(&caller.calls, calls[0]); /* that lets the others out */
    dlk_etcd_calls_drop(&caller.calls, calls[2]);
    for (int i = 0; i < 2; i++) {
        dlk_etcd_call *over = dlk_etcd_calls_take(&caller.calls);
        CHECK(over == calls[0] || over == calls[2]);
        CHECK_EQ_INT(over->end, DLK_ETCD_CUT);
        dlk_etcd_call_free(over);
    }
    calls[4] = send_about(names[4], names[4], 0);
    server_thaw(called.server.pid);
    CHECK(await_over(3));
    CHECK(calls[1]->revision == calls[3]->revision);
    for (int i = 1; i < 5; i += i == 1 ? 2 : 1) {
        CHECK(has_found(calls[i], true, names[i]));
        dlk_etcd_call_free(calls[i]);
    }
    CHECK_EQ_INT(caller.calls.batches.under_way, 0);
    called_end();
}

TEST(those_held_back_and_those_that_went_together_end_with_the_connection)
{
    const char *names[] = {"first", "a", "b", "a", "c"};
    dlk_etcd_call *calls[5];
    if (!called_begin())
        return;
    let_them_queue();
    server_freeze(called.server.pid);
    for (int i = 0; i < 3; i++)
        calls[i] = send_about(names[i], names[i], 0);
    dlk_etcd_calls_drop(&caller.calls, calls[0]);
    for (int i = 3; i < 5; i++)
        calls[i] = send_about(names[i], names[i], 0);
    CHECK_EQ_INT(caller.calls.batches.under_way, 1);
    caller_turn();
    etcd_server_kill(&called.server);
    AWAIT_BY(caller_turn(), caller.downs > 0);
    for (int i = 0; i < 5; i++) {
        dlk_etcd_call *over = dlk_etcd_calls_take(&caller.calls);
        CHECK(over);
        CHECK_EQ_INT(over->end, DLK_ETCD_CUT);
        dlk_etcd_call_free(over);
    }
    CHECK(dlk_etcd_calls_take(&caller.calls) == NULL);
    CHECK_EQ_INT(caller.calls.batches.under_way, 0);
    called_end();
}

TEST(each_has_its_own_deadline_while_it_is_held_back_too)
{
    dlk_etcd_call *calls[3];
    if (!called_begin())
        return;
    let_them_queue();
    server_freeze(called.server.pid);
    calls[0] = send_about("first", "", 0);
    calls[1] = send_about("a", "", 0);
    calls[2] = send_about("b", "", 0);
    calls[1]->until -= DLK_NS_PER_SEC;
    CHECK_EQ_INT(dlk_etcd_calls_tick(&caller.calls, calls[1]->until), calls[0]->until);
    CHECK(dlk_etcd_calls_take(&caller.calls) == calls[1]);
    CHECK_EQ_INT(calls[1]->end, DLK_ETCD_CUT);
    server_thaw(called.server.pid);
    CHECK(await_over(2));
    CHECK(calls[0]->end == DLK_ETCD_OK && calls[2]->end == DLK_ETCD_OK);
    for (int i = 0; i < 3; i++)
        dlk_etcd_call_free(calls[i]);
    called_end();
}
