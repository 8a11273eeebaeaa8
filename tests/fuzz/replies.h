/* RESP out of an input's bytes, as it is or made of them, and replies written down again. */
#ifndef TESTS_FUZZ_REPLIES_H
#define TESTS_FUZZ_REPLIES_H

#include "fuzz.h"

#include "backends/redis/wire.h"
#include "util/buf.h"

/* Appends up to @p count well-formed replies, made of the bytes: kinds, sizes and texts. */
void replies_make(dlk_buf *out, fuzz_bytes *bytes, int count);
/* Appends the reply in its only form. */
void replies_print(dlk_buf *out, const dlk_resp *reply);
/* What the reader makes of a stream that comes in slices, written down; false: up to where it
 * was no RESP. @p slices 0: in one piece. */
bool replies_read(dlk_resp_reader *reader, const char *data, size_t size, uint64_t slices,
                  dlk_buf *out);

#endif
