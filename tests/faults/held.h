/* A hold behind the proxy, on a real Redis. */
#ifndef TESTS_FAULTS_HELD_H
#define TESTS_FAULTS_HELD_H

#include "stage.h"

extern stage s;
extern int64_t ttl_ms;
extern dlock_client *client;
extern dlock_lock *lock;
extern dlock_hold *hold;

/* A client that is quick to notice; it tries again after so long, and at most so long. */
dlock_client *held_open(const char *uri, const char *ttl, const char *least_ms,
                        const char *most_ms);
/* @p config: lines for redis.conf, or NULL. */
bool held_set_up(const char *config, const char *ttl, const char *least_ms,
                 const char *most_ms);
void held_tear_down(void);

/* Whether it took no longer than that since @p began (awake), but for what the machine adds. */
bool held_in_time(const char *what, int64_t began, int64_t limit_ms);

#endif
