/* A request in the terms of libzookeeper_mt, and several as one: all of them are done, or none. */
#ifndef DLK_BACKENDS_ZOOKEEPER_MULTI_H
#define DLK_BACKENDS_ZOOKEEPER_MULTI_H

#include "backends/zookeeper/library.h"

/* What the header declares only where it is told so. */
#define THREADED
#ifdef DLK_ZOOKEEPER_HAS_TLS
#define HAVE_OPENSSL_H
#endif
#ifdef DLK_ZOOKEEPER_HAS_SASL
#define HAVE_CYRUS_SASL_H
#endif
#include <zookeeper/zookeeper.h>

int dlk_zk_create_mode(dlk_zk_mode mode);
int dlk_zk_version_of(const dlk_zk_request *ask);
/* One of `count`, or with `also`. What the library returns; the results lie in the call's block, and what the one
 * that was set is like by now is `seen`: zeros where none was. */
int dlk_zk_multi_put(zhandle_t *handle, const dlk_zk_request *ask,
                     const struct ACL_vector *acl, void_completion_t done,
                     dlk_zk_call *call);

#endif
