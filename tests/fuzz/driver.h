/* The parts of our own fuzzing driver: mutation, feedback, and noticing what goes wrong. */
#ifndef TESTS_FUZZ_DRIVER_H
#define TESTS_FUZZ_DRIVER_H

#include "fuzz.h"

#include "util/rand.h"

/* ---- mutate.c: the corpus and what is made of it ---- */

typedef struct fuzz_input {
    uint8_t *data;
    size_t size;
} fuzz_input;

typedef struct fuzz_corpus {
    fuzz_input *items;
    size_t count, capacity;
} fuzz_corpus;

/* Keeps a copy. */
void fuzz_corpus_add(fuzz_corpus *corpus, const uint8_t *data, size_t size);
/* Adds every file of the directory, in the order of their names. False: it can't be read. */
bool fuzz_corpus_read(fuzz_corpus *corpus, const char *directory);
bool fuzz_read_file(const char *path, fuzz_input *ret);
void fuzz_corpus_free(fuzz_corpus *corpus);
/* Makes an input from one of the corpus, or of two; @p out has room for fuzz_longest bytes. */
size_t fuzz_mutate(const fuzz_corpus *corpus, dlk_rand *dice, uint8_t *out);

/* ---- cover.c: which parts of the code an input has reached ---- */

/* Whether the targets were compiled with it: the build with AddressSanitizer has it. */
bool fuzz_cover_works(void);
/* Around one execution, on one thread. */
void fuzz_cover_begin(void);
/* Whether it reached something, or something so often, that no input before it did. */
bool fuzz_cover_end(void);
size_t fuzz_cover_edges(void); /* different ones, so far */
/* Forgets what was reached; @p counts: tell 1, 2, 3, 4… times apart. */
void fuzz_cover_reset(bool counts);

/* ---- watch.c: crashes, hangs, leaks ---- */

/* Where a finding is written (a directory, or NULL: nowhere), and how long one input may take. */
void fuzz_watch_start(const char *directory, int limit_s);
/* Runs the target on a copy that ends where it ends, so that ASan sees a read behind it. */
void fuzz_watch_run(const uint8_t *data, size_t size);

#endif
