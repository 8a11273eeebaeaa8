/* What comes of an answer in pieces: how often its bytes are looked at, and what ends a watch. */
#include "backends/etcd/wire.h"
#include "harness/harness.h"

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
