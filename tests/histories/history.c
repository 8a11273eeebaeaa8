/* Writing and mapping histories; see the header. */
#include "histories/history.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROOM_TO_FINISH 4096 /* records kept for what is under way when a file is full */

int64_t history_now(void)
{
    struct timespec t = {0};
    (void)syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &t); /* cannot fail for this clock */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool map(history *h, int fd, size_t size, int protection)
{
    void *at = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return false;
    h->head = at;
    h->records = (history_record *)((char *)at + HISTORY_HEAD_SIZE);
    h->size = size;
    return true;
}

bool history_create(history *h, const char *path, uint64_t capacity)
{
    size_t size = HISTORY_HEAD_SIZE + (size_t)capacity * sizeof(history_record);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool fine =
        ftruncate(fd, (off_t)size) == 0 && map(h, fd, size, PROT_READ | PROT_WRITE);
    close(fd);
    if (!fine)
        return false;
    h->head->capacity = capacity;
    h->head->magic = HISTORY_MAGIC;
    return true;
}

bool history_map(history *h, const char *path)
{
    struct stat file;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool fine = fstat(fd, &file) == 0 && file.st_size >= HISTORY_HEAD_SIZE &&
                map(h, fd, (size_t)file.st_size, PROT_READ);
    close(fd);
    if (!fine)
        return false;
    if (h->head->magic == HISTORY_MAGIC &&
        h->head->capacity == (h->size - HISTORY_HEAD_SIZE) / sizeof(history_record))
        return true;
    history_close(h);
    return false;
}

void history_close(history *h)
{
    if (h->head)
        munmap(h->head, h->size);
    *h = (history){0};
}

history_record *history_claim(history *h)
{
    uint64_t place = atomic_fetch_add(&h->head->claimed, 1);
    return place < h->head->capacity ? &h->records[place] : NULL;
}

void history_fill(history_record *slot, history_record what)
{
    if (!slot)
        return;
    what.ready = 0;
    *slot = what;
    __atomic_store_n(&slot->ready, 1, __ATOMIC_RELEASE);
}

int64_t history_note(history *h, history_record what)
{
    history_record *slot = history_claim(h);
    what.time = history_now();
    history_fill(slot, what);
    return what.time;
}

bool history_is_full(const history *h)
{
    return atomic_load(&h->head->claimed) + ROOM_TO_FINISH > h->head->capacity;
}
