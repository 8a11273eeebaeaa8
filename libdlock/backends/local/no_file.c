/*
 * What mem: asks of the files that are there for file:, in a build without it. A table is of this process
 * alone: nobody who shares it dies beside us, and there is no file to look at.
 */
#include "backends/local/doctor.h"
#include "backends/local/mutex.h"
#include "backends/local/process.h"

#include <errno.h>
#include <stdio.h>

int dlk_mutex_share(pthread_mutexattr_t *attributes)
{
    (void)attributes;
    return ENOTSUP;
}

int dlk_mutex_lock_shared(dlk_table *table, int patience)
{
    (void)table;
    (void)patience;
    return ENOTSUP;
}

void dlk_mutex_mended(dlk_table *table)
{
    (void)table;
}

void dlk_table_describe_inside(const dlk_table *table, char *text, size_t size)
{
    (void)table;
    (void)snprintf(text, size, "this process"); /* nobody else can be */
}

uint64_t dlk_process_started(uint32_t pid)
{
    (void)pid;
    return 0;
}

void dlk_watch_reap(dlk_table *table)
{
    (void)table;
}

bool dlk_watch_start(dlk_watch *watch, dlk_table *table, uint64_t self)
{
    (void)watch;
    (void)table;
    (void)self;
    return false;
}

void dlk_watch_scan(dlk_watch *watch)
{
    (void)watch;
}

void dlk_watch_step(dlk_watch *watch, int timeout_ms)
{
    (void)watch;
    (void)timeout_ms;
}

void dlk_watch_stop(dlk_watch *watch)
{
    (void)watch;
}

dlock_err dlk_file_check(const dlk_file *file, const dlk_table *table, dlock_error **err)
{
    (void)file;
    (void)table;
    (void)err;
    return DLOCK_OK;
}

bool dlk_file_is_truncated(const dlk_file *file, const dlk_table *table)
{
    (void)file;
    (void)table;
    return false;
}

void dlk_file_sink(const dlk_table *table)
{
    (void)table;
}

void dlk_local_look_at_file(dlock_info *to, const dlk_local *local)
{
    (void)to;
    (void)local;
}
