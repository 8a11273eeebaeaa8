/* memcached's protocol taken apart and put together, and what stands in an item. */
#include "backends/memcached/record.h"
#include "harness/harness.h"
#include "util/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- replies ---- */

/* From a copy of just that size, so that a byte read too far is found. */
static dlk_mc_got parse(const char *bytes, size_t size, dlk_mc_reply *ret, size_t *used)
{
    char *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    dlk_mc_got got = dlk_mc_parse(copy, size, ret, used);
    if (got == DLK_MC_ONE && ret->size) /* compared after the copy is gone */
        ret->text = bytes + (ret->text - copy);
    if (got == DLK_MC_ONE && ret->name_size)
        ret->name = bytes + (ret->name - copy);
    free(copy);
    return got;
}

/* One reply at the last byte and not before, whatever follows. */
static bool is_reply(const char *bytes, dlk_mc_kind kind, uint64_t cas, int64_t left,
                     const char *text)
{
    char more[256];
    dlk_mc_reply reply;
    size_t used = 0, size = strlen(bytes);
    snprintf(more, sizeof(more), "%sEN\r\n", bytes);
    for (size_t cut = 0; cut < size; cut++)
        if (!harness_eq_int(__FILE__, __LINE__, bytes, parse(more, cut, &reply, &used),
                            DLK_MC_MORE))
            return false;
    return harness_eq_int(__FILE__, __LINE__, bytes,
                          parse(more, strlen(more), &reply, &used), DLK_MC_ONE) &&
           harness_eq_int(__FILE__, __LINE__, bytes, (int64_t)used, (int64_t)size) &&
           harness_eq_int(__FILE__, __LINE__, bytes, reply.kind, kind) &&
           harness_eq_int(__FILE__, __LINE__, bytes, (int64_t)reply.cas, (int64_t)cas) &&
           harness_eq_int(__FILE__, __LINE__, bytes, reply.left, left) &&
           harness_check(__FILE__, __LINE__, dlk_mc_text_is(&reply, text), text);
}

TEST(a_reply_is_whole_at_its_last_byte_and_not_before)
{
    CHECK(is_reply("HD c12\r\n", DLK_MC_DONE, 12, -1, ""));
    CHECK(is_reply("HD\r\n", DLK_MC_DONE, 0, -1, ""));
    CHECK(is_reply("STORED\r\n", DLK_MC_DONE, 0, -1, ""));
    CHECK(is_reply("NS c0\r\n", DLK_MC_NOT_STORED, 0, -1, ""));
    CHECK(is_reply("EX c0\r\n", DLK_MC_CHANGED, 0, -1, ""));
    CHECK(is_reply("NF c0\r\n", DLK_MC_GONE, 0, -1, ""));
    CHECK(is_reply("EN\r\n", DLK_MC_GONE, 0, -1, ""));
    CHECK(is_reply("END\r\n", DLK_MC_GONE, 0, -1, ""));
    CHECK(is_reply("VA 4 c7 t29\r\na\r\nb\r\n", DLK_MC_VALUE, 7, 29, "a\r\nb"));
    CHECK(is_reply("VA 0 c7 t-1\r\n\r\n", DLK_MC_VALUE, 7, -1, ""));
    CHECK(is_reply("VALUE key 0 3 99\r\nabc\r\nEND\r\n", DLK_MC_VALUE, 99, -1, "abc"));
    CHECK(is_reply("STAT time 123\r\n", DLK_MC_STAT, 0, -1, "123"));
    CHECK(is_reply("VERSION 1.6.18\r\n", DLK_MC_VERSION, 0, -1, "1.6.18"));
    CHECK(is_reply("ERROR\r\n", DLK_MC_UNKNOWN, 0, -1, ""));
    CHECK(is_reply("ERROR Too many open connections\r\n", DLK_MC_UNKNOWN, 0, -1,
                   "Too many open connections"));
    CHECK(is_reply("SERVER_ERROR out of memory\r\n", DLK_MC_SERVER_ERROR, 0, -1,
                   "out of memory"));
}

TEST(what_is_not_in_the_protocol_is_said_to_be_none)
{
    static const char *const wrong[] = {
        "HTTP/1.1 400 Bad Request\r\n",
        "-ERR unknown command\r\n",
        "SSH-2.0-x\r\n",
        "\r\n",
        "HD c12\n",
        "HD cx\r\n",
        "VA x\r\n",
        "VA 3 c1\r\nabcde",
        "VALUE k 0 3\r\nabc\r\nEND\r\n",
        "MN x\r\n",
        "VA 9999999999 c1\r\n",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        dlk_mc_reply reply;
        size_t used;
        CHECK_EQ_INT(parse(wrong[i], strlen(wrong[i]), &reply, &used), DLK_MC_BAD);
    }
    char long_line[DLK_MC_LINE_MAX + 1];
    memset(long_line, 'x', sizeof(long_line));
    dlk_mc_reply reply;
    size_t used;
    CHECK_EQ_INT(parse(long_line, sizeof(long_line), &reply, &used), DLK_MC_BAD);
}

/* ---- requests ---- */

static bool was_put(dlk_buf *out, bool fine, const char *text)
{
    fine = fine && dlk_buf_size(out) == strlen(text) &&
           memcmp(dlk_buf_head(out), text, strlen(text)) == 0;
    if (!fine)
        harness_note("put: %.*s", (int)dlk_buf_size(out), dlk_buf_head(out));
    dlk_buf_clear(out);
    return harness_check(__FILE__, __LINE__, fine, text);
}

TEST(each_request_has_a_form_of_either_protocol)
{
    dlk_buf out = {0};
    const dlk_mc_text key = {"k", 1}, value = {"abc", 3};
    CHECK(was_put(&out, dlk_mc_put_store(&out, true, key, value, 31, 0),
                  "ms k 3 T31 c ME\r\nabc\r\n"));
    CHECK(was_put(&out, dlk_mc_put_store(&out, true, key, value, 31, 7),
                  "ms k 3 T31 c C7\r\nabc\r\n"));
    CHECK(was_put(&out, dlk_mc_put_store(&out, false, key, value, 31, 0),
                  "add k 0 31 3\r\nabc\r\n"));
    CHECK(was_put(&out, dlk_mc_put_store(&out, false, key, value, 31, 7),
                  "cas k 0 31 3 7\r\nabc\r\n"));
    CHECK(was_put(&out, dlk_mc_put_read(&out, true, key), "mg k v c t\r\n"));
    CHECK(was_put(&out, dlk_mc_put_read(&out, false, key), "gets k\r\n"));
    CHECK(was_put(&out, dlk_mc_put_drop(&out, true, key, UINT64_MAX),
                  "md k C18446744073709551615\r\n"));
    CHECK(was_put(&out, dlk_mc_put_drop(&out, false, key, 7), "cas k 0 -1 0 7\r\n\r\n"));
    dlk_buf_free(&out);
}

/* ---- items ---- */

enum { NOW = 1000, LEASE = 31 };

static dlk_mc_text text_of(const char *text)
{
    return (dlk_mc_text){text, strlen(text)};
}

static dlk_mc_wish wish_of(dlk_verb verb, dlk_mc_form form, const char *owner)
{
    return (dlk_mc_wish){.verb = verb,
                         .form = form,
                         .take = 1,
                         .permits = form == DLK_MC_SEMAPHORE ? 3 : 0,
                         .owner = text_of(owner),
                         .about = text_of("me"),
                         .now = NOW,
                         .until = NOW + LEASE};
}

/* Carries the plan out on @p item, as if nobody came in between. */
static dlk_reply carry_out(char item[1024], dlk_mc_wish wish)
{
    dlk_buf out = {0};
    const dlk_mc_text value = text_of(item);
    dlk_mc_plan plan = dlk_mc_record_plan(&wish, item[0] ? &value : NULL, &out);
    if (plan.reply == DLK_PENDING) {
        snprintf(item, 1024, "%.*s", plan.empty ? 0 : (int)dlk_buf_size(&out),
                 plan.empty ? "" : dlk_buf_head(&out));
        plan.reply = DLK_YES;
    }
    dlk_buf_free(&out);
    return plan.reply;
}

TEST(readers_share_and_a_writer_is_alone)
{
    char item[1024] = "";
    dlk_mc_wish reader = wish_of(DLK_ACQUIRE, DLK_MC_READ_WRITE, "r:1");
    dlk_mc_wish other = wish_of(DLK_ACQUIRE, DLK_MC_READ_WRITE, "r:2");
    dlk_mc_wish writer = wish_of(DLK_ACQUIRE, DLK_MC_READ_WRITE, "w:1");
    reader.shared = other.shared = true;
    CHECK_EQ_INT(carry_out(item, reader), DLK_YES);
    CHECK_EQ_INT(carry_out(item, other), DLK_YES);
    CHECK_STR(item, "read/write\nr:1 r 1 1031 0 me\nr:2 r 1 1031 0 me\n");
    CHECK_EQ_INT(carry_out(item, writer), DLK_HELD);
    reader.verb = other.verb = DLK_RELEASE;
    CHECK_EQ_INT(carry_out(item, reader), DLK_YES);
    CHECK_EQ_INT(carry_out(item, writer), DLK_HELD);
    CHECK_EQ_INT(carry_out(item, other), DLK_YES);
    CHECK_STR(item, "");
    CHECK_EQ_INT(carry_out(item, writer), DLK_YES);
    other.verb = DLK_ACQUIRE;
    CHECK_EQ_INT(carry_out(item, other), DLK_HELD);
    /* In place, the writer becomes a reader. */
    writer.verb = DLK_RENEW;
    writer.shared = true;
    CHECK_EQ_INT(carry_out(item, writer), DLK_YES);
    CHECK_EQ_INT(carry_out(item, other), DLK_YES);
    CHECK_STR(item, "read/write\nw:1 r 1 1031 0 me\nr:2 r 1 1031 0 me\n");
}

TEST(a_lease_is_over_at_its_second_and_not_before)
{
    char item[1024] = "";
    dlk_mc_wish one = wish_of(DLK_ACQUIRE, DLK_MC_READ_WRITE, "w:1");
    dlk_mc_wish two = wish_of(DLK_ACQUIRE, DLK_MC_READ_WRITE, "w:2");
    CHECK_EQ_INT(carry_out(item, one), DLK_YES);
    two.now = NOW + LEASE - 1;
    two.until = two.now + LEASE;
    CHECK_EQ_INT(carry_out(item, two), DLK_HELD);
    two.now = NOW + LEASE;
    two.until = two.now + LEASE;
    CHECK_EQ_INT(carry_out(item, two), DLK_YES);
    CHECK_STR(item, "read/write\nw:2 w 1 1062 0 me\n");
    one.verb = DLK_RENEW;
    CHECK_EQ_INT(carry_out(item, one), DLK_NOT_OURS);
    one.verb = DLK_RELEASE;
    CHECK_EQ_INT(carry_out(item, one), DLK_NOT_OURS);
}

TEST(whatever_end_others_have_written_the_wait_for_it_fits_the_clock)
{
    static const struct {
        const char *item;
        int64_t wait_ms;
    } cases[] = {
        {"read/write\nw:2 w 1 1031 0 me\n", LEASE * 1000},
        {"read/write\nw:2 w 1 9223372036854775807 0 me\n", DLK_SPAN_MAX_MS / 1000 * 1000},
        {"read/write\nw:2 w 1 9223372036854776 0 me\n", DLK_SPAN_MAX_MS / 1000 * 1000},
        {"a stranger's", -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        dlk_mc_wish wish = wish_of(DLK_ACQUIRE, DLK_MC_READ_WRITE, "w:1");
        const dlk_mc_text value = text_of(cases[i].item);
        dlk_buf out = {0};
        dlk_mc_plan plan = dlk_mc_record_plan(&wish, &value, &out);
        CHECK_EQ_INT(plan.reply, DLK_HELD);
        CHECK_EQ_INT(plan.wait_ms, cases[i].wait_ms);
        dlk_buf_free(&out);
    }
}

TEST(a_renewal_never_makes_a_lease_shorter)
{
    char item[1024] = "";
    dlk_mc_wish one = wish_of(DLK_ACQUIRE, DLK_MC_READ_WRITE, "w:1");
    CHECK_EQ_INT(carry_out(item, one), DLK_YES);
    one.verb = DLK_RENEW;
    one.until = NOW + 2;
    CHECK_EQ_INT(carry_out(item, one), DLK_YES);
    CHECK_STR(item, "read/write\nw:1 w 1 1031 0 me\n");
}

TEST(permits_are_counted_and_their_number_is_agreed_on)
{
    char item[1024] = "";
    dlk_mc_wish one = wish_of(DLK_ACQUIRE, DLK_MC_SEMAPHORE, "s:1");
    dlk_mc_wish two = wish_of(DLK_ACQUIRE, DLK_MC_SEMAPHORE, "s:2");
    one.take = two.take = 2;
    CHECK_EQ_INT(carry_out(item, one), DLK_YES);
    CHECK_STR(item, "semaphore 3\ns:1 r 2 1031 0 me\n");
    CHECK_EQ_INT(carry_out(item, two), DLK_HELD);
    two.take = 1;
    CHECK_EQ_INT(carry_out(item, two), DLK_YES);
    dlk_mc_wish three = wish_of(DLK_ACQUIRE, DLK_MC_SEMAPHORE, "s:3");
    three.permits = 4;
    CHECK_EQ_INT(carry_out(item, three), DLK_REFUSED);
    three.permits = 0; /* as it is */
    CHECK_EQ_INT(carry_out(item, three), DLK_HELD);
    one.verb = DLK_RELEASE;
    CHECK_EQ_INT(carry_out(item, one), DLK_YES);
    CHECK_EQ_INT(carry_out(item, three), DLK_YES);
    CHECK_STR(item, "semaphore 3\ns:2 r 1 1031 0 me\ns:3 r 1 1031 0 me\n");
    item[0] = '\0';
    CHECK_EQ_INT(carry_out(item, three), DLK_REFUSED);
}

TEST(what_lies_there_of_others_is_left_alone)
{
    static const char *const strange[] = {"x",
                                          "u:1 mutex 0 host:1",
                                          "u:1 election 0 ",
                                          "semaphore 3\ns:1 r 1 9999999999 0 x\n",
                                          "",
                                          "semaphore x\n"};
    for (size_t i = 0; i < sizeof(strange) / sizeof(*strange); i++) {
        char item[1024];
        dlk_mc_wish wish = wish_of(DLK_RELEASE, DLK_MC_READ_WRITE, "w:1");
        snprintf(item, sizeof(item), "%s", strange[i]);
        CHECK_EQ_INT(carry_out(item, wish), DLK_NOT_OURS);
        wish.verb = DLK_RENEW;
        CHECK_EQ_INT(carry_out(item, wish), DLK_NOT_OURS);
        CHECK_STR(item, strange[i]);
    }
}

/* It is the number of the store that granted it, which is known only afterwards. */
TEST(a_token_is_written_down_with_the_next_store)
{
    char item[1024] = "";
    dlk_mc_wish one = wish_of(DLK_ACQUIRE, DLK_MC_READ_WRITE, "r:1");
    dlk_mc_wish two = wish_of(DLK_ACQUIRE, DLK_MC_READ_WRITE, "r:2");
    one.shared = two.shared = true;
    CHECK_EQ_INT(carry_out(item, one), DLK_YES);
    two.seen = 71;
    CHECK_EQ_INT(carry_out(item, two), DLK_YES);
    CHECK_STR(item, "read/write\nr:1 r 1 1031 71 me\nr:2 r 1 1031 0 me\n");
    two.verb = DLK_RENEW;
    two.seen = 72;
    CHECK_EQ_INT(carry_out(item, two), DLK_YES);
    two.seen = 73;
    CHECK_EQ_INT(carry_out(item, two), DLK_YES);
    CHECK_STR(item, "read/write\nr:1 r 1 1031 71 me\nr:2 r 1 1031 72 me\n");
}

TEST(lines_that_make_no_sense_are_passed_over)
{
    char item[1024] = "read/write\nx\nw:9 w 1\nw:8 q 1 99999 0 a\nw:7 w x 99999 0 a\n"
                      "w:6 w 1 99999999999999999999 0 a\nw:5 w 1 99999 a\n\n";
    dlk_mc_wish wish = wish_of(DLK_ACQUIRE, DLK_MC_READ_WRITE, "w:1");
    CHECK_EQ_INT(carry_out(item, wish), DLK_YES);
    CHECK_STR(item, "read/write\nw:1 w 1 1031 0 me\n");
}

TEST(what_people_are_told_can_t_make_a_line)
{
    char item[1024] = "";
    dlk_mc_wish wish = wish_of(DLK_ACQUIRE, DLK_MC_READ_WRITE, "w:1");
    wish.shared = true;
    wish.about = text_of("a\nw:2 w 1 9999 0 x\r");
    CHECK_EQ_INT(carry_out(item, wish), DLK_YES);
    CHECK_STR(item, "read/write\nw:1 r 1 1031 0 a w:2 w 1 9999 0 x \n");
}

static bool is_shown(const char *value, size_t size)
{
    dlk_mc_record record = dlk_mc_record_of((dlk_mc_text){value, size});
    dlk_mc_holder holder;
    bool shown = dlk_mc_next_holder(&record, &holder);
    return shown && holder.owner.size == size &&
           memcmp(holder.owner.data, value, size) == 0;
}

TEST(a_strangers_value_is_its_owner_if_that_is_a_short_word)
{
    char value[130];
    memset(value, 'x', sizeof(value));
    CHECK(!is_shown(value, 0));
    CHECK(is_shown(value, 128));
    CHECK(!is_shown(value, 129));
    for (int c = 0; c < 256; c++) {
        value[2] = (char)c;
        CHECK_EQ_INT(is_shown(value, 3), c > ' ' && c <= '~');
    }
}
