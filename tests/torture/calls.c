/* The functions that libdlock's calls are redirected to: each asks whether it is its turn to fail,
 * and else is the real one. What they give and take is counted, so that leaks show. */
#include "faults.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* The names are only known to the linker. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* What asprintf leaves behind when it fails: nobody may use it. */
#define NOTHING ((char *)1)

static int fails(int error)
{
    errno = error & 0xffff;
    return -1;
}

/* ---- memory ---- */

static void *counted(void *block)
{
    if (block)
        fault_block(1);
    return block;
}

static bool no_memory(fault_call call)
{
    int error = fault_strike(call);
    if (error)
        errno = error;
    return error != 0;
}

void *torture_malloc(size_t size)
{
    return no_memory(FAULT_malloc) ? NULL : counted(malloc(size));
}

void *torture_calloc(size_t count, size_t size)
{
    return no_memory(FAULT_calloc) ? NULL : counted(calloc(count, size));
}

void *torture_realloc(void *block, size_t size)
{
    if (no_memory(FAULT_realloc))
        return NULL;
    return block ? realloc(block, size) : counted(realloc(NULL, size));
}

char *torture_strdup(const char *text)
{
    return no_memory(FAULT_strdup) ? NULL : counted(strdup(text));
}

char *torture_strndup(const char *text, size_t size)
{
    return no_memory(FAULT_strndup) ? NULL : counted(strndup(text, size));
}

void torture_free(void *block)
{
    if (block)
        fault_block(-1);
    free(block);
}

__attribute__((format(printf, 3, 0))) static int print(fault_call call, char **ret,
                                                       const char *format, va_list args)
{
    *ret = NOTHING;
    if (no_memory(call))
        return -1;
    int size = vasprintf(ret, format, args);
    if (size >= 0)
        fault_block(1);
    return size;
}

__attribute__((format(printf, 2, 3))) int torture_asprintf(char **ret, const char *format,
                                                           ...)
{
    va_list args;
    va_start(args, format);
    int size = print(FAULT_asprintf, ret, format, args);
    va_end(args);
    return size;
}

__attribute__((format(printf, 3, 4))) int torture_asprintf_chk(char **ret, int flag,
                                                               const char *format, ...)
{
    (void)flag;
    va_list args;
    va_start(args, format);
    int size = print(FAULT_asprintf, ret, format, args);
    va_end(args);
    return size;
}

__attribute__((format(printf, 2, 0))) int
torture_vasprintf(char **ret, const char *format, va_list args)
{
    return print(FAULT_vasprintf, ret, format, args);
}

__attribute__((format(printf, 3, 0))) int
torture_vasprintf_chk(char **ret, int flag, const char *format, va_list args)
{
    (void)flag;
    return print(FAULT_vasprintf, ret, format, args);
}

/* ---- sockets ---- */

int torture_socket(int family, int type, int protocol)
{
    int error = fault_strike(FAULT_socket);
    return error ? fails(error) : socket(family, type, protocol);
}

int torture_connect(int fd, const struct sockaddr *address, socklen_t size)
{
    int error = fault_strike(FAULT_connect);
    if (error & DONE)
        (void)connect(fd, address, size);
    return error ? fails(error) : connect(fd, address, size);
}

ssize_t torture_send(int fd, const void *bytes, size_t size, int flags)
{
    int error = fault_strike(FAULT_send);
    if (error == SHORT)
        return send(fd, bytes, size > 1 ? size / 2 : size, flags);
    return error ? fails(error) : send(fd, bytes, size, flags);
}

ssize_t torture_recv(int fd, void *to, size_t size, int flags)
{
    int error = fault_strike(FAULT_recv);
    if (error == END)
        return 0;
    if (error == SHORT)
        size = 1;
    else if (error)
        return fails(error);
    return recv(fd, to, size, flags);
}

int torture_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
    int error = fault_strike(FAULT_getsockopt);
    return error ? fails(error) : getsockopt(fd, level, name, value, size);
}

int torture_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    int error = fault_strike(FAULT_setsockopt);
    return error ? fails(error) : setsockopt(fd, level, name, value, size);
}

int torture_shutdown(int fd, int how)
{
    int error = fault_strike(FAULT_shutdown);
    return error ? fails(error) : shutdown(fd, how);
}

int torture_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                        struct addrinfo **ret)
{
    int error = fault_strike(FAULT_getaddrinfo);
    if (error == ENOMEM || error == EAGAIN)
        return error == ENOMEM ? EAI_MEMORY : EAI_AGAIN;
    if (error == ENOENT)
        return EAI_NONAME;
    errno = error;
    int code = error ? EAI_SYSTEM : getaddrinfo(host, port, hints, ret);
    if (code == 0)
        fault_block(1);
    return code;
}

void torture_freeaddrinfo(struct addrinfo *found)
{
    fault_block(-1);
    freeaddrinfo(found);
}

int torture_gethostname(char *name, size_t size)
{
    int error = fault_strike(FAULT_gethostname);
    return error ? fails(error) : gethostname(name, size);
}

/* ---- waiting ---- */

int torture_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    int error = fault_strike(FAULT_poll);
    return error ? fails(error) : poll(fds, count, timeout_ms);
}

int torture_poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t size)
{
    (void)size;
    return torture_poll(fds, count, timeout_ms);
}

int torture_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                  const sigset_t *mask)
{
    int error = fault_strike(FAULT_ppoll);
    return error ? fails(error) : ppoll(fds, count, timeout, mask);
}

int torture_ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                      const sigset_t *mask, size_t size)
{
    (void)size;
    return torture_ppoll(fds, count, timeout, mask);
}

int torture_nanosleep(const struct timespec *time, struct timespec *left)
{
    int error = fault_strike(FAULT_nanosleep);
    return error ? fails(error) : nanosleep(time, left);
}

/* The call behind a number, or FAULT_CALLS: it can't fail. */
static fault_call call_of(long number, long operation)
{
    switch (number) {
    case SYS_read:
        return FAULT_syscall_read;
    case SYS_write:
        return FAULT_syscall_write;
    case SYS_close:
        return FAULT_syscall_close;
    case SYS_pidfd_open:
        return FAULT_pidfd_open;
    case SYS_futex:
        return (operation & FUTEX_CMD_MASK) == FUTEX_WAIT ? FAULT_futex_wait
                                                          : FAULT_CALLS;
    default:
        return FAULT_CALLS;
    }
}

long torture_syscall(long number, ...)
{
    long arg[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(args, long);
    va_end(args);
    fault_call call = call_of(number, arg[1]);
    int error = call == FAULT_CALLS ? 0 : fault_strike(call);
    if (error && !(error & DONE))
        return fails(error);
    long result = syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
    return error ? fails(error) : result;
}

/* ---- descriptors ---- */

int torture_epoll_create1(int flags)
{
    int error = fault_strike(FAULT_epoll_create1);
    return error ? fails(error) : epoll_create1(flags);
}

int torture_epoll_ctl(int at, int what, int fd, struct epoll_event *event)
{
    int error = fault_strike(FAULT_epoll_ctl);
    return error ? fails(error) : epoll_ctl(at, what, fd, event);
}

int torture_eventfd(unsigned int count, int flags)
{
    int error = fault_strike(FAULT_eventfd);
    return error ? fails(error) : eventfd(count, flags);
}

int torture_eventfd_read(int fd, eventfd_t *count)
{
    int error = fault_strike(FAULT_eventfd_read);
    return error ? fails(error) : eventfd_read(fd, count);
}

int torture_eventfd_write(int fd, eventfd_t count)
{
    int error = fault_strike(FAULT_eventfd_write);
    int done = eventfd_write(fd, count);
    return error ? fails(error) : done;
}

ssize_t torture_write(int fd, const void *bytes, size_t size)
{
    int error = fault_strike(FAULT_write);
    ssize_t done = write(fd, bytes, size);
    return error ? fails(error) : done;
}

ssize_t torture_read(int fd, void *to, size_t size)
{
    int error = fault_strike(FAULT_read);
    if (error == SHORT)
        return read(fd, to, size > 1 ? size / 2 : size);
    return error ? fails(error) : read(fd, to, size);
}

ssize_t torture_read_chk(int fd, void *to, size_t size, size_t room)
{
    (void)room;
    return torture_read(fd, to, size);
}

ssize_t torture_pread(int fd, void *to, size_t size, off_t at)
{
    int error = fault_strike(FAULT_pread);
    if (error == SHORT)
        return pread(fd, to, size > 1 ? size / 2 : size, at);
    return error ? fails(error) : pread(fd, to, size, at);
}

ssize_t torture_pread_chk(int fd, void *to, size_t size, off_t at, size_t room)
{
    (void)room;
    return torture_pread(fd, to, size, at);
}

ssize_t torture_pwrite(int fd, const void *from, size_t size, off_t at)
{
    int error = fault_strike(FAULT_pwrite);
    if (error == SHORT)
        return pwrite(fd, from, size > 1 ? size / 2 : size, at);
    return error ? fails(error) : pwrite(fd, from, size, at);
}

int torture_close(int fd)
{
    int error = fault_strike(FAULT_close);
    int done = close(fd);
    return error ? fails(error) : done;
}

/* ---- files ---- */

int torture_open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list args;
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    int error = fault_strike(FAULT_open);
    return error ? fails(error) : open(path, flags, mode);
}

int torture_unlink(const char *path)
{
    int error = fault_strike(FAULT_unlink);
    return error ? fails(error) : unlink(path);
}

int torture_stat(const char *path, struct stat *ret)
{
    int error = fault_strike(FAULT_stat);
    return error ? fails(error) : stat(path, ret);
}

int torture_fstat(int fd, struct stat *ret)
{
    int error = fault_strike(FAULT_fstat);
    return error ? fails(error) : fstat(fd, ret);
}

int torture_fstatfs(int fd, struct statfs *ret)
{
    int error = fault_strike(FAULT_fstatfs);
    return error ? fails(error) : fstatfs(fd, ret);
}

int torture_fchmod(int fd, mode_t mode)
{
    int error = fault_strike(FAULT_fchmod);
    return error ? fails(error) : fchmod(fd, mode);
}

int torture_fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    /* Giving up a lock takes nothing that could be missing. */
    bool unlocks =
        command == F_OFD_SETLK && ((const struct flock *)arg)->l_type == F_UNLCK;
    int error = unlocks ? 0 : fault_strike(FAULT_fcntl);
    return error ? fails(error) : fcntl(fd, command, arg);
}

int torture_ftruncate(int fd, off_t size)
{
    int error = fault_strike(FAULT_ftruncate);
    return error ? fails(error) : ftruncate(fd, size);
}

int torture_posix_fallocate(int fd, off_t at, off_t size)
{
    int error = fault_strike(FAULT_posix_fallocate);
    return error ? error : posix_fallocate(fd, at, size);
}

int torture_getrlimit(int which, struct rlimit *ret)
{
    int error = fault_strike(FAULT_getrlimit);
    return error ? fails(error) : getrlimit((__rlimit_resource_t)which, ret);
}

void *torture_mmap(void *at, size_t size, int protection, int flags, int fd, off_t from)
{
    int error = fault_strike(FAULT_mmap);
    if (error) {
        errno = error;
        return MAP_FAILED;
    }
    void *memory = mmap(at, size, protection, flags, fd, from);
    if (memory != MAP_FAILED && !(flags & MAP_FIXED))
        fault_map(1);
    return memory;
}

int torture_munmap(void *memory, size_t size)
{
    fault_map(-1);
    return munmap(memory, size);
}

int torture_madvise(void *memory, size_t size, int advice)
{
    int error = fault_strike(FAULT_madvise);
    return error ? fails(error) : madvise(memory, size, advice);
}

/* ---- others ---- */

int torture_getentropy(void *to, size_t size)
{
    int error = fault_strike(FAULT_getentropy);
    return error ? fails(error) : getentropy(to, size);
}

int torture_kill(pid_t pid, int number)
{
    int error = fault_strike(FAULT_kill);
    return error ? fails(error) : kill(pid, number);
}

/* ---- threads ---- */

typedef struct beginning {
    void *(*run)(void *);
    void *arg;
    bool subject;
} beginning;

static void *begin(void *arg)
{
    beginning copy = *(beginning *)arg;
    free(arg);
    fault_thread_begins(copy.subject);
    return copy.run(copy.arg);
}

int torture_pthread_create(pthread_t *ret, const pthread_attr_t *attributes,
                           void *(*run)(void *), void *arg)
{
    int error = fault_strike(FAULT_pthread_create);
    beginning *start = error ? NULL : malloc(sizeof(*start));
    if (!start)
        return error ? error : EAGAIN;
    *start = (beginning){.run = run, .arg = arg, .subject = fault_is_armed()};
    int code = pthread_create(ret, attributes, begin, start);
    if (code != 0)
        free(start);
    return code;
}

int torture_pthread_atfork(void (*prepare)(void), void (*parent)(void),
                           void (*child)(void))
{
    int error = fault_strike(FAULT_pthread_atfork);
    return error ? error : pthread_atfork(prepare, parent, child);
}

int torture_pthread_mutexattr_init(pthread_mutexattr_t *attributes)
{
    int error = fault_strike(FAULT_pthread_mutexattr_init);
    return error ? error : pthread_mutexattr_init(attributes);
}

int torture_pthread_mutexattr_setpshared(pthread_mutexattr_t *attributes, int shared)
{
    int error = fault_strike(FAULT_pthread_mutexattr_setpshared);
    return error ? error : pthread_mutexattr_setpshared(attributes, shared);
}

int torture_pthread_mutexattr_setrobust(pthread_mutexattr_t *attributes, int robust)
{
    int error = fault_strike(FAULT_pthread_mutexattr_setrobust);
    return error ? error : pthread_mutexattr_setrobust(attributes, robust);
}

int torture_pthread_mutex_init(pthread_mutex_t *mutex,
                               const pthread_mutexattr_t *attributes)
{
    int error = fault_strike(FAULT_pthread_mutex_init);
    return error ? error : pthread_mutex_init(mutex, attributes);
}

int torture_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    int error = fault_strike(FAULT_pthread_mutex_trylock);
    if (error && !(error & DONE))
        return error;
    int code = pthread_mutex_trylock(mutex);
    return error && code == 0 ? error & 0xffff : code;
}

int torture_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
                                    const struct timespec *until)
{
    int error = fault_strike(FAULT_pthread_mutex_clocklock);
    return error ? error : pthread_mutex_clocklock(mutex, clock, until);
}

int torture_pthread_setname_np(pthread_t thread, const char *name)
{
    int error = fault_strike(FAULT_pthread_setname_np);
    return error ? error : pthread_setname_np(thread, name);
}

/* The library's threads block every signal but the one that asks for their backtrace. */
int torture_sigfillset(sigset_t *set)
{
    int code = sigfillset(set);
    (void)sigdelset(set, SIGUSR2);
    return code;
}

/* Where files have 64-bit offsets, libc's functions have other names. */
#define ALSO(name)                                                                       \
    extern __typeof__(torture_##name) torture_##name##64                                 \
        __attribute__((alias("torture_" #name)));

ALSO(pread)
ALSO(pwrite)
ALSO(open)
ALSO(stat)
ALSO(fstat)
ALSO(fstatfs)
ALSO(fcntl)
ALSO(ftruncate)
ALSO(posix_fallocate)
ALSO(getrlimit)
ALSO(mmap)
