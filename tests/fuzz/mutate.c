/* The corpus, and new inputs made of it: a few small changes, one upon the other. */
#include "driver.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANGES_MAX 6
#define CORPUS_MAX  8192

/* ---- the corpus ---- */

void fuzz_corpus_add(fuzz_corpus *corpus, const uint8_t *data, size_t size)
{
    if (corpus->count == CORPUS_MAX)
        return;
    if (corpus->count == corpus->capacity) {
        corpus->capacity = corpus->capacity ? corpus->capacity * 2 : 64;
        corpus->items = realloc(corpus->items, corpus->capacity * sizeof(*corpus->items));
        if (!corpus->items)
            abort();
    }
    fuzz_input *input = &corpus->items[corpus->count++];
    *input = (fuzz_input){.data = malloc(size + 1), .size = size};
    if (!input->data)
        abort();
    memcpy(input->data, data, size);
}

bool fuzz_read_file(const char *path, fuzz_input *ret)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return false;
    size_t room = 1u << 20;
    *ret = (fuzz_input){.data = malloc(room), .size = 0};
    if (ret->data)
        ret->size = fread(ret->data, 1, room, file);
    bool fine = ret->data && !ferror(file);
    (void)fclose(file); /* it was only read */
    if (!fine)
        free(ret->data);
    return fine;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

bool fuzz_corpus_read(fuzz_corpus *corpus, const char *directory)
{
    struct dirent **names = NULL;
    int count = scandir(directory, &names, visible, alphasort);
    for (int i = 0; i < count; i++) {
        char path[4096];
        fuzz_input input;
        (void)snprintf(path, sizeof(path), "%s/%s", directory, names[i]->d_name);
        free(names[i]);
        if (!fuzz_read_file(path, &input))
            continue; /* a directory, say: what lies there isn't ours to judge */
        fuzz_corpus_add(corpus, input.data, input.size);
        free(input.data);
    }
    free(names);
    return count >= 0;
}

void fuzz_corpus_free(fuzz_corpus *corpus)
{
    for (size_t i = 0; i < corpus->count; i++)
        free(corpus->items[i].data);
    free(corpus->items);
    *corpus = (fuzz_corpus){0};
}

/* ---- changes ---- */

typedef struct draft {
    uint8_t *data;
    size_t size;
    dlk_rand *dice;
} draft;

static size_t below(dlk_rand *dice, size_t limit)
{
    return limit ? (size_t)(dlk_rand_next(dice) % limit) : 0;
}

/* Room for @p size bytes at @p at; how much there was. */
static size_t open_gap(draft *it, size_t at, size_t size)
{
    if (size > fuzz_longest - it->size)
        size = fuzz_longest - it->size;
    memmove(it->data + at + size, it->data + at, it->size - at);
    it->size += size;
    return size;
}

/* Puts @p size bytes in, or over what is there. */
static void put(draft *it, const uint8_t *from, size_t size, bool over)
{
    size_t at = below(it->dice, it->size + 1);
    if (over)
        size = size < it->size - at ? size : it->size - at;
    else
        size = open_gap(it, at, size);
    memcpy(it->data + at, from, size);
}

static void change_word(draft *it)
{
    size_t count = 0;
    while (fuzz_words[count])
        count++;
    if (count == 0)
        return;
    const char *word = fuzz_words[below(it->dice, count)];
    put(it, (const uint8_t *)word, strlen(word), below(it->dice, 4) == 0);
}

static void change_bytes(draft *it)
{
    static const int8_t strange[] = {0, 1, -1, 127, -128, 16, 32, 64, 100, 10, 13};
    if (it->size == 0)
        return;
    uint8_t *at = &it->data[below(it->dice, it->size)];
    switch (below(it->dice, 4)) {
    case 0:
        *at = (uint8_t)(*at ^ (1u << below(it->dice, 8)));
        return;
    case 1:
        *at = (uint8_t)dlk_rand_next(it->dice);
        return;
    case 2:
        *at = (uint8_t)(*at + below(it->dice, 17) - 8);
        return;
    default:
        *at = (uint8_t)strange[below(it->dice, sizeof(strange))];
        return;
    }
}

/* A number in the input, little-endian or in digits, becomes another one. */
static void change_number(draft *it)
{
    static const uint64_t strange[] = {0,          1,          0x7f,      0xff,
                                       0x7fff,     0xffff,     0x10000,   0x7fffffff,
                                       0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX};
    uint64_t number = strange[below(it->dice, sizeof(strange) / sizeof(strange[0]))];
    number += below(it->dice, 3) - 1;
    if (below(it->dice, 2) == 0) {
        put(it, (const uint8_t *)&number, (size_t)1 << below(it->dice, 4), true);
        return;
    }
    char digits[24];
    int size = snprintf(digits, sizeof(digits), "%lld", (long long)number);
    size_t at = below(it->dice, it->size + 1), end;
    while (at < it->size && (it->data[at] < '0' || it->data[at] > '9'))
        at++;
    for (end = at; end < it->size && it->data[end] >= '0' && it->data[end] <= '9';)
        end++;
    memmove(it->data + at, it->data + end, it->size - end);
    it->size -= end - at;
    memcpy(it->data + at, digits, open_gap(it, at, (size_t)size));
}

static void drop_piece(draft *it)
{
    size_t at = below(it->dice, it->size);
    size_t size = below(it->dice, below(it->dice, it->size - at + 1) + 1);
    memmove(it->data + at, it->data + at + size, it->size - at - size);
    it->size -= size;
}

/* A piece of the input once more, elsewhere; now and then one byte many times. */
static void repeat_piece(draft *it)
{
    uint8_t piece[1024];
    size_t at = below(it->dice, it->size);
    size_t size = below(it->dice, it->size - at < 64 ? it->size - at + 1 : 64);
    if (it->size == 0)
        return;
    memcpy(piece, it->data + at, size);
    if (below(it->dice, 8) == 0) {
        size = below(it->dice, sizeof(piece));
        memset(piece, it->data[at], size);
    }
    put(it, piece, size, below(it->dice, 3) == 0);
}

static void splice(draft *it, const fuzz_corpus *corpus)
{
    const fuzz_input *other = &corpus->items[below(it->dice, corpus->count)];
    size_t at = below(it->dice, other->size);
    size_t size = below(it->dice, other->size - at + 1);
    if (below(it->dice, 2) == 0)
        it->size = below(it->dice, it->size + 1); /* our head, their tail */
    put(it, other->data + at, size, below(it->dice, 4) == 0);
}

static void change(draft *it, const fuzz_corpus *corpus)
{
    switch (below(it->dice, 12)) {
    case 0:
        drop_piece(it);
        return;
    case 1:
        repeat_piece(it);
        return;
    case 2:
        splice(it, corpus);
        return;
    case 3:
    case 4:
    case 5:
        change_word(it);
        return;
    case 6:
        change_number(it);
        return;
    default:
        change_bytes(it);
        return;
    }
}

size_t fuzz_mutate(const fuzz_corpus *corpus, dlk_rand *dice, uint8_t *out)
{
    /* Half of the time one of the latest, which have reached what the others haven't. */
    size_t late = corpus->count / 8;
    size_t pick = below(dice, corpus->count);
    if (late > 0 && below(dice, 2) == 0)
        pick = corpus->count - 1 - below(dice, late);
    const fuzz_input *from = &corpus->items[pick];
    draft it = {.data = out, .dice = dice};
    it.size = from->size < fuzz_longest ? from->size : fuzz_longest;
    memcpy(out, from->data, it.size);
    size_t changes = below(dice, CHANGES_MAX) + 1;
    for (size_t i = 0; i < changes; i++)
        change(&it, corpus);
    return it.size;
}
