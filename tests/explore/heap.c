/* The arena; see the header. The library's calls come here by --wrap. */
#include "heap.h"

#ifdef EXPLORE_OWN_HEAP
#include "strand.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA   ((size_t)8 << 20)
#define RUBBISH 0xDB

typedef struct block {
    uint64_t size, freed;
} block;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *old);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *old);
char *__wrap_strdup(const char *text);
__attribute__((format(printf, 2, 0))) int __wrap_vasprintf(char **ret, const char *format,
                                                           va_list args);
__attribute__((format(printf, 2, 3))) int __wrap_asprintf(char **ret, const char *format,
                                                          ...);
__attribute__((format(printf, 3, 0))) int
__wrap___vasprintf_chk(char **ret, int flag, const char *format, va_list args);
__attribute__((format(printf, 3, 4))) int __wrap___asprintf_chk(char **ret, int flag,
                                                                const char *format, ...);

static char *arena;
static size_t used;
static bool on;

static block *of(void *memory)
{
    return (block *)memory - 1;
}

static bool is_ours(const void *memory)
{
    return arena && (const char *)memory >= arena && (const char *)memory < arena + ARENA;
}

void heap_begin(void)
{
    if (!arena) {
        arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena == MAP_FAILED)
            explore_fail("no memory for the arena");
    }
    used = 0;
    on = true;
}

static bool is_rubbish(const unsigned char *at, size_t size)
{
    return size == 0 || (at[0] == RUBBISH && memcmp(at, at + 1, size - 1) == 0);
}

const char *heap_end(void)
{
    static char text[80];
    const char *wrong = NULL;
    on = false;
    for (size_t at = 0; at < used;) {
        block *one = (block *)(void *)(arena + at);
        if (!one->freed) {
            (void)snprintf(text, sizeof(text), "%llu bytes are never freed",
                           (unsigned long long)one->size);
            wrong = text;
        } else if (!is_rubbish((const unsigned char *)(one + 1), one->size)) {
            wrong = "what has been freed was written to";
        }
        at += sizeof(*one) + ((one->size + 15) & ~(size_t)15);
    }
    return wrong;
}

void *__wrap_malloc(size_t size)
{
    size_t whole = sizeof(block) + ((size + 15) & ~(size_t)15);
    if (!on)
        return __real_malloc(size);
    if (ARENA - used < whole)
        explore_fail("an execution takes more than %zu bytes", ARENA);
    block *one = (block *)(void *)(arena + used);
    used += whole;
    *one = (block){.size = size};
    return one + 1;
}

void *__wrap_calloc(size_t count, size_t size)
{
    if (!on)
        return __real_calloc(count, size);
    void *memory = __wrap_malloc(count * size);
    memset(memory, 0, count * size);
    return memory;
}

void __wrap_free(void *old)
{
    if (!is_ours(old)) {
        __real_free(old);
        return;
    }
    block *one = of(old);
    if (one->freed)
        explore_fail("%llu bytes are freed twice", (unsigned long long)one->size);
    one->freed = 1;
    memset(old, RUBBISH, one->size);
}

void *__wrap_realloc(void *old, size_t size)
{
    if (!on && !is_ours(old))
        return __real_realloc(old, size);
    void *memory = __wrap_malloc(size);
    if (old) {
        size_t had = of(old)->size;
        memcpy(memory, old, had < size ? had : size);
        __wrap_free(old);
    }
    return memory;
}

char *__wrap_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(__wrap_malloc(size), text, size);
}

int __wrap_vasprintf(char **ret, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    *ret = __wrap_malloc((size_t)size + 1);
    return vsnprintf(*ret, (size_t)size + 1, format, args);
}

int __wrap_asprintf(char **ret, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int size = __wrap_vasprintf(ret, format, args);
    va_end(args);
    return size;
}

int __wrap___vasprintf_chk(char **ret, int flag, const char *format, va_list args)
{
    (void)flag;
    return __wrap_vasprintf(ret, format, args);
}

int __wrap___asprintf_chk(char **ret, int flag, const char *format, ...)
{
    (void)flag;
    va_list args;
    va_start(args, format);
    int size = __wrap_vasprintf(ret, format, args);
    va_end(args);
    return size;
}

#else

void heap_begin(void)
{
}

const char *heap_end(void)
{
    return NULL;
}
#endif
