/* The backends of this build. */
#include "backends/registry.h"

#ifdef DLK_WITH_MEM
#include "backends/local/local.h"
#elif defined(DLK_WITH_FILE)
#include "backends/local/local.h"
#endif
#ifdef DLK_WITH_MEMCACHED
#include "backends/memcached/memcached.h"
#include "backends/redlock/redlock.h"
#endif
#ifdef DLK_WITH_REDIS
#include "backends/redis/redis.h"
#include "backends/redlock/redlock.h"
#endif
#ifdef DLK_WITH_ZOOKEEPER
#include "backends/zookeeper/zookeeper.h"
#endif
#ifdef DLK_WITH_POSTGRES
#include "backends/postgres/postgres.h"
#endif
#ifdef DLK_WITH_ETCD
#include "backends/etcd/etcd.h"
#endif
#ifdef DLK_WITH_SKELETON /* a test's copy of this file */
#include "skeleton.h"
#endif

#include <pthread.h>
#include <string.h>

static const dlk_backend_type *const types[] = {
#ifdef DLK_WITH_MEM
    &dlk_mem_backend,
#endif
#ifdef DLK_WITH_FILE
    &dlk_file_backend,
#endif
#ifdef DLK_WITH_REDIS
    &dlk_redis_backend,
    &dlk_sentinel_backend,
    &dlk_cluster_backend,
    &dlk_redlock_backend,
#endif
#ifdef DLK_WITH_ZOOKEEPER
    &dlk_zk_backend,
#endif
#ifdef DLK_WITH_MEMCACHED
    &dlk_memcached_backend,
    &dlk_memlock_backend,
#endif
#ifdef DLK_WITH_POSTGRES
    &dlk_postgres_backend,
#endif
#ifdef DLK_WITH_ETCD
    &dlk_etcd_backend,
#endif
#ifdef DLK_WITH_SKELETON
    &skeleton_backend,
#endif
    NULL,
};

const dlk_backend_type *dlk_registry_find(const char *scheme)
{
    for (size_t i = 0; types[i]; i++)
        for (size_t k = 0; types[i]->schemes[k]; k++)
            if (strcmp(types[i]->schemes[k], scheme) == 0)
                return types[i];
    return NULL;
}

const char *dlk_registry_why(const char *scheme)
{
#ifdef DLK_PORTABLE
    if (strcmp(scheme, "file") == 0)
        return "it needs mutexes that outlive their owner and a way to see a process "
               "die, which a portable build does without";
#endif
#if defined(DLK_WITH_ZOOKEEPER) && !defined(DLK_ZOOKEEPER_HAS_TLS)
    if (strcmp(scheme, "zookeepers") == 0)
        return "this build's libzookeeper has no TLS (no zookeeper_init_ssl), as "
               "Debian's: use a TLS tunnel";
#endif
    (void)scheme;
    return NULL;
}

static char schemes[256];
static pthread_once_t schemes_once = PTHREAD_ONCE_INIT;

static void join_schemes(void)
{
    size_t used = 0;
    for (size_t i = 0; types[i]; i++)
        for (size_t k = 0; types[i]->schemes[k]; k++) {
            size_t size = strlen(types[i]->schemes[k]);
            if (used + size + 2 > sizeof(schemes))
                return;
            if (used)
                schemes[used++] = ' ';
            memcpy(schemes + used, types[i]->schemes[k], size + 1);
            used += size;
        }
}

const char *dlk_registry_schemes(void)
{
    (void)pthread_once(&schemes_once, join_schemes);
    return schemes;
}
