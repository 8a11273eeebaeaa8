/* Not a target: bugs for the driver to find. A failing check lies behind a few bytes of which each
 * must be right before the next one matters; a hang and a leak are for replaying. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char fuzz_name[] = "planted";
const size_t fuzz_longest = 32;
const char *const fuzz_words[] = {"lock", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void *volatile kept;
    /* In one piece: not to be found before the other. */
    if (size == 6 && memcmp(data, "hangs!", 6) == 0)
        for (;;)
            (void)usleep(1000);
    if (size == 6 && memcmp(data, "leaks!", 6) == 0)
        kept = malloc(16); /* the one before it is forgotten */
    if (size > 4 && data[0] == 'l' && data[1] == 'o' && data[2] == 'c' && data[3] == 'k')
        FUZZ_CHECK(data[4] != 'c', "a crash");
    return kept ? -1 : 0;
}
