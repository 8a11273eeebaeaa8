/* Feedback: the compiler calls us at each basic block (-fsanitize-coverage=trace-pc, which gcc
 * has as well as clang); two blocks in a row are an edge. This file itself is compiled without. */
#include "driver.h"

#include <stdint.h>

#define EDGES 16384u /* a power of 2 */

/* Where the program lies differs from run to run; what it reached should not. */
extern const char __executable_start[];

static uint8_t hits[EDGES]; /* in this execution */
static uint8_t seen[EDGES]; /* which counts some execution had, a bit for each class */
static uint32_t touched[EDGES];
static uint32_t touched_count;
static size_t edges;
static bool works, by_count = true;
/* Only the thread that runs the target counts: what an engine thread does differs in time. */
static __thread bool recording __attribute__((tls_model("initial-exec")));
static uintptr_t last; /* only touched while it does */

void __sanitizer_cov_trace_pc(void);

/* Called millions of times a second: not itself under a sanitizer. */
__attribute__((no_sanitize("address"), no_sanitize("undefined"))) void
__sanitizer_cov_trace_pc(void)
{
    works = true;
    if (!recording)
        return;
    uintptr_t here =
        (uintptr_t)__builtin_return_address(0) - (uintptr_t)__executable_start;
    here *= UINT64_C(0x9e3779b97f4a7c15);
    here >>= 40;
    uint32_t at = (uint32_t)((here ^ last) & (EDGES - 1));
    last = here >> 1;
    if (hits[at] == 0)
        touched[touched_count++] = at;
    if (hits[at] < UINT8_MAX)
        hits[at]++;
}

static uint8_t class_of(uint8_t count)
{
    if (!by_count)
        return 1;
    if (count < 4)
        return (uint8_t)(1u << (count - 1));
    return count < 8 ? 8 : count < 16 ? 16 : count < 32 ? 32 : count < 128 ? 64 : 128;
}

bool fuzz_cover_works(void)
{
    return works;
}

void fuzz_cover_begin(void)
{
    last = 0;
    recording = true;
}

bool fuzz_cover_end(void)
{
    recording = false;
    bool news = false;
    for (uint32_t i = 0; i < touched_count; i++) {
        uint32_t at = touched[i];
        uint8_t class = class_of(hits[at]);
        hits[at] = 0;
        if (seen[at] & class)
            continue;
        edges += seen[at] == 0;
        seen[at] |= class;
        news = true;
    }
    touched_count = 0;
    return news;
}

size_t fuzz_cover_edges(void)
{
    return edges;
}

void fuzz_cover_reset(bool counts)
{
    for (uint32_t i = 0; i < EDGES; i++)
        seen[i] = 0;
    edges = 0;
    by_count = counts;
}
