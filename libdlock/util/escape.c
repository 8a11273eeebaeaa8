/* Names as keys; see the header. */
#include "util/escape.h"

#include <stdlib.h>
#include <string.h>

#define MARK_SIZE (sizeof(DLK_ESCAPE_MARK) - 1)

static const char hex[] = "0123456789ABCDEF";

static bool is_marked(const char *text, size_t size)
{
    return size >= MARK_SIZE && memcmp(text, DLK_ESCAPE_MARK, MARK_SIZE) == 0;
}

static bool can_be_a_key(const dlk_alphabet *alphabet, const char *name, size_t size)
{
    for (size_t i = 0, step; i < size; i += step)
        if ((step = alphabet->character(name + i, size - i)) == 0)
            return false;
    return !alphabet->reserved || !alphabet->reserved(name, size);
}

/* @p to has room for three bytes for each of the name's; what is behind them is returned. */
static char *put_escaped(const dlk_alphabet *alphabet, const char *name, size_t size,
                         char *to)
{
    for (size_t i = 0; i < size;) {
        size_t step = name[i] == '%' ? 0 : alphabet->character(name + i, size - i);
        if (step > 0) {
            memcpy(to, name + i, step);
            to += step;
            i += step;
            continue;
        }
        unsigned char byte = (unsigned char)name[i++];
        *to++ = '%';
        *to++ = hex[byte >> 4];
        *to++ = hex[byte & 15];
    }
    return to;
}

char *dlk_escape(const dlk_alphabet *alphabet, const char *name, size_t size)
{
    char *key = malloc(MARK_SIZE + 3 * size + 1), *end = key;
    if (!key)
        return NULL;
    if (can_be_a_key(alphabet, name, size) && !is_marked(name, size)) {
        memcpy(key, name, size);
        end += size;
    } else {
        memcpy(key, DLK_ESCAPE_MARK, MARK_SIZE);
        end = put_escaped(alphabet, name, size, key + MARK_SIZE);
    }
    *end = '\0';
    return key;
}

static unsigned digit_of(char c)
{
    const char *at = c ? strchr(hex, c) : NULL;
    return at ? (unsigned)(at - hex) : 16;
}

/* What the key may have been made of: whether it was, only making it again tells. */
static void undo(const char *key, size_t size, char *to)
{
    for (size_t i = 0; i < size; i++) {
        unsigned high = key[i] == '%' && size - i > 2 ? digit_of(key[i + 1]) : 16;
        unsigned low = high < 16 ? digit_of(key[i + 2]) : 16;
        if (low < 16) {
            *to++ = (char)(high << 4 | low);
            i += 2;
        } else {
            *to++ = key[i];
        }
    }
    *to = '\0';
}

char *dlk_unescape(const dlk_alphabet *alphabet, const char *key, size_t size)
{
    char *name = malloc(size + 1);
    if (!name)
        return NULL;
    if (is_marked(key, size)) {
        undo(key + MARK_SIZE, size - MARK_SIZE, name);
        char *again = dlk_escape(alphabet, name, strlen(name));
        bool made = again && strlen(again) == size && memcmp(again, key, size) == 0;
        bool no_memory = !again;
        free(again);
        if (made)
            return name;
        if (no_memory) {
            free(name);
            return NULL;
        }
    }
    memcpy(name, key, size);
    name[size] = '\0';
    return name;
}
