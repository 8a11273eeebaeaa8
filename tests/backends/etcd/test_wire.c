/* What needs no server: an answer in pieces, how often its bytes are looked at, and what ends a watch;
 * why a request got none; and what is said without memory. */
#include "backends/etcd/json.h"
#include "backends/etcd/wire.h"
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- counting ---- */

static size_t looked_at;

void *__real_memchr(const void *data, int byte, size_t size);
void *__wrap_memchr(const void *data, int byte, size_t size);

void *__wrap_memchr(const void *data, int byte, size_t size)
{
    const char *found = __real_memchr(data, byte, size);
    looked_at += found ? (size_t)(found - (const char *)data) + 1 : size;
    return (void *)(uintptr_t)found;
}

/* ---- memory ---- */

static size_t most = (size_t)-1; /* there is none for more bytes at once */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return size > most ? NULL : __real_malloc(size);
}

/* ---- a watch ---- */

static dlk_etcd_call *call;

static void begin(void)
{
    call = calloc(1, sizeof(*call));
    CHECK(call != NULL);
    call->watch = true;
    looked_at = 0;
}

/* True while the watch goes on. */
static bool hear(const char *text, size_t size)
{
    return dlk_etcd_call_hears((char *)(uintptr_t)text, 1, size, call) == size;
}

static bool hear_text(const char *text)
{
    return hear(text, strlen(text));
}

/* ---- tests ---- */

TEST(a_line_in_many_pieces_is_looked_at_once)
{
    char piece[512];
    size_t told = 0;
    memset(piece, 'x', sizeof(piece));
    begin();
    for (int i = 0; i < 4096; i++, told += sizeof(piece))
        CHECK(hear(piece, sizeof(piece)));
    harness_note("%zu bytes looked at of %zu", looked_at, told);
    CHECK(looked_at <= 2 * told);
    dlk_etcd_call_free(call);
}

TEST(lines_that_tell_nothing_are_passed_over_and_news_end_a_watch_however_they_are_cut)
{
    static const char lines[] = "{\"result\":{\"created\":true}}\n"
                                "{\"result\":{\"created\":true}}\n"
                                "{\"result\":{\"events\":[]}}\n";
    for (size_t cut = 0; cut < sizeof(lines) - 2; cut++) {
        begin();
        CHECK(hear(lines, cut));
        CHECK(!call->fired);
        CHECK(!hear_text(lines + cut));
        CHECK(call->fired);
        dlk_etcd_call_free(call);
    }
}

TEST(a_watch_that_says_more_than_any_etcd_is_ended)
{
    static char piece[1 << 20];
    memset(piece, 'x', sizeof(piece));
    begin();
    int pieces = 0;
    while (pieces < 64 && hear(piece, sizeof(piece)))
        pieces++;
    CHECK_EQ_INT(pieces, 16);
    dlk_etcd_call_free(call);
}

/* ---- why there was no answer ---- */

static const char *explained(int64_t timeout_ms, bool begun)
{
    static char text[CURL_ERROR_SIZE];
    dlk_settings *settings = dlk_settings_new();
    dlk_etcd_call late = {
        .code = CURLE_OPERATION_TIMEDOUT, .timeout_ms = timeout_ms, .begun = begun};
    (void)harness_check(__FILE__, __LINE__,
                        dlk_settings_set(settings, "client.connect_ms", "400", NULL) ==
                            DLOCK_OK,
                        "a setting");
    dlk_etcd_explain(&(dlk_etcd_wire){.settings = settings}, &late);
    snprintf(text, sizeof(text), "%s", late.why);
    dlk_settings_free(settings);
    return text;
}

TEST(who_was_too_late_had_the_shorter_of_two_times_and_a_watch_only_that_to_connect)
{
    CHECK_STR(explained(300, false), "no connection within 300 ms");
    CHECK_STR(explained(500, false), "no connection within 400 ms");
    CHECK_STR(explained(0, false), "no connection within 400 ms");
    CHECK_STR(explained(500, true), "no answer within 500 ms");
}

/* ---- what is said ---- */

static char *said(const char *text)
{
    dlk_say say = {0};
    dlk_say_text(&say, "%s", "[");
    dlk_say_text(&say, "%s", text);
    dlk_say_text(&say, "%s", "]");
    return dlk_say_end(&say);
}

TEST(what_there_is_no_memory_for_isnt_said_by_half)
{
    static char text[5001];
    memset(text, 'x', sizeof(text) - 1);
    for (most = 0; most < 20000; most += 500) {
        char *whole = said(text);
        CHECK(!whole || strlen(whole) == sizeof(text) + 1);
        CHECK(most < sizeof(text) ? !whole : most < 10000 || whole);
        free(whole);
    }
    most = (size_t)-1;
}
