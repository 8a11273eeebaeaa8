/* What is wiped before its memory is anybody's again. */
#include "harness/harness.h"

#include "util/secret.h"

#include <stdlib.h>
#include <string.h>

static char *watched;
static size_t size, left; /* bytes of it; those that weren't 0 when it was freed */

/* Linked in place of free. */
void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    if (memory && memory == watched) {
        for (size_t i = 0; i < size; i++)
            left += watched[i] != '\0';
        watched = NULL;
    }
    __real_free(memory);
}

TEST(a_text_on_the_heap_is_wiped_before_it_is_freed)
{
    watched = strdup("hunter2");
    CHECK(watched);
    size = strlen(watched);
    dlk_wipe_free(watched);
    CHECK(!watched);
    CHECK_EQ_INT(left, 0);
    dlk_wipe_free(NULL);
}
