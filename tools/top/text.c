/*
 * See text.h.
 */
#include "top/text.h"

#include "cli.h"

#include <string.h>
#include <wchar.h>

/* What is written to, always with room for its end. */
typedef struct place {
    char *at, *end;
} place;

static bool put(place *to, const void *text, size_t size)
{
    if ((size_t)(to->end - to->at) <= size)
        return false;
    memcpy(to->at, text, size);
    to->at += size;
    *to->at = '\0';
    return true;
}

static place begin(char *ret, size_t size)
{
    ret[0] = '\0';
    return (place){ret, ret + size};
}

static uint32_t decode(const unsigned char *at, size_t size)
{
    if (size == 1)
        return at[0];
    uint32_t code = at[0] & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; i++)
        code = code << 6 | (at[i] & 0x3f);
    return code;
}

/* Format characters change what stands beside them: its direction, its joining. */
static bool is_format(uint32_t code)
{
    return code == 0xad || code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
           code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb) ||
           (code >= 0xe0000 && code <= 0xe0fff);
}

/* One character of a text: as it is to be written, and its cells. */
typedef struct character {
    const void *text;
    size_t size, read;
    int cells;
} character;

static character next_character(const unsigned char *at, bool utf8)
{
    size_t size = cli_utf8_size(at);
    character shown = {.text = "?", .size = 1, .read = size > 0 ? size : 1, .cells = 1};
    if (size == 0 || (size > 1 && !utf8))
        return shown;
    uint32_t code = decode(at, size);
    int cells =
        size == 1 ? (code >= ' ' && code < 0x7f ? 1 : -1) : wcwidth((wchar_t)code);
    if (cells < 0 || is_format(code))
        return shown;
    return (character){at, size, size, cells};
}

/* How many of its cells the text takes, up to `most`. */
static int measure(const char *text, int most, bool utf8)
{
    int cells = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at && cells <= most;) {
        character next = next_character(at, utf8);
        cells += next.cells;
        at += next.read;
    }
    return cells;
}

void top_text_cells(char *ret, size_t size, const char *text, int cells, bool utf8)
{
    enum { COMBINING_MAX = 2 };
    place to = begin(ret, size);
    if (cells <= 0)
        return;
    bool cut = measure(text, cells, utf8) > cells;
    int room = cut ? cells - 1 : cells, used = 0, combined = COMBINING_MAX;
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        character next = next_character(at, utf8);
        at += next.read;
        if (next.cells == 0) { /* at the start there is no base */
            if (combined++ < COMBINING_MAX && !put(&to, next.text, next.size))
                return;
            continue;
        }
        if (used + next.cells > room)
            break;
        if (!put(&to, next.text, next.size))
            return;
        combined = 0;
        used += next.cells;
    }
    if (cut) {
        for (; used < room; used++)
            (void)put(&to, " ", 1);
        (void)(utf8 ? put(&to, "…", strlen("…")) : put(&to, "~", 1));
        used++;
    }
    while (used++ < cells && put(&to, " ", 1)) {
    }
}

void top_text_age(char *ret, size_t size, int64_t ms, bool at_least)
{
    const char *more = at_least ? ">" : "";
    long long s = (long long)(ms / 1000);
    if (ms < 0)
        (void)snprintf(ret, size, "-");
    else if (s < 60)
        (void)snprintf(ret, size, "%s%llds", more, s);
    else if (s < 3600)
        (void)snprintf(ret, size, "%s%lldm%02llds", more, s / 60, s % 60);
    else if (s < 86400)
        (void)snprintf(ret, size, "%s%lldh%02lldm", more, s / 3600, s / 60 % 60);
    else
        (void)snprintf(ret, size, "%s%lldd%02lldh", more, s / 86400, s / 3600 % 24);
}

void top_text_bar(char *ret, size_t size, int64_t left, int64_t whole, int cells,
                  bool utf8)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    place to = begin(ret, size);
    if (left > whole)
        left = whole;
    int64_t parts = whole > 0 && left > 0 ? left * cells * 8 / whole : 0;
    int used = 0;
    for (; used < parts / 8; used++)
        (void)(utf8 ? put(&to, "█", strlen("█")) : put(&to, "#", 1));
    if (utf8 && parts % 8 > 0) {
        (void)put(&to, eighths[parts % 8], strlen(eighths[parts % 8]));
        used++;
    }
    while (used++ < cells && (utf8 ? put(&to, " ", 1) : put(&to, ".", 1))) {
    }
}

void top_text_history(char *ret, size_t size, const int64_t *values, int count, bool utf8)
{
    static const char *const high[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char plain[] = "_.-~:=+#";
    place to = begin(ret, size);
    int64_t largest = 1;
    for (int i = 0; i < count; i++)
        largest = values[i] > largest ? values[i] : largest;
    for (int i = 0; i < count; i++) {
        int64_t step = values[i] < 0 ? -1 : values[i] * 7 / largest;
        if (step < 0)
            (void)put(&to, "x", 1);
        else if (utf8)
            (void)put(&to, high[step], strlen(high[step]));
        else
            (void)put(&to, &plain[step], 1);
    }
}

void top_text_ms(char *ret, size_t size, int64_t us)
{
    if (us < 0)
        (void)snprintf(ret, size, "-");
    else if (us < 1000)
        (void)snprintf(ret, size, "%lld us", (long long)us);
    else if (us < 10000)
        (void)snprintf(ret, size, "%.2f ms", (double)us / 1000);
    else
        (void)snprintf(ret, size, "%lld ms", (long long)(us / 1000));
}
