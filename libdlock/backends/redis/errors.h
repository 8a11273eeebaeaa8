/* What an error reply of Redis means for us. */
#ifndef DLK_BACKENDS_REDIS_ERRORS_H
#define DLK_BACKENDS_REDIS_ERRORS_H

#include "backends/redis/wire.h"

#include <dlock/dlock.h>

/* The code of an error reply: EACCES, ECONFLICT and EOVERFLOW for what is final; EUNAVAIL where
 * nothing was done and a later try may succeed; else EPROTO. */
dlock_err dlk_redis_error_code(const dlk_resp *reply);

/* The error with our words and the server's; @p doing says what was asked, such as "acquire". */
dlock_error *dlk_redis_error(const dlk_resp *reply, const char *doing);

/* The same without the server's words, for requests that carried a secret. */
dlock_error *dlk_redis_error_mute(const dlk_resp *reply, const char *doing);

/* The server has been made a replica: another one is the master now. */
bool dlk_redis_error_demoted(const dlk_resp *reply);

#endif
