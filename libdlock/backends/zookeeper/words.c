/* What is said of a request that was no success. */
#include "backends/zookeeper/inner.h"

#include "util/error.h"

dlock_error *dlk_zk_error(const dlk_zk *zk, const dlk_zk_call *call, const char *what,
                          const char *path)
{
    (void)zk;
    switch (call->end) {
    case DLK_ZK_NO_AUTH:
        return dlk_error_make(DLOCK_EACCES,
                              "zookeeper: may not %s %s: its ACL forbids it", what, path);
    case DLK_ZK_NO_CHILDREN:
        return dlk_error_make(
            DLOCK_ECONFLICT,
            "zookeeper: can't %s %s: the node above it is ephemeral, a lock or "
            "a lock's",
            what, path);
    case DLK_ZK_BUSY:
        return dlk_error_make(DLOCK_EUNAVAIL,
                              "zookeeper: the server is too busy to %s %s", what, path);
    case DLK_ZK_NO_MEMORY:
        return dlk_error_make(DLOCK_ENOMEM, "zookeeper: no memory for the answer");
    case DLK_ZK_OK:
    case DLK_ZK_NO_NODE:
    case DLK_ZK_NODE_EXISTS:
    case DLK_ZK_NOT_EMPTY:
    case DLK_ZK_NOT_KNOWN:
    case DLK_ZK_OTHER_VERSION:
    case DLK_ZK_BAD:
    case DLK_ZK_GONE:
    case DLK_ZK_CUT:
        break;
    }
    return dlk_error_make(DLOCK_EPROTO,
                          "zookeeper: the server won't %s %s: its code is %d", what, path,
                          call->code);
}
