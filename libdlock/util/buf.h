/* A growing byte buffer that is filled at the end and eaten from the front. */
#ifndef DLK_UTIL_BUF_H
#define DLK_UTIL_BUF_H

#include <stdbool.h>
#include <stddef.h>

#define DLK_BUF_KEPT (64u << 10)

typedef struct dlk_buf {
    char *data;
    size_t start, end, capacity; /* what counts lies in [start, end) */
    bool hidden;                 /* data lies in pages of dlk_hidden_map */
} dlk_buf;

void dlk_buf_free(dlk_buf *buf);

/* Room for @p size more bytes, from now on where no core dump has them: for secrets. False
 * without memory. */
bool dlk_buf_hide(dlk_buf *buf, size_t size);

/* Room for @p size more bytes at the end, or NULL without memory; dlk_buf_added says how many
 * of them were used. */
char *dlk_buf_room(dlk_buf *buf, size_t size);
void dlk_buf_added(dlk_buf *buf, size_t size);
bool dlk_buf_append(dlk_buf *buf, const void *data, size_t size);
/* Memory for more than DLK_BUF_KEPT bytes, which only a burst needs, goes back when all is eaten. */
void dlk_buf_eat(dlk_buf *buf, size_t size);

static inline size_t dlk_buf_size(const dlk_buf *buf)
{
    return buf->end - buf->start;
}

static inline const char *dlk_buf_head(const dlk_buf *buf)
{
    return buf->data + buf->start;
}

/* Forgets all that was added behind the first @p size bytes. */
static inline void dlk_buf_cut(dlk_buf *buf, size_t size)
{
    buf->end = buf->start + size;
}

static inline void dlk_buf_clear(dlk_buf *buf)
{
    buf->start = buf->end = 0;
}

#endif
