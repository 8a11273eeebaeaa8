/*
 * The memory of one execution: a piece of one arena, never used twice in it. So what is left is seen
 * at its end, and a write to what has been freed; a read of that finds rubbish. AddressSanitizer does
 * better, and then this isn't there.
 */
#ifndef EXPLORE_HEAP_H
#define EXPLORE_HEAP_H

#include <stddef.h>

/* From now on the library's memory is of the arena, which is empty. */
void heap_begin(void);
/* No longer; NULL, or what is wrong. */
const char *heap_end(void);

#endif
