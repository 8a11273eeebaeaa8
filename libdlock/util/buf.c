/* A growing byte buffer; see the header. */
#include "util/buf.h"

#include "util/secret.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A hidden one stays so, and nothing of it is left behind. */
static void give_back(dlk_buf *buf)
{
    if (buf->hidden)
        dlk_hidden_unmap(buf->data, buf->capacity);
    else
        free(buf->data);
}

void dlk_buf_free(dlk_buf *buf)
{
    give_back(buf);
    *buf = (dlk_buf){0};
}

/* All that is in it goes to other memory. */
static bool move(dlk_buf *buf, size_t capacity, bool hidden)
{
    size_t used = dlk_buf_size(buf);
    char *data = hidden ? dlk_hidden_map(&capacity) : malloc(capacity);
    if (!data)
        return false;
    if (used)
        memcpy(data, buf->data + buf->start, used);
    give_back(buf);
    *buf = (dlk_buf){.data = data, .end = used, .capacity = capacity, .hidden = hidden};
    return true;
}

bool dlk_buf_hide(dlk_buf *buf, size_t size)
{
    size_t used = dlk_buf_size(buf);
    return (buf->hidden && size <= buf->capacity - used && dlk_buf_room(buf, size)) ||
           move(buf, used + size, true);
}

char *dlk_buf_room(dlk_buf *buf, size_t size)
{
    if (size <= buf->capacity - buf->end)
        return buf->data + buf->end;
    size_t used = dlk_buf_size(buf);
    if (buf->start > 0 && size <= buf->capacity - used) {
        memmove(buf->data, buf->data + buf->start, used);
        buf->start = 0;
        buf->end = used;
        return buf->data + used;
    }
    size_t capacity = buf->capacity ? buf->capacity : 512;
    while (capacity - used < size) {
        if (capacity > (size_t)-1 / 2)
            return NULL;
        capacity *= 2;
    }
    return move(buf, capacity, buf->hidden) ? buf->data + used : NULL;
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
    if (buf->start != buf->end)
        return;
    buf->start = buf->end = 0;
    if (buf->capacity > DLK_BUF_KEPT)
        dlk_buf_free(buf);
}
