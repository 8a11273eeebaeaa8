/* UTF-8 and control characters; see the header. */
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t dlk_utf8_size(const char *text, size_t left)
{
    static const struct {
        unsigned char first_min, first_max, second_min, second_max;
        size_t size;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
        {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (at[0] < forms[i].first_min || at[0] > forms[i].first_max)
            continue;
        if (left < forms[i].size || at[1] < forms[i].second_min ||
            at[1] > forms[i].second_max)
            return 0;
        for (size_t j = 2; j < forms[i].size; j++)
            if ((at[j] & 0xc0) != 0x80)
                return 0;
        return forms[i].size;
    }
    return 0;
}

void dlk_text_one_line(char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t size = dlk_utf8_size(text, left);
        unsigned char c = (unsigned char)*text;
        if (dlk_utf8_is_c1(text, size))
            memset(text, ' ', size);
        else if (c < 0x20 || c == 0x7f || (size == 0 && c >= 0x80 && c < 0xa0))
            *text = ' ';
        size += size == 0;
        text += size;
        left -= size;
    }
}

char *dlk_text_shown(const char *text)
{
    size_t left = strlen(text), used = 0;
    char *shown = malloc(left * 4 + 1);
    while (shown && left > 0) {
        size_t size = dlk_utf8_size(text, left);
        unsigned char c = (unsigned char)*text;
        if (size == 0 || c < 0x20 || c == 0x7f || dlk_utf8_is_c1(text, size)) {
            for (size_t i = 0; i < (size ? size : 1); i++, used += 4)
                snprintf(shown + used, 5, "\\x%02x", (unsigned char)text[i]);
        } else {
            if (c == '\\')
                shown[used++] = '\\';
            memcpy(shown + used, text, size);
            used += size;
        }
        size += size == 0;
        text += size;
        left -= size;
    }
    if (shown)
        shown[used] = '\0';
    return shown;
}
