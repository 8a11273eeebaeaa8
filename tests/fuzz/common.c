/* What fuzz targets share: eating inputs, failing, and a strict reader of JSON. */
#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char fuzz_litter[128];

fuzz_bytes fuzz_take_until(fuzz_bytes *bytes, uint8_t end)
{
    const uint8_t *found = bytes->left ? memchr(bytes->at, end, bytes->left) : NULL;
    fuzz_bytes taken =
        fuzz_take(bytes, found ? (size_t)(found - bytes->at) : bytes->left);
    (void)fuzz_byte(bytes); /* the end itself */
    return taken;
}

char *fuzz_text(fuzz_bytes bytes)
{
    char *text = malloc(bytes.left + 1);
    if (!text)
        abort();
    if (bytes.left > 0)
        memcpy(text, bytes.at, bytes.left);
    text[bytes.left] = '\0';
    return text;
}

void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s: %s:%d: not true: %s\n    ", fuzz_name, file, line, condition);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    abort();
}

/* ---- JSON, RFC 8259 ---- */

static bool hex_digits(const unsigned char *at)
{
    for (int i = 0; i < 4; i++)
        if (!at[i] || !strchr("0123456789abcdefABCDEF", at[i]))
            return false;
    return true;
}

/* The size of a well-formed UTF-8 sequence (RFC 3629), 0 when it is none. */
static size_t utf8_size(const unsigned char *at)
{
    if (at[0] < 0x80)
        return 1;
    size_t size = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    unsigned low = at[0] == 0xe0 ? 0xa0 : at[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = at[0] == 0xed ? 0x9f : at[0] == 0xf4 ? 0x8f : 0xbf;
    if (at[0] < 0xc2 || at[0] > 0xf4 || at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return size;
}

static const unsigned char *json_string(const unsigned char *at)
{
    if (*at++ != '"')
        return NULL;
    while (*at != '"') {
        size_t size = utf8_size(at);
        if (*at < ' ' || size == 0)
            return NULL;
        if (*at == '\\') {
            at++;
            if (*at == 'u' && hex_digits(at + 1))
                size = 5;
            else if (!*at || !strchr("\"\\/bfnrt", *at))
                return NULL;
        }
        at += size;
    }
    return at + 1;
}

static const unsigned char *json_number(const unsigned char *at)
{
    at += *at == '-';
    if (*at < '0' || *at > '9' || (at[0] == '0' && at[1] >= '0' && at[1] <= '9'))
        return NULL;
    return at + strspn((const char *)at, "0123456789"); /* ours are whole numbers */
}

static const unsigned char *json_value(const unsigned char *at, int depth);

static const unsigned char *json_items(const unsigned char *at, bool keyed, int depth)
{
    unsigned char end = keyed ? '}' : ']';
    at++;
    if (*at == end)
        return at + 1;
    for (;;) {
        if (keyed && (!(at = json_string(at)) || *at++ != ':'))
            return NULL;
        if (!(at = json_value(at, depth + 1)))
            return NULL;
        if (*at == end)
            return at + 1;
        if (*at++ != ',')
            return NULL;
    }
}

static const unsigned char *json_value(const unsigned char *at, int depth)
{
    if (depth > 64)
        return NULL;
    if (*at == '{' || *at == '[')
        return json_items(at, *at == '{', depth);
    if (*at == '"')
        return json_string(at);
    return strncmp((const char *)at, "null", 4) == 0 ? at + 4 : json_number(at);
}

void fuzz_check_json(const char *text)
{
    const unsigned char *end = json_value((const unsigned char *)text, 0);
    FUZZ_CHECK(end && *end == '\0', "an info isn't JSON: %s", text);
}
