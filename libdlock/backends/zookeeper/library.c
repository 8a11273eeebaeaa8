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

#include "backends/zookeeper/multi.h"
#include "backends/zookeeper/secure.h"
#include "backends/zookeeper/socket.h"
#include "util/error.h"
#include "util/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Unasked the library resolves its servers' names before each request and each answer. That takes
 * as long as the rest; and the C library, in which the name is looked up, has locks of its own: a
 * fork meanwhile leaves them to a child that may wait for them for ever. So: only to connect. */
#define RESOLVE_TO_CONNECT (-1)
/* The library says to the server that the session is over whenever it closes a connection. So the
 * connection is given up before: it isn't to a server that the library may use any more. (By their
 * addresses, whatever the port: so it is one that no server has.) */
#define NOWHERE "127.255.255.254:1"

struct dlk_zk_wire {
    dlk_zk_inbox *inbox;
    uint32_t epoch;
    char *hosts, *auth;
    int timeout_ms;
    bool creator_acl;
    dlk_zk_secure *secure; /* or NULL */
    bool introduced;       /* the library says who we are, with each connection */

    pthread_mutex_t mutex; /* guards: */
    zhandle_t *handle;     /* NULL until the library made it, and when it is closed */
    bool closing, stays;

    dlk_list sent; /* dlk_zk_call.sent; under the inbox's mutex */
    pthread_t opener;
    dlk_thread_role opener_role, closer_role;
    dlk_zk_socket socket;
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
    case ZBADVERSION:
        return DLK_ZK_OTHER_VERSION;
    case ZTHROTTLEDOP:
        return DLK_ZK_BUSY;
    case ZSESSIONEXPIRED:
        return DLK_ZK_GONE;
    case ZBADARGUMENTS:
    case ZINVALIDACL:
    case ZAUTHFAILED:
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
                               .mzxid = stat->mzxid,
                               .ctime_ms = stat->ctime,
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

static void on_children(int rc, const struct String_vector *names,
                        const struct Stat *stat, const void *data)
{
    dlk_zk_call *call = (dlk_zk_call *)(uintptr_t)data;
    if (rc == ZOK && names)
        take_children(call, names);
    if (rc == ZOK && stat)
        take_stat(call, stat);
    came_back(call, rc);
}

/* Of a multi-request: its results lie in the block. */
static void on_all(int rc, const void *data)
{
    dlk_zk_call *call = (dlk_zk_call *)(uintptr_t)data;
    if (rc == ZOK)
        take_stat(call, call->seen);
    else
        call->child_count = 0;
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

static void look_for_socket(dlk_zk_wire *wire, zhandle_t *handle)
{
    struct sockaddr_storage peer = {0};
    socklen_t size = sizeof(peer);
    if (!zookeeper_get_connected_host(handle, (struct sockaddr *)&peer, &size))
        size = 0;
    dlk_zk_socket_look(&wire->socket, &peer, size);
}

static void publish(dlk_zk_wire *wire, zhandle_t *handle)
{
    (void)pthread_mutex_lock(&wire->mutex);
    if (!wire->closing)
        wire->handle = handle;
    (void)pthread_mutex_unlock(&wire->mutex);
}

/* With this connection and each that comes. */
static bool introduce(dlk_zk_wire *wire, zhandle_t *handle)
{
    if (!wire->introduced && wire->auth && !dlk_zk_secure_says_who(wire->secure))
        wire->introduced = zoo_add_auth(handle, "digest", wire->auth,
                                        (int)strlen(wire->auth), NULL, NULL) == ZOK;
    else
        wire->introduced = true;
    return wire->introduced;
}

static void on_session(dlk_zk_wire *wire, zhandle_t *handle, int state)
{
    if (state == ZOO_CONNECTED_STATE && !dlk_zk_secure_checked(wire->secure)) {
        tell(wire, handle, DLK_ZK_NOT_OPENED,
             "nobody has looked at the server's certificate: libzookeeper uses another "
             "OpenSSL than libdlock");
    } else if (state == ZOO_CONNECTED_STATE && wire->secure && !introduce(wire, handle)) {
        tell(wire, handle, DLK_ZK_AUTH_FAILED, NULL);
    } else if (state == ZOO_CONNECTED_STATE) {
        publish(wire, handle); /* it may come before zookeeper_init2 has returned */
        (void)zoo_set_servers_resolution_delay(handle, RESOLVE_TO_CONNECT);
        look_for_socket(wire, handle);
        tell(wire, handle, DLK_ZK_CONNECTED, NULL);
    } else if (state == ZOO_EXPIRED_SESSION_STATE) {
        tell(wire, handle, DLK_ZK_EXPIRED, NULL);
    } else if (state == ZOO_AUTH_FAILED_STATE) {
        tell(wire, handle, DLK_ZK_AUTH_FAILED, NULL);
    } else if (state == ZOO_CONNECTING_STATE || state == ZOO_NOTCONNECTED_STATE) {
        dlk_zk_socket_lost(&wire->socket);
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
    dlk_zk_socket_end(&wire->socket);
    dlk_zk_secure_free(wire->secure);
    dlk_wipe_free(wire->auth);
    free(wire->hosts);
    (void)pthread_mutex_destroy(&wire->mutex);
    free(wire);
}

static void *open_handle(void *arg)
{
    dlk_zk_wire *wire = arg;
    char text[128];
    dlk_zk_socket_begin(&wire->socket);
    zhandle_t *handle = dlk_zk_secure_open(wire->secure, wire->hosts, on_watch,
                                           wire->timeout_ms, wire, no_log);
    if (!handle) {
        dlk_error_errno(errno, text, sizeof(text));
        tell(wire, NULL, DLK_ZK_NOT_OPENED, text);
        return NULL;
    }
    /* With TLS only whom we have had a look at is told who we are. */
    if (!wire->secure && !introduce(wire, handle))
        tell(wire, handle, DLK_ZK_AUTH_FAILED, NULL);
    (void)pthread_mutex_lock(&wire->mutex);
    wire->handle = handle; /* also for who closes: that waits for us */
    (void)pthread_mutex_unlock(&wire->mutex);
    return NULL;
}

static dlk_zk_wire *library_open(const dlk_zk_setup *setup, dlk_zk_inbox *inbox,
                                 dlock_error **err)
{
    dlk_zk_wire *wire = dlk_zk_sockets_watch_forks() ? calloc(1, sizeof(*wire)) : NULL;
    if (!wire)
        return NULL;
    *wire = (dlk_zk_wire){.inbox = inbox,
                          .epoch = setup->epoch,
                          .timeout_ms = setup->timeout_ms,
                          .creator_acl = setup->creator_acl,
                          .hosts = strdup(setup->hosts),
                          .auth = setup->auth ? strdup(setup->auth) : NULL};
    dlk_list_init(&wire->sent);
    dlk_zk_socket_init(&wire->socket, setup->silent_ms);
    (void)pthread_mutex_init(&wire->mutex, NULL); /* a default one can't fail on Linux */
    bool secured = dlk_zk_secure_new(setup, &wire->secure, err) == DLOCK_OK;
    const char *name = dlk_zk_secure_thread(wire->secure);
    wire->opener_role = (dlk_thread_role){name[0] ? name : "dlock-zk", open_handle, wire};
    if (!secured || !wire->hosts || (setup->auth && !wire->auth) ||
        !dlk_thread_start(&wire->opener, &wire->opener_role)) {
        free_wire(wire);
        return NULL;
    }
    atomic_fetch_add(&inbox->wires, 1);
    return wire;
}

/* ---- sending ---- */

static const struct ACL_vector *acl_of(const dlk_zk_wire *wire)
{
    return wire->creator_acl ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

static int put(const dlk_zk_wire *wire, zhandle_t *handle, const dlk_zk_request *ask,
               dlk_zk_call *call)
{
    if (ask->count > 0 || ask->also)
        return dlk_zk_multi_put(handle, ask, acl_of(wire), on_all, call);
    /* The library takes what it declares as a pointer to the function for the function itself. */
    void_completion_t *nothing = (void_completion_t *)(uintptr_t)on_nothing;
    switch (ask->verb) {
    case DLK_ZK_CREATE:
        return zoo_acreate2(handle, ask->path, ask->data, (int)ask->size,
                            ask->open ? &ZOO_OPEN_ACL_UNSAFE : acl_of(wire),
                            dlk_zk_create_mode(ask->mode), on_created, call);
    case DLK_ZK_DELETE:
        return zoo_adelete(handle, ask->path, -1, on_nothing, call);
    case DLK_ZK_SET:
        return zoo_aset(handle, ask->path, ask->data, (int)ask->size,
                        dlk_zk_version_of(ask), on_stat, call);
    case DLK_ZK_GET:
        return zoo_aget(handle, ask->path, ask->watch, on_data, call);
    case DLK_ZK_CHILDREN:
        return zoo_aget_children2(handle, ask->path, ask->watch, on_children, call);
    case DLK_ZK_EXISTS:
        return zoo_aexists(handle, ask->path, 0, on_stat, call);
    case DLK_ZK_CHECK: /* always of several */
    case DLK_ZK_MOVE:
        break;
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
    if (wire->handle && wire->stays)
        (void)zoo_set_servers(wire->handle, NOWHERE); /* if that fails the session ends */
    if (wire->handle) /* nobody else is there any more; the session ends even if this fails */
        (void)zookeeper_close(wire->handle);
    bring_back(wire);
    free_wire(wire);
    dlk_zk_inbox_left(inbox);
    return NULL;
}

static void library_close(dlk_zk_wire *wire, bool stay)
{
    pthread_t closer;
    (void)pthread_mutex_lock(&wire->mutex);
    wire->closing = true;
    wire->stays = stay;
    (void)pthread_mutex_unlock(&wire->mutex);
    wire->closer_role = (dlk_thread_role){"dlock-zk", close_handle, wire};
    if (dlk_thread_start(&closer, &wire->closer_role))
        (void)pthread_detach(closer); /* the backend waits for dlk_zk_inbox_left */
    else
        (void)close_handle(wire); /* without a thread it has to be done here */
}

static bool library_denied(dlk_zk_wire *wire)
{
    (void)pthread_mutex_lock(&wire->mutex);
    bool denied = wire->handle && zoo_state(wire->handle) == ZOO_AUTH_FAILED_STATE;
    (void)pthread_mutex_unlock(&wire->mutex);
    return denied;
}

/* The library's threads aren't here, and its locks may be held: only the socket is closed. */
static void library_forked(dlk_zk_wire *wire)
{
    dlk_zk_socket_close(&wire->socket);
}

const dlk_zk_wire_type dlk_zk_library = {
    .open = library_open,
    .send = library_send,
    .denied = library_denied,
    .close = library_close,
    .forked = library_forked,
    .look = &dlk_zk_glances,
};
