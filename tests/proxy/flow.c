/* One direction of one connection: reading, taking apart, keeping until it is due, handing on. */
#include "proxy/inner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    KEPT_MAX = 1 << 20,   /* then nothing more is read: the sender feels it */
    BEGUN_MAX = 64 << 20, /* a message that is larger isn't taken apart */
};

/* ---- Keeping ---- */

static int64_t latency(proxy *p, const proxy_toxics *toxics)
{
    int64_t ns = toxics->latency_ms * PROXY_NS_PER_MS;
    if (toxics->jitter_ms > 0) {
        /* xorshift64*: good enough for jitter, and the same for the same seed */
        p->random ^= p->random >> 12;
        p->random ^= p->random << 25;
        p->random ^= p->random >> 27;
        uint64_t drawn = (p->random * UINT64_C(0x2545f4914f6cdd1d)) >> 11;
        int64_t range = 2 * toxics->jitter_ms * PROXY_NS_PER_MS + 1;
        ns += (int64_t)(drawn % (uint64_t)range) - range / 2;
    }
    return ns < 0 ? 0 : ns;
}

void proxy_flow_put(proxy_pair *pair, int way, const char *bytes, size_t size,
                    int64_t delay_ms)
{
    proxy_flow *flow = &pair->flow[way];
    if (flow->mute || size == 0) {
        pair->link->stats.swallowed += (int64_t)size;
        return;
    }
    proxy_chunk *chunk = malloc(sizeof(*chunk) + size);
    if (!chunk) {
        proxy_say(pair->link->proxy, NULL, pair, "out of memory, cut");
        proxy_pair_cut(pair);
        return;
    }
    proxy *p = pair->link->proxy;
    int64_t due =
        p->now + latency(p, &pair->link->toxics[way]) + delay_ms * PROXY_NS_PER_MS;
    *chunk = (proxy_chunk){.due = due, .size = size};
    memcpy(chunk->bytes, bytes, size);
    if (!flow->first)
        flow->end = &flow->first;
    *flow->end = chunk;
    flow->end = &chunk->next;
    flow->kept += size;
}

static void drop_first(proxy_flow *flow)
{
    proxy_chunk *chunk = flow->first;
    flow->first = chunk->next;
    free(chunk);
}

void proxy_flow_drop(proxy_flow *flow)
{
    while (flow->first)
        drop_first(flow);
    flow->kept = 0;
}

/* ---- Handing on ---- */

bool proxy_flow_held(const proxy_pair *pair, int way)
{
    return pair->stalled || (way == DOWN && pair->link->late) ||
           (way == UP && pair->connecting);
}

int64_t proxy_flow_due(const proxy_pair *pair, int way)
{
    const proxy_flow *flow = &pair->flow[way];
    if (pair->dead || !flow->first || flow->blocked || proxy_flow_held(pair, way))
        return PROXY_NEVER;
    return flow->first->due > flow->pause_until ? flow->first->due : flow->pause_until;
}

/* How much may go at once. */
static size_t portion(const proxy_toxics *toxics, size_t size)
{
    if (toxics->slice > 0 && size > toxics->slice)
        size = toxics->slice;
    if (toxics->bandwidth > 0) {
        size_t smooth = (size_t)(toxics->bandwidth / 50) + 1;
        size = size < smooth ? size : smooth;
    }
    return size;
}

static void pause_behind(proxy_flow *flow, const proxy_toxics *toxics, int64_t now,
                         size_t sent)
{
    int64_t until = now + toxics->slice_us * 1000;
    if (toxics->bandwidth > 0) {
        /* From when it was to be sent, so that waking late doesn't make it slower. */
        int64_t from =
            now - flow->pause_until < 100 * PROXY_NS_PER_MS ? flow->pause_until : now;
        int64_t paid = from + (int64_t)sent * INT64_C(1000000000) / toxics->bandwidth;
        until = paid > until ? paid : until;
    }
    flow->pause_until = until;
}

/* The other end doesn't take anything any more. */
static void fail_to_send(proxy_pair *pair, int way)
{
    if (way == DOWN) {
        proxy_pair_cut_client(pair);
        return;
    }
    /* The server's last words may still be on their way to the client. */
    pair->flow[UP].mute = pair->flow[UP].told = true;
    proxy_flow_drop(&pair->flow[UP]);
}

/* False: enough for now. */
static bool send_portion(proxy_pair *pair, int way)
{
    proxy *p = pair->link->proxy;
    proxy_flow *flow = &pair->flow[way];
    const proxy_toxics *toxics = &pair->link->toxics[way];
    proxy_chunk *chunk = flow->first;
    ssize_t sent =
        send(pair->fd[1 - way], chunk->bytes + chunk->sent,
             portion(toxics, chunk->size - chunk->sent), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        flow->blocked = true;
        return false;
    }
    if (sent < 0 && errno == EINTR)
        return true;
    if (sent < 0) {
        fail_to_send(pair, way);
        return false;
    }
    *(way == UP ? &pair->link->stats.bytes_up : &pair->link->stats.bytes_down) += sent;
    pause_behind(flow, toxics, p->now, (size_t)sent);
    chunk->sent += (size_t)sent;
    flow->kept -= (size_t)sent;
    if (chunk->sent == chunk->size)
        drop_first(flow);
    return true;
}

void proxy_flow_send(proxy_pair *pair, int way)
{
    proxy_flow *flow = &pair->flow[way];
    while (proxy_flow_due(pair, way) <= pair->link->proxy->now)
        if (!send_portion(pair, way))
            break;
    if (pair->dead || flow->first || proxy_flow_held(pair, way))
        return;
    if (flow->tear && pair->fd[CLIENT] >= 0) {
        proxy_pair_cut_client(pair);
    } else if (flow->finish && !flow->told) {
        (void)shutdown(pair->fd[1 - way], SHUT_WR); /* it may be gone by itself */
        flow->told = true;
    }
    /* Once the server has said its last word nobody is there to be told anything. */
    if (!pair->dead && pair->flow[DOWN].told &&
        (pair->flow[UP].told || pair->fd[CLIENT] < 0) && pair->flow[DOWN].ended)
        proxy_pair_close(pair);
}

/* ---- Reading ---- */

bool proxy_flow_wants(const proxy_pair *pair, int way)
{
    const proxy_flow *flow = &pair->flow[way];
    return pair->fd[way] >= 0 && !flow->ended && !flow->tear && flow->kept < KEPT_MAX &&
           !pair->stalled && !(way == DOWN && (pair->link->late || pair->connecting));
}

static bool keep_begun(proxy_flow *flow, const char *bytes, size_t size)
{
    if (flow->begun_size + size > flow->begun_room) {
        size_t room = (flow->begun_size + size) * 2;
        char *grown = realloc(flow->begun, room);
        if (!grown)
            return false;
        flow->begun = grown;
        flow->begun_room = room;
    }
    memcpy(flow->begun + flow->begun_size, bytes, size);
    flow->begun_size += size;
    return true;
}

static void flush_begun(proxy_pair *pair, int way)
{
    proxy_flow *flow = &pair->flow[way];
    proxy_flow_put(pair, way, flow->begun, flow->begun_size, 0);
    flow->begun_size = 0;
}

/* From here on the connection's bytes pass as they are: nobody knows any more which answer belongs
 * to which request. */
static void give_up_framing(proxy_pair *pair, int way)
{
    proxy_say(pair->link->proxy, NULL, pair, "%s: not %s, passes as it is",
              way == UP ? "request" : "answer", pair->link->framing->name);
    pair->raw = true;
    flush_begun(pair, UP);
    flush_begun(pair, DOWN);
}

static void take_messages(proxy_pair *pair, int way)
{
    proxy_flow *flow = &pair->flow[way];
    const proxy_framing *framing = pair->link->framing;
    size_t used = 0;
    ssize_t size = 0;
    while (used < flow->begun_size && !pair->dead && !flow->tear && !flow->ended) {
        const char *at = flow->begun + used;
        size = (way == UP ? framing->request : framing->answer)(pair->state, at,
                                                                flow->begun_size - used);
        if (size <= 0)
            break;
        (way == UP ? proxy_take_request : proxy_take_answer)(pair, at, (size_t)size);
        used += (size_t)size;
    }
    memmove(flow->begun, flow->begun + used, flow->begun_size - used);
    flow->begun_size -= used;
    if (!pair->dead && (size < 0 || flow->begun_size > BEGUN_MAX))
        give_up_framing(pair, way);
}

static void take_bytes(proxy_pair *pair, int way, const char *bytes, size_t size)
{
    proxy_flow *flow = &pair->flow[way];
    if (pair->link->toxics[way].hole) {
        pair->swallowed = true;
        pair->link->stats.swallowed += (int64_t)size;
    } else if (flow->mute || pair->raw) {
        proxy_flow_put(pair, way, bytes, size, 0);
    } else if (keep_begun(flow, bytes, size)) {
        take_messages(pair, way);
    } else {
        proxy_say(pair->link->proxy, NULL, pair, "out of memory, cut");
        proxy_pair_cut(pair);
    }
}

static void take_end(proxy_pair *pair, int way, bool in_order)
{
    proxy_flow *flow = &pair->flow[way];
    proxy_say(pair->link->proxy, NULL, pair, "the %s %s", way == UP ? "client" : "server",
              in_order ? "hangs up" : "breaks off");
    if (pair->orphan) {
        proxy_pair_forget(pair, way);
        return;
    }
    if (pair->swallowed) { /* nobody would believe what comes behind a gap */
        proxy_pair_cut(pair);
        return;
    }
    flush_begun(pair, way);
    flow->ended = flow->finish = true;
    if (in_order)
        return;
    /* A RST: the server's is handed on behind its last words, the client's ends just its half, as
     * what it had said before shall be done. */
    if (way == UP)
        proxy_pair_cut_client(pair);
    else
        flow->tear = true;
}

void proxy_flow_read(proxy_pair *pair, int way)
{
    char bytes[16384];
    ssize_t got = recv(pair->fd[way], bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got > 0)
        take_bytes(pair, way, bytes, (size_t)got);
    else if (got == 0)
        take_end(pair, way, true);
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        take_end(pair, way, false);
    if (!pair->dead)
        proxy_flow_send(pair, way);
}
