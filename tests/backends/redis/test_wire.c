/* Replies taken apart and commands put together; names that are derived; addresses and waits. */
#include "backends/redis/errors.h"
#include "backends/redis/handover.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "backends/redis/wire.h"
#include "harness/harness.h"
#include "util/error.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dlk_resp_reader *reader;
static const dlk_resp *reply;

static dlk_resp_got feed(const char *data, size_t size)
{
    if (!dlk_resp_feed(reader, data, size))
        return DLK_RESP_BAD;
    return dlk_resp_next(reader, &reply);
}

static dlk_resp_got feed_text(const char *text)
{
    return feed(text, strlen(text));
}

TEST(replies_come_whole_however_they_are_sliced)
{
    static const char bytes[] =
        "*4\r\n$3\r\na\0b\r\n:-7\r\n*2\r\n+fine\r\n$-1\r\n-ERR no\r\n";
    reader = dlk_resp_new();
    CHECK(reader != NULL);
    for (size_t cut = 1; cut < sizeof(bytes) - 2; cut++) {
        CHECK_EQ_INT(feed(bytes, cut), DLK_RESP_MORE);
        CHECK_EQ_INT(feed(bytes + cut, sizeof(bytes) - 1 - cut), DLK_RESP_ONE);
        CHECK_EQ_INT(reply->type, DLK_RESP_ARRAY);
        CHECK_EQ_INT(reply->count, 4);
        CHECK_EQ_INT(reply->items[0].size, 3);
        CHECK(memcmp(reply->items[0].text, "a\0b", 3) == 0);
        CHECK_EQ_INT(reply->items[1].integer, -7);
        CHECK_STR(reply->items[2].items[0].text, "fine");
        CHECK_EQ_INT(reply->items[2].items[1].type, DLK_RESP_NIL);
        CHECK_EQ_INT(reply->items[3].type, DLK_RESP_ERROR);
        CHECK_EQ_INT(dlk_resp_next(reader, &reply), DLK_RESP_MORE);
    }
    dlk_resp_free(reader);
}

/* hiredis looks at it anew with each piece. */
TEST(a_line_without_end_is_given_up_before_it_is_looked_at_a_thousand_times)
{
    static const char *const begins[] = {"+",  "-ERR ",   ":1",      "$1",
                                         "*1", "*1\r\n+", "*1\r\n$1"};
    for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++) {
        size_t pieces = 0;
        char piece[100];
        memset(piece, '1', sizeof(piece));
        reader = dlk_resp_new();
        dlk_resp_got got = feed_text(begins[i]);
        for (; got == DLK_RESP_MORE && pieces < 2000; pieces++)
            got = feed(piece, sizeof(piece));
        CHECK_EQ_INT(got, DLK_RESP_BAD);
        CHECK(pieces < 1000);
        CHECK_STR(dlk_resp_problem(reader), "the reply is too large");
        dlk_resp_free(reader);
    }
    /* What has its size in front is as long as it says. */
    reader = dlk_resp_new();
    CHECK_EQ_INT(feed_text("$200000\r\n"), DLK_RESP_MORE);
    for (int i = 0; i < 2000; i++) {
        char piece[100];
        memset(piece, 'x', sizeof(piece));
        CHECK_EQ_INT(feed(piece, sizeof(piece)), DLK_RESP_MORE);
    }
    CHECK_EQ_INT(feed_text("\r\n"), DLK_RESP_ONE);
    CHECK_EQ_INT(reply->size, 200000);
    dlk_resp_free(reader);
}

TEST(pipelined_replies_come_one_by_one)
{
    reader = dlk_resp_new();
    CHECK_EQ_INT(feed_text(":1\r\n:2\r\n$1\r\nx\r\n*0\r\n"), DLK_RESP_ONE);
    CHECK_EQ_INT(reply->integer, 1);
    CHECK_EQ_INT(dlk_resp_next(reader, &reply), DLK_RESP_ONE);
    CHECK_EQ_INT(reply->integer, 2);
    CHECK_EQ_INT(dlk_resp_next(reader, &reply), DLK_RESP_ONE);
    CHECK_STR(reply->text, "x");
    CHECK_EQ_INT(dlk_resp_next(reader, &reply), DLK_RESP_ONE);
    CHECK_EQ_INT(reply->count, 0);
    CHECK_EQ_INT(dlk_resp_next(reader, &reply), DLK_RESP_MORE);
    dlk_resp_free(reader);
}

TEST(what_is_hostile_or_garbage_is_refused_without_allocating_for_it)
{
    static const char *const bad[] = {
        "HTTP/1.1 400 Bad Request\r\n",
        "*4611686018427387904\r\n",
        "*2147483647\r\n",
        "*65537\r\n",
        "*-5\r\n",
        "$-5\r\n",
        "$99999999999999999999999\r\n",
        ":12a\r\n",
        ":99999999999999999999\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        "\x00\x01\x02\r\n",
        "\r\n",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        reader = dlk_resp_new();
        size_t size = strlen(bad[i]);
        CHECK_EQ_INT(feed(bad[i], size ? size : 5), DLK_RESP_BAD);
        CHECK(dlk_resp_problem(reader)[0] != '\0');
        /* Reset makes it good again. */
        CHECK(dlk_resp_reset(reader));
        CHECK_EQ_INT(feed_text("+OK\r\n"), DLK_RESP_ONE);
        dlk_resp_free(reader);
    }
}

TEST(a_reply_without_end_is_cut_off)
{
    static char flood[65536];
    memset(flood, 'x', sizeof(flood));
    reader = dlk_resp_new();
    CHECK_EQ_INT(feed_text("$1000000000\r\n"), DLK_RESP_MORE);
    size_t fed = 0;
    while (fed < (64u << 20) && feed(flood, sizeof(flood)) == DLK_RESP_MORE)
        fed += sizeof(flood);
    CHECK(fed < (16u << 20));
    CHECK_STR(dlk_resp_problem(reader), "the reply is too large");
    dlk_resp_free(reader);
    /* Many arrays of a legal size each are too much together. */
    reader = dlk_resp_new();
    CHECK_EQ_INT(feed_text("*60000\r\n"), DLK_RESP_MORE);
    dlk_resp_got got = DLK_RESP_MORE;
    for (int i = 0; i < 60000 && got == DLK_RESP_MORE; i++)
        got = feed_text("*60000\r\n*0\r\n");
    CHECK_EQ_INT(got, DLK_RESP_BAD);
    dlk_resp_free(reader);
}

/* Sanitizers have memory of their own, and look for leaks themselves. */
TEST(a_reader_that_ends_leaves_no_memory)
{
    static char big[40000];
    size_t before = mallinfo2().uordblks;
    int size = snprintf(big, sizeof(big), "$30000\r\n%030000d\r\n", 7);
    for (int i = 0; i < 100; i++) {
        reader = dlk_resp_new();
        CHECK_EQ_INT(feed(big, (size_t)size), DLK_RESP_ONE);
        dlk_resp_free(reader);
    }
    CHECK(mallinfo2().uordblks < before + 30000);
}

TEST(random_bytes_never_break_the_reader)
{
    unsigned seed = 12345;
    static const char alphabet[] = "*$+-:0123456789\r\n\r\n\r\nabc";
    for (int round = 0; round < 20000; round++) {
        reader = dlk_resp_new();
        char bytes[64];
        size_t size = (size_t)(rand_r(&seed) % (int)sizeof(bytes)) + 1;
        for (size_t i = 0; i < size; i++)
            bytes[i] = alphabet[(size_t)rand_r(&seed) % (sizeof(alphabet) - 1)];
        dlk_resp_got got = feed(bytes, size);
        while (got == DLK_RESP_ONE)
            got = dlk_resp_next(reader, &reply);
        dlk_resp_free(reader);
    }
}

TEST(commands_are_written_byte_for_byte)
{
    dlk_buf buf = {0};
    const dlk_arg args[] = {dlk_arg_text("SET"), {"k\0\r\n", 4}, {NULL, 0}};
    static const char expected[] = "*3\r\n$3\r\nSET\r\n$4\r\nk\0\r\n\r\n$0\r\n\r\n";
    CHECK(dlk_resp_command(&buf, args, 3));
    CHECK_EQ_INT(dlk_buf_size(&buf), sizeof(expected) - 1);
    CHECK(memcmp(dlk_buf_head(&buf), expected, sizeof(expected) - 1) == 0);
    dlk_buf_free(&buf);
    static const uint64_t numbers[] = {0, 9, 10, 1234567890, UINT64_MAX};
    static const char *const texts[] = {"0", "9", "10", "1234567890",
                                        "18446744073709551615"};
    for (int i = 0; i < 5; i++) {
        char text[32] = {0};
        *dlk_digits_put(text, numbers[i]) = '\0';
        CHECK_STR(text, texts[i]);
    }
}

TEST(derived_names_follow_redissons_test_for_a_brace)
{
    static const char *const names[][2] = {
        {"L", "p:{L}"},     {"x{tag}y", "p:x{tag}y"}, {"a{b", "p:a{b"},
        {"x{}y", "p:x{}y"}, {"t}x", "p:{t}x}"},       {"{", "p:{"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *derived = dlk_redis_derive("p", names[i][0]);
        CHECK_STR(derived, names[i][1]);
        free(derived);
    }
}

/* Whoever may publish can say it. */
TEST(a_message_that_hands_over_has_numbers_that_can_be_counted_on)
{
    static const struct {
        const char *text;
        int64_t turn; /* < 0: it is none */
    } cases[] = {
        {"u:7 3 channel", 3},
        {"u:7 9223372036854775807 channel", DLK_REDIS_TURN_MAX},
        {"u:7 9223372036854775808 channel", -1},
        {"u:9223372036854775808 3 channel", -1},
        {"u:7 -1 channel", -1},
        {"u:7  3 channel", -1},
        {"u:7 3", -1},
        {"u:7", -1},
        {"u: 3 channel", -1},
        {"v:7 3 channel", -1},
    };
    const dlk_redis redis = {.owner = "u:", .owner_size = 2};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        dlk_resp message = {
            .type = DLK_RESP_TEXT, .text = cases[i].text, .size = strlen(cases[i].text)};
        uint64_t number = 0;
        uint32_t turn = 0;
        const char *channel = NULL;
        size_t size = 0;
        bool fine =
            dlk_redis_handover_parse(&redis, &message, &number, &turn, &channel, &size);
        CHECK_EQ_INT(fine, cases[i].turn >= 0);
        CHECK_EQ_INT(fine ? (int64_t)turn : -1, cases[i].turn);
        CHECK(!fine || (number == 7 && size == 7 && memcmp(channel, "channel", 7) == 0));
    }
}

TEST(each_error_of_redis_has_its_meaning)
{
    static const struct {
        const char *text;
        dlock_err code;
    } cases[] = {
        {"NOAUTH Authentication required.", DLOCK_EACCES},
        {"WRONGPASS invalid username-password pair or user is disabled.", DLOCK_EACCES},
        {"NOPERM this user has no permissions to run the 'evalsha' command",
         DLOCK_EACCES},
        {"ERR The user executing the script can't run this command or subcommand script: "
         "x, on "
         "@user_script:1.",
         DLOCK_EACCES},
        {"ERR ACL failure in script: User locks has no permissions to run the 'hset' "
         "command script: x, on @user_script:1.",
         DLOCK_EACCES},
        {"ERR ACL failure in script: No permissions to access a key script: x",
         DLOCK_EACCES},
        {"ERR ACL failure in script: No permissions to access a channel script: x",
         DLOCK_EACCES},
        {"ERR invalid password", DLOCK_EACCES},
        {"WRONGTYPE Operation against a key holding the wrong kind of value",
         DLOCK_ECONFLICT},
        {"ERR Error running script (call to f_0): @user_script:1: WRONGTYPE Operation",
         DLOCK_ECONFLICT},
        {"ERR Error running script (call to f_0): @user_script:1: @user_script: 1: -OOM "
         "command "
         "not allowed",
         DLOCK_EUNAVAIL},
        {"LOADING Redis is loading the dataset in memory", DLOCK_EUNAVAIL},
        {"BUSY Redis is busy running a script.", DLOCK_EUNAVAIL},
        {"MASTERDOWN Link with MASTER is down", DLOCK_EUNAVAIL},
        {"MISCONF Redis is configured to save RDB snapshots", DLOCK_EUNAVAIL},
        {"NOREPLICAS Not enough good replicas to write.", DLOCK_EUNAVAIL},
        {"OOM command not allowed when used memory > 'maxmemory'.", DLOCK_EUNAVAIL},
        {"READONLY You can't write against a read only replica.", DLOCK_EUNAVAIL},
        {"TRYAGAIN Multiple keys request during rehashing of slot", DLOCK_EUNAVAIL},
        {"CLUSTERDOWN The cluster is down", DLOCK_EUNAVAIL},
        {"ERR max number of clients reached", DLOCK_EUNAVAIL},
        {"BUSYBODY is another word", DLOCK_EPROTO},
        {"ERR something new", DLOCK_EPROTO},
        {"", DLOCK_EPROTO},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dlk_resp error = {
            .type = DLK_RESP_ERROR, .text = cases[i].text, .size = strlen(cases[i].text)};
        dlock_error *made = dlk_redis_error(&error, "acquire");
        CHECK_ERR(made->code, cases[i].code, made);
        CHECK_CONTAINS(dlock_error_text(made), "acquire");
        CHECK_STR(dlock_error_backend(made), cases[i].text);
        dlock_error_free(made);
    }
}

TEST(a_quoted_argument_is_not_passed_on)
{
    const char *text = "ERR unknown command 'AUTH', with args beginning with: 'secret'";
    dlk_resp error = {.type = DLK_RESP_ERROR, .text = text, .size = strlen(text)};
    dlock_error *made = dlk_redis_error(&error, "AUTH");
    CHECK_STR(dlock_error_backend(made), "");
    dlock_error_free(made);
}
