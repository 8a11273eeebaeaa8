/* What is memcached's of a link (net/link.h): putting replies together, and what is told of it. */
#include "backends/memcached/inner.h"
#include "contract/links.h"

#include <string.h>

/* One reply at most lies there in pieces. */
#define REST_MAX (DLK_MC_LINE_MAX + DLK_MC_VALUE_MAX + 16)

static dlk_mc *mc_of(dlk_link *link)
{
    return DLK_LIST_ITEM(link, dlk_mc, link);
}

static dlock_error *no_memory(void)
{
    return dlk_error_make(DLOCK_ENOMEM, "memcached: out of memory");
}

static dlock_error *greet(dlk_link *link, int64_t now)
{
    (void)now;
    dlk_mc *mc = mc_of(link);
    dlk_buf_clear(&mc->rest);
    return dlk_mc_greet(mc) ? NULL : no_memory();
}

static dlock_error *take(dlk_mc *mc, const dlk_mc_reply *reply, int64_t now)
{
    if (mc->link.phase == DLK_LINK_READY)
        return dlk_mc_asks_reply(mc, reply, now);
    bool over = false;
    dlock_error *error = dlk_mc_greeted(mc, reply, &over);
    if (!error && over)
        dlk_link_greeted(&mc->link, now);
    return error;
}

/* Takes all complete replies from @p data. The rest is *ret_used bytes further on. */
static dlock_error *take_all(dlk_mc *mc, const char *data, size_t size, size_t *ret_used,
                             int64_t now)
{
    dlock_error *error = NULL;
    const char *hint = dlk_link_hint(&mc->link, data);
    *ret_used = 0;
    while (!error && !mc->link.doom && size > *ret_used &&
           dlk_link_is_connected(&mc->link)) {
        dlk_mc_reply reply;
        size_t used = 0;
        dlk_mc_got got = dlk_mc_parse(data + *ret_used, size - *ret_used, &reply, &used);
        if (got == DLK_MC_MORE)
            break;
        if (got == DLK_MC_BAD)
            return dlk_error_make(
                DLOCK_EPROTO,
                "memcached: what %s answers can't be understood: is it one?%s", mc->peer,
                hint);
        *ret_used += used;
        error = take(mc, &reply, now);
    }
    return error;
}

static dlock_error *feed(dlk_link *link, const char *data, size_t size, int64_t now)
{
    dlk_mc *mc = mc_of(link);
    size_t used = 0;
    bool pieces = dlk_buf_size(&mc->rest) > 0;
    if (pieces) {
        if (!dlk_buf_append(&mc->rest, data, size))
            return no_memory();
        data = dlk_buf_head(&mc->rest);
        size = dlk_buf_size(&mc->rest);
    }
    dlock_error *error = take_all(mc, data, size, &used, now);
    if (error || !dlk_link_is_connected(link))
        return error;
    bool fine = true;
    if (pieces)
        dlk_buf_eat(&mc->rest, used);
    else if (size > used)
        fine = dlk_buf_append(&mc->rest, data + used, size - used);
    return fine && dlk_buf_size(&mc->rest) <= REST_MAX ? NULL : no_memory();
}

static void be_ready(dlk_link *link, int64_t now)
{
    (void)now;
    dlk_mc *mc = mc_of(link);
    dlk_error_clear(&mc->why_down);
    mc->epoch++;
    if (mc->was_up)
        mc->base.host->reconnects++;
    mc->was_up = true;
    mc->base.host->link(mc->base.host, true, NULL);
}

static void be_down(dlk_link *link, const dlock_error *error, int64_t now)
{
    (void)now;
    dlk_mc *mc = mc_of(link);
    dlk_error_clear(&mc->why_down);
    mc->why_down = dlk_error_copy(error);
    dlk_mc_asks_fail(mc, error);
    mc->base.host->link(mc->base.host, false, error);
}

static bool is_harmless(const dlk_link *link)
{
    return dlk_flight_may_come_late(&DLK_LIST_ITEM(link, const dlk_mc, link)->flight);
}

static void warn(dlk_link *link, const char *text)
{
    dlk_host *host = mc_of(link)->base.host;
    host->log(host, DLOCK_LOG_WARN, "%s", text);
}

static const dlk_link_ops ops = {.greet = greet,
                                 .feed = feed,
                                 .ready = be_ready,
                                 .down = be_down,
                                 .harmless = is_harmless,
                                 .warn = warn};

void dlk_mc_link_init(dlk_mc *mc)
{
    dlk_host *host = mc->base.host;
    mc->links = (dlk_link_common){.service = "memcached",
                                  .plain = "memcached://",
                                  .hint = ": does it expect TLS (memcacheds://)?"};
    dlk_links_lend(&mc->links, host);
    dlk_link_settings(&mc->links, mc->settings);
    dlk_link_init(&mc->link, &mc->links, &ops);
}
