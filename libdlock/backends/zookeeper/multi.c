/* Several requests as one for libzookeeper_mt; see the header. */
#include "backends/zookeeper/multi.h"

#include <stdlib.h>
#include <string.h>

int dlk_zk_create_mode(dlk_zk_mode mode)
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

int dlk_zk_version_of(const dlk_zk_request *ask)
{
    return ask->versioned ? ask->version : -1;
}

/* One block: the paths that are answered, the library's results, what the one that was set is like, and
 * the room for these paths. */
typedef struct block {
    char **paths;
    zoo_op_result_t *results;
    struct Stat *stat;
    char *room;
    size_t each; /* of the room; 0: nothing is made */
} block;

static bool make_block(const dlk_zk_request *ask, size_t count, block *ret)
{
    size_t each =
        ask->verb == DLK_ZK_CREATE ? strlen(ask->path) + sizeof("-2147483648") : 0;
    size_t room = count * (sizeof(*ret->paths) + sizeof(*ret->results) + each);
    ret->paths = calloc(1, room + sizeof(*ret->stat));
    ret->results = (zoo_op_result_t *)(ret->paths + count);
    ret->stat = (struct Stat *)(ret->results + count);
    ret->room = (char *)(ret->stat + 1);
    ret->each = each;
    return ret->paths != NULL;
}

/* `count` that go, and then as many that are made. */
static void fill_move(const dlk_zk_request *ask, const struct ACL_vector *acl, size_t i,
                      zoo_op_t *ret)
{
    if (i < ask->count)
        zoo_delete_op_init(ret, ask->paths[i], -1);
    else
        zoo_create_op_init(ret, ask->made[i - ask->count], ask->data, (int)ask->size, acl,
                           ZOO_EPHEMERAL, NULL, 0);
}

static void fill_op(const dlk_zk_request *ask, const struct ACL_vector *acl, size_t i,
                    const block *to, zoo_op_t *ret)
{
    if (ask->verb == DLK_ZK_MOVE) {
        fill_move(ask, acl, i, ret);
        return;
    }
    const char *path = ask->paths ? ask->paths[i] : ask->path;
    if (ask->verb == DLK_ZK_DELETE) {
        zoo_delete_op_init(ret, path, -1);
    } else if (ask->verb == DLK_ZK_CHECK) {
        zoo_check_op_init(ret, path, -1);
    } else {
        to->paths[i] = to->room + i * to->each;
        zoo_create_op_init(ret, ask->path, ask->data, (int)ask->size, acl,
                           dlk_zk_create_mode(ask->mode), to->paths[i], (int)to->each);
    }
}

/* The library has read `ops` when it returns; what it answers it writes into the block before it calls
 * @p done, perhaps before it returns. */
int dlk_zk_multi_put(zhandle_t *handle, const dlk_zk_request *ask,
                     const struct ACL_vector *acl, void_completion_t done,
                     dlk_zk_call *call)
{
    block to;
    const dlk_zk_request *also = ask->also;
    size_t own = (ask->count ? ask->count : 1) * (ask->verb == DLK_ZK_MOVE ? 2 : 1);
    size_t count = own + (also != NULL);
    zoo_op_t *ops = calloc(count, sizeof(*ops));
    if (!ops || !make_block(ask, count, &to)) {
        free(ops);
        return ZSYSTEMERROR;
    }
    for (size_t i = 0; i < own; i++)
        fill_op(ask, acl, i, &to, &ops[i]);
    if (also)
        zoo_set_op_init(&ops[own], also->path, also->data, (int)also->size,
                        dlk_zk_version_of(also), to.stat);
    call->children = to.paths;
    call->seen = to.stat;
    call->child_count = to.each ? own : 0;
    int rc = zoo_amulti(handle, (int)count, ops, to.results, done, call);
    free(ops);
    if (rc != ZOK)
        free(to.paths);
    return rc;
}
