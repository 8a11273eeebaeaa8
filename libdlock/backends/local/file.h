/* A table in a file that processes share: making it, opening it, and refusing what isn't one. */
#ifndef DLK_BACKENDS_LOCAL_FILE_H
#define DLK_BACKENDS_LOCAL_FILE_H

#include "backends/local/table.h"

#include <sys/stat.h>

typedef struct dlk_file {
    char *path;
    int fd;
    dev_t device;
    ino_t inode;
    bool made;         /* by this open */
    bool others_write; /* by its mode, when it was opened */
} dlk_file;

typedef struct dlk_file_wish {
    const char *path;
    uint32_t slots; /* of a new file */
    mode_t mode;
    int64_t wait_ms; /* for others who are opening it */
} dlk_file_wish;

dlock_err dlk_file_open(dlk_file *file, dlk_table *table, const dlk_file_wish *wish,
                        dlock_error **err);
/* Frees all of it; nobody may be inside the table. */
void dlk_file_close(dlk_file *file, dlk_table *table);
/* Is the file still whole, and what the path leads to? Two system calls. */
dlock_err dlk_file_check(const dlk_file *file, const dlk_table *table, dlock_error **err);
bool dlk_file_is_truncated(const dlk_file *file, const dlk_table *table);
/* Puts empty memory where the table was, after it was truncated: what still looks at it finds
 * nothing, instead of getting a SIGBUS. */
void dlk_file_sink(const dlk_table *table);
/* Whether a file system (statfs' f_type) may be shared with other machines. */
bool dlk_file_is_remote(long type);

/* stamp.c: what a file must say about itself. The checks write nothing. */
void dlk_stamp_fill(dlk_table_stamp *stamp, const dlk_table *table);
/* Fills in this boot and these namespaces; EUNAVAIL without /proc. */
dlock_err dlk_stamp_world(dlk_table_stamp *stamp, dlock_error **err);
/* Is it a table of ours, and whole? Sets the counts. */
dlock_err dlk_stamp_check(const dlk_table_stamp *stamp, const char *path, size_t size,
                          dlk_table *table, dlock_error **err);
/* Whether a time that was written there means the same here. */
bool dlk_stamp_same_clock(const dlk_table_stamp *one, const dlk_table_stamp *other);
/* May we share it with those who have it open? */
dlock_err dlk_stamp_check_world(const dlk_table_stamp *stamp, const dlk_table_stamp *ours,
                                const char *path, dlock_error **err);

#endif
