/* The ZooKeeper of the target; see the header. */
#include "zoo.h"

#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zoo zoo;

struct dlk_zk_wire {
    dlk_zk_inbox *inbox;
    uint32_t epoch;
};

/* What was asked, and isn't answered yet. */
typedef struct asked {
    struct asked *next;
    dlk_zk_request request;
    dlk_zk_call *call;
    char *path, *data;
    char **paths; /* of several */
} asked;

static struct {
    dlk_zk_wire *wire; /* the one that is open, or NULL */
    asked *first, **end;
} line = {.end = &line.first};

static void *need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* ---- nodes ---- */

static size_t find(const char *path)
{
    for (size_t i = 0; i < zoo.count; i++)
        if (strcmp(zoo.nodes[i].path, path) == 0)
            return i;
    return ZOO_NODES;
}

/* The folder that a node lies in: as long as this, 0 the root. */
static size_t folder_size(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

static bool lies_in(const char *path, const char *folder)
{
    size_t size = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    return folder_size(path) == size && strncmp(path, folder, size) == 0 && path[size];
}

static void fire(zoo_node *node, bool children)
{
    bool *armed = children ? &node->children_watched : &node->watched;
    if (*armed)
        zoo_tell(children ? DLK_ZK_CHILD_CHANGED : DLK_ZK_CHANGED, node->path);
    *armed = false;
}

static void fire_above(const char *path)
{
    for (size_t i = 0; i < zoo.count; i++)
        if (lies_in(path, zoo.nodes[i].path))
            fire(&zoo.nodes[i], true);
}

zoo_node *zoo_make(const char *path, const void *data, size_t size, int64_t owner)
{
    size_t above = folder_size(path);
    if (above > 0) {
        char *folder = need(strndup(path, above));
        (void)zoo_make(folder, "", 0, 0); /* it may be there */
        free(folder);
    }
    if (zoo.count == ZOO_NODES || !path[0] || find(path) < ZOO_NODES)
        return NULL;
    zoo_node *node = &zoo.nodes[zoo.count++];
    *node = (zoo_node){.path = need(strdup(path)),
                       .data = need(malloc(size + 1)),
                       .size = size,
                       .czxid = ++zoo.zxid,
                       .owner = owner};
    if (size > 0)
        memcpy(node->data, data, size);
    node->data[size] = '\0';
    fire_above(path);
    return node;
}

void zoo_remove(size_t index)
{
    zoo_node gone = zoo.nodes[index];
    fire(&zoo.nodes[index], false);
    fire(&zoo.nodes[index], true);
    zoo.nodes[index] = zoo.nodes[--zoo.count];
    fire_above(gone.path);
    free(gone.path);
    free(gone.data);
}

/* ---- what the client finds in the place of the library ---- */

static dlk_zk_wire *wire_open(const dlk_zk_setup *setup, dlk_zk_inbox *inbox,
                              dlock_error **err)
{
    (void)err;
    line.wire = need(calloc(1, sizeof(*line.wire)));
    *line.wire = (dlk_zk_wire){.inbox = inbox, .epoch = setup->epoch};
    atomic_fetch_add(&inbox->wires, 1);
    return line.wire;
}

static bool wire_send(dlk_zk_wire *wire, const dlk_zk_request *request, dlk_zk_call *call)
{
    asked *it = need(calloc(1, sizeof(*it)));
    FUZZ_CHECK(request->path && request->path[0] == '/', "verb %d of no path",
               request->verb);
    it->request = *request;
    it->call = call;
    it->path = need(strdup(request->path));
    it->data = need(malloc(request->size + 1));
    memcpy(it->data, request->data ? request->data : "", request->size);
    if (request->paths)
        it->paths = need(calloc(request->count + 1, sizeof(*it->paths)));
    for (size_t i = 0; it->paths && i < request->count; i++)
        it->paths[i] = need(strdup(request->paths[i]));
    call->wire = wire;
    call->item.epoch = wire->epoch;
    dlk_list_init(&call->sent);
    *line.end = it;
    line.end = &it->next;
    return true;
}

static void come_back(dlk_zk_call *call, dlk_zk_end end)
{
    call->end = end;
    call->code = -(int)end;
    call->item.news = DLK_ZK_ANSWER;
    dlk_zk_inbox_put(call->wire->inbox, &call->item);
}

static void free_asked(asked *it)
{
    for (size_t i = 0; it->paths && i < it->request.count; i++)
        free(it->paths[i]);
    free(it->paths);
    free(it->path);
    free(it->data);
    free(it);
}

static asked *take_first(void)
{
    asked *it = line.first;
    if (it && !(line.first = it->next))
        line.end = &line.first;
    return it;
}

static void wire_close(dlk_zk_wire *wire, bool stay)
{
    (void)stay;
    asked *it;
    while ((it = take_first())) {
        come_back(it->call, DLK_ZK_CUT);
        free_asked(it);
    }
    dlk_zk_inbox_left(wire->inbox);
    line.wire = NULL;
    free(wire);
    for (size_t i = zoo.count; i-- > 0;) /* they go with their session */
        if (zoo.nodes[i].owner == zoo.session)
            zoo_remove(i);
    zoo.session++;
}

const dlk_zk_wire_type dlk_zk_library = {
    .open = wire_open, .send = wire_send, .close = wire_close};

void zoo_tell(dlk_zk_news news, const char *path)
{
    if (!line.wire)
        return;
    dlk_zk_item *item = need(dlk_zk_item_new(news, line.wire->epoch, path));
    item->session = zoo.session;
    item->timeout_ms = 30000;
    dlk_zk_inbox_put(line.wire->inbox, item);
}

/* ---- answers ---- */

static dlk_zk_end create(const asked *it)
{
    char *path = it->path;
    bool numbered = it->request.mode == DLK_ZK_SEQUENTIAL;
    bool stays =
        it->request.mode == DLK_ZK_PERSISTENT || it->request.mode == DLK_ZK_CONTAINER;
    char *folder = need(strndup(path, folder_size(path)));
    bool has_folder = !folder[0] || find(folder) < ZOO_NODES;
    free(folder);
    if (!has_folder)
        return DLK_ZK_NO_NODE;
    if (numbered && asprintf(&path, "%s%010d", it->path, zoo.sequence++) < 0)
        abort();
    zoo_node *node = zoo_make(path, it->data, it->request.size, stays ? 0 : zoo.session);
    if (node) {
        it->call->item.text = need(strdup(path));
        it->call->stat =
            (dlk_zk_stat){.czxid = node->czxid, .ephemeral_owner = node->owner};
    }
    if (numbered)
        free(path);
    return node ? DLK_ZK_OK : zoo.count == ZOO_NODES ? DLK_ZK_BUSY : DLK_ZK_NODE_EXISTS;
}

static dlk_zk_end list(const asked *it)
{
    size_t bytes = 0, count = 0;
    for (size_t i = 0; i < zoo.count; i++)
        if (lies_in(zoo.nodes[i].path, it->path))
            bytes += strlen(zoo.nodes[i].path) + 1, count++;
    it->call->children = need(malloc(count * sizeof(char *) + bytes + 1));
    char *to = (char *)(it->call->children + count);
    for (size_t i = 0; i < zoo.count; i++) {
        if (!lies_in(zoo.nodes[i].path, it->path))
            continue;
        it->call->children[it->call->child_count++] = to;
        to = stpcpy(to, zoo.nodes[i].path + folder_size(zoo.nodes[i].path) + 1) + 1;
    }
    zoo_listed(it->path);
    return DLK_ZK_OK;
}

static dlk_zk_end get(const asked *it, zoo_node *node)
{
    it->call->item.text = need(malloc(node->size + 1));
    memcpy(it->call->item.text, node->data, node->size + 1);
    it->call->size = node->size;
    return DLK_ZK_OK;
}

static dlk_zk_end erase(size_t index)
{
    for (size_t i = 0; i < zoo.count; i++)
        if (lies_in(zoo.nodes[i].path, zoo.nodes[index].path))
            return DLK_ZK_NOT_EMPTY;
    zoo_remove(index);
    return DLK_ZK_OK;
}

/* All of them have names as long as this. */
static dlk_zk_end create_all(const asked *it)
{
    size_t count = it->request.count, each = strlen(it->path) + sizeof("0000000000");
    char *folder = need(strndup(it->path, folder_size(it->path)));
    bool has_folder = find(folder) < ZOO_NODES;
    free(folder);
    if (!has_folder || zoo.count + count > ZOO_NODES)
        return has_folder ? DLK_ZK_BUSY : DLK_ZK_NO_NODE;
    char **paths = need(malloc(count * (sizeof(*paths) + each)));
    for (size_t i = 0; i < count; i++) {
        paths[i] = (char *)(paths + count) + i * each;
        (void)snprintf(paths[i], each, "%s%010d", it->path, zoo.sequence++);
        (void)zoo_make(paths[i], it->data, it->request.size, zoo.session);
    }
    it->call->children = paths;
    it->call->child_count = count;
    return DLK_ZK_OK;
}

/* All or nothing. */
static dlk_zk_end act_on_all(const asked *it)
{
    if (it->request.verb == DLK_ZK_CREATE)
        return create_all(it);
    if (it->request.verb == DLK_ZK_MOVE) /* nobody hands anything on here */
        return DLK_ZK_NO_NODE;
    for (size_t i = 0; i < it->request.count; i++)
        if (find(it->paths[i]) == ZOO_NODES)
            return DLK_ZK_NO_NODE;
    for (size_t i = 0; it->request.verb == DLK_ZK_DELETE && i < it->request.count; i++)
        zoo_remove(find(it->paths[i]));
    return DLK_ZK_OK;
}

/* Carried out. */
static dlk_zk_end act(const asked *it)
{
    if (it->request.count > 0)
        return act_on_all(it);
    size_t index = find(it->path);
    zoo_node *node = index < ZOO_NODES ? &zoo.nodes[index] : NULL;
    bool root = strcmp(it->path, "/") == 0;
    if (it->request.verb == DLK_ZK_CREATE)
        return create(it);
    if (it->request.verb == DLK_ZK_SYNC || (root && it->request.verb == DLK_ZK_EXISTS))
        return DLK_ZK_OK;
    if (!node && !(root && it->request.verb == DLK_ZK_CHILDREN))
        return DLK_ZK_NO_NODE;
    if (node)
        it->call->stat =
            (dlk_zk_stat){.czxid = node->czxid, .ephemeral_owner = node->owner};
    if (node && it->request.watch)
        *(it->request.verb == DLK_ZK_CHILDREN ? &node->children_watched
                                              : &node->watched) = true;
    switch (it->request.verb) {
    case DLK_ZK_DELETE:
        return erase(index);
    case DLK_ZK_CHILDREN:
        return list(it);
    case DLK_ZK_GET:
        return get(it, node);
    case DLK_ZK_SET:
        fire(node, false);
        return DLK_ZK_OK;
    case DLK_ZK_UNWATCH:
        node->watched = false;
        return DLK_ZK_OK;
    case DLK_ZK_CREATE:
    case DLK_ZK_EXISTS:
    case DLK_ZK_CHECK:
    case DLK_ZK_MOVE:
    case DLK_ZK_SYNC:
        break;
    }
    return DLK_ZK_OK;
}

bool zoo_answer(uint8_t how)
{
    asked *it = take_first();
    if (!it)
        return false;
    bool done = how < ZOO_LIES || how & 1;
    dlk_zk_end end = done ? act(it) : DLK_ZK_CUT;
    if (how >= ZOO_LIES) { /* another end, also of what was done */
        static const dlk_zk_end ends[] = {
            DLK_ZK_CUT,     DLK_ZK_NO_NODE,     DLK_ZK_NODE_EXISTS, DLK_ZK_NOT_EMPTY,
            DLK_ZK_NO_AUTH, DLK_ZK_NO_CHILDREN, DLK_ZK_NOT_KNOWN,   DLK_ZK_BAD,
            DLK_ZK_BUSY,    DLK_ZK_GONE,        DLK_ZK_NO_MEMORY,   DLK_ZK_CUT};
        end = ends[(how >> 1) % (sizeof(ends) / sizeof(*ends))];
        zoo.lied |= end != DLK_ZK_CUT && end != DLK_ZK_NO_MEMORY;
        dlk_zk_item_free(&it->call->item);
        it->call->child_count = it->call->size = 0;
        it->call->stat = (dlk_zk_stat){0};
    }
    come_back(it->call, end);
    free_asked(it);
    return true;
}

void zoo_free(void)
{
    while (zoo.count > 0) {
        free(zoo.nodes[--zoo.count].path);
        free(zoo.nodes[zoo.count].data);
    }
}
