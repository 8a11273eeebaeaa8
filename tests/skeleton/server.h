/* The skeleton's server, for a test: one of each program. */
#ifndef TESTS_SKELETON_SERVER_H
#define TESTS_SKELETON_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

/* With nothing in it; at the port that it had, if it had one. False after a failed check. */
bool skeleton_server_start(void);
void skeleton_server_stop(void);
int skeleton_server_port(void);
pid_t skeleton_server_pid(void);
/* The one line that it answers to this one; valid until the next call, "" after a failed check. */
const char *skeleton_server_call(const char *verb, const char *key);

#endif
