/* Our own fuzzing driver, for compilers without libFuzzer's runtime and for runs that repeat: a
 * seed and a corpus always make the same inputs.
 *
 *     fuzz_uri FILE…                                replays findings
 *     fuzz_uri --corpus DIR --execs N --seed S      replays the corpus, then N mutations of it
 *              [--findings DIR] [--keep DIR]        where a finding goes; where what reached
 *                                                   something new goes, in a small choice
 *              [--limit SECONDS]                    how long one input may take
 */
#include "driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIMIT_S                                                                          \
    20 /* for one input, of which most take microseconds: no machine is so slow */

typedef struct options {
    const char *corpus, *findings, *keep;
    uint64_t execs, seed;
    int limit;
    char **files;
} options;

static int usage(void)
{
    fprintf(stderr,
            "usage: fuzz_%s FILE... | --corpus DIR [--execs N] [--seed S] "
            "[--findings DIR] [--keep DIR]\n",
            fuzz_name);
    return 2;
}

static bool parse(int argc, char **argv, options *ret)
{
    int at = 1;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        const char *value = argv[at + 1];
        if (strcmp(argv[at], "--corpus") == 0)
            ret->corpus = value;
        else if (strcmp(argv[at], "--findings") == 0)
            ret->findings = value;
        else if (strcmp(argv[at], "--keep") == 0)
            ret->keep = value;
        else if (strcmp(argv[at], "--execs") == 0)
            ret->execs = strtoull(value, NULL, 10);
        else if (strcmp(argv[at], "--limit") == 0)
            ret->limit = atoi(value);
        else if (strcmp(argv[at], "--seed") == 0)
            ret->seed = strtoull(value, NULL, 10);
        else
            return false;
    }
    ret->files = argv + at;
    return at < argc || ret->corpus;
}

static int replay_files(char **files)
{
    for (; *files; files++) {
        fuzz_input input;
        if (!fuzz_read_file(*files, &input)) {
            fprintf(stderr, "can't read %s\n", *files);
            return 2;
        }
        fuzz_watch_run(input.data, input.size);
        printf("%s: %zu bytes, fine\n", *files, input.size);
        free(input.data);
    }
    return 0;
}

static bool run(const uint8_t *data, size_t size)
{
    fuzz_cover_begin();
    fuzz_watch_run(data, size);
    return fuzz_cover_end();
}

static void mutate(fuzz_corpus *corpus, const options *wish)
{
    dlk_rand dice = {.state = wish->seed};
    uint8_t *data = malloc(fuzz_longest + 1);
    if (!data)
        abort();
    for (uint64_t i = 0; i < wish->execs; i++) {
        size_t size = fuzz_mutate(corpus, &dice, data);
        if (run(data, size))
            fuzz_corpus_add(corpus, data, size);
    }
    free(data);
}

static int largest_first(const void *a, const void *b)
{
    size_t one = ((const fuzz_input *)a)->size, other = ((const fuzz_input *)b)->size;
    return (one < other) - (one > other);
}

/* Writes inputs that reach together what all of them reach; with the largest first, few do. */
static void keep(fuzz_corpus *corpus, const char *directory)
{
    qsort(corpus->items, corpus->count, sizeof(*corpus->items), largest_first);
    fuzz_cover_reset(false);
    for (size_t i = 0; i < corpus->count; i++) {
        const fuzz_input *input = &corpus->items[i];
        if (!run(input->data, input->size))
            continue;
        char path[4096];
        (void)snprintf(path, sizeof(path), "%s/%05zu", directory, i);
        FILE *file = fopen(path, "wbe");
        if (!file || fwrite(input->data, 1, input->size, file) != input->size ||
            fclose(file) != 0)
            abort();
    }
}

/* Not the library's clock, which may be a target's. */
static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* there is one */
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int fuzz(const options *wish)
{
    fuzz_corpus corpus = {0};
    if (!fuzz_corpus_read(&corpus, wish->corpus) || corpus.count == 0) {
        printf("Bail out! no corpus in %s\n", wish->corpus);
        return 1;
    }
    size_t given = corpus.count;
    for (size_t i = 0; i < given; i++)
        (void)run(corpus.items[i].data, corpus.items[i].size);
    printf("ok 1 - the corpus of %s is replayed without a finding\n# %zu inputs\n",
           fuzz_name, given);

    double began = now();
    mutate(&corpus, wish);
    double seconds = now() - began;
    printf("ok 2 - no mutation of them crashes, hangs, leaks or breaks a property\n");
    printf("# %s: %" PRIu64 " executions, seed %" PRIu64 ", %.1f s, %.0f a second, ",
           fuzz_name, wish->execs, wish->seed, seconds,
           seconds > 0 ? (double)wish->execs / seconds : 0.0);
    if (fuzz_cover_works())
        printf("%zu edges reached by %zu inputs\n", fuzz_cover_edges(), corpus.count);
    else
        printf("without feedback\n");
    printf("1..2\n");
    if (wish->keep)
        keep(&corpus, wish->keep);
    fuzz_corpus_free(&corpus);
    return 0;
}

int main(int argc, char **argv)
{
    options wish = {.seed = 1, .limit = LIMIT_S};
    if (!parse(argc, argv, &wish))
        return usage();
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not eat what was said before it */
    fuzz_watch_start(wish.findings, wish.limit);
    return *wish.files ? replay_files(wish.files) : fuzz(&wish);
}
