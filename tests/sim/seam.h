/*
 * Where the simulator ends and the kernel would begin. The table's code (libdlock/backends/local)
 * is compiled as it is, with this header put before it: what it asks of the kernel, and of the
 * few files that are about nothing but the kernel, is answered by seam.c.
 */
#ifndef SIM_SEAM_H
#define SIM_SEAM_H

#include "backends/local/file.h"
#include "backends/local/process.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/thread.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* The robust mutex: who has it, who died in it. */
int sim_mutex_trylock(pthread_mutex_t *mutex);
int sim_mutex_lock(pthread_mutex_t *mutex);
int sim_mutex_clocklock(pthread_mutex_t *mutex);
int sim_mutex_unlock(pthread_mutex_t *mutex);
int sim_mutex_consistent(pthread_mutex_t *mutex);
#define pthread_mutex_trylock(mutex) sim_mutex_trylock(mutex)
#define pthread_mutex_lock(mutex)    sim_mutex_lock(mutex)
#define pthread_mutex_clocklock(mutex, clock, until)                                     \
    ((void)(until), sim_mutex_clocklock(mutex))
#define pthread_mutex_unlock(mutex)     sim_mutex_unlock(mutex)
#define pthread_mutex_consistent(mutex) sim_mutex_consistent(mutex)

/* Time. */
int64_t sim_clock_now(void);
#define dlk_clock_now() sim_clock_now()

/* The bell. */
void sim_futex_wait(dlk_futex *word, uint32_t seen);
void sim_futex_wake(dlk_futex *word);
#define dlk_futex_wait(word, seen, until, shared)                                        \
    ((void)(until), (void)(shared), sim_futex_wait(word, seen))
#define dlk_futex_wake(word, sleepers, shared) ((void)(shared), sim_futex_wake(word))

/* Processes, and the thread that watches them. */
dlk_life sim_process_open(uint32_t pid, int *pidfd);
char sim_process_state(uint32_t pid);
int sim_poll(struct pollfd *set, nfds_t count);
int sim_eventfd(void);
int sim_eventfd_write(int fd);
bool sim_thread_start(void *watch);
#define dlk_process_open(pid, started, pidfd)                                            \
    ((void)(started), sim_process_open(pid, pidfd))
#define dlk_process_state(pid)         sim_process_state(pid)
#define dlk_process_started(pid)       ((uint64_t)(pid))
#define poll(set, count, timeout)      ((void)(timeout), sim_poll(set, count))
#define eventfd(value, flags)          sim_eventfd()
#define eventfd_write(fd, value)       sim_eventfd_write(fd)
#define eventfd_read(fd, value)        ((void)(value), 0)
#define dlk_thread_start(thread, role) sim_thread_start((role)->arg)
#define pthread_join(thread, ret)      0
#define close(fd)                      ((void)(fd), 0)
#undef DLK_FD
#define DLK_FD(make)     (make)
#define dlk_fd_close(fd) ((void)(fd))

/* The file is always what it was. */
#define dlk_file_check(file, table, err)   ((void)(err), DLOCK_OK)
#define dlk_file_is_truncated(file, table) false
#define dlk_file_sink(table)               ((void)(table))

#endif
