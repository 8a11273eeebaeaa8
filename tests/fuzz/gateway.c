/* The etcd of the target; see the header. */
#include "gateway.h"

#include "backends/etcd/fake_end.h"
#include "etcd/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WATCHES = 64 };

static struct {
    etcd_lease lease;
    fuzz_bytes *bytes; /* of the input, what is left */
    int stream;        /* of watches; 0: none */
    int64_t watches[WATCHES];
    size_t watch_count;
} gateway;

/* ---- what the store asks of the simulator ---- */

etcd_lease *etcd_lease_find(int64_t id)
{
    return id == gateway.lease.id ? &gateway.lease : NULL;
}

void etcd_members_changed(dlk_etcd_bytes key, bool put, int64_t revision)
{
    (void)key, (void)put, (void)revision; /* watches fire when the input wants it */
}

void etcd_rules_put(etcd_key *key)
{
    (void)key;
}

void etcd_rules_deleted(const etcd_key *key, int by)
{
    (void)key, (void)by;
}

void etcd_rules_look(int by)
{
    (void)by;
}

/* ---- what a member says ---- */

static void grant(const DlkEtcd__LeaseGrantRequest *ask, etcd_effect *ret)
{
    DlkEtcd__LeaseGrantResponse said = DLK_ETCD__LEASE_GRANT_RESPONSE__INIT;
    gateway.lease = (etcd_lease){.id = gateway.lease.id + 1};
    said.id = gateway.lease.id;
    said.ttl = ask->ttl;
    etcd_effect_says(ret, &said.base);
}

static void keep(etcd_effect *ret)
{
    DlkEtcd__LeaseKeepAliveResponse said = DLK_ETCD__LEASE_KEEP_ALIVE_RESPONSE__INIT;
    said.id = gateway.lease.id;
    said.ttl = gateway.lease.over ? 0 : 30;
    etcd_effect_says(ret, &said.base);
}

static void describe(dlk_etcd_method method, etcd_effect *ret)
{
    static uint8_t token[] = "word.1", version[] = "3.4.23";
    DlkEtcd__AuthenticateResponse user = DLK_ETCD__AUTHENTICATE_RESPONSE__INIT;
    DlkEtcd__StatusResponse status = DLK_ETCD__STATUS_RESPONSE__INIT;
    DlkEtcd__MemberListResponse list = DLK_ETCD__MEMBER_LIST_RESPONSE__INIT;
    DlkEtcd__Member member = DLK_ETCD__MEMBER__INIT, *members[] = {&member};
    user.token = (dlk_etcd_bytes){sizeof(token) - 1, token};
    status.version = (dlk_etcd_bytes){sizeof(version) - 1, version};
    status.dbsize = 20480;
    status.leader = 1;
    list.n_members = 1;
    list.members = members;
    etcd_effect_says(ret, method == DLK_ETCD_AUTHENTICATE ? &user.base
                          : method == DLK_ETCD_STATUS     ? &status.base
                                                          : &list.base);
}

static const ProtobufCMessageDescriptor *asked_by(dlk_etcd_method method)
{
    switch ((int)method) {
    case DLK_ETCD_TXN:
        return &dlk_etcd__txn_request__descriptor;
    case DLK_ETCD_RANGE:
        return &dlk_etcd__range_request__descriptor;
    case DLK_ETCD_WATCH:
        return &dlk_etcd__watch_request__descriptor;
    case DLK_ETCD_AUTHENTICATE:
        return &dlk_etcd__authenticate_request__descriptor;
    default: /* one that has a number at most */
        return &dlk_etcd__lease_grant_request__descriptor;
    }
}

/* What we say is a message. */
static const ProtobufCMessage *read_ask(const peer_request *request, dlk_arena *arena)
{
    bool no_memory;
    size_t size = 0;
    const char *message = fake_end_message(request, &size);
    const ProtobufCMessage *ask =
        message ? dlk_etcd_unpack(asked_by(fake_end_method(request)), message, size,
                                  arena, &no_memory)
                : NULL;
    FUZZ_CHECK(ask, "what the client says is no message");
    return ask;
}

static void add_header(etcd_effect *it)
{
    DlkEtcd__ResponseHeader header = DLK_ETCD__RESPONSE_HEADER__INIT;
    DlkEtcd__LeaseRevokeResponse any = DLK_ETCD__LEASE_REVOKE_RESPONSE__INIT;
    header.revision = etcd_store_revision();
    header.raft_term = 2;
    any.header = &header; /* it is the first field of each */
    etcd_pack(&any.base, &it->body);
}

static void carry_out(const DlkEtcd__TxnRequest *ask, etcd_effect *ret)
{
    etcd_parts parts;
    etcd_parts_read(&parts, ask);
    etcd_store_txn(&parts, 0, ret);
    etcd_parts_free(&parts);
}

static void decide(const peer_request *request, etcd_effect *ret)
{
    dlk_etcd_method method = fake_end_method(request);
    dlk_arena arena;
    const void *ask = read_ask(request, &arena);
    switch ((int)method) {
    case DLK_ETCD_TXN:
        carry_out(ask, ret);
        break;
    case DLK_ETCD_RANGE:
        etcd_store_range(ask, ret);
        break;
    case DLK_ETCD_GRANT:
        grant(ask, ret);
        break;
    case DLK_ETCD_KEEP_ALIVE:
        keep(ret);
        break;
    default:
        describe(method, ret);
        break;
    }
    if (ret->status == DLK_GRPC_OK)
        add_header(ret);
    dlk_arena_free(&arena);
}

static void say_of_watch(int64_t number, bool created, etcd_effect *ret)
{
    DlkEtcd__WatchResponse said = DLK_ETCD__WATCH_RESPONSE__INIT;
    DlkEtcd__Done news = DLK_ETCD__DONE__INIT, *events[] = {&news};
    said.watch_id = number;
    said.created = created;
    said.n_events = !created;
    said.events = events;
    etcd_effect_says(ret, &said.base);
    add_header(ret);
}

/* ---- and what the input makes of it ---- */

enum { LIE_CUT, LIE_BYTE, LIE_INSERT, LIE_OTHER, LIE_STATUS, LIE_TWICE, LIE_END, LIES };

static void add(dlk_buf *to, const void *bytes, size_t size)
{
    if (size > 0 && !dlk_buf_append(to, bytes, size))
        abort();
}

static void splice(dlk_buf *in, size_t at, size_t skipped, fuzz_bytes put)
{
    size_t size = dlk_buf_size(in), end = at + skipped < size ? at + skipped : size;
    dlk_buf made = {0};
    const char *body = dlk_buf_head(in);
    add(&made, body, at);
    add(&made, put.at, put.left);
    add(&made, body + end, size - end);
    dlk_buf_free(in);
    *in = made;
}

/* The stream's end, or the connection's, instead of an answer. */
static void end_badly(int stream, size_t how)
{
    switch (how % 4) {
    case 0:
        fake_end_hang_up();
        break;
    case 1:
        peer_goaway(&fake_end.peer, stream - 2 * (int)(how & 4), NGHTTP2_NO_ERROR);
        break;
    default:
        peer_number(&fake_end.peer, NGHTTP2_RST_STREAM, stream,
                    (uint32_t)(how >> 2) % 16);
        break;
    }
}

/* False: that is all that is said. */
static bool lie(int stream, etcd_effect *it, uint8_t how)
{
    size_t size = dlk_buf_size(&it->body), number = fuzz_number(gateway.bytes, 2);
    size_t at = size > 0 ? number % size : 0;
    switch (how % LIES) {
    case LIE_CUT:
        splice(&it->body, at, size, (fuzz_bytes){0});
        break;
    case LIE_BYTE:
        splice(&it->body, at, 1, fuzz_take(gateway.bytes, 1));
        break;
    case LIE_INSERT:
        splice(&it->body, at, 0, fuzz_take_until(gateway.bytes, '\n'));
        break;
    case LIE_OTHER:
        splice(&it->body, 0, size, fuzz_take_until(gateway.bytes, '\n'));
        break;
    case LIE_STATUS:
        it->status = (int)(number % 18);
        it->words = number & 0x100 ? "lease%20not%20found" : "authentication%20failed";
        break;
    case LIE_TWICE:
        fake_end_say_message(stream, dlk_buf_head(&it->body), size);
        break;
    default:
        end_badly(stream, number);
        return false;
    }
    return true;
}

static void answer(peer_request *request, uint8_t how)
{
    int stream = request->stream;
    etcd_effect effect = {0};
    decide(request, &effect);
    fake_end_say_head(stream);
    peer_forget(&fake_end.peer, request);
    if (how < GATEWAY_LIES || lie(stream, &effect, how)) {
        if (effect.status == DLK_GRPC_OK)
            fake_end_say_message(stream, dlk_buf_head(&effect.body),
                                 dlk_buf_size(&effect.body));
        fake_end_say_status(stream, effect.status,
                            effect.words ? "lease%20not%20found" : "");
    }
    dlk_buf_free(&effect.body);
}

static void fire(size_t which, uint8_t how)
{
    etcd_effect effect = {0};
    say_of_watch(gateway.watches[which], false, &effect);
    gateway.watches[which] = gateway.watches[--gateway.watch_count];
    if (how < GATEWAY_LIES || lie(gateway.stream, &effect, how)) {
        if (effect.status == DLK_GRPC_OK)
            fake_end_say_message(gateway.stream, dlk_buf_head(&effect.body),
                                 dlk_buf_size(&effect.body));
        else
            fake_end_say_status(gateway.stream, effect.status, "");
    }
    dlk_buf_free(&effect.body);
}

/* ---- what comes ---- */

static void begin_watch(int64_t number)
{
    etcd_effect effect = {0};
    if (gateway.watch_count == WATCHES)
        return; /* nobody hears of it */
    gateway.watches[gateway.watch_count++] = number;
    say_of_watch(number, true, &effect);
    fake_end_say_message(gateway.stream, dlk_buf_head(&effect.body),
                         dlk_buf_size(&effect.body));
    dlk_buf_free(&effect.body);
}

static void cancel_watch(int64_t number)
{
    for (size_t i = 0; i < gateway.watch_count; i++)
        if (gateway.watches[i] == number)
            gateway.watches[i] = gateway.watches[--gateway.watch_count];
}

static void hear_watches(peer_request *request)
{
    size_t size;
    if (gateway.stream != request->stream) {
        gateway.watch_count = 0;
        gateway.stream = request->stream;
        fake_end_say_head(gateway.stream);
    }
    while (fake_end_message(request, &size)) {
        dlk_arena arena;
        const DlkEtcd__WatchRequest *ask =
            (const DlkEtcd__WatchRequest *)(const void *)read_ask(request, &arena);
        if (ask->request_case == DLK_ETCD__WATCH_REQUEST__REQUEST_CREATE_REQUEST)
            begin_watch(ask->create_request->watch_id);
        else
            cancel_watch(ask->cancel_request->watch_id);
        dlk_arena_free(&arena);
        dlk_buf_eat(&request->body, FAKE_PREFIX + size);
    }
}

void fake_end_connected(void)
{
    gateway.stream = 0;
    gateway.watch_count = 0;
}

void gateway_hear(void)
{
    fake_end_exchange();
    for (int i = 0; fake_end.fd >= 0 && i < fake_end.peer.count; i++) {
        peer_request *request = &fake_end.peer.requests[i];
        bool watches = fake_end_method(request) == DLK_ETCD_WATCH;
        if (request->reset) {
            gateway.watch_count = watches ? 0 : gateway.watch_count;
            peer_forget(&fake_end.peer, request);
            i--;
        } else if (watches) {
            hear_watches(request);
        }
    }
    FUZZ_CHECK(fake_end.fd < 0 || !fake_end.peer.broken,
               "what the client says isn't HTTP/2");
}

bool gateway_answer(uint8_t which, uint8_t how)
{
    peer_request *call = NULL;
    for (int i = 0; fake_end.fd >= 0 && i < fake_end.peer.count; i++) {
        peer_request *request = &fake_end.peer.requests[i];
        if (!request->ended)
            continue;
        call = request;
        if (which-- == 0)
            break;
    }
    if (call && (which == UINT8_MAX || gateway.watch_count == 0))
        answer(call, how);
    else if (fake_end.fd >= 0 && gateway.watch_count > 0)
        fire(which % gateway.watch_count, how);
    else
        return false;
    return true;
}

/* ---- what others do ---- */

void gateway_put(const void *key, size_t size, fuzz_bytes value)
{
    etcd_effect effect = {0};
    DlkEtcd__PutRequest put = DLK_ETCD__PUT_REQUEST__INIT;
    DlkEtcd__RequestOp op = DLK_ETCD__REQUEST_OP__INIT, *ops[] = {&op};
    DlkEtcd__TxnRequest ask = DLK_ETCD__TXN_REQUEST__INIT;
    put.key = (dlk_etcd_bytes){size, (uint8_t *)(uintptr_t)key};
    put.value = (dlk_etcd_bytes){value.left, (uint8_t *)(uintptr_t)value.at};
    op.request_case = DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
    op.request_put = &put;
    ask.n_success = 1;
    ask.success = ops;
    carry_out(&ask, &effect);
    dlk_buf_free(&effect.body);
}

void gateway_expire(void)
{
    gateway.lease.over = true;
    etcd_store_end_lease(gateway.lease.id);
}

void gateway_begin(fuzz_bytes *bytes)
{
    gateway.bytes = bytes;
    gateway.lease = (etcd_lease){.id = 0x694d};
    gateway.stream = 0;
    gateway.watch_count = 0;
    fake_end_begin();
    etcd_store_begin();
}

void gateway_end(void)
{
    fake_end_hang_up();
    etcd_store_end();
}
