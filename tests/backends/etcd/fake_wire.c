/* See the header. */
#include "fake_wire.h"

#include "backends/etcd/etcd.h"
#include "contract/sleep.h"
#include "net/address.h"
#include "net/grpc.h"

#include <stdlib.h>
#include <string.h>

enum { LEASE = 7, TERM = 2 };

struct fake_wire there;

/* ---- names and connections: linked in place of the library's and the system's ---- */

dlk_lookup *__wrap_dlk_lookup_start(const char *host, uint16_t port);
bool __wrap_dlk_lookup_ended(const dlk_lookup *lookup);
bool __wrap_dlk_lookup_result(const dlk_lookup *lookup, dlk_addresses *ret,
                              const char **why);
void __wrap_dlk_lookup_drop(dlk_lookup *lookup);
void __real_dlk_etcd_calls_send(dlk_etcd_calls *calls, dlk_etcd_call *call, int64_t now);
void __wrap_dlk_etcd_calls_send(dlk_etcd_calls *calls, dlk_etcd_call *call, int64_t now);

dlk_lookup *__wrap_dlk_lookup_start(const char *host, uint16_t port)
{
    (void)host, (void)port;
    w.doings++;
    there.lookups++;
    return (dlk_lookup *)&there;
}

bool __wrap_dlk_lookup_ended(const dlk_lookup *lookup)
{
    (void)lookup;
    return there.found;
}

bool __wrap_dlk_lookup_result(const dlk_lookup *lookup, dlk_addresses *ret,
                              const char **why)
{
    (void)lookup, (void)why;
    return dlk_address_numeric("127.0.0.1", 1, ret);
}

void __wrap_dlk_lookup_drop(dlk_lookup *lookup)
{
    w.doings += lookup != NULL;
}

void fake_end_connected(void)
{
    w.doings++;
}

static int64_t first_revision(const dlk_etcd_call *call)
{
    dlk_arena arena;
    bool no_memory;
    const DlkEtcd__WatchRequest *ask = (const void *)dlk_etcd_unpack(
        &dlk_etcd__watch_request__descriptor, dlk_buf_head(&call->request),
        dlk_buf_size(&call->request), &arena, &no_memory);
    int64_t first = ask ? ask->create_request->start_revision : -1;
    dlk_arena_free(&arena);
    return first;
}

void __wrap_dlk_etcd_calls_send(dlk_etcd_calls *calls, dlk_etcd_call *call, int64_t now)
{
    w.doings++;
    there.requests += call->method != DLK_ETCD_WATCH;
    there.watches += call->method == DLK_ETCD_WATCH;
    if (call->method == DLK_ETCD_WATCH)
        there.watches_from = first_revision(call);
    __real_dlk_etcd_calls_send(calls, call, now);
}

void fake_end_drive(void)
{
    static dlk_polls polls;
    dlk_polls_begin(&polls, w.now);
    w.type->arm(w.backend, &polls);
    dlk_sleep_on(w.backend, &polls, dlk_kicks_seen(&w.kicks), false);
    process();
}

/* ---- answers ---- */

static fake_ask kind_of(const peer_request *request)
{
    switch ((int)fake_end_method(request)) {
    case DLK_ETCD_GRANT:
        return ASK_GRANT;
    case DLK_ETCD_KEEP_ALIVE:
        return ASK_KEEP;
    case DLK_ETCD_RANGE:
        return ASK_READ;
    case DLK_ETCD_TXN:
        return ASK_TXN;
    default:
        return ASK_OTHER;
    }
}

static void say(int stream, const ProtobufCMessage *message)
{
    dlk_buf packed = {0};
    if (!dlk_etcd_pack(message, &packed))
        abort();
    fake_end_say_head(stream);
    fake_end_say_message(stream, dlk_buf_head(&packed), dlk_buf_size(&packed));
    fake_end_say_status(stream, DLK_GRPC_OK, "");
    dlk_buf_free(&packed);
}

/* Our key, or nothing. */
static DlkEtcd__RangeResponse own_key(void)
{
    static DlkEtcd__KeyValue kv, *kvs[] = {&kv};
    DlkEtcd__RangeResponse found = DLK_ETCD__RANGE_RESPONSE__INIT;
    kv = (DlkEtcd__KeyValue)DLK_ETCD__KEY_VALUE__INIT;
    kv.key = there.key;
    kv.value.data = (uint8_t *)(uintptr_t)there.value;
    kv.value.len = there.value ? strlen(there.value) : 0;
    kv.create_revision = there.made;
    kv.lease = LEASE;
    found.kvs = kvs;
    found.n_kvs = there.made != 0;
    return found;
}

/* Another's key, which lies beside ours. */
static DlkEtcd__RangeResponse before_us(void)
{
    static char name[256];
    static DlkEtcd__KeyValue kv, *kvs[] = {&kv};
    DlkEtcd__RangeResponse found = DLK_ETCD__RANGE_RESPONSE__INIT;
    if (!there.other || there.key.len == 0 || there.key.len > sizeof(name))
        return found;
    kv = (DlkEtcd__KeyValue)DLK_ETCD__KEY_VALUE__INIT;
    memcpy(name, there.key.data, there.key.len);
    name[there.key.len - 1] = name[there.key.len - 1] == 'a' ? 'b' : 'a';
    kv.key = (dlk_etcd_bytes){there.key.len, (uint8_t *)name};
    kv.create_revision = 1;
    kv.lease = LEASE + 1;
    found.kvs = kvs;
    found.n_kvs = 1;
    return found;
}

/* The first key that is compared, which is our own but where there is a fence. */
static void note_key(const DlkEtcd__TxnRequest *ask)
{
    dlk_etcd_bytes_free(&there.key);
    there.key = dlk_etcd_bytes_copy(ask->compare[0]->key.data, ask->compare[0]->key.len);
    there.made = there.revision;
}

static void do_transaction(const DlkEtcd__TxnRequest *ask,
                           DlkEtcd__ResponseHeader *header, int stream)
{
    bool joins = ask->n_failure > 0, compares = ask->n_compare > 0;
    bool was_there = there.made != 0, yes = !compares || joins != was_there,
         looks = false;
    if (joins && yes)
        note_key(ask);
    for (size_t i = 0; i < ask->n_success; i++)
        if (ask->success[i]->request_case ==
            DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE)
            there.made = 0;
    looks = !compares &&
            ask->success[0]->request_case == DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
    DlkEtcd__RangeResponse own = own_key(), before = before_us();
    DlkEtcd__Done done = DLK_ETCD__DONE__INIT;
    DlkEtcd__ResponseOp first = DLK_ETCD__RESPONSE_OP__INIT,
                        second = DLK_ETCD__RESPONSE_OP__INIT;
    DlkEtcd__ResponseOp *both[] = {&first, &second};
    DlkEtcd__TxnResponse answer = DLK_ETCD__TXN_RESPONSE__INIT;
    first.response_case = !yes || looks ? DLK_ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE
                                        : DLK_ETCD__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
    if (!yes || looks)
        first.response_range = &own;
    else
        first.response_put = &done;
    second.response_case = DLK_ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
    second.response_range = compares || there.other ? &before : &own;
    answer.header = header;
    answer.succeeded = yes;
    answer.n_responses = 2;
    answer.responses = both;
    if (stream > 0)
        say(stream, &answer.base);
}

/* @p stream 0: it is done, and nothing said. */
static void perform(const peer_request *request, int stream)
{
    DlkEtcd__ResponseHeader header = DLK_ETCD__RESPONSE_HEADER__INIT;
    DlkEtcd__LeaseGrantResponse granted = DLK_ETCD__LEASE_GRANT_RESPONSE__INIT;
    DlkEtcd__LeaseKeepAliveResponse kept = DLK_ETCD__LEASE_KEEP_ALIVE_RESPONSE__INIT;
    DlkEtcd__MemberListResponse other = DLK_ETCD__MEMBER_LIST_RESPONSE__INIT;
    DlkEtcd__RangeResponse found = own_key();
    const ProtobufCMessage *answer = &other.base;
    there.revision++;
    header.raft_term = TERM;
    header.revision = there.revision;
    granted.header = kept.header = found.header = other.header = &header;
    granted.id = kept.id = LEASE;
    granted.ttl = kept.ttl = LEASE_MS / 1000;
    switch (kind_of(request)) {
    case ASK_TXN: {
        dlk_arena arena;
        bool no_memory;
        size_t size = 0;
        const char *message = fake_end_message(request, &size);
        ProtobufCMessage *ask = dlk_etcd_unpack(&dlk_etcd__txn_request__descriptor,
                                                message, size, &arena, &no_memory);
        if (!ask)
            abort();
        do_transaction((const DlkEtcd__TxnRequest *)(const void *)ask, &header, stream);
        dlk_arena_free(&arena);
        return;
    }
    case ASK_GRANT:
        answer = &granted.base;
        break;
    case ASK_KEEP:
        answer = &kept.base;
        break;
    case ASK_READ:
        answer = &found.base;
        break;
    case ASK_OTHER:
    case FAKE_ASKS:
        break;
    }
    if (stream > 0)
        say(stream, answer);
}

static dlk_etcd_end end_of(const peer_request *request)
{
    fake_ask what = kind_of(request);
    if (what != ASK_TXN || there.well == 0)
        return there.ends[what];
    there.well--;
    return DLK_ETCD_OK;
}

static void answer(peer_request *request)
{
    int stream = request->stream;
    switch (end_of(request)) {
    case DLK_ETCD_OK:
        perform(request, stream);
        break;
    case DLK_ETCD_CUT: /* it is done, and the answer lost */
        perform(request, 0);
        peer_number(&fake_end.peer, NGHTTP2_RST_STREAM, stream, NGHTTP2_INTERNAL_ERROR);
        break;
    case DLK_ETCD_NO_LEASE:
        there.made = 0; /* it went with the lease */
        fake_end_refuse(stream, DLK_GRPC_NOT_FOUND,
                        "etcdserver:%20requested%20lease%20not%20found");
        break;
    case DLK_ETCD_NO_TOKEN:
        fake_end_refuse(stream, DLK_GRPC_UNAUTHENTICATED,
                        "etcdserver:%20invalid%20auth%20token");
        break;
    case DLK_ETCD_DENIED:
        fake_end_refuse(stream, DLK_GRPC_PERMISSION_DENIED,
                        "etcdserver:%20permission%20denied");
        break;
    case DLK_ETCD_BUSY:
        fake_end_refuse(stream, DLK_GRPC_RESOURCE_EXHAUSTED,
                        "etcdserver:%20too%20many%20requests");
        break;
    case DLK_ETCD_BAD:
        fake_end_refuse(stream, DLK_GRPC_UNIMPLEMENTED, "unknown");
        break;
    }
    peer_forget(&fake_end.peer, request);
}

bool say_it_watches(int64_t revision)
{
    DlkEtcd__ResponseHeader header = DLK_ETCD__RESPONSE_HEADER__INIT;
    DlkEtcd__WatchResponse said = DLK_ETCD__WATCH_RESPONSE__INIT;
    dlk_buf packed = {0};
    fake_end_exchange();
    header.revision = revision;
    said.header = &header;
    said.watch_id = 1;
    said.created = true;
    for (int i = 0; i < fake_end.peer.count; i++) {
        const peer_request *request = &fake_end.peer.requests[i];
        if (fake_end_method(request) != DLK_ETCD_WATCH)
            continue;
        if (!dlk_etcd_pack(&said.base, &packed))
            abort();
        fake_end_say_head(request->stream);
        fake_end_say_message(request->stream, dlk_buf_head(&packed),
                             dlk_buf_size(&packed));
        dlk_buf_free(&packed);
        fake_end_exchange();
        return true;
    }
    return false;
}

/* Which wait for an answer. */
static bool is_asked(const peer_request *request)
{
    return request->ended && !request->reset;
}

int count_asked(fake_ask what)
{
    int count = 0;
    fake_end_exchange();
    for (int i = 0; i < fake_end.peer.count; i++)
        count += is_asked(&fake_end.peer.requests[i]) &&
                 kind_of(&fake_end.peer.requests[i]) == what;
    return count;
}

static peer_request *next_request(void)
{
    for (int i = 0; i < fake_end.peer.count; i++) {
        peer_request *request = &fake_end.peer.requests[i];
        if (is_asked(request) && !there.held[kind_of(request)])
            return request;
    }
    return NULL;
}

void serve(void)
{
    peer_request *request;
    fake_end_exchange();
    while (fake_end.fd >= 0 && (request = next_request())) {
        answer(request);
        fake_end_exchange();
    }
}

/* ---- its life ---- */

bool open_it(dlock_kind kind)
{
    memset(&there, 0, sizeof(there));
    fake_end_begin();
    return driven_open(&dlk_etcd_backend, "etcd://one.example,two.example", kind, serve,
                       LEASE_MS);
}

bool begin_with(dlock_kind kind)
{
    if (!open_it(kind))
        return false;
    there.found = true;
    w.type->start(w.backend, w.now);
    (void)tick();
    serve();
    return harness_check(__FILE__, __LINE__, w.up, "it is up");
}

void end(void)
{
    fake_end_hang_up(); /* so that nobody waits for an answer to the farewell */
    driven_end();
    dlk_etcd_bytes_free(&there.key);
}
