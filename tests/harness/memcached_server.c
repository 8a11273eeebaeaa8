/* Starting and ending a memcached for tests; see the header. */
#include "harness/memcached_server.h"

#include "harness/harness.h"
#include "harness/server.h"
#include "harness/time.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_S = 20, ANSWER_MAX = 65536, LINE_SIZE = 2048, OPTIONS_MAX = 32 };

bool memcached_server_available(void)
{
    return server_is_installed("memcached");
}

/* ---- The test's own connection ---- */

static bool begins(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

/* The data behind a line that announces it, as "VALUE key 0 3" and "VA 3". */
static bool read_data(int fd, const char *line, char *to, size_t room)
{
    long size = 0;
    if (sscanf(line, "VALUE %*s %*s %ld", &size) != 1 &&
        sscanf(line, "VA %ld", &size) != 1)
        return false;
    if (size < 0 || (size_t)size + 3 > room || !server_read(fd, to, (size_t)size + 2))
        return false;
    to[size] = '\0';
    return true;
}

/* One line, or a list up to END, and the data of values. */
static bool read_answer(int fd, char *text)
{
    char line[LINE_SIZE];
    size_t used = 0;
    for (bool more = true; more;) {
        if (!server_read_line(fd, line, sizeof(line)) ||
            used + strlen(line) + 2 > ANSWER_MAX)
            return false;
        more = begins(line, "STAT ") || begins(line, "VALUE ") || begins(line, "key=");
        bool data = begins(line, "VALUE ") || begins(line, "VA ");
        used += (size_t)snprintf(text + used, ANSWER_MAX - used, "%s%s", line,
                                 more || data ? " " : "");
        if (data && !read_data(fd, line, text + used, ANSWER_MAX - used))
            return false;
        used += data ? strlen(text + used) : 0;
        if (data && more && used + 1 < ANSWER_MAX)
            text[used++] = ' ';
    }
    return true;
}

const char *memcached_server_say(memcached_server *server, const char *format, ...)
{
    static _Thread_local char text[ANSWER_MAX];
    char line[8192];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof(line) - 2, format, args);
    va_end(args);
    if (server->control < 0)
        server->control = server_dial(server->port, ANSWER_S);
    if (size < 0 || server->control < 0)
        return "(gone)";
    memcpy(line + size, "\r\n", 2);
    if (send(server->control, line, (size_t)size + 2, MSG_NOSIGNAL) == size + 2 &&
        read_answer(server->control, text))
        return text;
    server_hang_up(&server->control);
    return "(gone)";
}

const char *memcached_server_stat(memcached_server *server, const char *of,
                                  const char *name)
{
    static _Thread_local char value[256];
    char before[128];
    snprintf(before, sizeof(before), "STAT %s ", name);
    const char *at = strstr(memcached_server_say(server, "stats %s", of), before);
    if (!at)
        return "";
    at += strlen(before);
    snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, " "), at);
    return value;
}

const char *memcached_server_items(memcached_server *server)
{
    static _Thread_local char keys[ANSWER_MAX];
    char *said = NULL, *save = NULL;
    size_t used = 0;
    for (int i = 0; i < 200 && !said; i++) { /* BUSY while it is at it by itself */
        const char *answer = memcached_server_say(server, "lru_crawler metadump all");
        if (begins(answer, "key=") || begins(answer, "END"))
            said = strdup(answer);
        else
            nap_ms(20);
    }
    keys[0] = '\0';
    for (char *word = said ? strtok_r(said, " ", &save) : NULL; word;
         word = strtok_r(NULL, " ", &save))
        if (begins(word, "key="))
            used += (size_t)snprintf(keys + used, sizeof(keys) - used, "%s ",
                                     word + strlen("key="));
    bool fine = said != NULL;
    free(said);
    return fine ? keys : NULL;
}

const char *memcached_server_get(memcached_server *server, const char *key)
{
    static _Thread_local char value[LINE_SIZE];
    const char *answer = memcached_server_say(server, "get %s", key);
    if (!begins(answer, "VALUE "))
        return "(nil)";
    for (int i = 0; i < 4; i++) /* VALUE, the key, flags and size */
        answer = strchr(answer, ' ') + 1;
    snprintf(value, sizeof(value), "%.*s", (int)(strlen(answer) - strlen(" END")),
             answer);
    return value;
}

/* ---- The process ---- */

static void become(const void *one)
{
    const memcached_server *server = one;
    /* As root it wants to be told who to be. Another user's would outlive us: the signal below is
     * dropped when the user changes. */
    char line[1024], tls[64] = "", *argv[OPTIONS_MAX] = {NULL}, *save = NULL;
    size_t count = 0;
    if (server->tls_port) /* the test's own connection stays plain */
        snprintf(tls, sizeof(tls), "-Z -l 127.0.0.1:%d -l notls:", server->tls_port);
    snprintf(line, sizeof(line), "memcached %s127.0.0.1:%d -p %d -U 0 %s %s",
             tls[0] ? tls : "-l ", server->port, server->port,
             geteuid() == 0 ? "-u root" : "", server->options);
    for (char *word = strtok_r(line, " ", &save); word && count + 1 < OPTIONS_MAX;
         word = strtok_r(NULL, " ", &save))
        argv[count++] = word;
    execvp("memcached", argv);
}

static bool is_up(void *one)
{
    memcached_server *server = one;
    if (atoi(memcached_server_stat(server, "", "pid")) == server->pid)
        return true;
    server_hang_up(&server->control); /* of another one, perhaps */
    return false;
}

static const server_kind kind = {"the memcached", become, is_up};

static bool start(memcached_server *server, bool tls)
{
    for (int i = 0; i < 5; i++) {
        server->port = server_free_port(0);
        server->tls_port = tls ? server_free_port(0) : 0;
        if (server_start(&kind, &server->pid, server))
            return true;
    }
    return harness_check(__FILE__, __LINE__, false, "a memcached that answers stats");
}

bool memcached_server_start(memcached_server *server, const char *options)
{
    *server = (memcached_server){.control = -1};
    snprintf(server->options, sizeof(server->options), "%s", options ? options : "");
    return start(server, false);
}

bool memcached_server_start_tls(memcached_server *server, const char *dir,
                                const char *name, const char *options)
{
    *server = (memcached_server){.control = -1};
    snprintf(server->options, sizeof(server->options),
             "-o ssl_chain_cert=%s/%s.pem,ssl_key=%s/%s.key %s", dir, name, dir, name,
             options ? options : "");
    return start(server, true);
}

void memcached_server_kill(memcached_server *server)
{
    server_hang_up(&server->control);
    server_kill(&server->pid);
}

bool memcached_server_restart(memcached_server *server)
{
    server_hang_up(&server->control);
    return server_restart(&kind, &server->pid, server);
}

void memcached_server_stop(memcached_server *server)
{
    memcached_server_kill(server); /* it has nothing to save */
    server_let_go(server->port);
    server_let_go(server->tls_port);
}
