/* What the fault tests have in common: a real Redis, a proxy before it where one is wanted, other
 * processes, waiting with a limit, and the proof that nothing is left when it is over. */
#ifndef TESTS_FAULTS_STAGE_H
#define TESTS_FAULTS_STAGE_H

#include "harness/api.h"
#include "harness/awake.h"
#include "harness/harness.h"
#include "harness/redis_server.h"
#include "harness/time.h"
#include "proxy/proxy.h"

#include <stdatomic.h>
#include <sys/types.h>

#define STAGE_MS INT64_C(1000000) /* in ns */

/* ---- Time ---- */

/* What a machine that doesn't stand still may add to any time; more with DLK_TEST_SLOW. */
int64_t stage_slack_ms(void);

/* ---- The server ---- */

typedef struct stage {
    redis_server server;
    proxy *proxy;
    proxy_link *way; /* through the proxy to the server; NULL = there is none */
    bool has_server;
    char uri[64], proxied[64]; /* of the server, and of the proxy before it */
    int fds, threads;          /* the base line of this process */
} stage;

/* @p config: lines for redis.conf, or NULL. False: the test is skipped, or a check has failed. */
bool stage_set(stage *s, const char *config);
/* After the processes were forked: it runs a thread. */
bool stage_put_proxy(stage *s);
/* Plans it for the @p number-th script (EVALSHA or EVAL) from now on, and nothing else. */
void stage_plan(stage *s, proxy_deed deed, int number);
/* How many plans were carried out, and scripts forwarded or hit. */
int stage_deeds(stage *s);
int stage_scripts(stage *s);
/* All clients are freed. Checks that @p ttl_ms + 1 s later at most no lock is left on the server,
 * and that descriptors and threads are as many as before; ends what stage_set began. */
bool stage_clear(stage *s, int64_t ttl_ms);
/* The names of all keys but the counters of tokens. */
const char *stage_keys(stage *s);
/* Descriptors and threads as they are now; stage_set has noted them. */
void stage_note_base_line(stage *s);
/* Waits until they are as few again, or fails a check. */
bool stage_back_to_base_line(stage *s);

/* ---- Clients ---- */

/* Pairs of a key and its value, NULL at the end. NULL after a failed check. */
dlock_client *stage_open(const char *uri, ...);
dlock_lock *stage_lock(dlock_client *client, const char *name);
/* Takes it, or fails a check. */
dlock_hold *stage_take(dlock_lock *lock);

/* ---- Processes ---- */

/* Memory that the processes forked later share, zeroed. Never NULL. */
void *stage_share(size_t size);
void stage_unshare(void *shared, size_t size);
/* Runs in a process of its own, which dies with this one. Its failed checks fail stage_join. */
pid_t stage_fork(void (*run)(void *shared), void *shared);
/* Waits for its end; too long a wait kills it and fails. */
bool stage_join(pid_t pid);
/* SIGSTOP, and until it stands still; SIGCONT. */
void stage_stop(pid_t pid);
void stage_continue(pid_t pid);

#endif
