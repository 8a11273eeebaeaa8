/* A growing byte buffer; see the header. */
#include "util/buf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void dlk_buf_free(dlk_buf *buf)
{
    free(buf->data);
    *buf = (dlk_buf){0};
}

char *dlk_buf_room(dlk_buf *buf, size_t size)
{
    if (size <= buf->capacity - buf->end)
        return buf->data + buf->end;
    size_t used = dlk_buf_size(buf);
    if (buf->start > 0 && size <= buf->capacity - used) {
        memmove(buf->data, buf->data + buf->start, used);
    } else {
        size_t capacity = buf->capacity ? buf->capacity : 512;
        while (capacity - used < size) {
            if (capacity > (size_t)-1 / 2)
                return NULL;
            capacity *= 2;
        }
        char *data = malloc(capacity);
        if (!data)
            return NULL;
        if (used)
            memcpy(data, buf->data + buf->start, used);
        free(buf->data);
        buf->data = data;
        buf->capacity = capacity;
    }
    buf->start = 0;
    buf->end = used;
    return buf->data + used;
}

void dlk_buf_added(dlk_buf *buf, size_t size)
{
    assert(size <= buf->capacity - buf->end);
    buf->end += size;
}

bool dlk_buf_append(dlk_buf *buf, const void *data, size_t size)
{
    char *room = dlk_buf_room(buf, size);
    if (!room)
        return false;
    if (size)
        memcpy(room, data, size);
    buf->end += size;
    return true;
}

void dlk_buf_eat(dlk_buf *buf, size_t size)
{
    assert(size <= dlk_buf_size(buf));
    buf->start += size;
    if (buf->start == buf->end)
        buf->start = buf->end = 0;
}
