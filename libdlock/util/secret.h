/* Memory for secrets: pages of their own that no core dump has, wiped before they are given back.
 * Where something else than a password is to be wiped, it may lie on the heap: dlk_wipe_free. */
#ifndef DLK_UTIL_SECRET_H
#define DLK_UTIL_SECRET_H

#include <stddef.h>

/* Zeroed pages that core dumps leave out, *size rounded up to what there is; NULL without memory. */
void *dlk_hidden_map(size_t *size);
void dlk_hidden_unmap(void *pages, size_t size); /* wipes them */

/* Room for a text of @p size bytes with its NUL, zeroed; NULL without memory. */
char *dlk_secret_new(size_t size);
char *dlk_secret_dup(const char *text);
/* One more owner of the same text, which nobody changes from now on. Any thread. */
char *dlk_secret_share(char *secret);
/* For what the three return; the last owner wipes it. NULL is fine. */
void dlk_secret_free(char *secret);

/* Overwrites what is about to be given back, whatever the compiler thinks of its use. */
void dlk_wipe(void *data, size_t size);

/* Wipes and frees a text on the heap; NULL is fine. */
void dlk_wipe_free(char *text);

#endif
