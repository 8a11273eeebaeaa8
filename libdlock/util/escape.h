/*
 * Names as keys of a service whose keys can't have every byte (docs/design/0003-names.md). A name that can
 * be a key is that key. Any other is written behind a mark, with % and two hexadecimal digits for
 * each byte that can't be there, and for %. So is a name that begins with the mark itself: no two
 * names have one key, and a key tells its name.
 */
#ifndef DLK_UTIL_ESCAPE_H
#define DLK_UTIL_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

/* No percent-encoding has a % and a d and an l behind it: nobody else's keys begin so by chance. */
#define DLK_ESCAPE_MARK "%dlock:"

/* What the keys of a service can be. */
typedef struct dlk_alphabet {
    /* The size of the character at @p text, of which @p left bytes are there; 0: no key has it. */
    size_t (*character)(const char *text, size_t left);
    /* Whether the whole can't be a key all the same; NULL: it can. */
    bool (*reserved)(const char *name, size_t size);
} dlk_alphabet;

/* Yours to free; NULL without memory. */
char *dlk_escape(const dlk_alphabet *alphabet, const char *name, size_t size);
/* The name that has this key. One that no name has, since somebody else wrote it, is its own. */
char *dlk_unescape(const dlk_alphabet *alphabet, const char *key, size_t size);

#endif
