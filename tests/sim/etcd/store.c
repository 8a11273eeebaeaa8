/* The keys that all members have, and their history as far as it isn't compacted;
 * requests are the gateway's JSON, and so are the answers. */
#include "etcd/model.h"

#include <stdlib.h>
#include <string.h>

enum { GRPC_NOT_FOUND = 5 };

typedef struct change {
    dlk_list link;
    int64_t revision;
    dlk_bytes key;
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

dlk_list *etcd_store_keys(void)
{
    return &store.keys;
}

int64_t etcd_store_revision(void)
{
    return store.revision;
}

/* ---- spans of keys ---- */

static dlk_bytes read_bytes(const json_t *from, const char *key)
{
    dlk_bytes bytes = dlk_base64_decode(dlk_json_text(from, key));
    (void)etcd_need(bytes.data);
    return bytes;
}

bool etcd_span_read(const json_t *from, etcd_span *ret)
{
    *ret = (etcd_span){.from = read_bytes(from, "key"),
                       .to = read_bytes(from, "range_end"),
                       .many = dlk_json_text(from, "range_end")[0] != '\0'};
    return ret->from.size > 0;
}

void etcd_span_free(etcd_span *span)
{
    free(span->from.data);
    free(span->to.data);
    *span = (etcd_span){0};
}

static int order_of(const dlk_bytes *a, const dlk_bytes *b)
{
    size_t size = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->data, b->data, size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

bool etcd_span_has(const etcd_span *span, const dlk_bytes *key)
{
    if (!span->many)
        return order_of(key, &span->from) == 0;
    return order_of(key, &span->from) >= 0 && order_of(key, &span->to) < 0;
}

static etcd_key *find(const etcd_span *span)
{
    DLK_LIST_FOR (it, &store.keys) {
        etcd_key *key = DLK_LIST_ITEM(it, etcd_key, link);
        if (etcd_span_has(span, &key->key))
            return key;
    }
    return NULL;
}

/* ---- what changes ---- */

static void remember(const dlk_bytes *key, bool put, int64_t revision)
{
    change *one = etcd_need(calloc(1, sizeof(*one)));
    one->revision = revision;
    one->put = put;
    one->key = (dlk_bytes){etcd_need(malloc(key->size + 1)), key->size};
    memcpy(one->key.data, key->data, key->size + 1);
    dlk_list_append(&store.history, &one->link);
}

static void forget(change *one)
{
    dlk_list_remove(&one->link);
    free(one->key.data);
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
        etcd_members_changed(&one->key, one->put, revision);
    }
}

static void free_key(etcd_key *key)
{
    dlk_list_remove(&key->link);
    free(key->key.data);
    free(key->value);
    free(key);
}

static void delete_key(etcd_key *key, int by, int64_t revision)
{
    etcd_rules_deleted(key, by);
    remember(&key->key, false, revision);
    free_key(key);
}

static void put(const json_t *ask, int64_t revision)
{
    etcd_span span;
    (void)etcd_span_read(ask, &span);
    etcd_key *key = find(&span);
    if (!key) {
        if (dlk_json_true(ask, "ignore_value") || dlk_json_true(ask, "ignore_lease"))
            abort(); /* a server refuses that, and nobody asks for it */
        key = etcd_need(calloc(1, sizeof(*key)));
        key->key = span.from;
        key->made = revision;
        span.from.data = NULL;
        dlk_list_append(&store.keys, &key->link);
    }
    etcd_span_free(&span);
    if (!dlk_json_true(ask, "ignore_value")) {
        free(key->value);
        key->value = etcd_need(strdup(dlk_json_text(ask, "value")));
    }
    key->changed = revision;
    key->version++;
    if (!dlk_json_true(ask, "ignore_lease"))
        key->lease = dlk_json_int(ask, "lease");
    remember(&key->key, true, revision);
    etcd_rules_put(key);
}

/* ---- answers ---- */

static json_t *number(int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)value); /* fits */
    return etcd_need(json_string(text));
}

/* What is 0 or empty is left out. */
static void set_number(json_t *to, const char *name, int64_t value)
{
    if (value && json_object_set_new(to, name, number(value)) != 0)
        abort();
}

static void set(json_t *to, const char *name, json_t *value)
{
    if (json_object_set_new(to, name, etcd_need(value)) != 0)
        abort();
}

static json_t *kv_of(const etcd_key *key, bool keys_only)
{
    json_t *kv = etcd_need(json_object());
    char *name = etcd_need(dlk_base64(key->key.data, key->key.size));
    set(kv, "key", json_string(name));
    free(name);
    set_number(kv, "create_revision", key->made);
    set_number(kv, "mod_revision", key->changed);
    set_number(kv, "version", key->version);
    if (!keys_only && key->value[0])
        set(kv, "value", json_string(key->value));
    set_number(kv, "lease", key->lease);
    return kv;
}

static json_t *range(const json_t *ask)
{
    etcd_span span;
    int64_t limit = dlk_json_int(ask, "limit"), count = 0;
    int64_t youngest = dlk_json_int(ask, "max_create_revision");
    bool backwards = strcmp(dlk_json_text(ask, "sort_order"), "DESCEND") == 0;
    json_t *found = etcd_need(json_object()), *kvs = etcd_need(json_array());
    (void)etcd_span_read(ask, &span);
    for (dlk_list *it = backwards ? store.keys.prev : store.keys.next; it != &store.keys;
         it = backwards ? it->prev : it->next) {
        const etcd_key *key = DLK_LIST_ITEM(it, etcd_key, link);
        if (!etcd_span_has(&span, &key->key) || (youngest && key->made > youngest))
            continue;
        if ((!limit || count < limit) &&
            json_array_append_new(kvs, kv_of(key, dlk_json_true(ask, "keys_only"))) != 0)
            abort();
        count++;
    }
    etcd_span_free(&span);
    if (count)
        set(found, "kvs", kvs);
    else
        json_decref(kvs);
    set_number(found, "count", count);
    return found;
}

void etcd_effect_error(etcd_effect *ret, long status, int code, const char *words)
{
    *ret = (etcd_effect){.status = status, .json = etcd_need(json_object())};
    set(ret->json, "error", json_string(words));
    set(ret->json, "message", json_string(words));
    set(ret->json, "code", json_integer(code));
}

/* ---- transactions ---- */

/* What a comparison that says no target is about comes first. */
static const char *const targets[][2] = {{"", "version"},
                                         {"CREATE", "create_revision"},
                                         {"MOD", "mod_revision"},
                                         {"LEASE", "lease"},
                                         {"VALUE", "value"}};

static size_t target_of(const json_t *compare)
{
    const char *target = dlk_json_text(compare, "target");
    for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++)
        if (strcmp(target, targets[i][0]) == 0 && json_object_get(compare, targets[i][1]))
            return i;
    abort(); /* nobody asks for others */
}

/* As text, which all of them are in JSON; what isn't there is 0, or empty. */
static bool is_equal(const etcd_key *key, size_t target, const json_t *compare)
{
    const int64_t numbers[] = {key->version, key->made, key->changed, key->lease};
    const char *wanted = dlk_json_text(compare, targets[target][1]);
    if (target >= sizeof(numbers) / sizeof(*numbers))
        return strcmp(key->value ? key->value : "", wanted) == 0;
    return numbers[target] == dlk_json_int(compare, targets[target][1]);
}

/* Each key there has to fulfil it; where there is none, one that was never made. */
static bool holds(const json_t *compare)
{
    static const etcd_key none;
    etcd_span span;
    size_t target = target_of(compare);
    bool fine = true, some = false;
    (void)etcd_span_read(compare, &span);
    DLK_LIST_FOR (it, &store.keys) {
        const etcd_key *key = DLK_LIST_ITEM(it, etcd_key, link);
        if (!etcd_span_has(&span, &key->key))
            continue;
        some = true;
        fine = fine && is_equal(key, target, compare);
    }
    etcd_span_free(&span);
    return some ? fine : is_equal(&none, target, compare);
}

static bool all_hold(const json_t *compares)
{
    for (size_t i = 0; i < json_array_size(compares); i++)
        if (!holds(json_array_get(compares, i)))
            return false;
    return true;
}

static bool leases_live(const json_t *ops)
{
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *ask = json_object_get(json_array_get(ops, i), "request_put");
        int64_t id = dlk_json_int(ask, "lease");
        const etcd_lease *lease = id ? etcd_lease_find(id) : NULL;
        if (ask && id && (!lease || lease->over))
            return false;
    }
    return true;
}

/* True when it has changed something. */
static bool carry_out(const json_t *op, int by, int64_t revision, json_t *ret)
{
    const json_t *ask;
    bool changed = false;
    if ((ask = json_object_get(op, "request_range"))) {
        set(ret, "response_range", range(ask));
    } else if ((ask = json_object_get(op, "request_put"))) {
        put(ask, revision);
        set(ret, "response_put", json_object());
        changed = true;
    } else if ((ask = json_object_get(op, "request_delete_range"))) {
        etcd_span span;
        etcd_key *key = etcd_span_read(ask, &span) ? find(&span) : NULL;
        changed = key != NULL;
        if (key)
            delete_key(key, by, revision);
        etcd_span_free(&span);
        set(ret, "response_delete_range", json_object());
    } else {
        abort(); /* there are no others */
    }
    return changed;
}

void etcd_store_txn(const json_t *ask, int by, etcd_effect *ret)
{
    bool fine = all_hold(json_object_get(ask, "compare")), changed = false;
    const json_t *ops = json_object_get(ask, fine ? "success" : "failure");
    int64_t revision = store.revision + 1;
    if (!leases_live(ops)) {
        etcd_effect_error(ret, 404, GRPC_NOT_FOUND,
                          "etcdserver: requested lease not found");
        return;
    }
    json_t *responses = etcd_need(json_array());
    for (size_t i = 0; i < json_array_size(ops); i++) {
        json_t *one = etcd_need(json_object());
        changed |= carry_out(json_array_get(ops, i), by, revision, one);
        if (json_array_append_new(responses, one) != 0)
            abort();
    }
    if (changed)
        commit(revision, by);
    *ret = (etcd_effect){200, etcd_need(json_object()), store.revision};
    if (fine)
        set(ret->json, "succeeded", json_true());
    set(ret->json, "responses", responses);
}

void etcd_store_range(const json_t *ask, etcd_effect *ret)
{
    *ret = (etcd_effect){200, range(ask), store.revision};
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

etcd_past etcd_store_past(const etcd_span *span, bool puts, int64_t start)
{
    etcd_past past = PAST_QUIET;
    if (start < store.compacted)
        return PAST_COMPACTED;
    for (dlk_list *it = store.history.prev; it != &store.history; it = it->prev) {
        const change *one = DLK_LIST_ITEM(it, change, link);
        if (one->revision < start)
            break;
        if ((one->put && !puts) || !etcd_span_has(span, &one->key))
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
