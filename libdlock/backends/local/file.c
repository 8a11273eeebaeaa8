/*
 * Opening the file behind a table.
 *
 * Two bytes of it are locked, with locks that belong to the open file and that the kernel drops
 * when a process dies:
 *
 *     OPENING   written by whoever opens, for the time of the opening
 *     PRESENT   read by everybody who has the table open, for as long as that
 *
 * So whoever opens knows, before touching anything, whether others are there. If not, all that
 * the table says about holders is void, but for what was exported by this clock; its mutex is
 * made anew, and it moves over to this boot and these namespaces. If others are there it must be
 * theirs and ours alike: a robust mutex does not work across pid namespaces, and lease times
 * don't compare across time namespaces.
 */
#include "backends/local/file.h"

#include "backends/local/memory.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/error.h"
#include "util/point.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { OPENING = 0, PRESENT = 1 };

bool dlk_file_is_remote(long type)
{
    /* statfs(2); f_type is a long whose upper half some architectures sign-extend. */
    switch ((uint32_t)type) {
    case 0x6969:     /* nfs */
    case 0x517b:     /* smb */
    case 0xff534d42: /* cifs */
    case 0xfe534d42: /* smb2 */
    case 0x01021997: /* 9p */
    case 0x00c36400: /* ceph */
    case 0x0bd00bd0: /* lustre */
    case 0x5346414f: /* afs */
    case 0x6b414653: /* afs of the kernel */
    case 0x73757245: /* coda */
    case 0x01161970: /* gfs2 */
    case 0x7461636f: /* ocfs2 */
        return true;
    default:
        return false;
    }
}

/* The code for a failed system call. */
static dlock_err code_of(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
        return DLOCK_EACCES;
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EINVAL:
    case ENXIO:
    case ENODEV:
        return DLOCK_EINVAL;
    case ENOMEM:
        return DLOCK_ENOMEM;
    default: /* no such directory, disk full, no descriptors, an I/O error … */
        return DLOCK_EUNAVAIL;
    }
}

static dlock_err failed(dlock_error **err, const char *what, const char *path)
{
    int error = errno;
    char text[128];
    if (error == ELOOP)
        return dlk_error_set(err, DLOCK_EINVAL, "can't %s %s: it is a symbolic link",
                             what, path);
    return dlk_error_set(err, code_of(error), "can't %s %s: %s", what, path,
                         dlk_error_errno(error, text, sizeof(text)));
}

/* 0, or -1 with errno EAGAIN when somebody else has it. */
static int lock_byte(int fd, short type, off_t byte)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock);
}

/* Opens the path, making the file if there is none; file->fd, file->made. */
static dlock_err open_path(dlk_file *file, const dlk_file_wish *wish, dlock_error **err)
{
    /* O_NONBLOCK: a fifo or a terminal by mistake must not hold us up. */
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
    file->fd = DLK_FD(open(file->path, flags | O_CREAT | O_EXCL, 0600));
    file->made = file->fd >= 0;
    if (file->made && fchmod(file->fd, wish->mode) != 0)
        return failed(err, "set the mode of", file->path);
    if (!file->made && errno == EEXIST)
        file->fd = DLK_FD(open(file->path, flags));
    if (file->fd < 0 && errno != ENOENT)
        return failed(err, "open", file->path);
    if (file->fd < 0) /* removed in between, or no such directory */
        return failed(err, "open or make", file->path);
    return DLOCK_OK;
}

static dlock_err check_kind(dlk_file *file, const dlk_file_wish *wish, dlock_error **err)
{
    struct stat st;
    struct statfs fs;
    if (fstat(file->fd, &st) != 0 || fstatfs(file->fd, &fs) != 0)
        return failed(err, "look at", file->path);
    if (!S_ISREG(st.st_mode))
        return dlk_error_set(err, DLOCK_EINVAL, "%s is not a regular file", file->path);
    if (dlk_file_is_remote((long)fs.f_type))
        return dlk_error_set(
            err, DLOCK_ENOTSUP,
            "%s lies on a network file system, which other machines write too; "
            "file: is for one machine",
            file->path);
    if (st.st_uid != geteuid() && (wish->mode & 066) == 0)
        return dlk_error_set(
            err, DLOCK_EACCES,
            "%s belongs to another user (uid %u); with file.mode=0660 or 0666 "
            "it may be shared",
            file->path, (unsigned)st.st_uid);
    file->others_write = (st.st_mode & 022) != 0;
    file->device = st.st_dev;
    file->inode = st.st_ino;
    return DLOCK_OK;
}

static dlock_err lock_opening(const dlk_file *file, int64_t wait_ms, dlock_error **err)
{
    int64_t until = dlk_clock_after(dlk_clock_now(), wait_ms);
    while (lock_byte(file->fd, F_WRLCK, OPENING) != 0) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return failed(err, "lock", file->path);
        if (dlk_clock_now() >= until)
            return dlk_error_set(
                err, DLOCK_EUNAVAIL,
                "%s is being opened by another process, which doesn't finish",
                file->path);
        (void)nanosleep(&(struct timespec){.tv_nsec = 500000},
                        NULL); /* short is fine too */
    }
    return DLOCK_OK;
}

typedef enum path_state {
    THERE,
    ELSEWHERE, /* replaced, or removed by somebody whose making of it failed */
    UNSEEN,    /* errno says why; it may well be there */
} path_state;

/* Whether the path still leads to what we opened. */
static path_state inspect_path(const dlk_file *file)
{
    struct stat st;
    if (stat(file->path, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR ? ELSEWHERE : UNSEEN;
    return st.st_dev == file->device && st.st_ino == file->inode ? THERE : ELSEWHERE;
}

static dlock_err map(const dlk_file *file, dlk_table *table, dlock_error **err)
{
    void *memory =
        mmap(NULL, table->size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    if (memory == MAP_FAILED)
        return failed(err, "map", file->path);
    /* A fork's child has no business in it; an inherited mapping would only do harm. */
    (void)madvise(memory, table->size,
                  MADV_DONTFORK); /* an advice for memory that we have */
    dlk_table_lay_out(table, memory);
    return DLOCK_OK;
}

/* Room for the whole file, or an error: later on a full disk would be a SIGBUS. */
static dlock_err allocate(const dlk_file *file, size_t size, dlock_error **err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size)
        errno = EFBIG; /* would be a SIGXFSZ */
    else
        errno = posix_fallocate(file->fd, 0, (off_t)size);
    if (errno == 0)
        return DLOCK_OK;
    int error = errno;
    char text[128];
    return dlk_error_set(err, DLOCK_EUNAVAIL, "can't get %zu bytes for %s: %s", size,
                         file->path, dlk_error_errno(error, text, sizeof(text)));
}

static dlock_err make_table(const dlk_file *file, dlk_table *table,
                            const dlk_table_stamp *world, const dlk_file_wish *wish,
                            dlock_error **err)
{
    /* Says whose work this is if we die before it is done. What an interrupted making has left
     * goes first, so that all of the rest is zero. */
    if (ftruncate(file->fd, 0) != 0 || pwrite(file->fd, DLK_TABLE_MAKING, 8, 0) != 8)
        return failed(err, "write", file->path);
    DLK_POINT("file.making");
    dlock_err rc = allocate(file, dlk_table_measure(table, wish->slots), err);
    if (rc == DLOCK_OK)
        rc = map(file, table, err);
    if (rc != DLOCK_OK)
        return rc;
    if (dlk_table_make_mutex(table) != DLOCK_OK)
        return dlk_error_nomem(err);
    dlk_table_stamp stamp = *world;
    memcpy(stamp.magic, DLK_TABLE_MAKING, 8);
    dlk_stamp_fill(&stamp, table);
    table->head->stamp = stamp;
    atomic_store(&table->head->last_token, dlk_table_first_token());
    /* Whoever finds the magic after a death here finds the rest: only the compiler could disagree. */
    atomic_signal_fence(memory_order_release);
    memcpy(table->head->stamp.magic, DLK_TABLE_MAGIC, 8);
    return DLOCK_OK;
}

/* A lease by another clock says nothing, and nobody would end it. */
static void void_exports(const dlk_table *table)
{
    for (uint32_t ref = 1; ref <= table->row_count; ref++) {
        dlk_row *row = dlk_row_at(table, ref);
        if (DLK_GET(dlk_row_stored(row)->owner) == DLK_OWNER_EXPORTED)
            dlk_row_commit(row, &(dlk_record){.owner = 0});
    }
}

/* Nobody has the table open, so nobody can be in it, hold anything, or wait; what was exported stays. */
static dlock_err take_over(const dlk_file *file, dlk_table *table,
                           const dlk_table_stamp *world, dlock_error **err)
{
    if (dlk_table_make_mutex(table) != DLOCK_OK)
        return dlk_error_nomem(err);
    for (uint32_t ref = 1; ref <= table->member_count; ref++) {
        dlk_member *member = dlk_member_at(table, ref);
        atomic_store(&member->word, DLK_GET(member->word) >> 32 << 32);
    }
    atomic_store(&table->head->inside, 0);
    if (!dlk_stamp_same_clock(&table->head->stamp, world))
        void_exports(table);
    dlk_section section = {.table = table};
    dlk_table_rebuild(&section, dlk_clock_now());
    if (section.damaged)
        return dlk_error_set(err, DLOCK_EPROTO, "%s is damaged: remove it", file->path);
    dlk_table_stamp stamp = *world;
    memcpy(stamp.magic, DLK_TABLE_MAGIC, 8);
    dlk_stamp_fill(&stamp, table);
    table->head->stamp = stamp;
    return DLOCK_OK;
}

static dlock_err open_table(const dlk_file *file, dlk_table *table,
                            const dlk_table_stamp *world, bool alone, dlock_error **err)
{
    struct stat st;
    dlk_table_stamp stamp;
    memset(&stamp, 0, sizeof(stamp));
    if (fstat(file->fd, &st) != 0 || pread(file->fd, &stamp, sizeof(stamp), 0) < 0)
        return failed(err, "read", file->path);
    dlock_err rc = dlk_stamp_check(&stamp, file->path, (size_t)st.st_size, table, err);
    if (rc == DLOCK_OK && !alone)
        rc = dlk_stamp_check_world(&stamp, world, file->path, err);
    if (rc == DLOCK_OK)
        rc = map(file, table, err);
    return rc == DLOCK_OK && alone ? take_over(file, table, world, err) : rc;
}

/* Empty, or the work of somebody who died over it. */
static bool is_unmade(const dlk_file *file)
{
    char magic[8];
    ssize_t got = pread(file->fd, magic, sizeof(magic), 0);
    return got == 0 || (got == 8 && memcmp(magic, DLK_TABLE_MAKING, 8) == 0);
}

/* With OPENING locked: makes, takes over or joins the table. */
static dlock_err enter_file(dlk_file *file, dlk_table *table, const dlk_file_wish *wish,
                            dlock_error **err)
{
    dlk_table_stamp world;
    memset(&world, 0, sizeof(world));
    dlock_err rc = dlk_stamp_world(&world, err);
    if (rc != DLOCK_OK)
        return rc;
    dlk_stamp_fill(&world, table); /* word size, libc …; the counts come later */
    bool alone = lock_byte(file->fd, F_WRLCK, PRESENT) == 0;
    if (!is_unmade(file)) {
        rc = open_table(file, table, &world, alone, err);
    } else if (alone) {
        rc = make_table(file, table, &world, wish, err);
        /* Nothing half made stays behind. If not even this works, the next one starts anew. */
        if (rc != DLOCK_OK && ftruncate(file->fd, 0) == 0 && file->made)
            (void)unlink(file->path);
    } else {
        rc = dlk_error_set(err, DLOCK_EPROTO, "%s was emptied while it is in use",
                           file->path);
    }
    if (rc == DLOCK_OK && lock_byte(file->fd, F_RDLCK, PRESENT) != 0)
        rc = failed(err, "lock", file->path);
    return rc;
}

static void close_file(dlk_file *file, dlk_table *table)
{
    if (table->head)
        (void)munmap(table->head, table->size); /* what was mapped */
    dlk_fd_close(file->fd); /* drops our locks; all writing went through the mapping */
    table->head = NULL;
    file->fd = -1;
}

static dlock_err try_open(dlk_file *file, dlk_table *table, const dlk_file_wish *wish,
                          bool *again, dlock_error **err)
{
    *again = false;
    dlock_err rc = open_path(file, wish, err);
    if (rc != DLOCK_OK)
        return rc;
    rc = check_kind(file, wish, err);
    if (rc != DLOCK_OK && file->made)
        (void)unlink(
            file->path); /* others who opened it meanwhile look at the path again */
    if (rc == DLOCK_OK)
        rc = lock_opening(file, wish->wait_ms, err);
    if (rc != DLOCK_OK)
        return rc;
    path_state where = inspect_path(file);
    if (where == UNSEEN)
        return failed(err, "look at", file->path);
    *again = where == ELSEWHERE;
    if (*again)
        return dlk_error_set(err, DLOCK_EUNAVAIL, "%s is being replaced all the time",
                             file->path);
    rc = enter_file(file, table, wish, err);
    if (rc == DLOCK_OK)
        (void)lock_byte(file->fd, F_UNLCK, OPENING); /* giving up a lock can't fail */
    return rc;
}

dlock_err dlk_file_open(dlk_file *file, dlk_table *table, const dlk_file_wish *wish,
                        dlock_error **err)
{
    *file = (dlk_file){.fd = -1, .path = strdup(wish->path)};
    *table = (dlk_table){.shared = true, .pid = (uint32_t)getpid()};
    if (!file->path)
        return dlk_error_nomem(err);
    dlock_err rc = DLOCK_OK;
    bool again = true;
    for (int tries = 0; again && tries < 100; tries++) {
        rc = try_open(file, table, wish, &again, err);
        if (rc != DLOCK_OK)
            close_file(file, table);
    }
    if (rc != DLOCK_OK)
        free(file->path);
    return rc;
}

void dlk_file_close(dlk_file *file, dlk_table *table)
{
    close_file(file, table);
    free(file->path);
}

void dlk_file_sink(const dlk_table *table)
{
    /* If even this fails there is nothing left to do: a SIGBUS may come. */
    (void)mmap(table->head, table->size, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

bool dlk_file_is_truncated(const dlk_file *file, const dlk_table *table)
{
    struct stat st;
    return fstat(file->fd, &st) == 0 && st.st_size < (off_t)table->size;
}

dlock_err dlk_file_check(const dlk_file *file, const dlk_table *table, dlock_error **err)
{
    if (dlk_file_is_truncated(file, table))
        return dlk_error_set(err, DLOCK_EPROTO, "%s was truncated while it is in use",
                             file->path);
    if (inspect_path(file) == ELSEWHERE)
        return dlk_error_set(
            err, DLOCK_EPROTO,
            "%s was removed or replaced while it is in use: others may lock in "
            "another file by now",
            file->path);
    return DLOCK_OK;
}
