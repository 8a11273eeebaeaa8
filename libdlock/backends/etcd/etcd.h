/* The lock service etcd, 3.4 or newer, by its JSON gateway: etcd:// and etcds://. */
#ifndef DLK_BACKENDS_ETCD_ETCD_H
#define DLK_BACKENDS_ETCD_ETCD_H

#include "backends/backend.h"

extern const dlk_backend_type dlk_etcd_backend;

#endif
