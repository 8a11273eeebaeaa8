/* The framings there are. */
#include "proxy/framing.h"

#include <string.h>

bool proxy_framing_find(const char *name, const proxy_framing **ret)
{
    static const proxy_framing *const all[] = {
        &proxy_resp, &proxy_zookeeper, &proxy_memcached, &proxy_line, &proxy_postgres,
#ifdef PROXY_GRPC
        &proxy_grpc,
#endif
    };
    *ret = NULL;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i]->name, name) == 0)
            *ret = all[i];
    return *ret || strcmp(name, "raw") == 0;
}
