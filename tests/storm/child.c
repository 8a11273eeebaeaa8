/* A child's life, short as it is. Nothing here may wait for long, print or run exit handlers. */
#include "child.h"

#include "../api/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXECED                                                                           \
    "DLK_STORM_EXECED" /* the environment of an exec'd child: see look_around */

/* The line where it wasn't as promised, on stderr and as an exit status. */
#define MUST(condition)                                                                  \
    do {                                                                                 \
        if (!(condition))                                                                \
            die(__LINE__, #condition);                                                   \
    } while (0)

static void __attribute__((noreturn)) die(int line, const char *what)
{
    dprintf(2, "# child.c:%d: not true: %s\n", line, what);
    _exit(1);
}

static void call_client(const inheritance *from)
{
    dlock_info *info = NULL;
    dlock_error *err = NULL;
    dlock_hold *hold = NULL;
    MUST(dlock_client_connect(from->client, &err) == DLOCK_EFORKED);
    MUST(dlock_error_code(err) == DLOCK_EFORKED && dlock_error_text(err)[0]);
    MUST(dlock_client_stats(from->client, &info, &err) == DLOCK_EFORKED);
    MUST(dlock_acquire(from->client, "x", 0, &hold, &err) == DLOCK_EFORKED);
    MUST(dlock_lock_acquire(from->lock, DLOCK_FOREVER, &hold, &err) == DLOCK_EFORKED);
    MUST(dlock_lock_inspect(from->lock, &info, &err) == DLOCK_EFORKED);
    MUST(dlock_client_event_fd(from->client) == -1);
    MUST(dlock_client_next_event(from->client) == NULL);
    MUST(fcntl(from->event_fd, F_GETFD) < 0 && errno == EBADF);
    MUST(!hold && !info);
    dlock_error_free(err);
}

static void call_hold(dlock_hold *hold)
{
    if (!hold)
        return;
    MUST(dlock_hold_check(hold) == DLOCK_EFORKED);
    MUST(dlock_hold_state(hold) == DLOCK_LOST);
    MUST(dlock_hold_remaining_ms(hold) == 0 && dlock_hold_token(hold) == 0);
    MUST(dlock_hold_verify(hold, NULL) == DLOCK_EFORKED);
    MUST(dlock_hold_extend(hold, 1000, NULL) == DLOCK_EFORKED);
    MUST(dlock_hold_release(hold, NULL) == DLOCK_EFORKED);
}

static void call_op(dlock_op *op)
{
    if (!op)
        return;
    dlock_op_cancel(op);
    MUST(dlock_op_wait(op, DLOCK_FOREVER) == DLOCK_EFORKED);
    MUST(dlock_op_result(op) == DLOCK_EFORKED);
    MUST(dlock_op_take_hold(op) == NULL);
}

static void free_all(const inheritance *from, unsigned seed)
{
    for (unsigned i = 0; i < 4; i++) {
        switch ((i + seed) % 4) {
        case 0:
            MUST(dlock_client_close(from->client, NULL) == DLOCK_EFORKED);
            dlock_client_free(from->client);
            break;
        case 1:
            dlock_lock_free(from->lock);
            break;
        case 2:
            dlock_hold_free(from->hold);
            break;
        default:
            dlock_op_free(from->op);
            break;
        }
    }
}

static void live_anew(unsigned seed)
{
    char name[32];
    dlock_client *client = NULL;
    dlock_hold *hold = NULL;
    snprintf(name, sizeof(name), "child-%u", seed % 8);
    dlock_err code = dlock_client_open(world_uri(), NULL, &client, NULL);
    /* A peer that cuts every connection now and then may hit the first one. */
    MUST(code == DLOCK_OK || (world_is("redis") && code == DLOCK_EUNAVAIL));
    if (code != DLOCK_OK)
        return;
    code = dlock_acquire(client, name, patience_ms(), &hold, NULL);
    MUST(code == DLOCK_OK);
    MUST(dlock_hold_check(hold) == DLOCK_OK);
    code = dlock_hold_release(hold, NULL);
    MUST(code == DLOCK_OK || (world_is("redis") && code == DLOCK_EUNKNOWN));
    dlock_hold_free(hold);
    dlock_client_free(client);
}

static void go_elsewhere(void)
{
    (void)setenv(EXECED, "1", 1);
    (void)execl("/proc/self/exe", "exec'd", (char *)NULL);
    die(__LINE__, "exec");
}

/* Runs first of all in whatever this program is exec'd to: standard descriptors are all there is. */
__attribute__((constructor)) static void look_around(void)
{
    char path[32], target[128];
    if (!getenv(EXECED))
        return;
    for (int fd = 3; fd < 256; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t size = readlink(path, target, sizeof(target) - 1);
        target[size > 0 ? size : 0] = '\0';
        if (strncmp(target, "socket:", 7) == 0 ||
            strncmp(target, "anon_inode:", 11) == 0 || strstr(target, "dlock"))
            die(__LINE__, target);
    }
    _exit(0);
}

void child_live(child_way way, const inheritance *from, unsigned seed)
{
    switch (way) {
    case CHILD_CALLS:
        call_client(from);
        call_hold(from->hold);
        call_op(from->op);
        break;
    case CHILD_FREES:
        free_all(from, seed);
        break;
    case CHILD_OPENS:
        live_anew(seed);
        break;
    case CHILD_EXECS:
        go_elsewhere();
        break;
    case CHILD_LEAVES:
    case CHILD_WAYS:
        break;
    }
    _exit(0);
}
