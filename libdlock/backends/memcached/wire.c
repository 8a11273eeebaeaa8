/* Requests and replies of memcached's text protocol; see the header. The forms of both are those of
 * memcached's doc/protocol.txt. */
#include "backends/memcached/wire.h"

#include "util/digits.h"
#include "util/number.h"

#include <string.h>

/* ---- requests ---- */

/* What stands around key, numbers and value in the longest request. */
#define AROUND 32

static char *put(char *to, const char *data, size_t size)
{
    memcpy(to, data, size);
    return to + size;
}

static char *put_word(char *to, const char *word)
{
    return put(to, word, strlen(word));
}

static char *put_meta_store(char *to, dlk_mc_text key, size_t size, int64_t seconds,
                            uint64_t cas)
{
    to = put(put_word(to, "ms "), key.data, key.size);
    to = dlk_digits_put(put_word(to, " "), size);
    to = dlk_digits_put(put_word(to, " T"), (uint64_t)seconds);
    to = put_word(to, cas ? " c C" : " c ME");
    return cas ? dlk_digits_put(to, cas) : to;
}

static char *put_classic_store(char *to, dlk_mc_text key, size_t size, int64_t seconds,
                               uint64_t cas)
{
    to = put(put_word(to, cas ? "cas " : "add "), key.data, key.size);
    to = put_word(to, seconds < 0 ? " 0 -" : " 0 ");
    to = dlk_digits_put(to, (uint64_t)(seconds < 0 ? -seconds : seconds));
    to = dlk_digits_put(put_word(to, " "), size);
    return cas ? dlk_digits_put(put_word(to, " "), cas) : to;
}

bool dlk_mc_put_store(dlk_buf *out, bool meta, dlk_mc_text key, dlk_mc_text value,
                      int64_t seconds, uint64_t cas)
{
    char *from =
        dlk_buf_room(out, key.size + value.size + (size_t)3 * DLK_DIGITS_MAX + AROUND);
    if (!from)
        return false;
    char *to = meta ? put_meta_store(from, key, value.size, seconds, cas)
                    : put_classic_store(from, key, value.size, seconds, cas);
    to = put(put_word(to, "\r\n"), value.data, value.size);
    to = put_word(to, "\r\n");
    dlk_buf_added(out, (size_t)(to - from));
    return true;
}

bool dlk_mc_put_read(dlk_buf *out, bool meta, dlk_mc_text key)
{
    char *from = dlk_buf_room(out, key.size + AROUND);
    if (!from)
        return false;
    char *to = put(put_word(from, meta ? "mg " : "gets "), key.data, key.size);
    to = put_word(to, meta ? " v c t\r\n" : "\r\n");
    dlk_buf_added(out, (size_t)(to - from));
    return true;
}

bool dlk_mc_put_drop(dlk_buf *out, bool meta, dlk_mc_text key, uint64_t cas)
{
    /* A store whose time is over already: the classic delete asks for no number. */
    if (!meta)
        return dlk_mc_put_store(out, false, key, (dlk_mc_text){"", 0}, -1, cas);
    char *from = dlk_buf_room(out, key.size + DLK_DIGITS_MAX + AROUND);
    if (!from)
        return false;
    char *to = put(put_word(from, "md "), key.data, key.size);
    to = dlk_digits_put(put_word(to, " C"), cas);
    to = put_word(to, "\r\n");
    dlk_buf_added(out, (size_t)(to - from));
    return true;
}

bool dlk_mc_put_line(dlk_buf *out, const char *line)
{
    char *from = dlk_buf_room(out, strlen(line) + 2);
    if (!from)
        return false;
    (void)put_word(put_word(from, line), "\r\n");
    dlk_buf_added(out, strlen(line) + 2);
    return true;
}

/* ---- replies ---- */

/* Seconds that no lease comes near. */
#define LEFT_MAX (DLK_SPAN_MAX_MS / 1000)

/* The rest of a line, eaten word by word. */
typedef struct rest {
    const char *at, *end;
} rest;

static dlk_mc_text next_word(rest *line)
{
    while (line->at < line->end && *line->at == ' ')
        line->at++;
    const char *from = line->at;
    while (line->at < line->end && *line->at != ' ')
        line->at++;
    return (dlk_mc_text){from, (size_t)(line->at - from)};
}

static bool is(dlk_mc_text word, const char *text)
{
    return word.size == strlen(text) && memcmp(word.data, text, word.size) == 0;
}

static bool number_of(dlk_mc_text digits, uint64_t *ret)
{
    return dlk_number_digits(digits.data, digits.size, UINT64_MAX, ret);
}

/* The flags that a meta command answers with. False: one of ours isn't a number. */
static bool take_flags(rest *line, dlk_mc_reply *ret)
{
    for (;;) {
        dlk_mc_text flag = next_word(line);
        if (flag.size == 0)
            return true;
        dlk_mc_text value = {flag.data + 1, flag.size - 1};
        uint64_t number = 0;
        if (flag.data[0] == 'c' && !number_of(value, &ret->cas))
            return false;
        if (flag.data[0] != 't' || is(value, "-1"))
            continue;
        if (!dlk_number_digits(value.data, value.size, LEFT_MAX, &number))
            return false;
        ret->left = (int64_t)number;
    }
}

/* The data behind a line that announces @p size bytes of it, and what ends them. */
static dlk_mc_got take_value(const char *data, size_t size, size_t line, uint64_t value,
                             const char *end, dlk_mc_reply *ret, size_t *ret_used)
{
    size_t end_size = strlen(end);
    if (value > DLK_MC_VALUE_MAX)
        return DLK_MC_BAD;
    size_t whole = line + (size_t)value + end_size;
    if (size < whole)
        return DLK_MC_MORE;
    if (memcmp(data + whole - end_size, end, end_size) != 0)
        return DLK_MC_BAD;
    ret->kind = DLK_MC_VALUE;
    ret->text = data + line;
    ret->size = (size_t)value;
    *ret_used = whole;
    return DLK_MC_ONE;
}

/* VALUE <key> <flags> <bytes> <cas> */
static bool take_classic_head(rest *line, uint64_t *ret_size, uint64_t *ret_cas)
{
    (void)next_word(line); /* one key was asked for */
    (void)next_word(line);
    return number_of(next_word(line), ret_size) && number_of(next_word(line), ret_cas);
}

static const struct {
    const char *word;
    dlk_mc_kind kind;
    enum { NOTHING, FLAGS, TEXT, PAIR } then;
} words[] = {
    {"HD", DLK_MC_DONE, FLAGS},
    {"OK", DLK_MC_DONE, FLAGS}, /* instead of HD, with -o meta_response_old */
    {"STORED", DLK_MC_DONE, NOTHING},
    {"NS", DLK_MC_NOT_STORED, FLAGS},
    {"NOT_STORED", DLK_MC_NOT_STORED, NOTHING},
    {"EX", DLK_MC_CHANGED, FLAGS},
    {"EXISTS", DLK_MC_CHANGED, NOTHING},
    {"NF", DLK_MC_GONE, FLAGS},
    {"NOT_FOUND", DLK_MC_GONE, NOTHING},
    {"EN", DLK_MC_GONE, FLAGS},
    {"END", DLK_MC_GONE, NOTHING},
    {"STAT", DLK_MC_STAT, PAIR},
    {"MN", DLK_MC_BARRIER, NOTHING},
    {"VERSION", DLK_MC_VERSION, TEXT},
    {"ERROR", DLK_MC_UNKNOWN, TEXT},
    {"CLIENT_ERROR", DLK_MC_CLIENT_ERROR, TEXT},
    {"SERVER_ERROR", DLK_MC_SERVER_ERROR, TEXT},
};

/* A line that is a whole reply. */
static dlk_mc_got take_line(dlk_mc_text word, rest *line, dlk_mc_reply *ret)
{
    size_t i = 0;
    while (i < sizeof(words) / sizeof(*words) && !is(word, words[i].word))
        i++;
    if (i == sizeof(words) / sizeof(*words))
        return DLK_MC_BAD;
    ret->kind = words[i].kind;
    if (words[i].then == FLAGS)
        return take_flags(line, ret) ? DLK_MC_ONE : DLK_MC_BAD;
    if (words[i].then == PAIR) {
        dlk_mc_text name = next_word(line);
        ret->name = name.data;
        ret->name_size = name.size;
    }
    if (line->at < line->end && *line->at == ' ')
        line->at++;
    ret->text = line->at;
    ret->size = (size_t)(line->end - line->at);
    return words[i].then != NOTHING || ret->size == 0 ? DLK_MC_ONE : DLK_MC_BAD;
}

dlk_mc_got dlk_mc_parse(const char *data, size_t size, dlk_mc_reply *ret,
                        size_t *ret_used)
{
    const char *newline =
        memchr(data, '\n', size < DLK_MC_LINE_MAX ? size : DLK_MC_LINE_MAX);
    if (!newline)
        return size < DLK_MC_LINE_MAX ? DLK_MC_MORE : DLK_MC_BAD;
    if (newline == data || newline[-1] != '\r')
        return DLK_MC_BAD;
    rest line = {data, newline - 1};
    size_t line_size = (size_t)(newline - data) + 1;
    uint64_t value = 0;
    *ret = (dlk_mc_reply){.left = -1, .text = "", .name = ""};
    dlk_mc_text word = next_word(&line);
    if (is(word, "VA"))
        return number_of(next_word(&line), &value) && take_flags(&line, ret)
                   ? take_value(data, size, line_size, value, "\r\n", ret, ret_used)
                   : DLK_MC_BAD;
    if (is(word, "VALUE"))
        return take_classic_head(&line, &value, &ret->cas)
                   ? take_value(data, size, line_size, value, "\r\nEND\r\n", ret,
                                ret_used)
                   : DLK_MC_BAD;
    *ret_used = line_size;
    return take_line(word, &line, ret);
}

bool dlk_mc_name_is(const dlk_mc_reply *reply, const char *name)
{
    return is((dlk_mc_text){reply->name, reply->name_size}, name);
}

bool dlk_mc_text_is(const dlk_mc_reply *reply, const char *text)
{
    return is((dlk_mc_text){reply->text, reply->size}, text);
}

bool dlk_mc_number(const dlk_mc_reply *reply, int64_t *ret)
{
    return dlk_number_read(reply->text, reply->size, 0, INT64_MAX, ret);
}
