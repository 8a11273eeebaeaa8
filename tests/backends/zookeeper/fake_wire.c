/* See the header. */
#include "fake_wire.h"

#include "backends/zookeeper/zookeeper.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dlk_zk_wire {
    dlk_zk_inbox *inbox;
    uint32_t epoch;
    dlk_list sent; /* calls with their answers in them */
};

struct fake_wire there;

static dlk_zk_wire *wire_open(const dlk_zk_setup *setup, dlk_zk_inbox *inbox,
                              dlock_error **err)
{
    (void)err;
    w.doings++;
    dlk_zk_wire *wire = there.full ? NULL : calloc(1, sizeof(*wire));
    if (!wire)
        return NULL;
    wire->inbox = inbox;
    wire->epoch = setup->epoch;
    dlk_list_init(&wire->sent);
    atomic_fetch_add(&inbox->wires, 1);
    there.wire = wire;
    there.opened++;
    return wire;
}

/* The name within this folder; NULL: it isn't there. */
static const char *name_in(const char *folder, const char *node)
{
    size_t size = strlen(folder);
    bool below = node && strncmp(node, folder, size) == 0 && node[size] == '/';
    return below && !strchr(node + size + 1, '/') ? node + size + 1 : NULL;
}

/* Ours, with the number behind it for each of several, and the test's. */
static void fill_children(const char *folder, dlk_zk_call *call)
{
    const char *own = name_in(folder, there.node), *other = name_in(folder, there.beside);
    size_t count = own ? there.several : 0;
    size_t each = (own ? strlen(own) : 0) + 1;
    call->children = calloc(1, (count + 1) * (sizeof(char *) + each) +
                                   (other ? strlen(other) + 1 : 0));
    if (!call->children)
        abort();
    char *at = (char *)(call->children + count + 1);
    for (size_t i = 0; i < count; i++, at += each) {
        call->children[call->child_count++] = strcpy(at, own);
        at[each - 2] += (char)i;
    }
    if (other)
        call->children[call->child_count++] = strcpy(at, other);
}

/* As they are answered: full paths, in the place of names. */
static void fill_paths(dlk_zk_call *call)
{
    size_t count = there.several, each = strlen(there.node) + 1;
    call->children = calloc(count, sizeof(char *) + each);
    if (!call->children)
        abort();
    for (size_t i = 0; i < count; i++) {
        call->children[i] =
            strcpy((char *)(call->children + count) + i * each, there.node);
        call->children[i][each - 2] += (char)i;
    }
    call->child_count = count;
}

static void do_create(const dlk_zk_request *request)
{
    free(there.node);
    if (asprintf(&there.node, "%s%s", request->path,
                 request->mode == DLK_ZK_SEQUENTIAL ? "0000000001" : "") < 0)
        abort();
    there.several = request->count ? request->count : 1;
    there.made++;
}

static void do_delete(const dlk_zk_request *request)
{
    if (there.node && strcmp(there.node, request->path) == 0) {
        free(there.node);
        there.node = NULL;
    }
    there.deleted++;
}

/* The test's node goes, and another one is ours. */
static dlk_zk_end do_move(const dlk_zk_request *request)
{
    if (!there.beside || strcmp(there.beside, request->paths[0]) != 0)
        return DLK_ZK_NO_NODE;
    there.beside = NULL;
    free(there.node);
    there.node = strdup(request->made[0]);
    if (!there.node)
        abort();
    there.several = 1;
    there.made++;
    return DLK_ZK_OK;
}

static dlk_zk_end do_set(const dlk_zk_request *request)
{
    if (request->versioned && request->version != there.version)
        return DLK_ZK_OTHER_VERSION;
    free(there.data);
    there.data = strndup(request->data, request->size);
    if (!there.data)
        abort();
    there.version++;
    there.zxid++;
    return DLK_ZK_OK;
}

static dlk_zk_end do_both(const dlk_zk_request *request)
{
    if (request->also->version != there.version)
        return DLK_ZK_OTHER_VERSION;
    dlk_zk_end end = do_move(request);
    return end == DLK_ZK_OK ? do_set(request->also) : end;
}

/* What has lost its answer is done. */
static void fill(const dlk_zk_request *request, dlk_zk_call *call)
{
    call->end = there.ends[request->verb];
    bool is_done = call->end == DLK_ZK_OK || call->end == DLK_ZK_CUT ||
                   call->end == DLK_ZK_NO_MEMORY;
    dlk_zk_end done = !is_done                       ? DLK_ZK_OK
                      : request->verb == DLK_ZK_MOVE ? do_both(request)
                      : request->verb == DLK_ZK_SET  ? do_set(request)
                                                     : DLK_ZK_OK;
    if (done != DLK_ZK_OK && call->end == DLK_ZK_OK)
        call->end = done;
    call->stat = (dlk_zk_stat){.czxid = 1,
                               .mzxid = there.zxid,
                               .version = there.version,
                               .ephemeral_owner = SESSION};
    if (request->verb == DLK_ZK_GET && call->end == DLK_ZK_OK && there.data &&
        strcmp(request->path, "/n") == 0) {
        call->item.text = strdup(there.data);
        call->size = strlen(there.data);
    }
    if (request->verb == DLK_ZK_CHILDREN && call->end == DLK_ZK_OK)
        fill_children(request->path, call);
    if (request->verb == DLK_ZK_CREATE && is_done)
        do_create(request);
    if (request->verb == DLK_ZK_DELETE && is_done)
        do_delete(request);
    if (request->verb == DLK_ZK_CREATE && call->end == DLK_ZK_OK && request->count > 0)
        fill_paths(call);
    else if (request->verb == DLK_ZK_CREATE && call->end == DLK_ZK_OK &&
             !(call->item.text = strdup(there.node)))
        abort();
}

static bool wire_send(dlk_zk_wire *wire, const dlk_zk_request *request, dlk_zk_call *call)
{
    w.doings++;
    there.requests++;
    call->item.epoch = wire->epoch;
    there.busy = true;
    fill(request, call);
    there.busy = false;
    dlk_list_append(&wire->sent, &call->sent);
    return true;
}

static void wire_close(dlk_zk_wire *wire, bool stay)
{
    (void)stay;
    DLK_LIST_FOR (it, &wire->sent) {
        dlk_zk_call *call = DLK_LIST_ITEM(it, dlk_zk_call, sent);
        call->end = DLK_ZK_CUT;
        dlk_zk_inbox_put(wire->inbox, &call->item);
    }
    dlk_zk_inbox_left(wire->inbox);
    w.doings++;
    there.closed++;
    there.wire = NULL;
    free(wire);
}

/* In the place of library.c's. */
const dlk_zk_wire_type dlk_zk_library = {
    .open = wire_open, .send = wire_send, .close = wire_close};

/* ---- what comes ---- */

void bring_of(dlk_zk_news news, int64_t session, const char *path)
{
    dlk_zk_item *item = dlk_zk_item_new(news, there.wire->epoch, path);
    item->session = session;
    item->timeout_ms = SESSION_MS;
    dlk_zk_inbox_put(there.wire->inbox, item);
}

void bring(dlk_zk_news news, int64_t session)
{
    bring_of(news, session, NULL);
}

void serve_some(int count)
{
    while (count-- > 0) {
        dlk_list *link = dlk_list_first(&there.wire->sent);
        dlk_zk_inbox_put(there.wire->inbox,
                         &DLK_LIST_ITEM(link, dlk_zk_call, sent)->item);
        process();
    }
}

void serve(void)
{
    while (there.wire && !dlk_list_empty(&there.wire->sent))
        serve_some(1);
}

/* ---- its life ---- */

bool open_it(dlock_kind kind)
{
    memset(&there, 0, sizeof(there));
    return driven_open(&dlk_zk_backend, "zookeeper://there:2181", kind, serve,
                       SESSION_MS);
}

bool begin_with(dlock_kind kind)
{
    if (!open_it(kind))
        return false;
    w.type->start(w.backend, w.now);
    bring(DLK_ZK_CONNECTED, SESSION);
    process();
    serve();
    return harness_check(__FILE__, __LINE__, w.up, "it is up");
}

bool begin(void)
{
    return begin_with(DLOCK_MUTEX);
}

bool begin_behind_a_giver(void)
{
    if (!begin() ||
        !harness_eq_int(__FILE__, __LINE__, "taken", ask(DLK_ACQUIRE), DLK_YES))
        return false;
    there.beside = there.giver = there.node;
    there.node = NULL;
    there.data = strdup(THEIRS);
    return there.data != NULL;
}

dlk_reply ask_as_second(dlk_verb verb)
{
    dlk_ask one = make(verb, false, 60000);
    char giver[64];
    (void)snprintf(giver, sizeof(giver), "%s:1", w.host.uuid);
    one.number = 2;
    one.text = verb == DLK_IMPORT ? giver : NULL;
    put(&one);
    w.serve();
    dlk_error_clear(&one.error);
    return one.reply;
}

void end(void)
{
    driven_end();
    free(there.node);
    free(there.giver);
    free(there.data);
}
