/* The agent of the binding to C; see the header. One thread, no blocking call. */
#include "agent.h"

#include "api/world.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct agent {
    int in, out;
    dlock_client *client;
    dlock_op *asking;
    dlock_hold *hold;
    char input[2048]; /* what has come of the next line */
    size_t used;
    bool gone; /* nobody is at the other end */
} agent;

static void say(agent *a, dlock_err code, int64_t number)
{
    char line[64];
    int size =
        snprintf(line, sizeof(line), "%s %" PRId64 "\n", dlock_errname(code), number);
    if (write(a->out, line, (size_t)size) != size)
        a->gone = true;
}

static bool open_client(agent *a, const char *uri, const char *settings)
{
    DLOCK_AUTO(dlock_conf) conf = api_conf(settings);
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_err code = dlock_client_open(uri, conf, &a->client, &err);
    if (code != DLOCK_OK)
        fprintf(stderr, "# %s\n", dlock_error_text(err));
    say(a, code, 0);
    return code == DLOCK_OK;
}

static void take(agent *a, const char *words)
{
    char *name;
    int64_t wait_ms = strtoll(words, &name, 10);
    dlock_lock *lock = NULL;
    dlock_err code =
        a->hold || a->asking || *name != ' '
            ? DLOCK_EINVAL
            : dlock_lock_new(a->client, world_kind(), name + 1, NULL, &lock, NULL);
    if (code != DLOCK_OK) {
        say(a, code, 0);
        return;
    }
    a->asking = dlock_lock_acquire_start(lock, wait_ms);
    dlock_lock_free(lock);
}

/* The hold stays until that is over. */
static void wait_for_signal(agent *a, const char *words)
{
    char *name;
    int64_t wait_ms = strtoll(words, &name, 10);
    dlock_cond *cond = NULL;
    dlock_err code = !a->hold || a->asking || *name != ' '
                         ? DLOCK_EINVAL
                         : dlock_cond_new(a->client, name + 1, NULL, &cond, NULL);
    if (code != DLOCK_OK) {
        say(a, code, 0);
        return;
    }
    a->asking = dlock_cond_wait_start(cond, a->hold, wait_ms);
    dlock_cond_free(cond);
}

static void send_signal(agent *a, const char *words)
{
    char *name;
    int64_t count = strtoll(words, &name, 10), signalled = 0;
    DLOCK_AUTO(dlock_cond) cond = NULL;
    dlock_err code = *name != ' '
                         ? DLOCK_EINVAL
                         : dlock_cond_new(a->client, name + 1, NULL, &cond, NULL);
    if (code == DLOCK_OK)
        code = dlock_cond_signal(cond, count, NULL, &signalled, NULL);
    say(a, code, signalled);
}

static void give_back(agent *a)
{
    say(a, a->hold ? dlock_hold_release(a->hold, NULL) : DLOCK_ENOTHELD, 0);
    dlock_hold_free(a->hold);
    a->hold = NULL;
}

static void obey(agent *a, const char *line)
{
    if (strncmp(line, "take ", 5) == 0)
        take(a, line + 5);
    else if (strcmp(line, "give-up") == 0)
        dlock_op_cancel(a->asking); /* the answer says what came of it */
    else if (strcmp(line, "still") == 0)
        say(a, a->hold ? dlock_hold_check(a->hold) : DLOCK_ENOTHELD,
            a->hold ? dlock_hold_remaining_ms(a->hold) : 0);
    else if (strcmp(line, "give-back") == 0)
        give_back(a);
    else if (strncmp(line, "wait ", 5) == 0)
        wait_for_signal(a, line + 5);
    else if (strncmp(line, "signal ", 7) == 0)
        send_signal(a, line + 7);
    else
        say(a, DLOCK_EINVAL, 0);
}

static void read_input(agent *a)
{
    ssize_t got = read(a->in, a->input + a->used, sizeof(a->input) - a->used - 1);
    if (got < 0 && errno == EINTR)
        return;
    a->gone = a->gone || got <= 0;
    a->used += got > 0 ? (size_t)got : 0;
    char *end;
    while ((end = memchr(a->input, '\n', a->used))) {
        *end = '\0';
        obey(a, a->input);
        a->used -= (size_t)(end + 1 - a->input);
        memmove(a->input, end + 1, a->used);
    }
}

static void look_at_op(agent *a)
{
    dlock_err code = dlock_op_result(a->asking);
    if (code == DLOCK_EPENDING)
        return;
    dlock_hold_free(
        a->hold); /* that of before a wait, which the lock was given back for */
    a->hold = dlock_op_take_hold(a->asking);
    dlock_op_free(a->asking);
    a->asking = NULL;
    say(a, code, dlock_hold_token(a->hold));
}

static void drain(dlock_client *client)
{
    dlock_event *event;
    while ((event = dlock_client_next_event(client)))
        dlock_event_free(event);
}

static void serve(agent *a)
{
    enum { TAG = 1 };
    struct pollfd fds[] = {{.fd = a->in, .events = POLLIN},
                           {.fd = dlock_client_event_fd(a->client), .events = POLLIN}};
    while (!a->gone) {
        bool over = a->asking && dlock_op_notify(a->asking, TAG) == DLOCK_OK;
        if (!over && poll(fds, 2, -1) > 0 && fds[0].revents)
            read_input(a);
        drain(a->client);
        if (a->asking)
            look_at_op(a);
    }
}

void agent_serve(int in, int out, const char *uri, const char *settings)
{
    agent a = {.in = in, .out = out};
    if (open_client(&a, uri, settings))
        serve(&a);
    dlock_op_free(a.asking);
    dlock_hold_free(a.hold);
    dlock_client_free(a.client);
}
