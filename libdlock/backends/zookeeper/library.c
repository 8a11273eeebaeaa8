/*
 * library.h by libzookeeper_mt.
 *
 * Threads. The library resolves names and connects in zookeeper_init2, and waits for its own two
 * threads in zookeeper_close, so both run on short-lived threads of ours; what the library starts
 * inherits their blocked signals. Its completions and watchers copy what they were given into the
 * inbox and do nothing else.
 *
 * Every watch is set with the handle's own watcher and context: the library hands session events
 * to each armed watch as well, and drops duplicates, so one context that lives as long as the
 * handle is all there is to free.
 */
#include "backends/zookeeper/library.h"

#include "net/silence.h"
#include "util/digits.h"
#include "util/error.h"
#include "util/secret.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADED
#include <zookeeper/zookeeper.h>

/* Unasked the library resolves its servers' names before each request and each answer. That takes
 * as long as the rest; and the C library, in which the name is looked up, has locks of its own: a
 * fork meanwhile leaves them to a child that may wait for them for ever. So: only to connect. */
#define RESOLVE_TO_CONNECT (-1)

/* A socket, which has its inode for itself: a number alone may be another's by the next look. */
typedef struct mark {
    int fd; /* -1: none */
    ino_t inode;
} mark;

struct dlk_zk_wire {
    dlk_zk_inbox *inbox;
    uint32_t epoch;
    char *hosts, *auth;
    int timeout_ms;
    int64_t silent_ms;
    bool creator_acl;

    pthread_mutex_t mutex; /* guards: */
    zhandle_t *handle;     /* NULL until the library made it, and when it is closed */
    bool closing;

    dlk_list sent; /* dlk_zk_call.sent; under the inbox's mutex */
    pthread_t opener;
    dlk_thread_role opener_role, closer_role;
    mark *others; /* the sockets that there were before the library was asked for one */
    size_t other_count;
    bool knows_others;
    /* Of the connection, as far as that is known for sure: its number, -1 where it isn't, and its
     * inode. Read one after the other they may be of two sockets, and fit none. */
    _Atomic int socket;
    _Atomic ino_t inode;
    dlk_list wires; /* of this process, and: */
    struct sockaddr_storage peer;
    /* 0: its socket is found, or gone; all under the mutex of `wires` */
    socklen_t peer_size;
};

/* ---- what the library says ---- */

static dlk_zk_end end_of(int rc)
{
    switch (rc) {
    case ZOK:
        return DLK_ZK_OK;
    case ZNONODE:
        return DLK_ZK_NO_NODE;
    case ZNODEEXISTS:
        return DLK_ZK_NODE_EXISTS;
    case ZNOTEMPTY:
        return DLK_ZK_NOT_EMPTY;
    case ZNOAUTH:
        return DLK_ZK_NO_AUTH;
    case ZNOCHILDRENFOREPHEMERALS:
        return DLK_ZK_NO_CHILDREN;
    case ZUNIMPLEMENTED:
        return DLK_ZK_NOT_KNOWN;
    case ZTHROTTLEDOP:
        return DLK_ZK_BUSY;
    case ZSESSIONEXPIRED:
        return DLK_ZK_GONE;
    case ZBADARGUMENTS:
    case ZINVALIDACL:
    case ZAUTHFAILED:
    case ZBADVERSION:
    case ZNOTREADONLY:
    case ZNOWATCHER:
    case ZEPHEMERALONLOCALSESSION:
        return DLK_ZK_BAD;
    default: /* ZCONNECTIONLOSS, ZOPERATIONTIMEOUT, ZCLOSING and what we don't know */
        return DLK_ZK_CUT;
    }
}

static void came_back(dlk_zk_call *call, int rc)
{
    call->code = rc;
    if (call->end == DLK_ZK_OK)
        call->end = end_of(rc);
    dlk_zk_inbox_put(call->wire->inbox, &call->item);
}

static void take_text(dlk_zk_call *call, const char *text, size_t size)
{
    call->item.text = malloc(size + 1);
    if (!call->item.text) {
        call->end = DLK_ZK_NO_MEMORY;
        return;
    }
    memcpy(call->item.text, text, size);
    call->item.text[size] = '\0';
    call->size = size;
}

static void take_stat(dlk_zk_call *call, const struct Stat *stat)
{
    call->stat = (dlk_zk_stat){.czxid = stat->czxid,
                               .ephemeral_owner = stat->ephemeralOwner,
                               .version = stat->version,
                               .children = stat->numChildren};
}

static void on_nothing(int rc, const void *data)
{
    came_back((dlk_zk_call *)(uintptr_t)data, rc);
}

static void on_string(int rc, const char *text, const void *data)
{
    (void)text;
    came_back((dlk_zk_call *)(uintptr_t)data, rc);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    dlk_zk_call *call = (dlk_zk_call *)(uintptr_t)data;
    if (rc == ZOK && stat)
        take_stat(call, stat);
    came_back(call, rc);
}

static void on_created(int rc, const char *text, const struct Stat *stat,
                       const void *data)
{
    dlk_zk_call *call = (dlk_zk_call *)(uintptr_t)data;
    if (rc == ZOK && text)
        take_text(call, text, strlen(text));
    if (rc == ZOK && stat)
        take_stat(call, stat);
    came_back(call, rc);
}

static void on_data(int rc, const char *value, int size, const struct Stat *stat,
                    const void *data)
{
    dlk_zk_call *call = (dlk_zk_call *)(uintptr_t)data;
    if (rc == ZOK)
        take_text(call, value ? value : "", value && size > 0 ? (size_t)size : 0);
    if (rc == ZOK && stat)
        take_stat(call, stat);
    came_back(call, rc);
}

/* All names in one block behind the pointers to them. */
static void take_children(dlk_zk_call *call, const struct String_vector *names)
{
    size_t count = (size_t)names->count, bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(names->data[i]) + 1;
    call->children = malloc(count * sizeof(char *) + bytes + 1);
    if (!call->children) {
        call->end = DLK_ZK_NO_MEMORY;
        return;
    }
    char *to = (char *)(call->children + count);
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(names->data[i]) + 1;
        call->children[i] = memcpy(to, names->data[i], size);
        to += size;
    }
    call->child_count = count;
}

static void on_children(int rc, const struct String_vector *names, const void *data)
{
    dlk_zk_call *call = (dlk_zk_call *)(uintptr_t)data;
    if (rc == ZOK && names)
        take_children(call, names);
    came_back(call, rc);
}

/* ---- watches and session events ---- */

static void tell(dlk_zk_wire *wire, zhandle_t *handle, dlk_zk_news news, const char *text)
{
    dlk_zk_item *item = dlk_zk_item_new(news, wire->epoch, text);
    if (!item) {
        dlk_zk_inbox_lose(wire->inbox);
        return;
    }
    if (news == DLK_ZK_CONNECTED) {
        item->session = zoo_client_id(handle)->client_id;
        item->timeout_ms = zoo_recv_timeout(handle);
    }
    dlk_zk_inbox_put(wire->inbox, item);
}

/* ---- the library's socket ---- */

/* False when it is no socket. By its name and not by fstat: it may be another thread's, which
   closes it meanwhile, and whoever watches over descriptors (TSan) takes that for a race. */
static bool mark_of(int fd, mark *ret)
{
    char name[sizeof("/proc/self/fd/") + DLK_DIGITS_MAX];
    struct stat st;
    (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    if (stat(name, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    *ret = (mark){.fd = fd, .inode = st.st_ino};
    return true;
}

static bool is_still(mark it)
{
    mark now;
    return it.fd >= 0 && mark_of(it.fd, &now) && now.inode == it.inode;
}

/* The next socket of this process; false at the end. */
static bool next_socket(DIR *all, mark *ret)
{
    const struct dirent *entry;
    while ((entry = readdir(all))) /* NOLINT: a DIR of our own */
        if (mark_of(atoi(entry->d_name), ret))
            return true;
    return false;
}

static bool is_others(const dlk_zk_wire *wire, mark it)
{
    for (size_t i = 0; i < wire->other_count; i++)
        if (wire->others[i].fd == it.fd && wire->others[i].inode == it.inode)
            return true;
    return false;
}

/* Whatever there is now isn't what the library is going to open. */
static void note_others(dlk_zk_wire *wire)
{
    DIR *all = opendir("/proc/self/fd");
    mark it;
    wire->knows_others = all != NULL;
    while (all && next_socket(all, &it)) {
        mark *more = realloc(wire->others, (wire->other_count + 1) * sizeof(*more));
        wire->knows_others = more != NULL;
        if (!more)
            break;
        wire->others = more;
        wire->others[wire->other_count++] = it;
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
static int find_sockets(const dlk_zk_wire *wire, mark *ret, int most)
{
    DIR *all = wire->knows_others ? opendir("/proc/self/fd") : NULL;
    mark it;
    int count = 0;
    while (all && next_socket(all, &it)) {
        if (is_others(wire, it) || !may_be_librarys(it.fd) ||
            !leads_to(it.fd, &wire->peer, wire->peer_size))
            continue;
        if (count < most)
            ret[count] = it;
        count++;
    }
    if (all)
        (void)closedir(all);
    return count;
}

static void tend_socket(dlk_zk_wire *wire, mark it)
{
    (void)fcntl(it.fd, F_SETFD, FD_CLOEXEC);
    /* What nobody acknowledges would come as much later again as a cut lasts. */
    dlk_silence_limit(it.fd, wire->silent_ms);
    atomic_store(&wire->inode, it.inode);
    atomic_store(&wire->socket, it.fd);
    wire->peer_size = 0;
}

static pthread_mutex_t wires_mutex = PTHREAD_MUTEX_INITIALIZER; /* guards: */
static dlk_list wires = {&wires, &wires};

enum { SOCKETS_MAX = 16 };

static void lock_wires(void)
{
    (void)pthread_mutex_lock(&wires_mutex); /* a plain one, never taken twice */
}

static void unlock_wires(void)
{
    (void)pthread_mutex_unlock(&wires_mutex); /* ours */
}

/* Those there are look for nothing in a fork's child. */
static void forget_wires(void)
{
    dlk_list_init(&wires);
    unlock_wires();
}

static pthread_once_t wires_once = PTHREAD_ONCE_INIT;
static bool forks_are_watched;

static void watch_forks(void)
{
    forks_are_watched = dlk_fork_watch(lock_wires, unlock_wires, forget_wires);
}

/* The library doesn't hand its socket out, so it is found by where it leads to, unless something else
 * does that could be it: the program may have connections of its own to that server, which are none of
 * our business. Several that are as many as we look for are all ours. */
static void look_for_socket(dlk_zk_wire *wire, zhandle_t *handle)
{
    mark found[SOCKETS_MAX];
    dlk_zk_wire *looking[SOCKETS_MAX];
    int count = 0;
    lock_wires();
    atomic_store(&wire->socket, -1);
    wire->peer = (struct sockaddr_storage){0};
    wire->peer_size = sizeof(wire->peer);
    if (!zookeeper_get_connected_host(handle, (struct sockaddr *)&wire->peer,
                                      &wire->peer_size))
        wire->peer_size = 0;
    DLK_LIST_FOR (it, &wires) {
        dlk_zk_wire *other = DLK_LIST_ITEM(it, dlk_zk_wire, wires);
        if (count < SOCKETS_MAX && wire->peer_size > 0 &&
            other->peer_size == wire->peer_size &&
            memcmp(&other->peer, &wire->peer, wire->peer_size) == 0)
            looking[count++] = other;
    }
    if (count > 0 && find_sockets(wire, found, SOCKETS_MAX) == count)
        for (int i = 0; i < count; i++)
            tend_socket(looking[i], found[i]);
    unlock_wires();
}

/* The library has closed it. */
static void lose_socket(dlk_zk_wire *wire)
{
    lock_wires();
    atomic_store(&wire->socket, -1);
    wire->peer_size = 0;
    unlock_wires();
}

static mark socket_of(dlk_zk_wire *wire)
{
    return (mark){.fd = atomic_load(&wire->socket), .inode = atomic_load(&wire->inode)};
}

static void publish(dlk_zk_wire *wire, zhandle_t *handle)
{
    (void)pthread_mutex_lock(&wire->mutex);
    if (!wire->closing)
        wire->handle = handle;
    (void)pthread_mutex_unlock(&wire->mutex);
}

static void on_session(dlk_zk_wire *wire, zhandle_t *handle, int state)
{
    if (state == ZOO_CONNECTED_STATE) {
        publish(wire, handle); /* it may come before zookeeper_init2 has returned */
        (void)zoo_set_servers_resolution_delay(handle, RESOLVE_TO_CONNECT);
        look_for_socket(wire, handle);
        tell(wire, handle, DLK_ZK_CONNECTED, NULL);
    } else if (state == ZOO_EXPIRED_SESSION_STATE) {
        tell(wire, handle, DLK_ZK_EXPIRED, NULL);
    } else if (state == ZOO_AUTH_FAILED_STATE) {
        tell(wire, handle, DLK_ZK_AUTH_FAILED, NULL);
    } else if (state == ZOO_CONNECTING_STATE || state == ZOO_NOTCONNECTED_STATE) {
        lose_socket(wire);
        tell(wire, handle, DLK_ZK_DISCONNECTED, NULL);
    }
}

static void on_watch(zhandle_t *handle, int type, int state, const char *path,
                     void *context)
{
    dlk_zk_wire *wire = context;
    if (type == ZOO_SESSION_EVENT)
        on_session(wire, handle, state);
    else if (type == ZOO_CHILD_EVENT)
        tell(wire, handle, DLK_ZK_CHILD_CHANGED, path);
    else if (type == ZOO_DELETED_EVENT || type == ZOO_CHANGED_EVENT ||
             type == ZOO_CREATED_EVENT)
        tell(wire, handle, DLK_ZK_CHANGED, path);
}

/* A library's words belong to its user, not on stderr. */
static void no_log(const char *message)
{
    (void)message;
}

/* ---- opening ---- */

static void free_wire(dlk_zk_wire *wire)
{
    lock_wires();
    dlk_list_remove(&wire->wires);
    unlock_wires();
    dlk_wipe_free(wire->auth);
    free(wire->hosts);
    free(wire->others);
    (void)pthread_mutex_destroy(&wire->mutex);
    free(wire);
}

static void *open_handle(void *arg)
{
    dlk_zk_wire *wire = arg;
    char text[128];
    note_others(wire);
    zhandle_t *handle = zookeeper_init2(wire->hosts, on_watch, wire->timeout_ms, NULL,
                                        wire, ZOO_NO_LOG_CLIENTENV, no_log);
    if (!handle) {
        dlk_error_errno(errno, text, sizeof(text));
        tell(wire, NULL, DLK_ZK_NOT_OPENED, text);
        return NULL;
    }
    if (wire->auth && zoo_add_auth(handle, "digest", wire->auth, (int)strlen(wire->auth),
                                   NULL, NULL) != ZOK)
        tell(wire, handle, DLK_ZK_AUTH_FAILED, NULL);
    (void)pthread_mutex_lock(&wire->mutex);
    wire->handle = handle; /* also for who closes: that waits for us */
    (void)pthread_mutex_unlock(&wire->mutex);
    return NULL;
}

static dlk_zk_wire *library_open(const dlk_zk_setup *setup, dlk_zk_inbox *inbox)
{
    (void)pthread_once(&wires_once, watch_forks);
    dlk_zk_wire *wire = forks_are_watched ? calloc(1, sizeof(*wire)) : NULL;
    if (!wire)
        return NULL;
    *wire = (dlk_zk_wire){.inbox = inbox,
                          .epoch = setup->epoch,
                          .timeout_ms = setup->timeout_ms,
                          .silent_ms = setup->silent_ms,
                          .creator_acl = setup->creator_acl,
                          .hosts = strdup(setup->hosts),
                          .auth = setup->auth ? strdup(setup->auth) : NULL};
    dlk_list_init(&wire->sent);
    atomic_init(&wire->socket, -1);
    lock_wires();
    dlk_list_append(&wires, &wire->wires);
    unlock_wires();
    (void)pthread_mutex_init(&wire->mutex, NULL); /* a default one can't fail on Linux */
    wire->opener_role = (dlk_thread_role){"dlock-zk", open_handle, wire};
    if (!wire->hosts || (setup->auth && !wire->auth) ||
        !dlk_thread_start(&wire->opener, &wire->opener_role)) {
        free_wire(wire);
        return NULL;
    }
    atomic_fetch_add(&inbox->wires, 1);
    return wire;
}

/* ---- sending ---- */

static int create_mode(dlk_zk_mode mode)
{
    switch (mode) {
    case DLK_ZK_PERSISTENT:
        return ZOO_PERSISTENT;
    case DLK_ZK_CONTAINER:
        return ZOO_CONTAINER;
    case DLK_ZK_EPHEMERAL:
        return ZOO_EPHEMERAL;
    case DLK_ZK_SEQUENTIAL:
        break;
    }
    return ZOO_EPHEMERAL_SEQUENTIAL;
}

static int put(const dlk_zk_wire *wire, zhandle_t *handle, const dlk_zk_request *ask,
               dlk_zk_call *call)
{
    /* The library takes what it declares as a pointer to the function for the function itself. */
    void_completion_t *nothing = (void_completion_t *)(uintptr_t)on_nothing;
    switch (ask->verb) {
    case DLK_ZK_CREATE:
        return zoo_acreate2(handle, ask->path, ask->data, (int)ask->size,
                            wire->creator_acl ? &ZOO_CREATOR_ALL_ACL
                                              : &ZOO_OPEN_ACL_UNSAFE,
                            create_mode(ask->mode), on_created, call);
    case DLK_ZK_DELETE:
        return zoo_adelete(handle, ask->path, -1, on_nothing, call);
    case DLK_ZK_SET:
        return zoo_aset(handle, ask->path, ask->data, (int)ask->size, -1, on_stat, call);
    case DLK_ZK_GET:
        return zoo_aget(handle, ask->path, ask->watch, on_data, call);
    case DLK_ZK_CHILDREN:
        return zoo_aget_children(handle, ask->path, ask->watch, on_children, call);
    case DLK_ZK_EXISTS:
        return zoo_aexists(handle, ask->path, 0, on_stat, call);
    case DLK_ZK_SYNC:
        return zoo_async(handle, ask->path, on_string, call);
    case DLK_ZK_UNWATCH:
        /* Without "all" the server would only be asked whether it has the watch. */
        return zoo_aremove_all_watches(handle, ask->path, ZWATCHTYPE_DATA, 0, nothing,
                                       call);
    }
    return ZBADARGUMENTS;
}

static bool library_send(dlk_zk_wire *wire, const dlk_zk_request *ask, dlk_zk_call *call)
{
    (void)pthread_mutex_lock(&wire->mutex);
    zhandle_t *handle = wire->closing ? NULL : wire->handle;
    (void)pthread_mutex_unlock(&wire->mutex);
    if (!handle)
        return false; /* only `close` takes it away, and whoever calls that doesn't send */
    call->wire = wire;
    call->item.epoch = wire->epoch;
    (void)pthread_mutex_lock(&wire->inbox->mutex);
    dlk_list_append(&wire->sent, &call->sent);
    (void)pthread_mutex_unlock(&wire->inbox->mutex);
    if (put(wire, handle, ask, call) == ZOK)
        return true;
    (void)pthread_mutex_lock(&wire->inbox->mutex);
    dlk_list_remove(&call->sent);
    (void)pthread_mutex_unlock(&wire->inbox->mutex);
    return false;
}

/* ---- closing ---- */

/* Whatever the library kept to itself comes back all the same. */
static void bring_back(dlk_zk_wire *wire)
{
    for (;;) {
        (void)pthread_mutex_lock(&wire->inbox->mutex);
        dlk_list *link = dlk_list_take_first(&wire->sent);
        (void)pthread_mutex_unlock(&wire->inbox->mutex);
        if (!link)
            return;
        came_back(DLK_LIST_ITEM(link, dlk_zk_call, sent), ZCLOSING);
    }
}

static void *close_handle(void *arg)
{
    dlk_zk_wire *wire = arg;
    (void)pthread_join(wire->opener, NULL); /* started in `open`, joined only here */
    dlk_zk_inbox *inbox = wire->inbox;
    if (wire->handle) /* nobody else is there any more; the session ends even if this fails */
        (void)zookeeper_close(wire->handle);
    bring_back(wire);
    free_wire(wire);
    dlk_zk_inbox_left(inbox);
    return NULL;
}

static void library_close(dlk_zk_wire *wire)
{
    pthread_t closer;
    (void)pthread_mutex_lock(&wire->mutex);
    wire->closing = true;
    (void)pthread_mutex_unlock(&wire->mutex);
    wire->closer_role = (dlk_thread_role){"dlock-zk", close_handle, wire};
    if (dlk_thread_start(&closer, &wire->closer_role))
        (void)pthread_detach(closer); /* the backend waits for dlk_zk_inbox_left */
    else
        (void)close_handle(wire); /* without a thread it has to be done here */
}

/* The library's threads aren't here, and its locks may be held: only the socket is closed. */
static void library_forked(dlk_zk_wire *wire)
{
    mark it = socket_of(wire);
    if (is_still(it))
        (void)syscall(SYS_close, it.fd);
}

const dlk_zk_wire_type dlk_zk_library = {
    .open = library_open,
    .send = library_send,
    .close = library_close,
    .forked = library_forked,
};
