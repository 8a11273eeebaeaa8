/* What a table file says about itself, and when that is reason to leave it alone. */
#include "backends/local/file.h"

#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#ifdef __GLIBC__
#define LIBC 1u
#else
#define LIBC 2u
#endif

void dlk_stamp_fill(dlk_table_stamp *stamp, const dlk_table *table)
{
    stamp->version = DLK_TABLE_VERSION;
    stamp->word_size = sizeof(void *);
    stamp->libc = LIBC;
    stamp->mutex_size = sizeof(pthread_mutex_t);
    stamp->rows = table->row_count;
    stamp->places = table->place_count;
    stamp->members = table->member_count;
    stamp->buckets = table->bucket_count;
    stamp->size = table->size;
}

static bool read_boot_id(char text[40])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, text, 36);
    (void)close(fd); /* nothing was written */
    return got == 36;
}

dlock_err dlk_stamp_world(dlk_table_stamp *stamp, dlock_error **err)
{
    struct stat pid, time;
    char text[128];
    memset(stamp->boot_id, 0, sizeof(stamp->boot_id));
    if (!read_boot_id(stamp->boot_id) || stat("/proc/self/ns/pid", &pid) != 0)
        return dlk_error_set(err, DLOCK_EUNAVAIL,
                             "file: needs /proc to tell processes apart: %s",
                             dlk_error_errno(errno, text, sizeof(text)));
    stamp->pid_ns = pid.st_ino;
    /* Kernels before 5.6 have no time namespaces. Any other failure isn't that: 0 would keep all
     * others out of the table. */
    bool known = stat("/proc/self/ns/time", &time) == 0;
    if (!known && errno != ENOENT)
        return dlk_error_set(err, DLOCK_EUNAVAIL, "file: can't tell time namespaces: %s",
                             dlk_error_errno(errno, text, sizeof(text)));
    stamp->time_ns = known ? time.st_ino : 0;
    return DLOCK_OK;
}

dlock_err dlk_stamp_check(const dlk_table_stamp *stamp, const char *path, size_t size,
                          dlk_table *table, dlock_error **err)
{
    if (size < sizeof(*stamp) || memcmp(stamp->magic, DLK_TABLE_MAGIC, 8) != 0)
        return dlk_error_set(err, DLOCK_EPROTO,
                             "%s is not a lock table; it was left alone", path);
    if (stamp->version != DLK_TABLE_VERSION)
        return dlk_error_set(
            err, DLOCK_EPROTO,
            "%s was made by %s libdlock (layout %u, this one has %u): remove it "
            "when nobody uses it",
            path, stamp->version < DLK_TABLE_VERSION ? "an older" : "a newer",
            stamp->version, DLK_TABLE_VERSION);
    if (stamp->rows < 1 || stamp->rows > 65536 ||
        dlk_table_measure(table, stamp->rows) != stamp->size ||
        table->place_count != stamp->places || table->member_count != stamp->members ||
        table->bucket_count != stamp->buckets)
        return dlk_error_set(err, DLOCK_EPROTO, "%s is damaged: its sizes don't agree",
                             path);
    if (size < table->size)
        return dlk_error_set(err, DLOCK_EPROTO,
                             "%s was truncated: %zu of %zu bytes are left", path, size,
                             table->size);
    return DLOCK_OK;
}

bool dlk_stamp_same_clock(const dlk_table_stamp *one, const dlk_table_stamp *other)
{
    return memcmp(one->boot_id, other->boot_id, sizeof(one->boot_id)) == 0 &&
           one->time_ns == other->time_ns;
}

dlock_err dlk_stamp_check_world(const dlk_table_stamp *stamp, const dlk_table_stamp *ours,
                                const char *path, dlock_error **err)
{
    if (stamp->word_size != ours->word_size || stamp->libc != ours->libc ||
        stamp->mutex_size != ours->mutex_size)
        return dlk_error_set(
            err, DLOCK_EPROTO,
            "%s is in use by programs with another libc or word size; their "
            "mutex is not ours",
            path);
    if (memcmp(stamp->boot_id, ours->boot_id, sizeof(stamp->boot_id)) != 0)
        return dlk_error_set(err, DLOCK_ENOTSUP, "%s is in use by another machine", path);
    if (stamp->pid_ns != ours->pid_ns)
        return dlk_error_set(
            err, DLOCK_ENOTSUP,
            "%s is in use by processes of another pid namespace (container), "
            "whose deaths can't be seen from here",
            path);
    if (stamp->time_ns != ours->time_ns)
        return dlk_error_set(
            err, DLOCK_ENOTSUP,
            "%s is in use by processes of another time namespace, whose clock "
            "is not ours",
            path);
    return DLOCK_OK;
}
