/* Nodes of ours that are to be gone and belong to nobody any more: deleted until that is sure, or
 * the session is over. */
#include "backends/zookeeper/inner.h"

#include <stdlib.h>
#include <string.h>

static void on_swept(dlk_zk_call *call, int64_t now)
{
    dlk_zk *zk = call->owner;
    dlk_zk_litter *litter = call->extra;
    litter->sent = false;
    bool again = call->end == DLK_ZK_CUT || call->end == DLK_ZK_NO_MEMORY ||
                 call->end == DLK_ZK_BUSY;
    if (again && !dlk_zk_stale(zk, call)) {
        zk->base.sweep_at = now + DLK_NS_PER_SEC;
        return;
    }
    dlk_list_remove(&litter->link); /* gone, or it can't be done by us */
    free(litter);
}

void dlk_zk_litter_sweep(dlk_zk *zk, int64_t now)
{
    DLK_LIST_FOR (it, &zk->litter) {
        dlk_zk_litter *litter = DLK_LIST_ITEM(it, dlk_zk_litter, link);
        const dlk_zk_request request = {.verb = DLK_ZK_DELETE, .path = litter->path};
        if (!litter->sent)
            litter->sent = dlk_zk_send(zk, &request, on_swept, zk, litter, 0, now);
    }
}

void dlk_zk_litter_add(dlk_zk *zk, const char *path, int64_t now)
{
    size_t size = strlen(path) + 1;
    dlk_zk_litter *litter = calloc(1, sizeof(*litter) + size);
    if (!litter)
        return; /* it goes with the session */
    memcpy(litter->path, path, size);
    dlk_list_append(&zk->litter, &litter->link);
    dlk_zk_litter_sweep(zk, now);
}

void dlk_zk_litter_forget(dlk_zk *zk)
{
    DLK_LIST_FOR (it, &zk->litter) {
        dlk_zk_litter *litter = DLK_LIST_ITEM(it, dlk_zk_litter, link);
        if (litter->sent)
            continue; /* its answer is on the way */
        dlk_list_remove(it);
        free(litter);
    }
}
