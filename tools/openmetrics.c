/*
 * dlock top --openmetrics: what a service holds, and how it answers this command, as a page for Prometheus
 * instead of a screen.
 *
 * One thread: connections are few and short, whoever sends nothing, too much, or doesn't read is dropped,
 * the oldest one where there are too many. Only for the service's answer all wait together: it is asked
 * at most once a second, however often the page is fetched.
 */
#include "cli.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { CONNECTIONS = 16, REQUEST_MAX = 4096, PATIENCE_MS = 5000, FRESH_MS = 1000 };

typedef struct connection {
    int fd; /* -1: none */
    int64_t until;
    size_t got;
    char request[REQUEST_MAX + 1];
    char *answer; /* NULL: the request isn't all there */
    size_t size, sent;
} connection;

typedef struct server {
    cli_call *cli;
    const char *prefix;
    int listener;
    const char *path; /* of a socket that is removed at the end, or NULL */
    int64_t full;     /* until when nobody is taken in: there were no descriptors */
    connection all[CONNECTIONS];
    char *page;
    int64_t made_at;
} server;

/* ---- the page ---- */

/* Adds what the service has, in the place of the "# EOF" of what the client counts. */
static void write_page(FILE *out, const char *text, const dlock_info *list, bool all,
                       int64_t max)
{
    /* A quote inside a label has a backslash before it, so neither of these is inside one. */
    const char *end = strstr(text, "# EOF\n"), *service = strstr(text, ",service=\"");
    const char *behind = service != NULL ? strstr(service, "\",version=\"") : NULL;
    if (end == NULL)
        return;
    (void)fwrite(text, 1, (size_t)(end - text), out);
    if (list != NULL && behind != NULL) {
        int label = (int)(behind - ++service); /* less the comma */
        long long held = 0;
        for (size_t i = 0; i < dlock_info_count(list); i++)
            held += cli_is_name(dlock_info_key(list, i));
        (void)fprintf(
            out,
            "# TYPE dlock_service_locks gauge\n"
            "# HELP dlock_service_locks Locks that somebody holds, --max of them "
            "at most.\ndlock_service_locks{%.*s\"} %lld\n"
            "# TYPE dlock_service_complete gauge\n"
            "# HELP dlock_service_complete Whether these are all.\n"
            "dlock_service_complete{%.*s\"} %d\n",
            label, service, held, label, service, all && held < max);
    }
    (void)fputs(end, out);
}

/* 0, or the status of a signal. Without the service the page is of the client alone. */
static int make_page(server *s)
{
    int64_t now = cli_now_ms();
    if (s->page != NULL && now < s->made_at + FRESH_MS)
        return 0;
    DLOCK_AUTO(dlock_op)
    op = dlock_client_list_start(s->cli->client, s->prefix, s->cli->max);
    int status = cli_await(s->cli, op, NULL);
    if (status >= CLI_SIGNAL)
        return status;
    DLOCK_AUTO(dlock_info) list = dlock_op_take_info(op);
    bool all = list != NULL && cli_check_list(s->cli, list) == 0;
    char *text = NULL, *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);
    if (out == NULL || dlock_client_metrics(s->cli->client, &text, NULL) != DLOCK_OK) {
        if (out != NULL)
            (void)fclose(out);
        free(page);
        return cli_fail_errno(s->cli, "the page");
    }
    write_page(out, text, list, all, s->cli->max);
    dlock_text_free(text);
    if (fclose(out) != 0) {
        free(page);
        return cli_fail_errno(s->cli, "the page");
    }
    free(s->page);
    s->page = page;
    s->made_at = cli_now_ms();
    return 0;
}

/* ---- requests ---- */

static void drop(connection *c)
{
    if (c->fd >= 0)
        (void)close(c->fd);
    free(c->answer);
    c->answer = NULL;
    c->fd = -1;
}

static void answer(connection *c, const char *status, const char *body, bool with_body)
{
    int size = asprintf(&c->answer,
                        "HTTP/1.1 %s\r\nContent-Type: %s; charset=utf-8\r\n"
                        "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                        status,
                        status[0] == '2' ? "application/openmetrics-text; version=1.0.0"
                                         : "text/plain",
                        strlen(body), with_body ? body : "");
    if (size < 0) {
        c->answer = NULL;
        drop(c);
        return;
    }
    c->size = (size_t)size;
    c->until = cli_now_ms() + PATIENCE_MS; /* the service may have taken its time */
}

/* All of the head is there. 0, or the exit status. */
static int serve(server *s, connection *c)
{
    bool get = strncmp(c->request, "GET ", 4) == 0;
    bool head = strncmp(c->request, "HEAD ", 5) == 0;
    const char *target = c->request + (get ? 4 : 5);
    size_t length = strcspn(target, " ?\r\n");
    if (!get && !head) {
        answer(c, "405 Method Not Allowed", "GET, please\n", true);
    } else if (length != 8 || strncmp(target, "/metrics", 8) != 0) {
        answer(c, "404 Not Found", "the page is /metrics\n", get);
    } else {
        int status = make_page(s);
        if (status >= CLI_SIGNAL)
            return status;
        if (s->page == NULL)
            answer(c, "503 Service Unavailable", "no memory\n", get);
        else
            answer(c, "200 OK", s->page, get);
    }
    return 0;
}

static int read_request(server *s, connection *c)
{
    ssize_t size = recv(c->fd, c->request + c->got, REQUEST_MAX - c->got, 0);
    if (size <= 0) {
        if (size == 0 || (errno != EAGAIN && errno != EINTR))
            drop(c);
        return 0;
    }
    c->got += (size_t)size;
    c->request[c->got] = '\0';
    if (memmem(c->request, c->got, "\r\n\r\n", 4) != NULL)
        return serve(s, c);
    if (c->got == REQUEST_MAX)
        answer(c, "431 Request Header Fields Too Large", "too long\n", true);
    return 0;
}

static void write_answer(connection *c)
{
    ssize_t size = send(c->fd, c->answer + c->sent, c->size - c->sent, MSG_NOSIGNAL);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size > 0)
        c->sent += (size_t)size;
    if (size < 0 || c->sent == c->size)
        drop(c);
}

/* Without descriptors the listener would be ready again and again, and nobody served. */
static void take_in(server *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        bool is_full =
            errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        s->full = is_full ? cli_now_ms() + FRESH_MS : 0;
        return;
    }
    connection *place = &s->all[0];
    for (int i = 0; i < CONNECTIONS && place->fd >= 0; i++)
        if (s->all[i].fd < 0 || s->all[i].until < place->until)
            place = &s->all[i];
    drop(place);
    place->fd = fd;
    place->until = cli_now_ms() + PATIENCE_MS;
    place->got = place->size = place->sent = 0;
}

/* One connection's turn; false: the server is to end. */
static bool attend(server *s, connection *c, bool ready, int64_t now)
{
    int status = 0;
    if (ready && c->answer != NULL)
        write_answer(c);
    else if (ready)
        status = read_request(s, c);
    if (status == 0 && c->fd >= 0 && now >= c->until)
        drop(c);
    return status == 0;
}

/* Until a signal comes, which is how it ends: well. */
static int loop(server *s)
{
    for (;;) {
        struct pollfd fds[CONNECTIONS + 2] = {{.fd = s->cli->signals, .events = POLLIN},
                                              {.fd = s->listener, .events = POLLIN}};
        if (cli_now_ms() < s->full)
            fds[1].fd = -1;
        for (int i = 0; i < CONNECTIONS; i++)
            fds[i + 2] = (struct pollfd){
                .fd = s->all[i].fd,
                .events = (short)(s->all[i].answer != NULL ? POLLOUT : POLLIN)};
        if (poll(fds, CONNECTIONS + 2, FRESH_MS) < 0 && errno != EINTR)
            return cli_fail_errno(s->cli, "poll");
        if (fds[0].revents != 0)
            return CLI_OK;
        cli_drain(s->cli);
        int64_t now = cli_now_ms(); /* while a page is made nobody else can be late */
        for (int i = 0; i < CONNECTIONS; i++)
            if (!attend(s, &s->all[i], fds[i + 2].revents != 0, now))
                return CLI_OK;
        if (fds[1].revents != 0)
            take_in(s);
    }
}

/* ---- where ---- */

static int listen_at(server *s, const struct sockaddr *at, socklen_t size)
{
    int one = 1;
    s->listener = socket(at->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->listener < 0)
        return -1;
    if (at->sa_family == AF_INET)
        (void)setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    return bind(s->listener, at, size) == 0 ? listen(s->listener, CONNECTIONS) : -1;
}

/* A socket that nobody listens at any more: who made it has died. One that is alive stays, and so does
 * what is no socket. */
static bool is_stale(const struct sockaddr_un *at)
{
    struct stat is;
    if (lstat(at->sun_path, &is) != 0 || !S_ISSOCK(is.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool stale = fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) != 0 &&
                 errno == ECONNREFUSED;
    if (fd >= 0)
        (void)close(fd);
    return stale;
}

static int listen_path(server *s, const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (path[0] == '\0' || strlen(path) >= sizeof at.sun_path) {
        errno = path[0] == '\0' ? EINVAL : ENAMETOOLONG;
        return -1;
    }
    memcpy(at.sun_path, path, strlen(path) + 1);
    int status = listen_at(s, (struct sockaddr *)&at, sizeof at);
    if (status != 0 && errno == EADDRINUSE) {
        (void)close(s->listener);
        s->listener = -1;
        bool again = is_stale(&at) && unlink(path) == 0;
        status = again ? listen_at(s, (struct sockaddr *)&at, sizeof at) : -1;
        errno = again ? errno : EADDRINUSE;
    }
    s->path = status == 0 ? path : NULL;
    return status;
}

/* [ADDRESS:]PORT; without an address it is the loopback's. */
static int listen_port(server *s, const char *where)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    char address[32] = "127.0.0.1";
    const char *colon = strrchr(where, ':'), *port = colon != NULL ? colon + 1 : where;
    char *end = NULL;
    long number = strtol(port, &end, 10);
    if (colon != NULL)
        (void)snprintf(address, sizeof address, "%.*s", (int)(colon - where), where);
    if (*port < '0' || *port > '9' || *end != '\0' || number > 65535 ||
        inet_pton(AF_INET, address, &at.sin_addr) != 1) {
        errno = EINVAL;
        return -1;
    }
    at.sin_port = htons((uint16_t)number);
    socklen_t size = sizeof at;
    if (listen_at(s, (struct sockaddr *)&at, size) != 0 ||
        getsockname(s->listener, (struct sockaddr *)&at, &size) != 0)
        return -1;
    cli_say(s->cli, "http://%s:%d/metrics", address, ntohs(at.sin_port));
    return 0;
}

int cli_serve_openmetrics(cli_call *cli, const char *prefix)
{
    server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return cli_fail_errno(cli, "--openmetrics");
    *s = (server){.cli = cli, .prefix = prefix, .listener = -1};
    for (int i = 0; i < CONNECTIONS; i++)
        s->all[i].fd = -1;
    const char *where = cli->openmetrics;
    bool path = strncmp(where, "unix:", 5) == 0;
    int status = path ? listen_path(s, where + 5) : listen_port(s, where);
    status = status != 0 ? (cli_fail_errno(cli, where), CLI_USAGE) : loop(s);
    for (int i = 0; i < CONNECTIONS; i++)
        drop(&s->all[i]);
    if (s->listener >= 0)
        (void)close(s->listener);
    if (s->path != NULL)
        (void)unlink(s->path);
    free(s->page);
    free(s);
    return status;
}
