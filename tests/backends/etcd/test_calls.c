/* Calls and watches by gRPC, with an etcd whose JSON gateway is switched off. */
#include "called.h"
#include "harness/harness.h"
#include "harness/time.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dlk_etcd_call *send_it(dlk_etcd_method method, const ProtobufCMessage *message)
{
    dlk_etcd_call *call = caller_ask(method, message);
    dlk_etcd_calls_send(&caller.calls, call, caller.now);
    return call;
}

/* Asks, and waits for it. Nothing else is over meanwhile. */
static dlk_etcd_call *ask(dlk_etcd_method method, const ProtobufCMessage *message)
{
    dlk_etcd_call *call = send_it(method, message);
    dlk_etcd_call *over = called_next_over();
    if (!harness_check(__FILE__, __LINE__, over == call, "the call is over"))
        exit(1);
    return call;
}

static int64_t grant(int64_t seconds)
{
    DlkEtcd__LeaseGrantRequest request = DLK_ETCD__LEASE_GRANT_REQUEST__INIT;
    request.ttl = seconds;
    dlk_etcd_call *call = ask(DLK_ETCD_GRANT, &request.base);
    const DlkEtcd__LeaseGrantResponse *granted = (const void *)call->answer;
    int64_t lease = granted ? granted->id : 0;
    dlk_etcd_call_free(call);
    return lease;
}

static int64_t renewed(int64_t lease)
{
    DlkEtcd__LeaseKeepAliveRequest request = DLK_ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;
    request.id = lease;
    dlk_etcd_call *call = ask(DLK_ETCD_KEEP_ALIVE, &request.base);
    const DlkEtcd__LeaseKeepAliveResponse *kept = (const void *)call->answer;
    int64_t ttl = kept ? kept->ttl : -1;
    dlk_etcd_call_free(call);
    return ttl;
}

static dlk_etcd_end revoke(int64_t lease)
{
    DlkEtcd__LeaseRevokeRequest request = DLK_ETCD__LEASE_REVOKE_REQUEST__INIT;
    request.id = lease;
    dlk_etcd_call *call = ask(DLK_ETCD_REVOKE, &request.base);
    dlk_etcd_end how = call->end;
    dlk_etcd_call_free(call);
    return how;
}

static dlk_etcd_call *send_txn(dlk_etcd_txn *txn)
{
    dlk_etcd_call *call = caller_call(DLK_ETCD_TXN, dlk_etcd_txn_end(txn));
    dlk_etcd_calls_send(&caller.calls, call, caller.now);
    return call;
}

/* Puts or deletes; the revision of that. */
static int64_t change(dlk_etcd_bytes key, bool put)
{
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    if (put)
        dlk_etcd_txn_put(&txn, DLK_ETCD_THEN, key)->value = BYTES("value");
    else
        (void)dlk_etcd_txn_delete(&txn, DLK_ETCD_THEN, key);
    dlk_etcd_call *sent = send_txn(&txn), *call = called_next_over();
    if (call != sent)
        return -1;
    int64_t revision = call->answer ? dlk_etcd_header(call->answer)->revision : 0;
    dlk_etcd_call_free(call);
    return revision;
}

/* ---- calls ---- */

TEST(a_key_is_put_by_a_transaction_with_a_lease_and_goes_with_it)
{
    dlk_etcd_txn txn;
    if (!called_begin())
        return;
    int64_t lease = grant(60);
    CHECK(lease != 0);
    dlk_etcd_txn_begin(&txn);
    (void)dlk_etcd_txn_if(&txn, BYTES("a\0b"));
    DlkEtcd__PutRequest *put = dlk_etcd_txn_put(&txn, DLK_ETCD_THEN, BYTES("a\0b"));
    put->value = BYTES("v\0w");
    put->lease = lease;
    (void)dlk_etcd_txn_range(&txn, DLK_ETCD_THEN, BYTES("a\0b"));
    dlk_etcd_call *call = send_txn(&txn);
    CHECK(called_next_over() == call);
    CHECK_EQ_INT(call->end, DLK_ETCD_OK);
    const DlkEtcd__TxnResponse *done = (const void *)call->answer;
    CHECK(done->succeeded && done->header->raft_term >= 2);
    const DlkEtcd__KeyValue *kv = dlk_etcd_kv(dlk_etcd_response(done, 1), 0);
    CHECK(kv && dlk_etcd_bytes_same(kv->key, BYTES("a\0b")));
    CHECK(dlk_etcd_bytes_same(kv->value, BYTES("v\0w")));
    CHECK_EQ_INT(kv->lease, lease);
    CHECK_EQ_INT(kv->create_revision, done->header->revision);
    dlk_etcd_call_free(call);
    CHECK(renewed(lease) >= 60);
    CHECK_EQ_INT(revoke(lease), DLK_ETCD_OK);
    CHECK_EQ_INT(renewed(lease), 0);
    CHECK_EQ_INT(revoke(lease), DLK_ETCD_NO_LEASE);
    DlkEtcd__RangeRequest read = DLK_ETCD__RANGE_REQUEST__INIT;
    read.key = BYTES("a\0b");
    call = ask(DLK_ETCD_RANGE, &read.base);
    CHECK_EQ_INT(call->end, DLK_ETCD_OK);
    CHECK_EQ_INT(dlk_etcd_kv_count((const void *)call->answer), 0);
    dlk_etcd_call_free(call);
    called_end();
}

TEST(hundreds_are_under_way_at_once)
{
    enum { MANY = 500 };
    if (!called_begin())
        return;
    for (int i = 0; i < MANY; i++) {
        char key[16];
        dlk_etcd_txn txn;
        dlk_etcd_txn_begin(&txn);
        int size = snprintf(key, sizeof(key), "key/%d", i);
        (void)dlk_etcd_txn_put(&txn, DLK_ETCD_THEN,
                               (dlk_etcd_bytes){(size_t)size, (uint8_t *)key});
        (void)send_txn(&txn);
    }
    for (int i = 0; i < MANY; i++) {
        dlk_etcd_call *call = called_next_over();
        CHECK(call);
        CHECK_EQ_INT(call->end, DLK_ETCD_OK);
        dlk_etcd_call_free(call);
    }
    DlkEtcd__RangeRequest read = DLK_ETCD__RANGE_REQUEST__INIT;
    read.key = BYTES("key/");
    read.range_end = BYTES("key0");
    dlk_etcd_call *call = ask(DLK_ETCD_RANGE, &read.base);
    CHECK_EQ_INT(dlk_etcd_kv_count((const void *)call->answer), MANY);
    dlk_etcd_call_free(call);
    called_end();
}

TEST(it_tells_its_state_its_members_and_that_it_knows_no_users)
{
    DlkEtcd__StatusRequest status = DLK_ETCD__STATUS_REQUEST__INIT;
    DlkEtcd__MemberListRequest list = DLK_ETCD__MEMBER_LIST_REQUEST__INIT;
    DlkEtcd__AuthenticateRequest who = DLK_ETCD__AUTHENTICATE_REQUEST__INIT;
    if (!called_begin())
        return;
    dlk_etcd_call *call = ask(DLK_ETCD_STATUS, &status.base);
    const DlkEtcd__StatusResponse *state = (const void *)call->answer;
    CHECK(state && state->version.len > 2 && state->version.data[0] == '3');
    CHECK(state->leader != 0 && state->raftterm >= 2);
    dlk_etcd_call_free(call);
    call = ask(DLK_ETCD_MEMBERS, &list.base);
    const DlkEtcd__MemberListResponse *members = (const void *)call->answer;
    CHECK(members && members->n_members == 1);
    dlk_etcd_call_free(call);
    who.name = BYTES("nobody");
    who.password = BYTES("nothing");
    call = ask(DLK_ETCD_AUTHENTICATE, &who.base);
    CHECK_EQ_INT(call->end, DLK_ETCD_BAD);
    CHECK_CONTAINS(call->why, "authentication is not enabled");
    dlk_etcd_call_free(call);
    called_end();
}

/* There it speaks HTTP/1 to who doesn't ask for HTTP/2 in the handshake. */
TEST(by_tls_it_is_the_same)
{
    dlk_settings *settings = dlk_settings_new();
    memset(&called, 0, sizeof(called));
    if (!etcd_server_available()) {
        dlk_settings_free(settings);
        return;
    }
    CHECK(certificates_make(&called.made));
    CHECK_OK(dlk_settings_set(settings, "tls.ca_file",
                              certificates_path(&called.made, "ca.pem"), NULL),
             NULL);
    CHECK_OK(dlk_tls_new(settings, &called.tls, NULL), NULL);
    dlk_settings_free(settings);
    dlk_tls_speak(called.tls, "h2");
    CHECK(etcd_server_start_tls(&called.server, called.made.dir,
                                "--enable-grpc-gateway=false"));
    CHECK(called_connect());
    CHECK(change(BYTES("a"), true) > 0);
    dlk_etcd_call *late = caller_watch(1, BYTES("a"), 1, true);
    CHECK(called_next_over() == late);
    CHECK_EQ_INT(late->end, DLK_ETCD_OK);
    dlk_etcd_call_free(late);
    CHECK(grant(60) != 0);
    called_end();
}

/* ---- watches ---- */

TEST(a_watch_is_over_when_its_key_goes_and_the_others_go_on)
{
    if (!called_begin())
        return;
    int64_t from = change(BYTES("one"), true) + 1;
    CHECK(change(BYTES("two"), true) > 0);
    dlk_etcd_call *one = caller_watch(1, BYTES("one"), from, false);
    dlk_etcd_call *two = caller_watch(2, BYTES("two"), from + 1, true);
    CHECK(change(BYTES("one"), true) > 0); /* a put, which it doesn't want to hear of */
    CHECK(dlk_etcd_calls_take(&caller.calls) == NULL);
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    (void)dlk_etcd_txn_delete(&txn, DLK_ETCD_THEN, BYTES("one"));
    dlk_etcd_call *deletion = send_txn(&txn);
    bool fired = false, deleted = false;
    for (int i = 0; i < 2; i++) {
        dlk_etcd_call *over = called_next_over();
        CHECK(over == one || over == deletion);
        CHECK_EQ_INT(over->end, DLK_ETCD_OK);
        fired |= over == one;
        deleted |= over == deletion;
        dlk_etcd_call_free(over);
    }
    CHECK(fired && deleted);
    /* From a revision that has been: it is told at once. On the same stream. */
    dlk_etcd_call *late = caller_watch(3, BYTES("one"), from, false);
    CHECK(called_next_over() == late);
    CHECK_EQ_INT(late->end, DLK_ETCD_OK);
    dlk_etcd_call_free(late);
    CHECK(caller.calls.stream.grpc && !caller.calls.stream.over);
    dlk_etcd_calls_drop(&caller.calls, two);
    CHECK(dlk_etcd_calls_take(&caller.calls) == two);
    dlk_etcd_call_free(two);
    CHECK(change(BYTES("two"), false) > 0); /* nobody is told */
    dlk_etcd_call *again = caller_watch(4, BYTES("two"), 0, true);
    dlk_etcd_calls_end_watches(&caller.calls, "for the test");
    CHECK(dlk_etcd_calls_take(&caller.calls) == again);
    CHECK_EQ_INT(again->end, DLK_ETCD_CUT);
    dlk_etcd_call_free(again);
    late = caller_watch(5, BYTES("two"), from, false); /* on another stream */
    CHECK(called_next_over() == late);
    CHECK_EQ_INT(late->end, DLK_ETCD_OK);
    dlk_etcd_call_free(late);
    called_end();
}

TEST(hundreds_of_watches_need_one_stream)
{
    enum { MANY = 300 };
    if (!called_begin())
        return;
    int64_t seen = 0, from = change(BYTES("a"), true) + 1;
    for (int i = 1; i <= MANY; i++) {
        char key[16];
        int size = snprintf(key, sizeof(key), "w/%d", i);
        (void)caller_watch(i, (dlk_etcd_bytes){(size_t)size, (uint8_t *)key}, from, true);
    }
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    static char keys[100][16];
    for (int i = 0; i < 100; i++) {
        int size = snprintf(keys[i], sizeof(keys[i]), "w/%d", i + 101);
        (void)dlk_etcd_txn_put(&txn, DLK_ETCD_THEN,
                               (dlk_etcd_bytes){(size_t)size, (uint8_t *)keys[i]});
    }
    dlk_etcd_call *puts = send_txn(&txn);
    for (int i = 0; i < 101; i++) {
        dlk_etcd_call *over = called_next_over();
        CHECK(over && over->end == DLK_ETCD_OK);
        CHECK(over == puts || (over->watch > 100 && over->watch <= 200));
        seen += over == puts ? 0 : over->watch;
        dlk_etcd_call_free(over);
    }
    CHECK_EQ_INT(seen, (101 + 200) * 50);
    called_end();
}

/* ---- when it isn't there ---- */

TEST(a_member_that_dies_takes_its_calls_along_and_is_found_again)
{
    DlkEtcd__RangeRequest read = DLK_ETCD__RANGE_REQUEST__INIT;
    if (!called_begin())
        return;
    read.key = BYTES("a");
    dlk_etcd_call *standing = caller_watch(1, BYTES("a"), 0, true);
    server_freeze(called.server.pid);
    dlk_etcd_call *call = send_it(DLK_ETCD_RANGE, &read.base);
    caller_turn();
    etcd_server_kill(&called.server);
    AWAIT_BY(caller_turn(), caller.downs > 0);
    for (int i = 0; i < 2; i++) {
        dlk_etcd_call *over = dlk_etcd_calls_take(&caller.calls);
        CHECK(over == call || over == standing);
        CHECK_EQ_INT(over->end, DLK_ETCD_CUT);
        CHECK_CONTAINS(over->why, caller.peer);
        dlk_etcd_call_free(over);
    }
    call = send_it(DLK_ETCD_RANGE, &read.base);
    CHECK(dlk_etcd_calls_take(&caller.calls) == call);
    CHECK_EQ_INT(call->end, DLK_ETCD_CUT);
    dlk_etcd_call_free(call);
    CHECK(etcd_server_restart_silent(&called.server));
    AWAIT_BY(caller_turn(), caller.ups > 1);
    CHECK(change(BYTES("a"), true) > 0);
    called_end();
}

TEST(a_member_that_stands_still_is_waited_for_until_the_deadline)
{
    DlkEtcd__RangeRequest read = DLK_ETCD__RANGE_REQUEST__INIT;
    if (!called_begin())
        return;
    read.key = BYTES("a");
    server_freeze(called.server.pid);
    dlk_etcd_call *call = send_it(DLK_ETCD_RANGE, &read.base);
    CHECK_EQ_INT(dlk_etcd_calls_tick(&caller.calls, caller.now), call->until);
    CHECK(dlk_etcd_calls_take(&caller.calls) == NULL);
    CHECK_EQ_INT(dlk_etcd_calls_tick(&caller.calls, call->until), DLK_NEVER);
    CHECK(dlk_etcd_calls_take(&caller.calls) == call);
    CHECK_EQ_INT(call->end, DLK_ETCD_CUT);
    CHECK_STR(call->why, "no answer within 60000 ms");
    dlk_etcd_call_free(call);
    server_thaw(called.server.pid);
    CHECK(change(BYTES("a"), true) > 0); /* what is answered late is nobody's */
    called_end();
}
