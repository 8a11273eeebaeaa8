/* The lock service etcd, 3.4 or newer, by gRPC: etcd://, etcds:// and etcd+unix:///path. */
#ifndef DLK_BACKENDS_ETCD_ETCD_H
#define DLK_BACKENDS_ETCD_ETCD_H

#include "contract/backend.h"

extern const dlk_backend_type dlk_etcd_backend;

#endif
