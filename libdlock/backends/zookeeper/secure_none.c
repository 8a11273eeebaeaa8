/* A libzookeeper with neither TLS nor SASL, as Debian's: who wants them is refused before (backend.c). */
#include "backends/zookeeper/secure.h"

dlock_err dlk_zk_secure_new(const dlk_zk_setup *setup, dlk_zk_secure **ret,
                            dlock_error **err)
{
    (void)setup, (void)err;
    *ret = NULL;
    return DLOCK_OK;
}

void dlk_zk_secure_free(dlk_zk_secure *secure)
{
    (void)secure; /* NULL */
}

const char *dlk_zk_secure_thread(const dlk_zk_secure *secure)
{
    (void)secure;
    return "";
}

zhandle_t *dlk_zk_secure_open(dlk_zk_secure *secure, const char *hosts,
                              watcher_fn watcher, int timeout_ms, void *context,
                              log_callback_fn log)
{
    (void)secure;
    return zookeeper_init2(hosts, watcher, timeout_ms, NULL, context,
                           ZOO_NO_LOG_CLIENTENV, log);
}

bool dlk_zk_secure_checked(dlk_zk_secure *secure)
{
    (void)secure;
    return true;
}

bool dlk_zk_secure_says_who(const dlk_zk_secure *secure)
{
    (void)secure;
    return false;
}
