/* Parties: agents at the end of a pipe, and the dlock command; see the header. */
#include "party.h"

#include "grid.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct party {
    char uri[160], settings[256];
    int to, from; /* -1 = nobody is there */
    pid_t pid;    /* 0 = a thread */
    pthread_t thread;
    int in, out; /* the thread's ends */
    bool by_command;

    char line[512]; /* the last answer */
    size_t used;
    int64_t wait_ms, token;
    bool asking, holding;
    bool in_line; /* what it asks for is a signal; it has the lock afterwards */
    int status;   /* of the command that has ended, -1 = it runs */
};

/* ---- Lines ---- */

/* Whether a whole line, or the end, has come within so long. */
static bool line_came(party *p, int64_t limit_ms)
{
    int64_t end = now_ms() + limit_ms;
    while (p->from >= 0 && !memchr(p->line, '\n', p->used)) {
        struct pollfd one = {.fd = p->from, .events = POLLIN};
        int64_t left = end - now_ms();
        if (poll(&one, 1, left > 0 ? (int)left : 0) <= 0) {
            if (left <= 0)
                return false;
            continue;
        }
        ssize_t got = read(p->from, p->line + p->used, sizeof(p->line) - p->used - 1);
        if (got <= 0 || (p->used += (size_t)got) == sizeof(p->line) - 1) {
            close(p->from);
            p->from = -1;
        }
    }
    return true;
}

static void tell(party *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void tell(party *p, const char *format, ...)
{
    char line[1200];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (p->to >= 0 && send(p->to, line, (size_t)size, MSG_NOSIGNAL) != size)
        harness_note("an agent doesn't listen");
}

static dlock_err code_named(const char *name)
{
    for (int code = 0; code < 64; code++)
        if (strcmp(dlock_errname((dlock_err)code), name) == 0)
            return (dlock_err)code;
    return DLOCK_EPROTO;
}

/* An agent's next answer; its number goes to @p number. */
static dlock_err hear(party *p, int64_t *number)
{
    char name[64] = "";
    int64_t value = 0;
    char *end = line_came(p, patience_ms()) ? memchr(p->line, '\n', p->used) : NULL;
    if (!end || sscanf(p->line, "%63s %" SCNd64, name, &value) != 2) {
        (void)harness_check(__FILE__, __LINE__, false, "the other party answers");
        return DLOCK_EPROTO;
    }
    p->used -= (size_t)(end + 1 - p->line);
    memmove(p->line, end + 1, p->used);
    if (number)
        *number = value;
    return code_named(name);
}

/* ---- Processes ---- */

/* For a moment there may be too many processes, of whoever else tests here. */
static pid_t fork_patiently(void)
{
    int64_t end = awake_now_ms() + patience_ms();
    pid_t pid;
    while ((pid = fork()) < 0 && (errno == EAGAIN || errno == ENOMEM) &&
           awake_now_ms() < end)
        nap_ms(1);
    return pid;
}

/* In a child: these descriptors, and an end together with the parent. */
static void become(int in, int out, const char *const argv[], pid_t parent)
{
    static const int ours[] = {SIGALRM, SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
        (void)signal(ours[i], SIG_DFL); /* what we do then isn't for a copy of us */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(in, 0) < 0 || dup2(out, 1) < 0)
        _exit(70);
    execv(argv[0], (char *const *)argv); /* which changes nothing there */
    _exit(70);
}

/* Both ways. What goes there goes through a socket: who listens no more is no signal to us. */
static bool connect_both(int to[2], int from[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to) == 0 &&
        pipe2(from, O_CLOEXEC) == 0)
        return true;
    harness_note("no way to another party: %s", strerror(errno));
    return false;
}

static bool start(party *p, const char *const argv[])
{
    int to[2], from[2];
    if (p->from >= 0)
        close(p->from);
    if (!connect_both(to, from))
        return false;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all,
                    &before); /* it may be told to end before it begins */
    pid_t parent = getpid();
    p->pid = fork_patiently();
    if (p->pid == 0)
        become(to[0], from[1], argv, parent);
    if (p->pid < 0)
        harness_note("no process: %s", strerror(errno));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(to[0]);
    close(from[1]);
    p->to = to[1];
    p->from = from[0];
    p->used = 0;
    p->status = -1;
    return p->pid > 0;
}

static void *serve_in_thread(void *arg)
{
    party *p = arg;
    agent_serve(p->in, p->out, p->uri, p->settings);
    close(p->out);
    return NULL;
}

static bool start_thread(party *p)
{
    int to[2], from[2];
    if (!connect_both(to, from))
        return false;
    p->to = to[1];
    p->from = from[0];
    p->in = to[0];
    p->out = from[1];
    return pthread_create(&p->thread, NULL, serve_in_thread, p) == 0;
}

static bool start_agent(party *p)
{
    const char *argv[] = {"/proc/self/exe", "--agent", p->uri, p->settings, NULL};
    bool separate = !service_here()->lacks[CAN_PROCESSES];
    if (!(separate ? start(p, argv) : start_thread(p)))
        return false;
    dlock_err code = hear(p, NULL);
    if (code != DLOCK_OK)
        harness_note("another party can't open a client: %s", dlock_errname(code));
    return code == DLOCK_OK;
}

party *party_new(const char *uri, const char *settings)
{
    party *p = calloc(1, sizeof(*p));
    p->to = p->from = p->status = -1;
    p->by_command = grid_binding_is("dlock");
    snprintf(p->uri, sizeof(p->uri), "%s", uri ? uri : world_uri());
    snprintf(p->settings, sizeof(p->settings), "client.poll_ms=60000 %s",
             settings ? settings : "");
    if (!p->by_command)
        (void)harness_check(__FILE__, __LINE__, start_agent(p), "another party");
    return p;
}

static void hang_up(party *p)
{
    if (p->to >= 0)
        close(p->to);
    p->to = -1;
}

static void note_end(party *p, int status)
{
    p->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    p->pid = 0;
}

/* Its exit status; 128 + n for signal n. Waits for it. */
static int ended(party *p)
{
    int status;
    int64_t end = now_ms() + patience_ms();
    pid_t got = 0;
    while (p->pid > 0 && (got = waitpid(p->pid, &status, WNOHANG)) == 0 && now_ms() < end)
        nap_ms(1);
    if (p->pid > 0 && got == 0) {
        (void)harness_check(__FILE__, __LINE__, false, "the other party ends");
        kill(p->pid, SIGKILL);
        got = waitpid(p->pid, &status, 0);
    }
    if (p->pid > 0 && got == p->pid)
        note_end(p, status);
    return p->status;
}

void party_drop(party **held)
{
    party *p = *held;
    if (!p)
        return;
    hang_up(p);
    if (p->thread)
        pthread_join(p->thread, NULL);
    if (p->thread)
        close(p->in);
    if (p->pid > 0) {
        kill(p->pid, SIGCONT);
        if (p->by_command && p->asking) /* it wouldn't look at its input */
            kill(p->pid, SIGTERM);
        (void)ended(p);
    }
    if (p->from >= 0)
        close(p->from);
    free(p);
    *held = NULL;
}

/* ---- The command: one process for each hold ---- */

static void start_command(party *p, const char *name, int64_t wait_ms)
{
    char wait[32], rest[256], *save = NULL;
    const char *argv[32] = {getenv("DLK_COMMAND"), "hold", "--url", p->uri};
    int count = 4;
    snprintf(rest, sizeof(rest), "%s", p->settings);
    for (char *word = strtok_r(rest, " ", &save); word && count < 26;
         word = strtok_r(NULL, " ", &save)) {
        argv[count++] = "--set";
        argv[count++] = word;
    }
    snprintf(wait, sizeof(wait), "%" PRId64 ".%03d", wait_ms / 1000,
             (int)(wait_ms % 1000));
    if (wait_ms >= 0) {
        argv[count++] = "-w";
        argv[count++] = wait;
    }
    if (world_kind() == DLOCK_WRITE)
        argv[count++] = "-x";
    argv[count++] = "--";
    argv[count++] = name;
    (void)harness_check(__FILE__, __LINE__, argv[0] && start(p, argv), "a dlock command");
}

static dlock_err meaning_of(int status, int64_t wait_ms)
{
    switch (status) {
    case 0:
        return DLOCK_OK;
    case 1:
        return wait_ms == 0 ? DLOCK_EBUSY : DLOCK_ETIMEDOUT;
    case 64:
        return DLOCK_EINVAL;
    case 69:
        return DLOCK_EUNAVAIL;
    case 75:
        return DLOCK_ELOST;
    case 77:
        return DLOCK_EACCES;
    default:
        return status > 128 ? DLOCK_ECANCELED : DLOCK_EPROTO;
    }
}

static dlock_err hear_command(party *p)
{
    (void)harness_check(__FILE__, __LINE__, line_came(p, patience_ms()),
                        "the command answers");
    const char *token = strstr(p->line, "\"token\":");
    if (p->used > 0 && token) {
        p->token = strtoll(token + 8, NULL, 10);
        p->used = 0;
        return DLOCK_OK;
    }
    hang_up(p);
    return meaning_of(ended(p), p->wait_ms);
}

static dlock_err command_still(party *p)
{
    int status;
    if (p->status < 0 && waitpid(p->pid, &status, WNOHANG) == p->pid)
        note_end(p, status);
    return p->status < 0 ? DLOCK_OK : meaning_of(p->status, 0);
}

/* ---- What a party does ---- */

void party_ask(party *p, const char *name, int64_t wait_ms)
{
    p->asking = true;
    p->wait_ms = wait_ms;
    if (p->by_command)
        start_command(p, name, wait_ms);
    else
        tell(p, "take %" PRId64 " %s\n", wait_ms, name);
}

bool party_answered(party *p)
{
    return line_came(p, 0);
}

dlock_err party_answer(party *p)
{
    dlock_err code = p->by_command ? hear_command(p) : hear(p, &p->token);
    p->asking = false;
    p->holding = code == DLOCK_OK || (p->in_line && code == DLOCK_ETIMEDOUT);
    p->in_line = false;
    return code;
}

void party_wait(party *p, const char *condition, int64_t wait_ms)
{
    p->asking = p->in_line = true;
    tell(p, "wait %" PRId64 " %s\n", wait_ms, condition);
}

int64_t party_signal(party *p, const char *condition, int64_t count)
{
    int64_t signalled = -1;
    tell(p, "signal %" PRId64 " %s\n", count, condition);
    dlock_err code = hear(p, &signalled);
    if (!harness_check(__FILE__, __LINE__, code == DLOCK_OK, "a signal"))
        return -1;
    return signalled;
}

dlock_err party_take(party *p, const char *name, int64_t wait_ms)
{
    party_ask(p, name, wait_ms);
    return party_answer(p);
}

dlock_err party_give_up(party *p)
{
    if (p->by_command)
        kill(p->pid, SIGTERM);
    else
        tell(p, "give-up\n");
    return party_answer(p);
}

dlock_err party_still(party *p)
{
    if (!p->holding)
        return DLOCK_ENOTHELD;
    if (p->by_command)
        return command_still(p);
    tell(p, "still\n");
    return hear(p, NULL);
}

int64_t party_token(party *p)
{
    return p->token;
}

dlock_err party_give_back(party *p)
{
    if (!p->holding)
        return DLOCK_ENOTHELD;
    p->holding = false;
    if (!p->by_command) {
        tell(p, "give-back\n");
        return hear(p, NULL);
    }
    hang_up(p);
    return meaning_of(ended(p), 0);
}

void party_pause(party *p)
{
    int status;
    kill(p->pid, SIGSTOP);
    while (waitpid(p->pid, &status, WUNTRACED) < 0 && errno == EINTR)
        continue;
}

void party_go_on(party *p)
{
    kill(p->pid, SIGCONT);
}

void party_kill(party *p)
{
    kill(p->pid, SIGKILL);
    (void)ended(p);
    hang_up(p);
    p->holding = p->asking = false;
}

pid_t party_pid(party *p)
{
    return p->pid;
}
