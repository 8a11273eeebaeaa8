/* What /proc and pidfds tell of a process. */
#ifndef DLK_BACKENDS_LOCAL_PROCESS_H
#define DLK_BACKENDS_LOCAL_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* The state letter of /proc/PID/stat, '?' when it can't be had. */
char dlk_process_state(uint32_t pid);
/* When it was started, in ticks since boot; 0 unknown. With the number it is one process only. */
uint64_t dlk_process_started(uint32_t pid);

typedef enum dlk_life {
    DLK_LIFE_ALIVE,
    DLK_LIFE_DEAD, /* also a zombie, and when the number is another process' by now */
} dlk_life;

/* Is the process that was started then alive? If so *pidfd becomes readable with its end, or is
 * -1 when there is no descriptor for that. */
dlk_life dlk_process_open(uint32_t pid, uint64_t started, int *pidfd);

#endif
