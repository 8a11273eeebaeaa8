/* Messages; see the header. What protoc-c has made of rpc.proto is a part of this file, so that the functions
 * that it calls are those of a library which may be loaded (protobuf_c_calls.h). */
#include "backends/etcd/messages.h"

#include "backends/etcd/rpc.pb-c.c" /* NOLINT(bugprone-suspicious-include) */

#include <stdlib.h>
#include <string.h>

/* What a message may take when it is taken apart: the smallest one that says something has 12 bytes, and
 * takes ten times as many. */
#define TIMES     16
#define FOR_ANY   ((size_t)16 << 10)
#define ARENA_MAX ((size_t)32 << 20)
/* So many keys are named in a transaction, and more. */
#define TXN_MAX ((size_t)1 << 20)
#define FEW     8

/* ---- calls ---- */

const dlk_etcd_rpc dlk_etcd_rpcs[DLK_ETCD_METHODS] = {
    [DLK_ETCD_AUTHENTICATE] = {"/etcdserverpb.Auth/Authenticate",
                               &dlk_etcd__authenticate_response__descriptor, "sign on"},
    [DLK_ETCD_GRANT] = {"/etcdserverpb.Lease/LeaseGrant",
                        &dlk_etcd__lease_grant_response__descriptor, "get a lease"},
    [DLK_ETCD_REVOKE] = {"/etcdserverpb.Lease/LeaseRevoke",
                         &dlk_etcd__lease_revoke_response__descriptor,
                         "revoke the lease"},
    [DLK_ETCD_KEEP_ALIVE] = {"/etcdserverpb.Lease/LeaseKeepAlive",
                             &dlk_etcd__lease_keep_alive_response__descriptor,
                             "renew the lease"},
    [DLK_ETCD_RANGE] = {"/etcdserverpb.KV/Range", &dlk_etcd__range_response__descriptor,
                        "read keys"},
    [DLK_ETCD_TXN] = {"/etcdserverpb.KV/Txn", &dlk_etcd__txn_response__descriptor,
                      "use keys"},
    [DLK_ETCD_WATCH] = {"/etcdserverpb.Watch/Watch",
                        &dlk_etcd__watch_response__descriptor, "watch keys"},
    [DLK_ETCD_MEMBERS] = {"/etcdserverpb.Cluster/MemberList",
                          &dlk_etcd__member_list_response__descriptor, "list members"},
    [DLK_ETCD_STATUS] = {"/etcdserverpb.Maintenance/Status",
                         &dlk_etcd__status_response__descriptor, "ask for its state"},
};

/* ---- to say ---- */

bool dlk_etcd_pack(const ProtobufCMessage *message, dlk_buf *to)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    char *room = size > 0 ? dlk_buf_room(to, size) : NULL;
    if (size == 0)
        return true;
    if (!room)
        return false;
    dlk_buf_added(to, protobuf_c_message_pack(message, (uint8_t *)room));
    return true;
}

dlk_etcd_request dlk_etcd_request_of(const ProtobufCMessage *message)
{
    dlk_etcd_request request = {0};
    request.failed = !dlk_etcd_pack(message, &request.packed);
    return request;
}

void dlk_etcd_txn_begin(dlk_etcd_txn *txn)
{
    *txn = (dlk_etcd_txn){.arena = {.most = TXN_MAX},
                          .request = DLK_ETCD__TXN_REQUEST__INIT};
}

/* A pointer more behind those that there are; NULL without memory. */
static void **add(dlk_etcd_txn *txn, void ***all, size_t *count, size_t *room)
{
    if (*count == *room) {
        size_t more = *room ? 2 * *room : FEW;
        void **moved = dlk_arena_take(&txn->arena, more * sizeof(*moved));
        if (!moved)
            return NULL;
        if (*count > 0)
            memcpy(moved, *all, *count * sizeof(*moved));
        *all = moved;
        *room = more;
    }
    return &(*all)[(*count)++];
}

DlkEtcd__Compare *dlk_etcd_txn_if(dlk_etcd_txn *txn, dlk_etcd_bytes key)
{
    DlkEtcd__TxnRequest *to = &txn->request;
    DlkEtcd__Compare *made = dlk_arena_take(&txn->arena, sizeof(*made));
    void **at =
        made ? add(txn, (void ***)(void *)&to->compare, &to->n_compare, &txn->compares)
             : NULL;
    if (at)
        *at = made;
    else
        made = &txn->nowhere.compare;
    txn->failed |= !at;
    *made = (DlkEtcd__Compare)DLK_ETCD__COMPARE__INIT;
    made->key = key;
    made->to_case = DLK_ETCD__COMPARE__TO_VERSION; /* 0 */
    return made;
}

/* With room of @p size for what it asks; NULL without memory. */
static DlkEtcd__RequestOp *add_op(dlk_etcd_txn *txn, dlk_etcd_branch branch, size_t size,
                                  void **ret_ask)
{
    DlkEtcd__TxnRequest *to = &txn->request;
    DlkEtcd__RequestOp *op = dlk_arena_take(&txn->arena, sizeof(*op));
    void *ask = dlk_arena_take(&txn->arena, size), **at = NULL;
    if (op && ask && branch == DLK_ETCD_THEN)
        at = add(txn, (void ***)(void *)&to->success, &to->n_success, &txn->successes);
    else if (op && ask)
        at = add(txn, (void ***)(void *)&to->failure, &to->n_failure, &txn->failures);
    *ret_ask = at ? ask : &txn->nowhere;
    txn->failed |= !at;
    if (!at)
        return NULL;
    *at = op;
    *op = (DlkEtcd__RequestOp)DLK_ETCD__REQUEST_OP__INIT;
    return op;
}

DlkEtcd__RangeRequest *dlk_etcd_txn_range(dlk_etcd_txn *txn, dlk_etcd_branch branch,
                                          dlk_etcd_bytes key)
{
    void *ask;
    DlkEtcd__RequestOp *op = add_op(txn, branch, sizeof(DlkEtcd__RangeRequest), &ask);
    DlkEtcd__RangeRequest *range = ask;
    *range = (DlkEtcd__RangeRequest)DLK_ETCD__RANGE_REQUEST__INIT;
    range->key = key;
    if (op) {
        op->request_case = DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
        op->request_range = range;
    }
    return range;
}

DlkEtcd__PutRequest *dlk_etcd_txn_put(dlk_etcd_txn *txn, dlk_etcd_branch branch,
                                      dlk_etcd_bytes key)
{
    void *ask;
    DlkEtcd__RequestOp *op = add_op(txn, branch, sizeof(DlkEtcd__PutRequest), &ask);
    DlkEtcd__PutRequest *put = ask;
    *put = (DlkEtcd__PutRequest)DLK_ETCD__PUT_REQUEST__INIT;
    put->key = key;
    if (op) {
        op->request_case = DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
        op->request_put = put;
    }
    return put;
}

DlkEtcd__DeleteRangeRequest *
dlk_etcd_txn_delete(dlk_etcd_txn *txn, dlk_etcd_branch branch, dlk_etcd_bytes key)
{
    void *ask;
    DlkEtcd__RequestOp *op =
        add_op(txn, branch, sizeof(DlkEtcd__DeleteRangeRequest), &ask);
    DlkEtcd__DeleteRangeRequest *deletion = ask;
    *deletion = (DlkEtcd__DeleteRangeRequest)DLK_ETCD__DELETE_RANGE_REQUEST__INIT;
    deletion->key = key;
    if (op) {
        op->request_case = DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
        op->request_delete_range = deletion;
    }
    return deletion;
}

void dlk_etcd_txn_nest(dlk_etcd_txn *txn, dlk_etcd_bytes packed)
{
    void *none;
    DlkEtcd__RequestOp *op = add_op(txn, DLK_ETCD_THEN, 1, &none);
    if (op) {
        op->request_case = DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_TXN;
        op->request_txn = packed;
    }
}

dlk_etcd_request dlk_etcd_txn_end(dlk_etcd_txn *txn)
{
    dlk_etcd_request request = {.failed = true};
    if (!txn->failed)
        request = dlk_etcd_request_of(&txn->request.base);
    dlk_arena_free(&txn->arena);
    return request;
}

/* ---- to hear ---- */

typedef struct unpacking {
    dlk_arena *arena;
    bool no_memory;
} unpacking;

static void *take(void *user, size_t size)
{
    unpacking *it = user;
    void *room = dlk_arena_take(it->arena, size);
    it->no_memory |= !room && !it->arena->full;
    return room;
}

static void give_back(void *user, void *room)
{
    (void)user, (void)room; /* the arena has it */
}

ProtobufCMessage *dlk_etcd_unpack(const ProtobufCMessageDescriptor *type,
                                  const void *data, size_t size, dlk_arena *arena,
                                  bool *ret_no_memory)
{
    unpacking it = {.arena = arena};
    ProtobufCAllocator by = {.alloc = take, .free = give_back, .allocator_data = &it};
    size_t most = size < ARENA_MAX / TIMES ? TIMES * size + FOR_ANY : ARENA_MAX;
    *arena = (dlk_arena){.most = most < ARENA_MAX ? most : ARENA_MAX};
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &by, size, data);
    *ret_no_memory = it.no_memory;
    return message;
}

/* Each answer begins with its header. */
typedef struct answer {
    ProtobufCMessage base;
    DlkEtcd__ResponseHeader *header;
} answer;

#define BEGINS_WITH_HEADER(type)                                                         \
    _Static_assert(offsetof(type, header) == offsetof(answer, header), #type)
BEGINS_WITH_HEADER(DlkEtcd__AuthenticateResponse);
BEGINS_WITH_HEADER(DlkEtcd__LeaseGrantResponse);
BEGINS_WITH_HEADER(DlkEtcd__LeaseRevokeResponse);
BEGINS_WITH_HEADER(DlkEtcd__LeaseKeepAliveResponse);
BEGINS_WITH_HEADER(DlkEtcd__RangeResponse);
BEGINS_WITH_HEADER(DlkEtcd__TxnResponse);
BEGINS_WITH_HEADER(DlkEtcd__WatchResponse);
BEGINS_WITH_HEADER(DlkEtcd__MemberListResponse);
BEGINS_WITH_HEADER(DlkEtcd__StatusResponse);

const DlkEtcd__ResponseHeader *dlk_etcd_header(const ProtobufCMessage *message)
{
    return message ? ((const answer *)(const void *)message)->header : NULL;
}

const DlkEtcd__RangeResponse *dlk_etcd_response(const DlkEtcd__TxnResponse *txn,
                                                size_t index)
{
    const DlkEtcd__ResponseOp *op =
        index < txn->n_responses ? txn->responses[index] : NULL;
    return op && op->response_case == DLK_ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE
               ? op->response_range
               : NULL;
}

const dlk_etcd_bytes *dlk_etcd_nested(const DlkEtcd__TxnResponse *txn, size_t index)
{
    const DlkEtcd__ResponseOp *op =
        index < txn->n_responses ? txn->responses[index] : NULL;
    return op && op->response_case == DLK_ETCD__RESPONSE_OP__RESPONSE_RESPONSE_TXN
               ? &op->response_txn
               : NULL;
}

const DlkEtcd__KeyValue *dlk_etcd_kv(const DlkEtcd__RangeResponse *range, size_t index)
{
    return index < dlk_etcd_kv_count(range) ? range->kvs[index] : NULL;
}

/* ---- bytes ---- */

dlk_etcd_bytes dlk_etcd_bytes_copy(const void *data, size_t size)
{
    dlk_etcd_bytes copy = {.data = malloc(size + 1)};
    if (!copy.data)
        return copy;
    if (size > 0)
        memcpy(copy.data, data, size);
    copy.data[size] = '\0';
    copy.len = size;
    return copy;
}

void dlk_etcd_bytes_free(dlk_etcd_bytes *bytes)
{
    free(bytes->data);
    *bytes = (dlk_etcd_bytes){0};
}

bool dlk_etcd_bytes_same(dlk_etcd_bytes a, dlk_etcd_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}
