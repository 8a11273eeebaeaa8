/* Where the parts of a table lie, and a table in the private memory of the process. */
#include "backends/local/memory.h"

#include "util/error.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE     4096u
#define MEM_ROWS 65536u /* only what is used costs memory */

/* No file has more either (stamp.c). */
_Static_assert(MEM_ROWS * 2 <= 0xffffff, "a place's number fits into a dlk_at");

static size_t pages(size_t size)
{
    return (size + PAGE - 1) / PAGE * PAGE;
}

size_t dlk_table_measure(dlk_table *table, uint32_t rows)
{
    table->row_count = rows;
    table->place_count = rows * 2;
    table->member_count = rows < 64 ? 64 : rows > 4096 ? 4096 : rows;
    table->bucket_count = 16;
    while (table->bucket_count < rows)
        table->bucket_count *= 2;
    table->size = pages(sizeof(dlk_head)) +
                  pages(sizeof(dlk_member) * table->member_count) +
                  pages(sizeof(dlk_row) * table->row_count) +
                  pages(sizeof(dlk_line_place) * table->place_count) +
                  pages(sizeof(uint32_t) * table->bucket_count) +
                  pages(sizeof(uint32_t) * table->place_count) +
                  pages((size_t)DLK_TABLE_NAME * table->row_count) +
                  pages(sizeof(dlk_notice) * table->row_count) +
                  pages(sizeof(dlk_pool) * table->row_count);
    return table->size;
}

void dlk_table_lay_out(dlk_table *table, void *memory)
{
    char *at = memory;
    table->head = memory;
    at += pages(sizeof(dlk_head));
    table->members = (dlk_member *)(void *)at;
    at += pages(sizeof(dlk_member) * table->member_count);
    table->rows = (dlk_row *)(void *)at;
    at += pages(sizeof(dlk_row) * table->row_count);
    table->places = (dlk_line_place *)(void *)at;
    at += pages(sizeof(dlk_line_place) * table->place_count);
    table->buckets = (_Atomic uint32_t *)(void *)at;
    at += pages(sizeof(uint32_t) * table->bucket_count);
    table->scratch = (_Atomic uint32_t *)(void *)at;
    at += pages(sizeof(uint32_t) * table->place_count);
    table->names = at;
    at += pages((size_t)DLK_TABLE_NAME * table->row_count);
    table->notices = (dlk_notice *)(void *)at;
    at += pages(sizeof(dlk_notice) * table->row_count);
    table->pools = (dlk_pool *)(void *)at;
}

int64_t dlk_table_first_token(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_REALTIME, &t) != 0 || t.tv_sec < 0)
        return 0;
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

dlock_err dlk_memory_open(dlk_table *table, dlock_error **err)
{
    *table = (dlk_table){.shared = false, .pid = (uint32_t)getpid()};
    size_t size = dlk_table_measure(table, MEM_ROWS);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return dlk_error_nomem(err);
    dlk_table_lay_out(table, memory);
    if (dlk_table_make_mutex(table) != DLOCK_OK) {
        (void)munmap(memory, size); /* what we have just mapped */
        return dlk_error_nomem(err);
    }
    atomic_store(&table->head->last_token, dlk_table_first_token());
    return DLOCK_OK;
}

void dlk_memory_close(dlk_table *table)
{
    (void)pthread_mutex_destroy(&table->head->mutex); /* nobody has it */
    (void)munmap(table->head, table->size);           /* what was mapped */
}
