/* The lock services that need no server: mem: within a process, file: within a machine. */
#ifndef DLK_BACKENDS_LOCAL_LOCAL_H
#define DLK_BACKENDS_LOCAL_LOCAL_H

#include "contract/backend.h"

extern const dlk_backend_type dlk_mem_backend;
extern const dlk_backend_type dlk_file_backend;

#endif
