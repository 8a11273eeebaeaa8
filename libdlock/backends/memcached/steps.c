/* What the steps of requests are made of: their commands, what stands in items, and the answers they
 * come to. */
#include "backends/memcached/inner.h"

#include "util/digits.h"
#include "util/number.h"

#include <string.h>

/* A chain that began anew so often is in nobody's interest; see dlk_mc_again. */
#define AGAIN_MAX   32
#define AGAIN_SHIFT 16
#define AGAIN_MASK  (INT64_C(0xff) << AGAIN_SHIFT)

/* ---- putting steps ---- */

static bool no_memory(dlk_mc *mc, dlk_ask *ask)
{
    dlk_mc_refuse(mc, ask, dlk_error_make(DLOCK_ENOMEM, "memcached: out of memory"));
    return false;
}

/* What was put last belongs to this step. Only its first command, up to @p end, may change
 * something: once that is written the step may have been done. */
static bool sent(dlk_mc *mc, dlk_ask *ask, dlk_mc_step step, int64_t end)
{
    mc->base.host->commands++;
    dlk_mc_set_step(ask, step);
    ask->sequence = (uint64_t)end;
    dlk_list_remove(&ask->link);
    dlk_flight_await(&mc->flight, ask);
    return true;
}

bool dlk_mc_send_store(dlk_mc *mc, dlk_ask *ask, dlk_mc_text value, int64_t seconds,
                       uint64_t cas)
{
    dlk_buf *out = &mc->link.stream.out;
    const dlk_mc_server *server = &mc->server;
    size_t before = dlk_buf_size(out);
    if (ask->scratch & DLK_MC_WITHDRAWN) {
        dlk_mc_answer(mc, ask, DLK_NOT_SENT);
        return false;
    }
    /* More would be a date, and a past one, which the item doesn't outlive; 0 no end at all. */
    seconds = dlk_number_clamp(seconds, 1, DLK_MC_SECONDS_MAX);
    bool fine = dlk_mc_put_store(out, server->meta_stores, dlk_mc_key_of(ask)->wire,
                                 value, seconds, cas);
    int64_t end = dlk_stream_end(&mc->link.stream);
    /* A classic store doesn't say its number. */
    if (fine && !server->meta_stores)
        fine = dlk_mc_put_read(out, server->meta, dlk_mc_key_of(ask)->wire);
    if (fine)
        return sent(mc, ask, DLK_MC_STORE, end);
    out->end = out->start + before; /* half a step is none */
    return no_memory(mc, ask);
}

bool dlk_mc_send_read(dlk_mc *mc, dlk_ask *ask)
{
    bool fine =
        dlk_mc_put_read(&mc->link.stream.out, mc->server.meta, dlk_mc_key_of(ask)->wire);
    return fine ? sent(mc, ask, DLK_MC_READ, dlk_stream_end(&mc->link.stream))
                : no_memory(mc, ask);
}

bool dlk_mc_send_drop(dlk_mc *mc, dlk_ask *ask, uint64_t cas)
{
    bool fine = dlk_mc_put_drop(&mc->link.stream.out, mc->server.meta,
                                dlk_mc_key_of(ask)->wire, cas);
    return fine ? sent(mc, ask, DLK_MC_DROP, dlk_stream_end(&mc->link.stream))
                : no_memory(mc, ask);
}

bool dlk_mc_send_timed_read(dlk_mc *mc, dlk_ask *ask)
{
    dlk_buf *out = &mc->link.stream.out;
    size_t before = dlk_buf_size(out);
    if (dlk_mc_put_line(out, "stats") &&
        dlk_mc_put_read(out, mc->server.meta, dlk_mc_key_of(ask)->wire))
        return sent(mc, ask, DLK_MC_TIME, dlk_stream_end(&mc->link.stream));
    out->end = out->start + before;
    return no_memory(mc, ask);
}

bool dlk_mc_send_stats(dlk_mc *mc, dlk_ask *ask)
{
    dlk_buf *out = &mc->link.stream.out;
    size_t before = dlk_buf_size(out);
    if (dlk_mc_put_line(out, "stats") && dlk_mc_put_line(out, "stats settings"))
        return sent(mc, ask, DLK_MC_STATS, dlk_stream_end(&mc->link.stream));
    out->end = out->start + before;
    return no_memory(mc, ask);
}

bool dlk_mc_again(dlk_mc *mc, dlk_ask *ask)
{
    int64_t times = ((ask->scratch & AGAIN_MASK) >> AGAIN_SHIFT) + 1;
    if (times > AGAIN_MAX) {
        dlk_mc_refuse(mc, ask,
                      dlk_error_make(DLOCK_EUNAVAIL,
                                     "memcached: others change the item all the time"));
        return false;
    }
    ask->scratch = (ask->scratch & ~AGAIN_MASK) | times << AGAIN_SHIFT;
    return true;
}

/* ---- what requests are made of ---- */

dlk_mc_text dlk_mc_owner(const dlk_mc *mc, uint64_t number, char to[DLK_MC_OWNER_MAX])
{
    memcpy(to, mc->owner, mc->owner_size);
    char *end = dlk_digits_put(to + mc->owner_size, number);
    return (dlk_mc_text){to, (size_t)(end - to)};
}

/* All of it fits. */
dlk_mc_text dlk_mc_about(const dlk_mc *mc, const dlk_ask *ask, int64_t since_ms,
                         char room[DLK_MC_ABOUT_MAX])
{
    const char *data = dlk_ask_data(ask);
    char *to = stpcpy(room, mc->base.host->who);
    if (since_ms > 0 || data[0])
        *to++ = '\t';
    if (since_ms > 0)
        to = dlk_digits_put(to, (uint64_t)since_ms);
    if (data[0]) {
        *to++ = '\t';
        to = stpcpy(to, data);
    }
    return (dlk_mc_text){room, (size_t)(to - room)};
}

int64_t dlk_mc_seconds(int64_t ms)
{
    int64_t seconds = (ms + 999) / 1000 + DLK_MC_CLOCK_LAG;
    return seconds < DLK_MC_SECONDS_MAX ? seconds : DLK_MC_SECONDS_MAX;
}

/* The numbers of stores rise as long as the server runs, and begin anew when it does. Put on top
 * of the second in which it began they go on rising: it would have to store a billion items a
 * second to get ahead of its clock. */
#define STORES_A_SECOND (INT64_C(1) << 30)

int64_t dlk_mc_token(const dlk_mc *mc, uint64_t cas)
{
    int64_t started = mc->server.started;
    if (started <= 0 || started > INT64_MAX / STORES_A_SECOND / 2 ||
        cas > (uint64_t)INT64_MAX / 2)
        return 0;
    return started * STORES_A_SECOND + (int64_t)cas;
}

/* ---- answers ---- */

void dlk_mc_answer(dlk_mc *mc, dlk_ask *ask, dlk_reply reply)
{
    if (dlk_mc_takes(ask) && !dlk_list_empty(&ask->link))
        ((dlk_mc_key *)ask->key->data)->taking--;
    dlk_flight_answer(&mc->flight, ask, reply);
}

void dlk_mc_refuse(dlk_mc *mc, dlk_ask *ask, dlock_error *error)
{
    dlk_error_clear(&ask->error);
    ask->error = error;
    dlk_mc_answer(mc, ask, DLK_REFUSED);
}

void dlk_mc_answer_held(dlk_mc *mc, dlk_ask *ask, int64_t left_ms)
{
    int64_t retry_ms = dlk_rand_jitter(mc->base.host->rand, mc->retry_ms, 33);
    ask->wait_ms = left_ms >= 0 && left_ms < retry_ms ? left_ms : retry_ms;
    dlk_mc_answer(mc, ask, DLK_HELD);
}
