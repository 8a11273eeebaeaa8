/* Secrets in pages of their own; see the header. There are few of them, so a page each is no waste,
 * and what the kernel is told about a page can't touch anything else. */
#include "util/secret.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_SIZE 4096 /* or a part of a larger one: the kernel rounds up */

typedef struct hidden {
    size_t size; /* of the mapping */
    _Atomic unsigned owners;
    char text[];
} hidden;

/* No compiler knows what this will be, so none leaves the call out. explicit_bzero isn't everywhere. */
static void *(*const volatile set)(void *, int, size_t) = memset;

void dlk_wipe(void *data, size_t size)
{
    (void)set(data, 0, size);
}

void *dlk_hidden_map(size_t *size)
{
    if (*size > (size_t)-1 - PAGE_SIZE)
        return NULL;
    *size = (*size + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
    void *pages =
        mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
        /* Fails where the kernel is short of memory: then a core dump could have it, and we go on. So it is
     * where a system knows nothing of the kind. */
#ifdef MADV_DONTDUMP
    (void)madvise(pages, *size, MADV_DONTDUMP);
#endif
    return pages;
}

void dlk_hidden_unmap(void *pages, size_t size)
{
    dlk_wipe(pages, size);
    (void)munmap(pages, size); /* just what was mapped */
}

char *dlk_secret_new(size_t size)
{
    size_t all = sizeof(hidden) + size;
    hidden *made = dlk_hidden_map(&all);
    if (!made)
        return NULL;
    made->size = all;
    atomic_init(&made->owners, 1);
    return made->text;
}

char *dlk_secret_dup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = dlk_secret_new(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

static hidden *of(char *secret)
{
    return (hidden *)(void *)(secret - offsetof(hidden, text));
}

char *dlk_secret_share(char *secret)
{
    atomic_fetch_add(&of(secret)->owners, 1);
    return secret;
}

void dlk_secret_free(char *secret)
{
    if (secret && atomic_fetch_sub(&of(secret)->owners, 1) == 1)
        dlk_hidden_unmap(of(secret), of(secret)->size);
}

void dlk_wipe_free(char *text)
{
    if (!text)
        return;
    dlk_wipe(text, strlen(text));
    free(text);
}
