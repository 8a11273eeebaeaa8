/* What gRPC's status of a call is to us, one by one. docs/design/0030-grpc.md and docs/how-to/etcd.md show it. */
#include "backends/etcd/calls.h"

#include <string.h>

typedef struct meaning {
    const char *name;
    dlk_etcd_end end;
} meaning;

static const meaning meanings[] = {
    [DLK_GRPC_OK] = {"OK", DLK_ETCD_OK},
    [DLK_GRPC_CANCELLED] = {"CANCELLED", DLK_ETCD_CUT},
    [DLK_GRPC_UNKNOWN] = {"UNKNOWN", DLK_ETCD_CUT},
    [DLK_GRPC_INVALID_ARGUMENT] = {"INVALID_ARGUMENT", DLK_ETCD_BAD},
    [DLK_GRPC_DEADLINE_EXCEEDED] = {"DEADLINE_EXCEEDED", DLK_ETCD_CUT},
    [DLK_GRPC_NOT_FOUND] = {"NOT_FOUND", DLK_ETCD_BAD},
    [DLK_GRPC_ALREADY_EXISTS] = {"ALREADY_EXISTS", DLK_ETCD_BAD},
    [DLK_GRPC_PERMISSION_DENIED] = {"PERMISSION_DENIED", DLK_ETCD_DENIED},
    [DLK_GRPC_RESOURCE_EXHAUSTED] = {"RESOURCE_EXHAUSTED", DLK_ETCD_BUSY},
    [DLK_GRPC_FAILED_PRECONDITION] = {"FAILED_PRECONDITION", DLK_ETCD_BAD},
    [DLK_GRPC_ABORTED] = {"ABORTED", DLK_ETCD_CUT},
    [DLK_GRPC_OUT_OF_RANGE] = {"OUT_OF_RANGE", DLK_ETCD_BAD},
    [DLK_GRPC_UNIMPLEMENTED] = {"UNIMPLEMENTED", DLK_ETCD_BAD},
    [DLK_GRPC_INTERNAL] = {"INTERNAL", DLK_ETCD_CUT},
    [DLK_GRPC_UNAVAILABLE] = {"UNAVAILABLE", DLK_ETCD_CUT},
    [DLK_GRPC_DATA_LOSS] = {"DATA_LOSS", DLK_ETCD_CUT},
    [DLK_GRPC_UNAUTHENTICATED] = {"UNAUTHENTICATED", DLK_ETCD_NO_TOKEN},
};

/* Where etcd's words say more. */
static const struct exception {
    int status;
    const char *words;
    dlk_etcd_end end;
} exceptions[] = {
    {DLK_GRPC_NOT_FOUND, "lease not found", DLK_ETCD_NO_LEASE},
    {DLK_GRPC_INVALID_ARGUMENT, "auth store is old", DLK_ETCD_NO_TOKEN},
    {DLK_GRPC_INVALID_ARGUMENT, "authentication failed", DLK_ETCD_DENIED},
    {DLK_GRPC_INVALID_ARGUMENT, "user name is empty", DLK_ETCD_DENIED},
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

dlk_etcd_end dlk_etcd_end_of(int status, const char *words)
{
    for (size_t i = 0; i < COUNT(exceptions); i++)
        if (exceptions[i].status == status && strstr(words, exceptions[i].words))
            return exceptions[i].end;
    return status < 0 || (size_t)status >= COUNT(meanings) ? DLK_ETCD_CUT
                                                           : meanings[status].end;
}

dlk_etcd_end dlk_etcd_refused_watch(const char *words)
{
    if (strstr(words, "auth token"))
        return DLK_ETCD_NO_TOKEN;
    return strstr(words, "permission denied") ? DLK_ETCD_DENIED : DLK_ETCD_BAD;
}

const char *dlk_etcd_status_name(int status)
{
    return status < 0 || (size_t)status >= COUNT(meanings) ? "no status"
                                                           : meanings[status].name;
}
