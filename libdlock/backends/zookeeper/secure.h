/*
 * How libzookeeper is opened where it has TLS (zookeeper_init_ssl) and SASL (zookeeper_init_sasl), which
 * Debian's has not. docs/design/0037-zookeeper-tls.md says what the library checks by itself, which isn't
 * enough.
 */
#ifndef DLK_BACKENDS_ZOOKEEPER_SECURE_H
#define DLK_BACKENDS_ZOOKEEPER_SECURE_H

#include "backends/zookeeper/multi.h"

typedef struct dlk_zk_secure dlk_zk_secure;

/* By what @p setup says of it; *ret is NULL where that is nothing. */
dlock_err dlk_zk_secure_new(const dlk_zk_setup *setup, dlk_zk_secure **ret,
                            dlock_error **err);
/* When the handle is closed. NULL is fine. */
void dlk_zk_secure_free(dlk_zk_secure *secure);
/* The name of the thread that opens; "" leaves it. */
const char *dlk_zk_secure_thread(const dlk_zk_secure *secure);
/* As zookeeper_init2. */
zhandle_t *dlk_zk_secure_open(dlk_zk_secure *secure, const char *hosts,
                              watcher_fn watcher, int timeout_ms, void *context,
                              log_callback_fn log);
/* The library has connected: whether we have had our look at whom, so that it may be spoken to. */
bool dlk_zk_secure_checked(dlk_zk_secure *secure);
/* Whether who we are has been said, by SASL. */
bool dlk_zk_secure_says_who(const dlk_zk_secure *secure);

#endif
