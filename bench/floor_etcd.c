/* The floor under the etcd pairs: what a lock nobody else wants takes by two transactions over gRPC, in
 * a loop of plain libnghttp2 and protobuf-c: those that libdlock sends, which put a key with a lease and
 * look who is first, and delete it by its revision. Each thread has a connection of its own and a blocking
 * socket, and all a lease that nobody renews. */
#include "bench.h"
#include "rpc.pb-c.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PREFIX = 5, MESSAGE_MAX = 65536 }; /* of gRPC, before each message */
#define SIXTEEN "6f9619ff-8b86-4d"        /* of a value as long as libdlock's */

typedef struct scene {
    const char *host; /* "127.0.0.1:2379" */
    int64_t lease;
    bench_spot *page;
} scene;

/* A connection, with what is said on it and what has come. */
typedef struct connection {
    int fd;
    nghttp2_session *session;
    const char *host, *method;
    uint8_t body[MESSAGE_MAX], answer[MESSAGE_MAX], out[2 * MESSAGE_MAX], in[16384];
    size_t body_size, body_sent, size;
    bool fine, over;
} connection;

/* ---- what libnghttp2 calls ---- */

static ssize_t give_body(nghttp2_session *session, int32_t stream, uint8_t *to,
                         size_t room, uint32_t *flags, nghttp2_data_source *source,
                         void *user)
{
    connection *at = user;
    size_t left = at->body_size - at->body_sent, size = left < room ? left : room;
    (void)session, (void)stream, (void)source;
    memcpy(to, at->body + at->body_sent, size);
    at->body_sent += size;
    if (at->body_sent == at->body_size)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)size;
}

static int keep(nghttp2_session *session, uint8_t flags, int32_t stream,
                const uint8_t *data, size_t size, void *user)
{
    connection *at = user;
    (void)session, (void)flags, (void)stream;
    if (at->size + size > MESSAGE_MAX)
        bench_die(at->method, "its answer is too long");
    memcpy(at->answer + at->size, data, size);
    at->size += size;
    return 0;
}

static int note_status(nghttp2_session *session, const nghttp2_frame *frame,
                       const uint8_t *name, size_t name_size, const uint8_t *value,
                       size_t value_size, uint8_t flags, void *user)
{
    connection *at = user;
    (void)session, (void)frame, (void)name_size, (void)value_size, (void)flags;
    if (strcmp((const char *)name, "grpc-status") == 0)
        at->fine = strcmp((const char *)value, "0") == 0;
    return 0;
}

static int end_call(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    connection *at = user;
    (void)session, (void)stream, (void)code;
    at->over = true;
    return 0;
}

/* ---- a connection ---- */

static int dial(const char *host)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    char ip[64];
    const char *colon = strchr(host, ':');
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(ip, sizeof(ip), "%.*s", colon ? (int)(colon - host) : 0, host);
    address.sin_port = htons((uint16_t)atoi(colon ? colon + 1 : "0"));
    if (inet_pton(AF_INET, ip, &address.sin_addr) != 1 || fd < 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        bench_die(host, "doesn't answer");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static connection *connect_to(const char *host)
{
    connection *made = calloc(1, sizeof(*made));
    nghttp2_session_callbacks *calls;
    if (!made || nghttp2_session_callbacks_new(&calls) != 0)
        bench_die(host, "no memory");
    made->host = host;
    made->fd = dial(host);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, keep);
    nghttp2_session_callbacks_set_on_header_callback(calls, note_status);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, end_call);
    if (nghttp2_session_client_new(&made->session, calls, made) != 0 ||
        nghttp2_submit_settings(made->session, NGHTTP2_FLAG_NONE, NULL, 0) != 0)
        bench_die(host, "no memory");
    nghttp2_session_callbacks_del(calls);
    return made;
}

static void disconnect(connection *from)
{
    nghttp2_session_del(from->session);
    (void)close(from->fd);
    free(from);
}

/* All that there is, at once. */
static void say(connection *to)
{
    const uint8_t *data;
    ssize_t part;
    size_t size = 0;
    while ((part = nghttp2_session_mem_send(to->session, &data)) > 0) {
        if (size + (size_t)part > sizeof(to->out))
            bench_die(to->method, "is too long");
        memcpy(to->out + size, data, (size_t)part);
        size += (size_t)part;
    }
    if (part < 0 || send(to->fd, to->out, size, MSG_NOSIGNAL) != (ssize_t)size)
        bench_die(to->host, "is gone");
}

static void hear(connection *from)
{
    ssize_t got = recv(from->fd, from->in, sizeof(from->in), 0);
    if (got <= 0 || nghttp2_session_mem_recv(from->session, from->in, (size_t)got) != got)
        bench_die(from->host, "is gone");
}

static void pack(connection *to, const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    if (PREFIX + size > MESSAGE_MAX)
        bench_die(to->method, "is too long");
    to->body[0] = 0; /* not compressed */
    for (int i = 1; i < PREFIX; i++)
        to->body[i] = (uint8_t)(size >> 8 * (PREFIX - 1 - i));
    to->body_size = PREFIX + protobuf_c_message_pack(message, to->body + PREFIX);
    to->body_sent = 0;
}

#define FIELD(name, text)                                                                \
    {                                                                                    \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(text), strlen(name),        \
            strlen(text), NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE   \
    }

/* The answer, which is protobuf-c's to free. */
static void *ask(connection *to, const char *method, const ProtobufCMessage *message,
                 const ProtobufCMessageDescriptor *type)
{
    const nghttp2_nv fields[] = {
        FIELD(":method", "POST"), FIELD(":scheme", "http"),
        FIELD(":path", method),   FIELD(":authority", to->host),
        FIELD("te", "trailers"),  FIELD("content-type", "application/grpc"),
    };
    const nghttp2_data_provider body = {.read_callback = give_body};
    to->method = method;
    to->size = 0;
    to->fine = to->over = false;
    pack(to, message);
    if (nghttp2_submit_request(to->session, NULL, fields,
                               sizeof(fields) / sizeof(*fields), &body, NULL) < 0)
        bench_die(method, "can't be said");
    say(to);
    while (!to->over)
        hear(to);
    ProtobufCMessage *answer =
        to->fine && to->size >= PREFIX
            ? protobuf_c_message_unpack(type, NULL, to->size - PREFIX,
                                        to->answer + PREFIX)
            : NULL;
    if (!answer)
        bench_die(method, "isn't answered");
    return answer;
}

/* ---- what is asked ---- */

static void get_lease(scene *at)
{
    DlkEtcd__LeaseGrantRequest grant = DLK_ETCD__LEASE_GRANT_REQUEST__INIT;
    connection *own = connect_to(at->host);
    grant.ttl = 600;
    DlkEtcd__LeaseGrantResponse *granted =
        ask(own, "/etcdserverpb.Lease/LeaseGrant", &grant.base,
            &dlk_etcd__lease_grant_response__descriptor);
    at->lease = granted->id;
    protobuf_c_message_free_unpacked(&granted->base, NULL);
    disconnect(own);
}

/* The keys of a lock: its own and its fence, those who wait for it, and other kinds of lock. */
typedef struct keys {
    char texts[6][64];
    ProtobufCBinaryData own, fence, line, line_end, others, others_end;
} keys;

static ProtobufCBinaryData text_of(char *text, int size)
{
    return (ProtobufCBinaryData){(size_t)size, (uint8_t *)text};
}

static void name_keys(keys *it, int number, int64_t lease)
{
#define KEY(i, ...)                                                                      \
    text_of(it->texts[i], snprintf(it->texts[i], sizeof(it->texts[i]), __VA_ARGS__))
    it->own = KEY(0, "floor/%d/%" PRIx64, number, (uint64_t)lease);
    it->fence = KEY(1, "floor/%d%clate/%" PRIx64, number, '\0', (uint64_t)lease);
    it->line = KEY(2, "floor/%d/", number);
    it->line_end = KEY(3, "floor/%d0", number);
    it->others = KEY(4, "floor/%d%cr", number, '\0');
    it->others_end = KEY(5, "floor/%d\1", number);
#undef KEY
}

static DlkEtcd__Compare there_is_none(ProtobufCBinaryData key, ProtobufCBinaryData end)
{
    DlkEtcd__Compare none = DLK_ETCD__COMPARE__INIT;
    none.to_case = DLK_ETCD__COMPARE__TO_VERSION;
    none.key = key;
    none.range_end = end;
    return none;
}

static int64_t transact(connection *own, const DlkEtcd__TxnRequest *request)
{
    DlkEtcd__TxnResponse *said = ask(own, "/etcdserverpb.KV/Txn", &request->base,
                                     &dlk_etcd__txn_response__descriptor);
    if (!said->succeeded || !said->header)
        bench_die("a transaction", "was in vain");
    int64_t revision = said->header->revision;
    protobuf_c_message_free_unpacked(&said->base, NULL);
    return revision;
}

/* Puts the key and says who is in the line; returns the revision of that. */
static int64_t join(connection *own, const keys *to, int64_t lease)
{
    const ProtobufCBinaryData none = {0, NULL};
    static char value[] = SIXTEEN SIXTEEN SIXTEEN SIXTEEN "00cf4fc9\n";
    DlkEtcd__Compare compares[] = {there_is_none(to->own, none),
                                   there_is_none(to->fence, none),
                                   there_is_none(to->others, to->others_end)};
    DlkEtcd__PutRequest put = DLK_ETCD__PUT_REQUEST__INIT;
    DlkEtcd__RangeRequest line = DLK_ETCD__RANGE_REQUEST__INIT, key = line, fence = line;
    DlkEtcd__RequestOp op = DLK_ETCD__REQUEST_OP__INIT, ops[] = {op, op, op, op};
    DlkEtcd__Compare *compare[] = {&compares[0], &compares[1], &compares[2]};
    DlkEtcd__RequestOp *success[] = {&ops[0], &ops[1]}, *failure[] = {&ops[2], &ops[3]};
    DlkEtcd__TxnRequest request = DLK_ETCD__TXN_REQUEST__INIT;
    put.key = to->own;
    put.value = text_of(value, (int)strlen(value));
    put.lease = lease;
    line.key = to->line;
    line.range_end = to->line_end;
    line.sort_target = DLK_ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;
    line.sort_order = DLK_ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND;
    line.keys_only = true;
    line.limit = 8;
    key.key = to->own;
    fence.key = to->fence;
    ops[0].request_case = DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
    ops[0].request_put = &put;
    for (int i = 1; i < 4; i++)
        ops[i].request_case = DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
    ops[1].request_range = &line;
    ops[2].request_range = &key;
    ops[3].request_range = &fence;
    request.compare = compare;
    request.n_compare = 3;
    request.success = success;
    request.failure = failure;
    request.n_success = request.n_failure = 2;
    return transact(own, &request);
}

static void leave(connection *own, const keys *from, int64_t revision)
{
    DlkEtcd__Compare made = DLK_ETCD__COMPARE__INIT, *compare = &made;
    DlkEtcd__DeleteRangeRequest deletion = DLK_ETCD__DELETE_RANGE_REQUEST__INIT;
    DlkEtcd__RequestOp op = DLK_ETCD__REQUEST_OP__INIT, *success = &op;
    DlkEtcd__TxnRequest request = DLK_ETCD__TXN_REQUEST__INIT;
    made.target = DLK_ETCD__COMPARE__TARGET__CREATE;
    made.to_case = DLK_ETCD__COMPARE__TO_CREATE_REVISION;
    made.key = deletion.key = from->own;
    made.create_revision = revision;
    op.request_case = DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    op.request_delete_range = &deletion;
    request.compare = &compare;
    request.success = &success;
    request.n_compare = request.n_success = 1;
    (void)transact(own, &request);
}

static void pairs(bench_stage *stage, bench_worker *me, void *shared)
{
    scene *at = shared;
    keys own_keys;
    name_keys(&own_keys, me->number, at->lease);
    connection *own = connect_to(at->host);
    bench_spot *spot = &at->page[me->number];
    int64_t who = stage->options->base + me->number + 1;
    bench_ready(stage);
    BENCH_LOOP(stage, me, {
        int64_t revision = join(own, &own_keys, at->lease);
        (void)bench_enter(spot, who);
        bench_exit(spot);
        leave(own, &own_keys, revision);
    });
    disconnect(own);
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "", 0);
    scene at = {.host = options.uri, .page = bench_page(&options)};
    if (!options.uri)
        bench_die("--uri", "is missing: HOST:PORT");
    get_lease(&at);
    bench_result result;
    bench_run_threads(&options, pairs, &at, &result);
    bench_print(&result);
    (void)puts("}");
    return 0;
}
