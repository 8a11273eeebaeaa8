/*
 * HTTP/2 without frames: what libdlock/net/http2.c does with libnghttp2, done with packets on the wires of
 * net.c. In each direction a wire carries one byte for each packet; the packets themselves stand in line
 * here until their byte is sent, or read.
 */
#include "etcd/model.h"

#include "net/silence.h"
#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last looks at a line for a key, of which an answer has come; and when they were decided. */
#define MAX_LOOKS 16
/* Before each message of gRPC. */
#define PREFIX 5

struct look {
    uint64_t key;
    int64_t at;
};

/* A client's end of its present connection. */
static struct end {
    dlk_list unsent, came; /* etcd_packet.queue */
    int32_t streams;       /* the last that it has opened */
    struct look looks[MAX_LOOKS];
    size_t look_count;
} ends[MAX_CLIENTS];

dlk_loaded dlk_nghttp2 = {.ready = true};

void dlk_silence_limit(int fd, int64_t ms)
{
    (void)fd, (void)ms; /* there is no kernel */
}

static client *owner_of(const dlk_http2 *http2)
{
    for (int i = 0; i < s.config.clients; i++)
        if (etcd_of(&s.clients[i]) && &etcd_of(&s.clients[i])->calls.grpc.http2 == http2)
            return &s.clients[i];
    abort();
}

static void free_queue(dlk_list *queue)
{
    DLK_LIST_FOR (it, queue)
        etcd_packet_free(DLK_LIST_ITEM(it, etcd_packet, queue));
}

/* ---- looks at lines ---- */

uint64_t etcd_hash_of(dlk_etcd_bytes key)
{
    return dlk_hash(DLK_HASH_BEGIN, key.data, key.len);
}

/* One that was refused has said nothing of the line. */
static void note_look(const etcd_packet *p)
{
    struct end *end = &ends[p->client];
    if (p->effect.status != DLK_GRPC_OK)
        return;
    for (size_t i = 0; i < etcd_packet_parts(p); i++) {
        dlk_etcd_bytes key = etcd_packet_looks_for(p, i);
        if (key.len > 0)
            end->looks[end->look_count++ % MAX_LOOKS] =
                (struct look){etcd_hash_of(key), p->decided};
    }
}

int64_t etcd_looked(const client *c, dlk_etcd_bytes key)
{
    int64_t last = 0;
    for (size_t i = 0; i < MAX_LOOKS; i++) {
        const struct look *look = &ends[c->index].looks[i];
        if (look->key == etcd_hash_of(key) && look->at > last)
            last = look->at;
    }
    return last;
}

/* ---- to the member ---- */

/* What strikes this one on its way there. False: it is there no more. */
static bool strike_packet(etcd_packet *p, int64_t *at)
{
    client *c = &s.clients[p->client];
    fault what = p->strike;
    if (what != FAULT_DROP_REPLY)
        p->strike = FAULT_NONE;
    fault_count(what, p->at);
    client_upset(c, s.now);
    tell(c->index, p->name, "its %s is struck: %s", etcd_packet_verb(p),
         fault_infos[what].name);
    switch ((int)what) {
    case FAULT_DROP_REQUEST:
        etcd_packet_break(p, DLK_HTTP2_UNDONE);
        etcd_packet_free(p);
        return false;
    case FAULT_LATE_REQUEST:
        *at += between(&c->rand, 1 * MS, chance(&c->rand, 300) ? 3 * SEC : 100 * MS);
        p->kept = p->dead = true;
        etcd_packet_break(p, DLK_HTTP2_BROKEN);
        return true;
    case FAULT_SLOW:
        *at += between(&c->rand, 100 * MS, 4 * SEC);
        client_upset(c, *at);
        return true;
    default: /* the reply is dropped when there is one */
        return true;
    }
}

static void transmit(client *c, wire *w, etcd_packet *p)
{
    int64_t at = s.now + etcd_delay(c);
    p->wire = w;
    p->member = w->slot;
    if (w->silent || p->dropped) {
        etcd_packet_free(p);
        return;
    }
    if (p->says == ETCD_SAYS_WATCH || p->says == ETCD_SAYS_DROP)
        at = w->request_front = at > w->request_front ? at : w->request_front + 1;
    if (p->says == ETCD_SAYS_ASK)
        etcd_packet_aim(p);
    if (p->strike != FAULT_NONE && fault_is_of_wire(p->strike)) {
        if (!strike_packet(p, &at))
            return;
    } else if (p->strike != FAULT_NONE && p->where == ON_WAY) {
        etcd_packet_strike_on_way(p, at);
    }
    event_at(&p->event, at, etcd_arrive, p);
}

void etcd_sent(wire *w, size_t size)
{
    dlk_list *link;
    while (size-- > 0 && (link = dlk_list_take_first(&ends[w->owner->index].unsent)))
        transmit(w->owner, w, DLK_LIST_ITEM(link, etcd_packet, queue));
}

static etcd_packet *say(const dlk_http2 *http2, etcd_says what, int32_t stream)
{
    client *c = owner_of(http2);
    etcd_packet *p = etcd_packet_new(c, what);
    p->stream = stream;
    dlk_list_append(&ends[c->index].unsent, &p->queue);
    if (!dlk_buf_append(http2->out, "", 1))
        abort();
    return p;
}

/* ---- back to the client ---- */

void etcd_deliver(event *e)
{
    etcd_packet *p = e->of;
    wire *w = p->wire;
    if (w->state != WIRE_UP || w->silent || w->deaf) {
        etcd_packet_free(p);
        return;
    }
    dlk_list_append(&ends[p->client].came, &p->queue);
    if (!dlk_buf_append(&w->inbox, "", 1))
        abort();
    s.service->wake(w->owner);
}

static void over(const dlk_http2 *http2, dlk_http2_request *request,
                 dlk_http2_outcome outcome)
{
    dlk_list_remove(&request->link);
    request->stream = 0;
    dlk_buf_free(&request->body);
    http2->ops->over(request, outcome, 0);
}

static void hear_message(const dlk_http2 *http2, dlk_http2_request *request,
                         const dlk_buf *message)
{
    size_t size = dlk_buf_size(message);
    const char prefix[PREFIX] = {0, (char)(size >> 24), (char)(size >> 16),
                                 (char)(size >> 8), (char)size};
    bool fits = http2->ops->data(request, prefix, PREFIX) &&
                (size == 0 || http2->ops->data(request, dlk_buf_head(message), size));
    if (!fits)
        abort();
}

static void hear_end(const dlk_http2 *http2, dlk_http2_request *request,
                     const etcd_packet *p)
{
    char status[16];
    (void)snprintf(status, sizeof(status), "%d", p->effect.status); /* fits */
    if (p->outcome == DLK_HTTP2_ANSWERED) {
        http2->ops->header(request, "grpc-status", status);
        if (p->effect.words)
            http2->ops->header(request, "grpc-message", p->effect.words);
    }
    over(http2, request, p->outcome);
}

static void hear_stream(const dlk_http2 *http2, dlk_http2_request *request,
                        const etcd_packet *p)
{
    bool answered = p->outcome == DLK_HTTP2_ANSWERED;
    if (answered)
        http2->ops->header(request, ":status", "200");
    if (answered && p->says != ETCD_SAYS_END && p->effect.status == DLK_GRPC_OK)
        hear_message(http2, request, &p->effect.body);
    if (answered && p->says == ETCD_SAYS_ASK && p->decided)
        note_look(p);
    if (p->says != ETCD_SAYS_NEWS)
        hear_end(http2, request, p);
}

static dlk_http2_request *request_of(const dlk_http2 *http2, int32_t stream)
{
    DLK_LIST_FOR (it, &http2->requests) {
        dlk_http2_request *request = DLK_LIST_ITEM(it, dlk_http2_request, link);
        if (request->stream == stream)
            return request;
    }
    return NULL;
}

bool dlk_http2_feed(dlk_http2 *http2, const char *data, size_t size)
{
    struct end *end = &ends[owner_of(http2)->index];
    dlk_list *link;
    (void)data;
    while (size-- > 0 && (link = dlk_list_take_first(&end->came))) {
        etcd_packet *p = DLK_LIST_ITEM(link, etcd_packet, queue);
        dlk_http2_request *request = p->stream ? request_of(http2, p->stream) : NULL;
        if (p->says == ETCD_SAYS_HELLO)
            http2->settled = true;
        else if (p->says == ETCD_SAYS_LEAVE)
            http2->leaves = true;
        else if (request)
            hear_stream(http2, request, p);
        etcd_packet_free(p);
    }
    return true;
}

/* ---- requests ---- */

static const char *header_of(const dlk_http2_header *headers, size_t count,
                             const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(headers[i].name, name) == 0)
            return headers[i].value;
    abort();
}

/* The message that waits in its body goes out. */
static etcd_packet *say_message(const dlk_http2 *http2, dlk_http2_request *request,
                                etcd_says what, const char *path)
{
    etcd_packet *p = say(http2, what, request->stream);
    size_t size = dlk_buf_size(&request->body);
    if (size < PREFIX)
        abort();
    etcd_packet_read(p, path, dlk_buf_head(&request->body) + PREFIX, size - PREFIX);
    dlk_buf_clear(&request->body);
    return p;
}

bool dlk_http2_ask(dlk_http2 *http2, dlk_http2_request *request,
                   const dlk_http2_header *headers, size_t count)
{
    request->stream = 0;
    if (!http2->out || http2->leaves)
        return false;
    request->stream = ends[owner_of(http2)->index].streams += 2;
    dlk_list_append(&http2->requests, &request->link);
    say_message(http2, request, request->last ? ETCD_SAYS_ASK : ETCD_SAYS_WATCH,
                header_of(headers, count, ":path"))
        ->opens = true;
    return true;
}

void dlk_http2_more(dlk_http2 *http2, dlk_http2_request *request)
{
    (void)say_message(http2, request, ETCD_SAYS_WATCH,
                      dlk_etcd_rpcs[DLK_ETCD_WATCH].path);
}

/* What waits to be sent of its stream isn't any more. True: that is all of it. */
static bool unsay(const client *c, int32_t stream)
{
    bool all = false;
    DLK_LIST_FOR (it, &ends[c->index].unsent) {
        etcd_packet *p = DLK_LIST_ITEM(it, etcd_packet, queue);
        if (p->stream != stream)
            continue;
        p->dropped = true;
        all |= p->opens;
    }
    return all;
}

void dlk_http2_drop(dlk_http2 *http2, dlk_http2_request *request)
{
    int32_t stream = request->stream;
    dlk_buf_free(&request->body);
    if (!dlk_http2_is_open(request))
        return;
    request->stream = 0;
    dlk_list_remove(&request->link);
    if (!unsay(owner_of(http2), stream))
        (void)say(http2, ETCD_SAYS_DROP, stream);
}

/* ---- the connection ---- */

bool dlk_http2_begin(dlk_http2 *http2, const dlk_http2_ops *ops, dlk_buf *out)
{
    *http2 = (dlk_http2){.ops = ops, .out = out};
    dlk_list_init(&http2->requests);
    ends[owner_of(http2)->index].streams = -1;
    (void)say(http2, ETCD_SAYS_HELLO, 0);
    return true;
}

void dlk_http2_end(dlk_http2 *http2)
{
    dlk_list *link;
    if (!http2->out)
        return;
    struct end *end = &ends[owner_of(http2)->index];
    http2->out = NULL;
    free_queue(&end->unsent);
    free_queue(&end->came);
    while ((link = dlk_list_take_first(&http2->requests)))
        over(http2, DLK_LIST_ITEM(link, dlk_http2_request, link), DLK_HTTP2_BROKEN);
}

/* The client's last call goes out, and is waited for: it isn't lost with the connection. */
bool sim_farewell(void *arg)
{
    dlk_etcd_calls *calls = arg;
    dlk_link_last_words(&calls->link);
    DLK_LIST_FOR (it, &etcd_limbo) {
        etcd_packet *p = DLK_LIST_ITEM(it, etcd_packet, all);
        p->kept |= p->wire && p->wire->state == WIRE_UP && p->says == ETCD_SAYS_ASK &&
                   p->wire->owner == owner_of(&calls->grpc.http2) &&
                   request_of(&calls->grpc.http2, p->stream);
    }
    return false; /* it is over already */
}

void etcd_ends_begin(void)
{
    dlk_list_init(&etcd_limbo);
    for (int i = 0; i < MAX_CLIENTS; i++) {
        ends[i] = (struct end){0};
        dlk_list_init(&ends[i].unsent);
        dlk_list_init(&ends[i].came);
    }
}
