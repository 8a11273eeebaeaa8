/*
 * Why no server can be reached. libzookeeper doesn't say, it only goes on trying; so before who waits for the
 * first connection is told, each server is looked at by a connection of our own, on which nothing is said. What
 * becomes of it goes to the host's whys. It is read whenever time has passed: the driver's sleep knows nothing
 * of it.
 */
#include "backends/zookeeper/inner.h"

#include "contract/links.h"
#include "net/link.h"
#include "util/number.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN_NS (10 * DLK_NS_PER_MS)
#define LOOK_MAX 16 /* servers: an ensemble has fewer */

typedef struct one {
    dlk_link link; /* first */
    char *host, *peer;
    bool over;
} one;

struct dlk_zk_glance {
    dlk_link_common common;
    dlk_polls polls;
    one *all[LOOK_MAX];
    size_t count;
};

/* ---- the connection's side: who says nothing is heard ---- */

/* One that every server answers, whatever it allows. */
#define WORD "srvr"

/* A ZooKeeper waits for the first word. By TLS it has to come, or there is no handshake to see. */
static dlock_error *greet(dlk_link *link, int64_t now)
{
    (void)now;
    if (link->common->tls && !dlk_buf_append(&link->stream.out, WORD, sizeof(WORD) - 1))
        return dlk_error_make(DLOCK_ENOMEM, "zookeeper: no memory");
    return NULL;
}

static dlock_error *feed(dlk_link *link, const char *data, size_t size, int64_t now)
{
    (void)data;
    (void)size;
    if (link->common->tls) {
        dlk_link_greeted(link, now);
        return NULL;
    }
    return dlk_error_make(
        DLOCK_EPROTO, "zookeeper: %s: it speaks first, as no ZooKeeper does", link->peer);
}

static void down(dlk_link *link, const dlock_error *error, int64_t now)
{
    (void)error;
    (void)now;
    ((one *)(void *)link)->over = true; /* the link has told the whys */
}

/* Nothing is wrong with it: it has answered, and hangs up. */
static void ready(dlk_link *link, int64_t now)
{
    (void)now;
    ((one *)(void *)link)->over = true;
}

static void warn(dlk_link *link, const char *text)
{
    (void)link;
    (void)text;
}

static const dlk_link_ops ops = {
    .greet = greet, .feed = feed, .ready = ready, .down = down, .warn = warn};

/* ---- beginning and end ---- */

/* "host:port" or "[host]:port", of @p size bytes. */
static one *make(dlk_zk_glance *look, const char *text, size_t size)
{
    one *made = calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    dlk_link_init(&made->link, &look->common, &ops);
    made->peer = strndup(text, size);
    const char *colon = made->peer ? strrchr(made->peer, ':') : NULL;
    int64_t port = 0;
    if (colon && dlk_number_read(colon + 1, strlen(colon + 1), 1, UINT16_MAX, &port)) {
        bool ipv6 = made->peer[0] == '[' && colon[-1] == ']';
        made->host = strndup(made->peer + ipv6, (size_t)(colon - made->peer) - 2 * ipv6);
    }
    if (!made->host) {
        made->over = true; /* without memory it isn't looked at */
        return made;
    }
    dlk_link_aim(&made->link, made->host, (uint16_t)port, made->peer);
    (void)dlk_address_numeric(made->host, (uint16_t)port, &made->link.to); /* or a name */
    return made;
}

static void start_all(dlk_zk_glance *look, int64_t now)
{
    for (size_t i = 0; i < look->count; i++)
        if (!look->all[i]->over)
            dlk_link_start(&look->all[i]->link, now);
}

static dlk_zk_glance *look_begin(dlk_zk *zk, int64_t until, int64_t now)
{
    dlk_host *host = zk->base.backend.host;
    dlk_zk_glance *look = calloc(1, sizeof(*look));
    if (!look)
        return NULL;
    look->common = (dlk_link_common){.service = "zookeeper",
                                     .plain = "zookeeper://",
                                     .hint = "",
                                     .tls = zk->tls,
                                     .connect_ns = until > now ? until - now : 0,
                                     .backoff = zk->backoff};
    dlk_links_lend(&look->common, host);
    for (const char *at = zk->hosts; *at && look->count < LOOK_MAX;) {
        size_t size = strcspn(at, ",");
        one *made = make(look, at, size);
        if (made)
            look->all[look->count++] = made;
        at += size + (at[size] == ',');
    }
    start_all(look, now);
    return look;
}

static void look_end(dlk_zk_glance *look)
{
    if (!look)
        return;
    for (size_t i = 0; i < look->count; i++) {
        one *each = look->all[i];
        dlk_link_stop(&each->link);
        (void)dlk_stream_reap(&each->link.stream); /* nobody else has it */
        dlk_link_free(&each->link);
        free(each->host);
        free(each->peer);
        free(each);
    }
    dlk_polls_free(&look->polls);
    free(look);
}

static int64_t look_on(dlk_zk_glance *look, int64_t now)
{
    bool over = true;
    dlk_polls_begin(&look->polls, now);
    for (size_t i = 0; i < look->count; i++)
        if (!look->all[i]->over)
            dlk_link_arm(&look->all[i]->link, &look->polls);
    for (size_t i = 0; i < look->count; i++)
        if (!look->all[i]->over)
            dlk_link_push(&look->all[i]->link, &look->polls);
    (void)dlk_polls_look(&look->polls);
    for (size_t i = 0; i < look->count; i++) {
        one *each = look->all[i];
        if (each->over)
            continue;
        dlk_link_pull(&each->link, &look->polls);
        dlk_link_process(&each->link, now);
        if (!each->over)
            (void)dlk_link_tick(&each->link, now);
        over = over && each->over;
    }
    return over ? DLK_NEVER : now + AGAIN_NS;
}

const dlk_zk_glance_type dlk_zk_glances = {
    .begin = look_begin, .on = look_on, .end = look_end};
