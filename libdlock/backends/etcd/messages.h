/*
 * What is said to etcd and heard from it, as the messages of rpc.proto: put together and taken apart. Bytes
 * that a message has are lent to it while it is put together, and lie in its arena when it was heard.
 */
#ifndef DLK_BACKENDS_ETCD_MESSAGES_H
#define DLK_BACKENDS_ETCD_MESSAGES_H

#include "protobuf_c_calls.h"
#include "util/arena.h"
#include "util/buf.h"

#include "backends/etcd/rpc.pb-c.h"

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef ProtobufCBinaryData dlk_etcd_bytes; /* len, data */

/* ---- calls ---- */

typedef enum dlk_etcd_method {
    DLK_ETCD_AUTHENTICATE,
    DLK_ETCD_GRANT,
    DLK_ETCD_REVOKE,
    DLK_ETCD_KEEP_ALIVE,
    DLK_ETCD_RANGE,
    DLK_ETCD_TXN,
    DLK_ETCD_WATCH,
    DLK_ETCD_MEMBERS,
    DLK_ETCD_STATUS,
    DLK_ETCD_METHODS
} dlk_etcd_method;

typedef struct dlk_etcd_rpc {
    const char *path;
    const ProtobufCMessageDescriptor *answer;
    const char *what; /* it is for, behind "can't " */
} dlk_etcd_rpc;

extern const dlk_etcd_rpc dlk_etcd_rpcs[DLK_ETCD_METHODS];

/* Loads the library. */
static inline dlock_err dlk_etcd_messages_need(dlock_error **err)
{
    return dlk_loaded_need(&dlk_protobuf_c, err);
}

/* ---- to say ---- */

/* Appends; false without memory. */
bool dlk_etcd_pack(const ProtobufCMessage *message, dlk_buf *to);

/* A message as it goes out; whoever gets it takes it over. */
typedef struct dlk_etcd_request {
    dlk_buf packed;
    bool failed; /* there was no memory for it */
} dlk_etcd_request;

dlk_etcd_request dlk_etcd_request_of(const ProtobufCMessage *message);

/* A transaction while it is put together. Where there is no memory what is added goes nowhere, and `failed` stays
 * set. */
typedef struct dlk_etcd_txn {
    dlk_arena arena;
    DlkEtcd__TxnRequest request;
    size_t compares, successes, failures; /* there is room for */
    bool failed;
    union {
        DlkEtcd__Compare compare;
        DlkEtcd__RangeRequest range;
        DlkEtcd__PutRequest put;
        DlkEtcd__DeleteRangeRequest deletion;
    } nowhere;
} dlk_etcd_txn;

typedef enum dlk_etcd_branch { DLK_ETCD_THEN, DLK_ETCD_ELSE } dlk_etcd_branch;

void dlk_etcd_txn_begin(dlk_etcd_txn *txn);
/* If the key isn't there, unless the caller wants something else of it. */
DlkEtcd__Compare *dlk_etcd_txn_if(dlk_etcd_txn *txn, dlk_etcd_bytes key);
DlkEtcd__RangeRequest *dlk_etcd_txn_range(dlk_etcd_txn *txn, dlk_etcd_branch branch,
                                          dlk_etcd_bytes key);
DlkEtcd__PutRequest *dlk_etcd_txn_put(dlk_etcd_txn *txn, dlk_etcd_branch branch,
                                      dlk_etcd_bytes key);
DlkEtcd__DeleteRangeRequest *
dlk_etcd_txn_delete(dlk_etcd_txn *txn, dlk_etcd_branch branch, dlk_etcd_bytes key);
/* A packed transaction within it, whose comparisons are made before anything is done. */
void dlk_etcd_txn_nest(dlk_etcd_txn *txn, dlk_etcd_bytes packed);
/* Ends it. */
dlk_etcd_request dlk_etcd_txn_end(dlk_etcd_txn *txn);

/* The key is to have been made, or changed last, at this revision. */
static inline void dlk_etcd_if_made(DlkEtcd__Compare *compare, int64_t rev)
{
    compare->target = DLK_ETCD__COMPARE__TARGET__CREATE;
    compare->to_case = DLK_ETCD__COMPARE__TO_CREATE_REVISION;
    compare->create_revision = rev;
}
static inline void dlk_etcd_if_changed(DlkEtcd__Compare *compare, int64_t rev)
{
    compare->target = DLK_ETCD__COMPARE__TARGET__MOD;
    compare->to_case = DLK_ETCD__COMPARE__TO_MOD_REVISION;
    compare->mod_revision = rev;
}
/* Nothing of the key is to change but its last change. */
static inline void dlk_etcd_touch(DlkEtcd__PutRequest *put)
{
    put->ignore_value = put->ignore_lease = true;
}

/* ---- to hear ---- */

/* Into the arena, which it begins; NULL: this is no such message, or makes more of itself than any, or
 * (*ret_no_memory) there is no memory. */
ProtobufCMessage *dlk_etcd_unpack(const ProtobufCMessageDescriptor *type,
                                  const void *data, size_t size, dlk_arena *arena,
                                  bool *ret_no_memory);

/* Of any answer; NULL: it has none. */
const DlkEtcd__ResponseHeader *dlk_etcd_header(const ProtobufCMessage *message);

/* What the n-th request of a transaction has found, if that was a range. */
const DlkEtcd__RangeResponse *dlk_etcd_response(const DlkEtcd__TxnResponse *txn,
                                                size_t index);
/* … and what it has answered, packed, if that was a transaction; NULL: it is none. */
const dlk_etcd_bytes *dlk_etcd_nested(const DlkEtcd__TxnResponse *txn, size_t index);
/* NULL: there is no such key, or no range. */
const DlkEtcd__KeyValue *dlk_etcd_kv(const DlkEtcd__RangeResponse *range, size_t index);
static inline size_t dlk_etcd_kv_count(const DlkEtcd__RangeResponse *range)
{
    return range ? range->n_kvs : 0;
}

/* ---- bytes ---- */

bool dlk_etcd_bytes_same(dlk_etcd_bytes a, dlk_etcd_bytes b);
/* A copy of one's own, with a '\0' behind it that doesn't count; data NULL without memory. */
dlk_etcd_bytes dlk_etcd_bytes_copy(const void *data, size_t size);
void dlk_etcd_bytes_free(dlk_etcd_bytes *bytes);

#endif
