/* A look at the server with an operator's eyes: may it be trusted with locks? */
#ifndef DLK_BACKENDS_REDIS_DOCTOR_H
#define DLK_BACKENDS_REDIS_DOCTOR_H

#include "backends/redis/link.h"
#include "contract/backend.h"

/* Appends the first command; false without memory. */
bool dlk_redis_doctor_begin(dlk_redis *redis, dlk_ask *ask);
/* Judges a reply, also an error, and goes on. False when it makes no sense. */
bool dlk_redis_doctor_go_on(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply,
                            int64_t now);

#endif
