/* Which socket is the library's; see the header. */
#include "backends/zookeeper/socket.h"

#include "net/silence.h"
#include "util/descriptor.h"
#include "util/digits.h"
#include "util/thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* False when it is no socket. By its name and not by fstat: it may be another thread's, which
   closes it meanwhile, and whoever watches over descriptors (TSan) takes that for a race. */
static bool mark_of(int fd, dlk_zk_mark *ret)
{
    char name[sizeof("/proc/self/fd/") + DLK_DIGITS_MAX];
    struct stat st;
    (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    if (stat(name, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    *ret = (dlk_zk_mark){.fd = fd, .inode = st.st_ino};
    return true;
}

static bool is_still(dlk_zk_mark it)
{
    dlk_zk_mark now;
    return it.fd >= 0 && mark_of(it.fd, &now) && now.inode == it.inode;
}

/* The next socket of this process; false at the end. */
static bool next_socket(DIR *all, dlk_zk_mark *ret)
{
    const struct dirent *entry;
    while ((entry = readdir(all))) /* NOLINT: a DIR of our own */
        if (mark_of(atoi(entry->d_name), ret))
            return true;
    return false;
}

static bool is_others(const dlk_zk_socket *ours, dlk_zk_mark it)
{
    for (size_t i = 0; i < ours->other_count; i++)
        if (ours->others[i].fd == it.fd && ours->others[i].inode == it.inode)
            return true;
    return false;
}

void dlk_zk_socket_begin(dlk_zk_socket *ours)
{
    DIR *all = opendir("/proc/self/fd");
    dlk_zk_mark it;
    ours->knows_others = all != NULL;
    while (all && next_socket(all, &it)) {
        dlk_zk_mark *more =
            realloc(ours->others, (ours->other_count + 1) * sizeof(*more));
        ours->knows_others = more != NULL;
        if (!more)
            break;
        ours->others = more;
        ours->others[ours->other_count++] = it;
    }
    if (all)
        (void)closedir(all);
}

static bool leads_to(int fd, const struct sockaddr_storage *peer, socklen_t size)
{
    struct sockaddr_storage other = {0};
    socklen_t other_size = sizeof(other);
    return getpeername(fd, (struct sockaddr *)&other, &other_size) == 0 &&
           other_size == size && memcmp(&other, peer, size) == 0;
}

/* As Debian's library leaves it: open over an exec, and not waiting. */
static bool may_be_librarys(int fd)
{
    return fcntl(fd, F_GETFD) == 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
}

/* Up to @p most sockets that lead there and may be the library's; answers how many there are. */
static int find_sockets(const dlk_zk_socket *ours, dlk_zk_mark *ret, int most)
{
    DIR *all = ours->knows_others ? opendir("/proc/self/fd") : NULL;
    dlk_zk_mark it;
    int count = 0;
    while (all && next_socket(all, &it)) {
        if (is_others(ours, it) || !may_be_librarys(it.fd) ||
            !leads_to(it.fd, &ours->peer, ours->peer_size))
            continue;
        if (count < most)
            ret[count] = it;
        count++;
    }
    if (all)
        (void)closedir(all);
    return count;
}

static void tend_socket(dlk_zk_socket *ours, dlk_zk_mark it)
{
    (void)fcntl(it.fd, F_SETFD, FD_CLOEXEC);
    /* What nobody acknowledges would come as much later again as a cut lasts. */
    dlk_silence_limit(it.fd, ours->silent_ms);
    atomic_store(&ours->inode, it.inode);
    atomic_store(&ours->fd, it.fd);
    ours->peer_size = 0;
}

static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER; /* guards: */
static dlk_list all_sockets = {&all_sockets, &all_sockets};

enum { SOCKETS_MAX = 16 };

static void lock_all(void)
{
    (void)pthread_mutex_lock(&all_mutex); /* a plain one, never taken twice */
}

static void unlock_all(void)
{
    (void)pthread_mutex_unlock(&all_mutex); /* ours */
}

/* Those that there are look for nothing in a fork's child. */
static void forget_all(void)
{
    dlk_list_init(&all_sockets);
    unlock_all();
}

static pthread_once_t forks_once = PTHREAD_ONCE_INIT;
static bool forks_are_watched;

static void watch_forks(void)
{
    forks_are_watched = dlk_fork_watch(lock_all, unlock_all, forget_all);
}

bool dlk_zk_sockets_watch_forks(void)
{
    (void)pthread_once(&forks_once, watch_forks);
    return forks_are_watched;
}

void dlk_zk_socket_init(dlk_zk_socket *ours, int64_t silent_ms)
{
    *ours = (dlk_zk_socket){.silent_ms = silent_ms};
    atomic_init(&ours->fd, -1);
    lock_all();
    dlk_list_append(&all_sockets, &ours->all);
    unlock_all();
}

void dlk_zk_socket_end(dlk_zk_socket *ours)
{
    lock_all();
    dlk_list_remove(&ours->all);
    unlock_all();
    free(ours->others);
}

void dlk_zk_socket_look(dlk_zk_socket *ours, const struct sockaddr_storage *peer,
                        socklen_t size)
{
    dlk_zk_mark found[SOCKETS_MAX];
    dlk_zk_socket *looking[SOCKETS_MAX];
    int count = 0;
    lock_all();
    atomic_store(&ours->fd, -1);
    ours->peer = *peer;
    ours->peer_size = size;
    DLK_LIST_FOR (it, &all_sockets) {
        dlk_zk_socket *other = DLK_LIST_ITEM(it, dlk_zk_socket, all);
        if (count < SOCKETS_MAX && size > 0 && other->peer_size == size &&
            memcmp(&other->peer, peer, size) == 0)
            looking[count++] = other;
    }
    if (count > 0 && find_sockets(ours, found, SOCKETS_MAX) == count)
        for (int i = 0; i < count; i++)
            tend_socket(looking[i], found[i]);
    unlock_all();
}

void dlk_zk_socket_lost(dlk_zk_socket *ours)
{
    lock_all();
    atomic_store(&ours->fd, -1);
    ours->peer_size = 0;
    unlock_all();
}

void dlk_zk_socket_close(const dlk_zk_socket *ours)
{
    const dlk_zk_mark it = {.fd = atomic_load(&ours->fd),
                            .inode = atomic_load(&ours->inode)};
    if (is_still(it))
        dlk_fd_end(it.fd);
}
