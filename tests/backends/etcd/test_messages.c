/* Messages of etcd's: the bytes that they are, and what is made of bytes that are none. What is expected here
 * was put together by hand, by the encoding's rules and the numbers in etcd's rpc.proto. */
#include "backends/etcd/messages.h"
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#define BYTES(text) ((dlk_etcd_bytes){sizeof(text) - 1, (uint8_t *)(uintptr_t)(text)})
#define KEY         BYTES("a/694d93a1c2b34f0e")
#define LEASE       INT64_C(7587886594872345678)

static const char said[] =
    "\x0a\x16\x1a\x12\x61\x2f\x36\x39\x34\x64\x39\x33\x61\x31\x63\x32"
    "\x62\x33\x34\x66\x30\x65\x20\x00\x0a\x0e\x10\x02\x1a\x08\x61\x00"
    "\x6c\x61\x74\x65\x2f\x31\x30\x09\x0a\x0c\x1a\x03\x61\x00\x72\x20"
    "\x00\x82\x04\x02\x61\x01\x12\x25\x12\x23\x0a\x12\x61\x2f\x36\x39"
    "\x34\x64\x39\x33\x61\x31\x63\x32\x62\x33\x34\x66\x30\x65\x12\x03"
    "\x76\x00\x77\x18\xce\x88\xc2\xda\xfd\xd4\xe5\xa6\x69\x12\x14\x0a"
    "\x12\x0a\x02\x61\x2f\x12\x02\x61\x30\x18\x08\x28\x02\x30\x02\x40"
    "\x01\x68\x29\x1a\x16\x0a\x14\x0a\x12\x61\x2f\x36\x39\x34\x64\x39"
    "\x33\x61\x31\x63\x32\x62\x33\x34\x66\x30\x65\x1a\x16\x1a\x14\x0a"
    "\x12\x61\x2f\x36\x39\x34\x64\x39\x33\x61\x31\x63\x32\x62\x33\x34"
    "\x66\x30\x65";

static const char heard[] =
    "\x0a\x1a\x08\xb2\x98\xea\xf1\x94\x83\x86\xfc\xcd\x01\x10\xcd\xd2"
    "\x91\x8b\xd2\xb8\x81\xcf\x8e\x01\x18\x2a\x20\x02\x10\x01\x1a\x06"
    "\x12\x04\x0a\x02\x18\x2a\x1a\x4c\x0a\x4a\x0a\x02\x18\x2a\x12\x29"
    "\x0a\x12\x61\x2f\x36\x39\x34\x64\x39\x33\x61\x31\x63\x32\x62\x33"
    "\x34\x66\x30\x65\x10\x2a\x18\x2b\x20\x01\x2a\x03\x76\x00\x77\x30"
    "\xce\x88\xc2\xda\xfd\xd4\xe5\xa6\x69\x12\x15\x0a\x03\x61\x2f\x32"
    "\x10\x28\x18\x28\x20\x01\x30\xce\x88\xc2\xda\xfd\xd4\xe5\xa6\x69"
    "\x18\x01\x20\x02";

static bool ready(void)
{
    bool fine = dlk_etcd_messages_need(NULL) == DLOCK_OK;
    return harness_check(__FILE__, __LINE__, fine, "the library");
}

static bool same(const dlk_buf *buf, const char *bytes, size_t size)
{
    return dlk_buf_size(buf) == size && memcmp(dlk_buf_head(buf), bytes, size) == 0;
}

static bool packed(dlk_etcd_txn *txn, dlk_buf *ret)
{
    dlk_etcd_request request = dlk_etcd_txn_end(txn);
    *ret = request.packed;
    return !request.failed;
}

/* ---- to say ---- */

TEST(a_transaction_is_the_bytes_that_etcd_reads)
{
    dlk_etcd_txn txn;
    dlk_buf buf = {0};
    if (!ready())
        return;
    dlk_etcd_txn_begin(&txn);
    (void)dlk_etcd_txn_if(&txn, KEY);
    DlkEtcd__Compare *fence = dlk_etcd_txn_if(&txn, BYTES("a\0late/1"));
    fence->target = DLK_ETCD__COMPARE__TARGET__MOD;
    fence->to_case = DLK_ETCD__COMPARE__TO_MOD_REVISION;
    fence->mod_revision = 9;
    dlk_etcd_txn_if(&txn, BYTES("a\0r"))->range_end = BYTES("a\1");
    DlkEtcd__PutRequest *put = dlk_etcd_txn_put(&txn, DLK_ETCD_THEN, KEY);
    put->value = BYTES("v\0w");
    put->lease = LEASE;
    DlkEtcd__RangeRequest *line = dlk_etcd_txn_range(&txn, DLK_ETCD_THEN, BYTES("a/"));
    line->range_end = BYTES("a0");
    line->limit = 8;
    line->sort_order = DLK_ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND;
    line->sort_target = DLK_ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;
    line->keys_only = true;
    line->max_create_revision = 41;
    (void)dlk_etcd_txn_range(&txn, DLK_ETCD_ELSE, KEY);
    (void)dlk_etcd_txn_delete(&txn, DLK_ETCD_ELSE, KEY);
    CHECK(packed(&txn, &buf));
    CHECK(same(&buf, said, sizeof(said) - 1));
    dlk_buf_free(&buf);
}

TEST(a_message_goes_behind_what_is_there_and_an_empty_one_is_nothing)
{
    dlk_buf buf = {0};
    DlkEtcd__StatusRequest status = DLK_ETCD__STATUS_REQUEST__INIT;
    DlkEtcd__LeaseGrantRequest grant = DLK_ETCD__LEASE_GRANT_REQUEST__INIT;
    if (!ready())
        return;
    CHECK(dlk_etcd_pack(&status.base, &buf));
    CHECK_EQ_INT(dlk_buf_size(&buf), 0);
    grant.ttl = 60;
    CHECK(dlk_etcd_pack(&grant.base, &buf));
    grant.ttl = -1;
    CHECK(dlk_etcd_pack(&grant.base, &buf));
    CHECK(same(&buf, "\x08\x3c\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13));
    dlk_buf_free(&buf);
}

TEST(a_watch_says_what_it_doesn_t_want_to_hear_of)
{
    dlk_buf buf = {0};
    DlkEtcd__WatchCreateRequest create = DLK_ETCD__WATCH_CREATE_REQUEST__INIT;
    DlkEtcd__WatchRequest watch = DLK_ETCD__WATCH_REQUEST__INIT;
    DlkEtcd__WatchCreateRequest__Filter filters[] = {
        DLK_ETCD__WATCH_CREATE_REQUEST__FILTER__NOPUT};
    if (!ready())
        return;
    create.key = BYTES("k");
    create.start_revision = 7;
    create.n_filters = 1;
    create.filters = filters;
    create.watch_id = 3;
    watch.request_case = DLK_ETCD__WATCH_REQUEST__REQUEST_CREATE_REQUEST;
    watch.create_request = &create;
    CHECK(dlk_etcd_pack(&watch.base, &buf));
    CHECK(same(&buf, "\x0a\x0a\x0a\x01k\x18\x07\x2a\x01\x00\x38\x03", 12));
    dlk_buf_free(&buf);
}

TEST(a_transaction_has_room_for_hundreds_and_refuses_what_is_without_end)
{
    dlk_etcd_txn txn;
    dlk_buf buf = {0};
    if (!ready())
        return;
    dlk_etcd_txn_begin(&txn);
    for (int i = 0; i < 300; i++) {
        (void)dlk_etcd_txn_if(&txn, KEY);
        dlk_etcd_txn_put(&txn, DLK_ETCD_THEN, KEY)->ignore_value = true;
    }
    CHECK_EQ_INT(txn.request.n_compare, 300);
    CHECK_EQ_INT(txn.request.n_success, 300);
    CHECK(packed(&txn, &buf));
    dlk_buf_free(&buf);
    dlk_etcd_txn_begin(&txn);
    for (int i = 0; i < 10000; i++) {
        (void)dlk_etcd_txn_if(&txn, KEY);
        dlk_etcd_txn_put(&txn, DLK_ETCD_ELSE, KEY)->lease = 1;
        dlk_etcd_txn_range(&txn, DLK_ETCD_THEN, KEY)->limit = 1;
        dlk_etcd_txn_delete(&txn, DLK_ETCD_THEN, KEY)->range_end = KEY;
    }
    CHECK(txn.failed);
    CHECK(!packed(&txn, &buf));
    CHECK_EQ_INT(dlk_buf_size(&buf), 0);
}

TEST(a_transaction_that_had_no_room_for_a_part_is_none_whatever_it_had_room_for_then)
{
    dlk_buf buf = {0};
    if (!ready())
        return;
    for (int part = 0; part < 2; part++) {
        dlk_etcd_txn txn;
        dlk_etcd_txn_begin(&txn);
        size_t most = txn.arena.most;
        for (int i = 0; i < 2; i++) {
            txn.arena.most = part == 0 && i == 0 ? 0 : most;
            (void)dlk_etcd_txn_if(&txn, KEY);
            txn.arena.most = part == 1 && i == 0 ? 0 : most;
            (void)dlk_etcd_txn_put(&txn, DLK_ETCD_THEN, KEY);
        }
        CHECK(!packed(&txn, &buf));
        CHECK_EQ_INT(dlk_buf_size(&buf), 0);
    }
}

/* ---- to hear ---- */

TEST(an_answer_is_read_and_what_nobody_reads_is_skipped)
{
    dlk_arena arena;
    bool no_memory;
    if (!ready())
        return;
    ProtobufCMessage *message = dlk_etcd_unpack(dlk_etcd_rpcs[DLK_ETCD_TXN].answer, heard,
                                                sizeof(heard) - 1, &arena, &no_memory);
    CHECK(message && !no_memory);
    CHECK_EQ_INT(dlk_etcd_header(message)->revision, 42);
    CHECK_EQ_INT(dlk_etcd_header(message)->raft_term, 2);
    const DlkEtcd__TxnResponse *txn = (const DlkEtcd__TxnResponse *)(const void *)message;
    CHECK(txn->succeeded);
    CHECK_EQ_INT(txn->n_responses, 2);
    CHECK(dlk_etcd_response(txn, 0) == NULL); /* a put has found nothing */
    CHECK(dlk_etcd_response(txn, 2) == NULL);
    const DlkEtcd__RangeResponse *range = dlk_etcd_response(txn, 1);
    CHECK_EQ_INT(dlk_etcd_kv_count(range), 2);
    CHECK(range->more);
    const DlkEtcd__KeyValue *kv = dlk_etcd_kv(range, 0);
    CHECK(dlk_etcd_bytes_same(kv->key, KEY));
    CHECK(dlk_etcd_bytes_same(kv->value, BYTES("v\0w")));
    CHECK_EQ_INT(kv->create_revision, 42);
    CHECK_EQ_INT(kv->mod_revision, 43);
    CHECK_EQ_INT(kv->lease, LEASE);
    CHECK(dlk_etcd_bytes_same(dlk_etcd_kv(range, 1)->value, BYTES("")));
    CHECK(!dlk_etcd_bytes_same(dlk_etcd_kv(range, 1)->key, KEY));
    CHECK(dlk_etcd_kv(range, 2) == NULL);
    CHECK_EQ_INT(dlk_etcd_kv_count(NULL), 0);
    dlk_arena_free(&arena);
}

TEST(what_says_nothing_is_an_answer_of_nothing)
{
    if (!ready())
        return;
    for (int i = 0; i < DLK_ETCD_METHODS; i++) {
        dlk_arena arena;
        bool no_memory;
        ProtobufCMessage *message =
            dlk_etcd_unpack(dlk_etcd_rpcs[i].answer, "", 0, &arena, &no_memory);
        CHECK(message && dlk_etcd_header(message) == NULL);
        dlk_arena_free(&arena);
    }
    CHECK(dlk_etcd_header(NULL) == NULL);
}

TEST(an_answer_that_is_cut_off_anywhere_is_none_or_a_shorter_one)
{
    int none = 0;
    if (!ready())
        return;
    for (size_t size = 0; size < sizeof(heard) - 1; size++) {
        dlk_arena arena;
        bool no_memory;
        char *copy = malloc(size + 1); /* its end is seen by who looks for that */
        CHECK(copy);
        memcpy(copy, heard, size);
        none += !dlk_etcd_unpack(dlk_etcd_rpcs[DLK_ETCD_TXN].answer, copy, size, &arena,
                                 &no_memory);
        CHECK(!no_memory);
        dlk_arena_free(&arena);
        free(copy);
    }
    CHECK(none > (int)sizeof(heard) / 2);
}

TEST(two_bytes_don_t_become_two_hundred)
{
    /* Messages of nothing, one behind the other; and fields that nobody knows. */
    static const char *const pairs[] = {"\x1a\x00", "\x78\x00", "\x12\x00"};
    size_t size = (size_t)1 << 20;
    char *bytes = malloc(size);
    if (!ready())
        return;
    CHECK(bytes);
    for (size_t k = 0; k < 3; k++) {
        dlk_arena arena;
        bool no_memory;
        for (size_t i = 0; i < size; i++)
            bytes[i] = pairs[k][i % 2];
        const ProtobufCMessage *message =
            dlk_etcd_unpack(dlk_etcd_rpcs[k == 2 ? DLK_ETCD_RANGE : DLK_ETCD_TXN].answer,
                            bytes, size, &arena, &no_memory);
        CHECK(message == NULL);
        CHECK(arena.full && !no_memory);
        CHECK(arena.total <= 17 * size);
        dlk_arena_free(&arena);
    }
    free(bytes);
}

/* A signal that touches two hundred places; each answer to that is as short as answers are. */
TEST(two_hundred_short_answers_have_room)
{
    static const char one[] = "\x1a\x0a\x12\x08\x0a\x06\x18\xd2\x85\xd8\xcc\x04";
    char bytes[201 * (sizeof(one) - 1)];
    dlk_arena arena;
    bool no_memory;
    if (!ready())
        return;
    for (size_t i = 0; i < 201; i++)
        memcpy(bytes + i * (sizeof(one) - 1), one, sizeof(one) - 1);
    const ProtobufCMessage *message = dlk_etcd_unpack(
        dlk_etcd_rpcs[DLK_ETCD_TXN].answer, bytes, sizeof(bytes), &arena, &no_memory);
    CHECK(message);
    CHECK_EQ_INT(((const DlkEtcd__TxnResponse *)(const void *)message)->n_responses, 201);
    dlk_arena_free(&arena);
}

TEST(any_bytes_do_no_harm)
{
    uint64_t dice = 88172645463325252u;
    if (!ready())
        return;
    for (int round = 0; round < 20000; round++) {
        char bytes[sizeof(heard) - 1];
        memcpy(bytes, heard, sizeof(bytes));
        for (int i = 0; i < 4; i++) {
            dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
            bytes[dice % sizeof(bytes)] = (char)(dice >> 32);
        }
        dlk_arena arena;
        bool no_memory;
        const dlk_etcd_rpc *rpc = &dlk_etcd_rpcs[dice % DLK_ETCD_METHODS];
        const ProtobufCMessage *message =
            dlk_etcd_unpack(rpc->answer, bytes, sizeof(bytes), &arena, &no_memory);
        if (message && rpc == &dlk_etcd_rpcs[DLK_ETCD_TXN]) {
            const DlkEtcd__TxnResponse *txn =
                (const DlkEtcd__TxnResponse *)(const void *)message;
            for (size_t i = 0; i < txn->n_responses; i++)
                for (size_t k = 0; k < dlk_etcd_kv_count(dlk_etcd_response(txn, i)); k++)
                    CHECK(dlk_etcd_bytes_same(
                        dlk_etcd_kv(dlk_etcd_response(txn, i), k)->key,
                        dlk_etcd_kv(dlk_etcd_response(txn, i), k)->key));
        }
        CHECK(!no_memory);
        dlk_arena_free(&arena);
    }
}
