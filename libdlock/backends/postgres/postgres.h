/* The backend for PostgreSQL: postgres://[user[:password]@]host[,host…][:port]/database. A lock is rows of the schema
 * that schema.sql makes; README.md says how it is set up, and how far it is. */
#ifndef DLK_BACKENDS_POSTGRES_POSTGRES_H
#define DLK_BACKENDS_POSTGRES_POSTGRES_H

#include "contract/backend.h"

extern const dlk_backend_type dlk_postgres_backend;

#endif
