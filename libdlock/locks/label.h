/* What a handle has its holds show (lock.data): one text for the handle, its waits and its grants,
 * whichever is there longest. NULL is none. Under the engine's mutex. */
#ifndef DLK_LOCKS_LABEL_H
#define DLK_LOCKS_LABEL_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct dlk_label {
    int refs;
    char text[];
} dlk_label;

/* With one reference; NULL without memory. */
static inline dlk_label *dlk_label_new(const char *text)
{
    size_t size = strlen(text) + 1;
    dlk_label *label = malloc(sizeof(*label) + size);
    if (!label)
        return NULL;
    label->refs = 1;
    memcpy(label->text, text, size);
    return label;
}

static inline dlk_label *dlk_label_ref(dlk_label *label)
{
    if (label)
        label->refs++;
    return label;
}

static inline void dlk_label_unref(dlk_label *label)
{
    if (label && --label->refs == 0)
        free(label);
}

static inline const char *dlk_label_text(const dlk_label *label)
{
    return label ? label->text : "";
}

static inline bool dlk_label_same(const dlk_label *a, const dlk_label *b)
{
    return a == b || strcmp(dlk_label_text(a), dlk_label_text(b)) == 0;
}

#endif
