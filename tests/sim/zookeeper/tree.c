/* The nodes of one server, and what a write does to them. */
#include "zookeeper/model.h"

#include <stdlib.h>
#include <string.h>

void *zk_need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

void zk_effect_free(zk_effect *effect)
{
    free(effect->text);
    free(effect->children);
    effect->text = NULL;
    effect->children = NULL;
}

/* ---- finding ---- */

static zk_node *find(const zk_tree *tree, const char *path, size_t size)
{
    DLK_LIST_FOR (it, &tree->nodes) {
        zk_node *node = DLK_LIST_ITEM(it, zk_node, link);
        if (strncmp(node->path, path, size) == 0 && node->path[size] == '\0')
            return node;
    }
    return NULL;
}

zk_node *zk_tree_find(const zk_tree *tree, const char *path)
{
    return find(tree, path, strlen(path));
}

static size_t parent_size(const char *path)
{
    return (size_t)(strrchr(path, '/') - path);
}

zk_node *zk_tree_parent(const zk_tree *tree, const char *path)
{
    size_t size = parent_size(path);
    return size ? find(tree, path, size) : find(tree, "/", 1);
}

bool zk_tree_is_child(const zk_node *node, const char *parent)
{
    size_t size = strcmp(parent, "/") == 0 ? 0 : strlen(parent);
    return node->path[1] && parent_size(node->path) == size &&
           memcmp(node->path, parent, size) == 0;
}

int32_t zk_tree_count(const zk_tree *tree, const char *parent)
{
    int32_t count = 0;
    DLK_LIST_FOR (it, &tree->nodes)
        count += zk_tree_is_child(DLK_LIST_ITEM(it, zk_node, link), parent);
    return count;
}

dlk_zk_stat zk_tree_stat(const zk_tree *tree, const zk_node *node)
{
    return (dlk_zk_stat){.czxid = node->czxid,
                         .mzxid = node->mzxid,
                         .ephemeral_owner = node->owner,
                         .version = node->version,
                         .children = zk_tree_count(tree, node->path)};
}

/* ---- writing ---- */

static char *copy_data(const char *data, size_t size)
{
    char *copy = zk_need(calloc(1, size + 1));
    if (size)
        memcpy(copy, data, size);
    return copy;
}

static void add(zk_tree *tree, const zk_txn *txn)
{
    zk_node *node = zk_need(calloc(1, sizeof(*node)));
    *node = (zk_node){.path = zk_need(strdup(txn->path)),
                      .data = copy_data(txn->data, txn->size),
                      .size = txn->size,
                      .czxid = txn->zxid,
                      .mzxid = txn->zxid,
                      .pzxid = txn->zxid,
                      .owner = txn->owner,
                      .series = txn->series,
                      .container = txn->container};
    zk_node *parent = txn->path[1] ? zk_tree_parent(tree, txn->path) : NULL;
    dlk_list_append(&tree->nodes, &node->link);
    if (!parent)
        return;
    parent->made++;
    parent->pzxid = txn->zxid;
    zk_wires_fire(tree->server, parent->path, true, false);
}

static void free_node(zk_node *node)
{
    dlk_list_remove(&node->link);
    free(node->path);
    free(node->data);
    free(node);
}

static void delete_node(zk_tree *tree, zk_node *node, int64_t zxid)
{
    char *path = zk_need(strdup(node->path));
    zk_node *parent = zk_tree_parent(tree, path);
    free_node(node);
    parent->pzxid = zxid;
    zk_wires_fire(tree->server, path, false, true);
    zk_wires_fire(tree->server, path, true, true);
    zk_wires_fire(tree->server, parent->path, true, false);
    free(path);
}

static void set(zk_tree *tree, zk_node *node, const zk_txn *txn)
{
    free(node->data);
    node->data = copy_data(txn->data, txn->size);
    node->size = txn->size;
    node->mzxid = txn->zxid;
    node->version++;
    zk_wires_fire(tree->server, node->path, false, false);
}

static void end_session(zk_tree *tree, const zk_txn *txn)
{
    DLK_LIST_FOR (it, &tree->nodes) {
        zk_node *node = DLK_LIST_ITEM(it, zk_node, link);
        if (node->owner == txn->owner)
            delete_node(tree, node, txn->zxid);
    }
}

void zk_tree_apply(zk_tree *tree, const zk_txn *txn)
{
    tree->zxid = txn->zxid;
    switch (txn->what) {
    case ZK_TXN_CREATE:
        add(tree, txn);
        return;
    case ZK_TXN_DELETE:
        delete_node(tree, zk_tree_find(tree, txn->path), txn->zxid);
        return;
    case ZK_TXN_SET:
        set(tree, zk_tree_find(tree, txn->path), txn);
        return;
    case ZK_TXN_END:
        end_session(tree, txn);
        return;
    }
}

/* ---- reading ---- */

typedef struct gathered {
    const char *names[256];
    size_t count, bytes;
} gathered;

static void gather(const zk_tree *tree, const char *parent, gathered *all)
{
    DLK_LIST_FOR (it, &tree->nodes) {
        const zk_node *node = DLK_LIST_ITEM(it, zk_node, link);
        if (!zk_tree_is_child(node, parent))
            continue;
        if (all->count == sizeof(all->names) / sizeof(*all->names))
            abort();
        all->names[all->count++] = strrchr(node->path, '/') + 1;
        all->bytes += strlen(node->path);
    }
}

/* As from a hash: in no order that means anything. */
static void shuffle(gathered *all)
{
    for (size_t i = all->count; i > 1; i--) {
        size_t k = (size_t)between(&s.rand, 0, (int64_t)i - 1);
        const char *last = all->names[i - 1];
        all->names[i - 1] = all->names[k];
        all->names[k] = last;
    }
}

static void list(const zk_tree *tree, const char *parent, zk_effect *ret)
{
    gathered all = {.count = 0};
    gather(tree, parent, &all);
    shuffle(&all);
    ret->children = zk_need(malloc(all.count * sizeof(char *) + all.bytes + 1));
    ret->child_count = all.count;
    char *to = (char *)(ret->children + all.count);
    for (size_t i = 0; i < all.count; i++) {
        size_t size = strlen(all.names[i]) + 1;
        ret->children[i] = memcpy(to, all.names[i], size);
        to += size;
    }
}

dlk_zk_end zk_tree_read(const zk_tree *tree, const dlk_zk_request *ask, zk_effect *ret)
{
    const zk_node *node = zk_tree_find(tree, ask->path);
    if (!node)
        return DLK_ZK_NO_NODE;
    ret->stat = zk_tree_stat(tree, node);
    if (ask->verb == DLK_ZK_CHILDREN) {
        list(tree, ask->path, ret);
    } else if (ask->verb == DLK_ZK_GET) {
        ret->text = copy_data(node->data, node->size);
        ret->size = node->size;
    }
    return DLK_ZK_OK;
}

/* ---- beginning and end ---- */

void zk_tree_begin(zk_tree *tree, int index)
{
    *tree = (zk_tree){.server = index};
    dlk_list_init(&tree->nodes);
    add(tree, &(zk_txn){.path = (char[]){"/"}, .data = (char[]){""}});
}

void zk_tree_end(zk_tree *tree)
{
    while (!dlk_list_empty(&tree->nodes))
        free_node(DLK_LIST_ITEM(dlk_list_first(&tree->nodes), zk_node, link));
}
