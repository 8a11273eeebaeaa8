/* dlock-proxy: the fault proxy as a program that does what it is told line by line; README.md. */
#include "proxy/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LINE_ROOM = 4096, TALKERS = 64 };

/* Somebody who gives orders. */
typedef struct talker {
    int in, out; /* in -1 = free */
    char line[LINE_ROOM];
    size_t size;
    bool overlong; /* the rest of this line is thrown away */
} talker;

static struct program {
    proxy *proxy;
    talker talkers[TALKERS];
    int listener;
    const char *path; /* of the control socket, to be removed */
    bool stay, over;
} me = {.listener = -1};

/* ---- Talking ---- */

static void hang_up(talker *t)
{
    if (t->in == STDIN_FILENO && !me.stay)
        me.over = true;
    if (t->in != STDIN_FILENO)
        close(t->in);
    t->in = -1;
}

static void say(talker *t, const char *answer)
{
    char line[PROXY_ANSWER_MAX + 1];
    size_t size = (size_t)snprintf(line, sizeof(line), "%s\n", answer), done = 0;
    while (done < size) {
        ssize_t sent = write(t->out, line + done, size - done);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) { /* it gives orders and doesn't want the answers */
            hang_up(t);
            return;
        }
        done += (size_t)sent;
    }
}

static void take_line(talker *t)
{
    char answer[PROXY_ANSWER_MAX];
    if (t->overlong)
        snprintf(answer, sizeof(answer), "error the line is too long");
    else if (memchr(t->line, '\0', t->size))
        snprintf(answer, sizeof(answer), "error there is a NUL in the line");
    else if (!proxy_obey(me.proxy, t->line, answer))
        me.over = true;
    t->overlong = false;
    say(t, answer);
}

static void hear(talker *t)
{
    char bytes[4096];
    ssize_t got = read(t->in, bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR)
        return;
    for (ssize_t i = 0; i < got && t->in >= 0 && !me.over; i++) {
        if (bytes[i] != '\n') {
            t->line[t->size] = bytes[i];
            t->overlong = t->overlong || t->size == LINE_ROOM - 2;
            t->size += !t->overlong;
            continue;
        }
        t->line[t->size] = '\0';
        take_line(t);
        t->size = 0;
    }
    if (got <= 0)
        hang_up(t);
}

/* ---- The control socket ---- */

static int listen_at(const char *where, char *ret_name, size_t room)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(port);
    bool is_path = where[0] == '/';
    char *end;
    long number = strtol(where, &end, 10);
    if (is_path ? strlen(where) >= sizeof(local.sun_path)
                : *end || end == where || number < 0 || number > 65535) {
        errno = EINVAL;
        return -1;
    }
    if (is_path)
        strcpy(local.sun_path, where);
    port.sin_port = htons((uint16_t)number);
    int fd = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    bool fine = fd >= 0;
    if (fine && is_path) {
        fine = bind(fd, (struct sockaddr *)&local, sizeof(local)) == 0;
        me.path = fine ? where : NULL;
    } else if (fine) {
        fine = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
               bind(fd, (struct sockaddr *)&port, size) == 0 &&
               getsockname(fd, (struct sockaddr *)&port, &size) == 0;
    }
    if (!fine || listen(fd, 16) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (is_path)
        snprintf(ret_name, room, "%s", where);
    else
        snprintf(ret_name, room, "%d", ntohs(port.sin_port));
    return fd;
}

static void take_talker(void)
{
    int fd = accept4(me.listener, NULL, NULL, SOCK_CLOEXEC);
    for (int i = 1; i < TALKERS && fd >= 0; i++)
        if (me.talkers[i].in < 0) {
            me.talkers[i] = (talker){.in = fd, .out = fd};
            return;
        }
    if (fd >= 0)
        close(fd);
}

/* ---- Life ---- */

/* Only who is there: poll refuses more entries than there may be descriptors. */
static nfds_t list_talkers(struct pollfd *polls, talker **ret_who)
{
    nfds_t count = 0;
    for (int i = 0; i < TALKERS; i++)
        if (me.talkers[i].in >= 0) {
            ret_who[count] = &me.talkers[i];
            polls[count++] = (struct pollfd){.fd = me.talkers[i].in, .events = POLLIN};
        }
    return count;
}

static void talk(int signals)
{
    struct pollfd polls[TALKERS + 2];
    talker *who[TALKERS];
    while (!me.over) {
        nfds_t count = list_talkers(polls, who);
        polls[count] = (struct pollfd){.fd = signals, .events = POLLIN};
        polls[count + 1] = (struct pollfd){.fd = me.listener, .events = POLLIN};
        if (poll(polls, count + (me.listener >= 0 ? 2 : 1), -1) < 0)
            continue;
        if (polls[count].revents)
            return;
        for (nfds_t i = 0; i < count && !me.over; i++)
            if (polls[i].revents)
                hear(who[i]);
        if (me.listener >= 0 && polls[count + 1].revents)
            take_talker();
    }
}

static int catch_ends(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* before there are threads */
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &ends, SFD_CLOEXEC);
}

static int complain(const char *what)
{
    fprintf(stderr, "dlock-proxy: %s: %s\n", what, strerror(errno));
    return 1;
}

static int use(FILE *to)
{
    fprintf(to, "usage: dlock-proxy [--control PORT|/PATH] [--log FILE] [--seed N] "
                "[--stay]\nOrders come on stdin, line by line; \"help\" lists them.\n");
    return to == stderr ? 2 : 0;
}

static const struct option options[] = {
    {"control", required_argument, NULL, 'c'}, {"log", required_argument, NULL, 'l'},
    {"seed", required_argument, NULL, 's'},    {"stay", no_argument, NULL, 'S'},
    {"help", no_argument, NULL, 'h'},          {0},
};

int main(int argc, char **argv)
{
    const char *control = NULL, *log = NULL;
    unsigned long long seed = 1;
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 'c')
            control = optarg;
        else if (option == 'l')
            log = optarg;
        else if (option == 's')
            seed = strtoull(optarg, NULL, 0);
        else if (option == 'S')
            me.stay = true;
        else
            return use(option == 'h' ? stdout : stderr);
    }
    if (optind < argc)
        return use(stderr);
    int signals = catch_ends();
    if (signals < 0 || !(me.proxy = proxy_new(seed)))
        return complain("can't start");
    if (log && !proxy_log_to(me.proxy, log))
        return complain(log);
    for (int i = 0; i < TALKERS; i++)
        me.talkers[i].in = -1;
    me.talkers[0] = (talker){.in = STDIN_FILENO, .out = STDOUT_FILENO};
    char name[128], line[160];
    if (control && (me.listener = listen_at(control, name, sizeof(name))) < 0)
        return complain(control);
    if (control) {
        snprintf(line, sizeof(line), "ok control %s", name);
        say(&me.talkers[0], line);
    }
    talk(signals);
    proxy_free(me.proxy);
    if (me.path)
        (void)unlink(me.path);
    return 0;
}
