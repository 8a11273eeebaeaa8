/* What a memcached without meta commands answers, given to the backend by hand. */
#include "backends/memcached/inner.h"
#include "backends/memcached/memcached.h"
#include "harness/harness.h"

#include <string.h>

#define NUMBER 7

static dlk_mc *mc;
static dlk_settings *settings;
static dlk_key key;
static dlk_kicks kicks;
static dlk_rand dice;
static int answers;

static void answered(dlk_host *host, dlk_ask *ask)
{
    (void)host, (void)ask;
    answers++;
}

static void linked(dlk_host *host, bool up, const dlock_error *error)
{
    (void)host, (void)up, (void)error;
}

__attribute__((format(printf, 3, 4))) static void
silent(dlk_host *host, dlock_level level, const char *format, ...)
{
    (void)host, (void)level, (void)format;
}

/* As if it was greeted, and asked for the lock. */
static bool begin(dlk_ask *ask)
{
    static dlk_host host = {.tell = &dlk_tell_nobody,
                            .answered = answered,
                            .link = linked,
                            .log = silent,
                            .kicks = &kicks,
                            .uuid = "00000000-0000-4000-8000-000000000001",
                            .name = "test",
                            .who = "test\there\t1",
                            .rand = &dice};
    dlk_backend *backend = NULL;
    dlk_uri *uri = NULL;
    kicks = DLK_KICKS_INIT;
    answers = 0;
    settings = dlk_settings_new();
    key = (dlk_key){.name = "a", .size = 1, .kind = DLOCK_MUTEX, .settings = settings};
    if (!settings || dlk_uri_parse("memcached://127.0.0.1:1", &uri, NULL) != DLOCK_OK ||
        dlk_memcached_backend.open(&host, uri, settings, &backend, NULL) != DLOCK_OK ||
        dlk_memcached_backend.key_open(backend, &key, NULL) != DLOCK_OK)
        return false;
    dlk_uri_free(uri);
    mc = (dlk_mc *)backend;
    mc->link.phase = DLK_LINK_READY;
    mc->server.meta_stores = false;
    *ask = (dlk_ask){.verb = DLK_ACQUIRE,
                     .key = &key,
                     .number = NUMBER,
                     .ttl_ms = 30000,
                     .deadline = INT64_MAX,
                     .take = 1};
    dlk_mc_ask(backend, ask, 0);
    return ask->reply == DLK_PENDING;
}

static void end(dlk_ask *ask)
{
    dlk_error_clear(&ask->error);
    mc->link.phase = DLK_LINK_OFF;
    dlk_memcached_backend.key_close(&mc->base, &key);
    dlk_memcached_backend.free(&mc->base);
    dlk_settings_free(settings);
}

static void says(dlk_mc_kind kind, const char *text)
{
    const dlk_mc_reply reply = {.kind = kind, .text = text, .size = strlen(text)};
    CHECK(dlk_mc_asks_reply(mc, &reply, 0) == NULL);
}

TEST(what_was_stored_and_can_not_be_read_back_may_be_ours)
{
    dlk_ask ask;
    CHECK(begin(&ask));
    says(DLK_MC_DONE, "");
    says(DLK_MC_SERVER_ERROR, "out of memory writing get response");
    CHECK_EQ_INT(answers, 1);
    CHECK_EQ_INT(ask.reply, DLK_UNKNOWN);
    CHECK_CONTAINS(dlock_error_text(ask.error), "out of memory");
    end(&ask);
}

TEST(what_was_not_stored_is_refused_whatever_is_said_to_the_read_behind_it)
{
    dlk_ask ask;
    CHECK(begin(&ask));
    says(DLK_MC_SERVER_ERROR, "out of memory storing object");
    CHECK_EQ_INT(answers, 0); /* the answer to the read follows */
    says(DLK_MC_SERVER_ERROR, "out of memory writing get response");
    CHECK_EQ_INT(answers, 1);
    CHECK_EQ_INT(ask.reply, DLK_REFUSED);
    end(&ask);
}
