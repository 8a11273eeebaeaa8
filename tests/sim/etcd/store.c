/* The keys that all members have, and their history as far as it isn't compacted; requests and
 * answers are etcd's messages. */
#include "etcd/model.h"

#include <stdlib.h>
#include <string.h>

/* Of what answers are put together in. */
#define ANSWER_MAX ((size_t)16 << 20)

typedef struct change {
    dlk_list link;
    int64_t revision;
    dlk_etcd_bytes key;
    bool put;
} change;

static struct {
    dlk_list keys, history; /* etcd_key.link, change.link */
    int64_t revision, compacted;
} store;

void *etcd_need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

void etcd_pack(const ProtobufCMessage *message, dlk_buf *to)
{
    if (!dlk_etcd_pack(message, to))
        abort();
}

dlk_list *etcd_store_keys(void)
{
    return &store.keys;
}

int64_t etcd_store_revision(void)
{
    return store.revision;
}

int64_t etcd_store_compacted(void)
{
    return store.compacted;
}

static dlk_etcd_bytes copy_of(dlk_etcd_bytes bytes)
{
    dlk_etcd_bytes copy = dlk_etcd_bytes_copy(bytes.data, bytes.len);
    (void)etcd_need(copy.data);
    return copy;
}

/* ---- spans of keys ---- */

static int order_of(dlk_etcd_bytes a, dlk_etcd_bytes b)
{
    size_t size = a.len < b.len ? a.len : b.len;
    int order = size ? memcmp(a.data, b.data, size) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

bool etcd_span_has(const etcd_span *span, dlk_etcd_bytes key)
{
    if (span->to.len == 0)
        return order_of(key, span->from) == 0;
    return order_of(key, span->from) >= 0 && order_of(key, span->to) < 0;
}

static etcd_key *find(dlk_etcd_bytes wanted)
{
    DLK_LIST_FOR (it, &store.keys) {
        etcd_key *key = DLK_LIST_ITEM(it, etcd_key, link);
        if (order_of(key->key, wanted) == 0)
            return key;
    }
    return NULL;
}

/* ---- what changes ---- */

static void remember(dlk_etcd_bytes key, bool put, int64_t revision)
{
    change *one = etcd_need(calloc(1, sizeof(*one)));
    one->revision = revision;
    one->put = put;
    one->key = copy_of(key);
    dlk_list_append(&store.history, &one->link);
}

static void forget(change *one)
{
    dlk_list_remove(&one->link);
    dlk_etcd_bytes_free(&one->key);
    free(one);
}

/* What was done at one revision is told when it is whole. */
static void commit(int64_t revision, int by)
{
    store.revision = revision;
    etcd_rules_look(by);
    for (dlk_list *it = store.history.prev; it != &store.history; it = it->prev) {
        const change *one = DLK_LIST_ITEM(it, change, link);
        if (one->revision < revision)
            return;
        etcd_members_changed(one->key, one->put, revision);
    }
}

static void free_key(etcd_key *key)
{
    dlk_list_remove(&key->link);
    dlk_etcd_bytes_free(&key->key);
    dlk_etcd_bytes_free(&key->value);
    free(key);
}

static void delete_key(etcd_key *key, int by, int64_t revision)
{
    etcd_rules_deleted(key, by);
    remember(key->key, false, revision);
    free_key(key);
}

static etcd_key *make_key(dlk_etcd_bytes name, int64_t revision)
{
    etcd_key *key = etcd_need(calloc(1, sizeof(*key)));
    key->key = copy_of(name);
    key->made = revision;
    dlk_list_append(&store.keys, &key->link);
    return key;
}

static void put(const DlkEtcd__PutRequest *ask, int64_t revision)
{
    etcd_key *key = find(ask->key);
    if (!key && (ask->ignore_value || ask->ignore_lease))
        abort(); /* a server refuses that, and nobody asks for it */
    if (!key)
        key = make_key(ask->key, revision);
    if (!ask->ignore_value) {
        dlk_etcd_bytes_free(&key->value);
        key->value = copy_of(ask->value);
    }
    key->changed = revision;
    key->version++;
    if (!ask->ignore_lease)
        key->lease = ask->lease;
    remember(key->key, true, revision);
    etcd_rules_put(key);
}

/* ---- answers ---- */

void etcd_effect_says(etcd_effect *ret, const ProtobufCMessage *answer)
{
    *ret = (etcd_effect){.status = DLK_GRPC_OK, .revision = store.revision};
    etcd_pack(answer, &ret->body);
}

void etcd_effect_error(etcd_effect *ret, int status, const char *words)
{
    *ret = (etcd_effect){.status = status, .words = words};
}

/* The next request of a transaction may change what is there. */
static dlk_etcd_bytes kept(dlk_etcd_bytes bytes, dlk_arena *arena)
{
    dlk_etcd_bytes copy = {bytes.len, etcd_need(dlk_arena_take(arena, bytes.len + 1))};
    if (bytes.len > 0)
        memcpy(copy.data, bytes.data, bytes.len);
    return copy;
}

static DlkEtcd__KeyValue *kv_of(const etcd_key *key, bool keys_only, dlk_arena *arena)
{
    DlkEtcd__KeyValue *kv = etcd_need(dlk_arena_take(arena, sizeof(*kv)));
    *kv = (DlkEtcd__KeyValue)DLK_ETCD__KEY_VALUE__INIT;
    kv->key = kept(key->key, arena);
    kv->create_revision = key->made;
    kv->mod_revision = key->changed;
    kv->lease = key->lease;
    if (!keys_only)
        kv->value = kept(key->value, arena);
    return kv;
}

static size_t count_keys(void)
{
    size_t count = 0;
    DLK_LIST_FOR (it, &store.keys)
        count++;
    return count;
}

static void range(const DlkEtcd__RangeRequest *ask, dlk_arena *arena,
                  DlkEtcd__RangeResponse *ret)
{
    const etcd_span span = {ask->key, ask->range_end};
    bool backwards = ask->sort_order == DLK_ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND;
    *ret = (DlkEtcd__RangeResponse)DLK_ETCD__RANGE_RESPONSE__INIT;
    ret->kvs = etcd_need(dlk_arena_take(arena, (count_keys() + 1) * sizeof(*ret->kvs)));
    for (dlk_list *it = backwards ? store.keys.prev : store.keys.next; it != &store.keys;
         it = backwards ? it->prev : it->next) {
        const etcd_key *key = DLK_LIST_ITEM(it, etcd_key, link);
        bool young = ask->max_create_revision && key->made > ask->max_create_revision;
        if (young || !etcd_span_has(&span, key->key))
            continue;
        ret->more = ask->limit && ret->n_kvs >= (size_t)ask->limit;
        if (!ret->more)
            ret->kvs[ret->n_kvs++] = kv_of(key, ask->keys_only, arena);
    }
}

/* ---- transactions ---- */

/* What isn't there is 0, or empty. */
static bool is_equal(const etcd_key *key, const DlkEtcd__Compare *compare)
{
    switch ((int)compare->target) {
    case DLK_ETCD__COMPARE__TARGET__VERSION:
        if (compare->to_case == DLK_ETCD__COMPARE__TO_VERSION)
            return key->version == compare->version;
        break;
    case DLK_ETCD__COMPARE__TARGET__CREATE:
        if (compare->to_case == DLK_ETCD__COMPARE__TO_CREATE_REVISION)
            return key->made == compare->create_revision;
        break;
    case DLK_ETCD__COMPARE__TARGET__MOD:
        if (compare->to_case == DLK_ETCD__COMPARE__TO_MOD_REVISION)
            return key->changed == compare->mod_revision;
        break;
    case DLK_ETCD__COMPARE__TARGET__VALUE:
        if (compare->to_case == DLK_ETCD__COMPARE__TO_VALUE)
            return order_of(key->value, compare->value) == 0;
        break;
    case DLK_ETCD__COMPARE__TARGET__LEASE:
        if (compare->to_case == DLK_ETCD__COMPARE__TO_LEASE)
            return key->lease == compare->lease;
        break;
    default:
        break;
    }
    abort(); /* nobody asks for others */
}

/* Each key there has to fulfil it; where there is none, one that was never made. */
static bool holds(const DlkEtcd__Compare *compare)
{
    static const etcd_key none;
    const etcd_span span = {compare->key, compare->range_end};
    bool fine = true, some = false;
    DLK_LIST_FOR (it, &store.keys) {
        const etcd_key *key = DLK_LIST_ITEM(it, etcd_key, link);
        if (!etcd_span_has(&span, key->key))
            continue;
        some = true;
        fine = fine && is_equal(key, compare);
    }
    return some ? fine : is_equal(&none, compare);
}

static bool all_hold(const DlkEtcd__TxnRequest *ask)
{
    for (size_t i = 0; i < ask->n_compare; i++)
        if (!holds(ask->compare[i]))
            return false;
    return true;
}

static bool leases_live(DlkEtcd__RequestOp *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ops[i]->request_case != DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_PUT)
            continue;
        int64_t id = ops[i]->request_put->lease;
        const etcd_lease *lease = id ? etcd_lease_find(id) : NULL;
        if (id && (!lease || lease->over))
            return false;
    }
    return true;
}

/* True when it has changed something. */
static bool carry_out(const DlkEtcd__RequestOp *op, int by, int64_t revision,
                      dlk_arena *arena, DlkEtcd__ResponseOp *ret)
{
    static DlkEtcd__Done done = DLK_ETCD__DONE__INIT;
    *ret = (DlkEtcd__ResponseOp)DLK_ETCD__RESPONSE_OP__INIT;
    if (op->request_case == DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE) {
        ret->response_case = DLK_ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
        ret->response_range =
            etcd_need(dlk_arena_take(arena, sizeof(*ret->response_range)));
        range(op->request_range, arena, ret->response_range);
        return false;
    }
    if (op->request_case == DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_PUT) {
        ret->response_case = DLK_ETCD__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
        ret->response_put = &done;
        put(op->request_put, revision);
        return true;
    }
    if (op->request_case != DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE ||
        op->request_delete_range->range_end.len > 0)
        abort(); /* nobody asks for anything else */
    ret->response_case = DLK_ETCD__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE;
    ret->response_delete_range = &done;
    etcd_key *key = find(op->request_delete_range->key);
    if (key)
        delete_key(key, by, revision);
    return key != NULL;
}

/* What is done of a transaction: its comparisons are made before anything is done of others in its request. */
typedef struct course {
    bool fine;
    DlkEtcd__RequestOp *const *ops;
    size_t count;
} course;

static course course_of(const DlkEtcd__TxnRequest *ask)
{
    bool fine = all_hold(ask);
    return (course){fine, fine ? ask->success : ask->failure,
                    fine ? ask->n_success : ask->n_failure};
}

/* True when it has changed something. */
static bool follow(const course *of, int by, int64_t revision, dlk_arena *arena,
                   DlkEtcd__TxnResponse *ret)
{
    bool changed = false;
    *ret = (DlkEtcd__TxnResponse)DLK_ETCD__TXN_RESPONSE__INIT;
    ret->succeeded = of->fine;
    ret->responses =
        etcd_need(dlk_arena_take(arena, (of->count + 1) * sizeof(*ret->responses)));
    for (size_t i = 0; i < of->count; i++) {
        DlkEtcd__ResponseOp *said = etcd_need(dlk_arena_take(arena, sizeof(*said)));
        ret->responses[ret->n_responses++] = said;
        changed |= carry_out(of->ops[i], by, revision, arena, said);
    }
    return changed;
}

/* The answers in one. Each has a header of its own, which says nothing. */
static void nest(DlkEtcd__TxnResponse *parts, size_t count, dlk_arena *arena,
                 DlkEtcd__TxnResponse *ret)
{
    static DlkEtcd__ResponseHeader nothing = DLK_ETCD__RESPONSE_HEADER__INIT;
    *ret = (DlkEtcd__TxnResponse)DLK_ETCD__TXN_RESPONSE__INIT;
    ret->succeeded = true;
    ret->responses = etcd_need(dlk_arena_take(arena, count * sizeof(*ret->responses)));
    for (size_t i = 0; i < count; i++) {
        DlkEtcd__ResponseOp *op = etcd_need(dlk_arena_take(arena, sizeof(*op)));
        dlk_buf packed = {0};
        *op = (DlkEtcd__ResponseOp)DLK_ETCD__RESPONSE_OP__INIT;
        parts[i].header = &nothing;
        etcd_pack(&parts[i].base, &packed);
        op->response_case = DLK_ETCD__RESPONSE_OP__RESPONSE_RESPONSE_TXN;
        op->response_txn = kept(
            (dlk_etcd_bytes){dlk_buf_size(&packed), (uint8_t *)dlk_buf_head(&packed)},
            arena);
        dlk_buf_free(&packed);
        ret->responses[ret->n_responses++] = op;
    }
}

void etcd_store_txn(const etcd_parts *parts, int by, etcd_effect *ret)
{
    course courses[ETCD_PARTS];
    DlkEtcd__TxnResponse said[ETCD_PARTS], whole;
    bool changed = false;
    int64_t revision = store.revision + 1;
    dlk_arena arena = {.most = ANSWER_MAX};
    for (size_t i = 0; i < parts->count; i++) {
        courses[i] = course_of(parts->asks[i]);
        if (leases_live(courses[i].ops, courses[i].count))
            continue;
        etcd_effect_error(ret, DLK_GRPC_NOT_FOUND,
                          "etcdserver: requested lease not found");
        return;
    }
    for (size_t i = 0; i < parts->count; i++)
        changed |= follow(&courses[i], by, revision, &arena, &said[i]);
    if (changed)
        commit(revision, by);
    if (parts->nested)
        nest(said, parts->count, &arena, &whole);
    etcd_effect_says(ret, parts->nested ? &whole.base : &said[0].base);
    ret->succeeded = parts->nested || courses[0].fine;
    dlk_arena_free(&arena);
}

void etcd_store_range(const DlkEtcd__RangeRequest *ask, etcd_effect *ret)
{
    dlk_arena arena = {.most = ANSWER_MAX};
    DlkEtcd__RangeResponse said;
    range(ask, &arena, &said);
    etcd_effect_says(ret, &said.base);
    dlk_arena_free(&arena);
}

/* ---- from within ---- */

void etcd_store_delete(const etcd_key *key)
{
    int64_t revision = store.revision + 1;
    delete_key((etcd_key *)(uintptr_t)key, NOBODY, revision);
    commit(revision, NOBODY);
}

void etcd_store_end_lease(int64_t lease)
{
    int64_t revision = store.revision + 1;
    bool some = false;
    DLK_LIST_FOR (it, &store.keys) {
        etcd_key *key = DLK_LIST_ITEM(it, etcd_key, link);
        if (key->lease != lease)
            continue;
        some = true;
        delete_key(key, NOBODY, revision);
    }
    if (some)
        commit(revision, NOBODY);
}

/* ---- the past ---- */

void etcd_store_compact(void)
{
    store.compacted = store.revision;
    DLK_LIST_FOR (it, &store.history) {
        change *one = DLK_LIST_ITEM(it, change, link);
        if (one->revision < store.compacted)
            forget(one);
    }
}

etcd_past etcd_store_past(const etcd_span *span, dlk_etcd_news of, int64_t start)
{
    etcd_past past = PAST_QUIET;
    if (start < store.compacted)
        return PAST_COMPACTED;
    for (dlk_list *it = store.history.prev; it != &store.history; it = it->prev) {
        const change *one = DLK_LIST_ITEM(it, change, link);
        if (one->revision < start)
            break;
        if (!etcd_is_news(of, one->put) || !etcd_span_has(span, one->key))
            continue;
        if (one->revision > store.compacted || one->put)
            return PAST_NEWS;
        past = PAST_FORGOTTEN;
    }
    return past;
}

/* ---- beginning and end ---- */

void etcd_store_begin(void)
{
    dlk_list_init(&store.keys);
    dlk_list_init(&store.history);
    store.revision = 1;
    store.compacted = 0;
}

void etcd_store_end(void)
{
    DLK_LIST_FOR (it, &store.keys)
        free_key(DLK_LIST_ITEM(it, etcd_key, link));
    DLK_LIST_FOR (it, &store.history)
        forget(DLK_LIST_ITEM(it, change, link));
}
