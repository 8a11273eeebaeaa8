/* Starting and ending a PostgreSQL for tests; see the header. */
#include "harness/postgres_server.h"

#include "harness/harness.h"
#include "harness/time.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where distributions put it, or PATH. */
static const char *program(const char *name)
{
    static char path[256];
    char pattern[64];
    glob_t found = {0};
    snprintf(pattern, sizeof(pattern), "/usr/lib/postgresql/*/bin/%s", name);
    bool there = glob(pattern, 0, NULL, &found) == 0;
    snprintf(path, sizeof(path), "%s", there ? found.gl_pathv[found.gl_pathc - 1] : name);
    globfree(&found);
    return path;
}

bool postgres_server_available(void)
{
    return server_is_installed(program("postgres"));
}

/* As root it refuses to run. */
static const struct passwd *somebody(void)
{
    const struct passwd *one = geteuid() == 0 ? getpwnam("postgres") : NULL;
    return one || geteuid() != 0 ? one : getpwnam("nobody");
}

/* Another user's would outlive us: the signal at our end is dropped when the user changes. */
static void step_down(void)
{
    const struct passwd *one = somebody();
    if (one &&
        (setgroups(0, NULL) != 0 || setgid(one->pw_gid) != 0 || setuid(one->pw_uid) != 0))
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* By psql: @p what and its argument, -c or -f. */
static bool psql(const postgres_server *server, const char *what, const char *argument,
                 char *text, size_t room)
{
    int ends[2], status = -1;
    char port[16];
    snprintf(port, sizeof(port), "%d", server->port);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)dup2(ends[1], STDERR_FILENO);
        (void)setenv("PGCONNECT_TIMEOUT", "20", 1);
        (void)setenv("PGOPTIONS", "-c client_min_messages=error", 1);
        execl(program("psql"), "psql", "-X", "-q", "-A", "-t", "-F", " ", "-R", " ", "-v",
              "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", port, "-U", "postgres", "-d",
              server->database[0] ? server->database : "postgres", what, argument, NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while (used + 1 < room && (got = read(ends[0], text + used, room - used - 1)) != 0)
        used += got > 0 ? (size_t)got : 0;
    close(ends[0]);
    while (used > 0 && text[used - 1] == '\n')
        used--;
    text[used] = '\0';
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && status == 0;
}

const char *postgres_server_ask(const postgres_server *server, const char *format, ...)
{
    static _Thread_local char text[65536];
    char statement[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(statement, sizeof(statement), format, args);
    va_end(args);
    return psql(server, "-c", statement, text, sizeof(text)) ? text : "(failed)";
}

const char *postgres_server_load(const postgres_server *server, const char *file)
{
    static _Thread_local char text[4096];
    return psql(server, "-f", file, text, sizeof(text)) || text[0] ? text : "(failed)";
}

/* ---- The process ---- */

static void become(const void *one)
{
    const postgres_server *server = one;
    char port[16], log[96];
    step_down();
    snprintf(port, sizeof(port), "%d", server->port);
    snprintf(log, sizeof(log), "%s/log", server->dir);
    if (!freopen(log, "a", stderr))
        _exit(126);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    char data[96], sockets[128];
    snprintf(data, sizeof(data), "%s/data", server->dir);
    snprintf(sockets, sizeof(sockets), "unix_socket_directories=%s", server->dir);
    execl(program("postgres"), "postgres", "-D", data, "-p", port, "-c",
          "listen_addresses=127.0.0.1", "-c", sockets, "-c", "fsync=off", "-c",
          "max_connections=200", "-c", "shared_buffers=16MB", NULL);
}

static bool is_up(void *one)
{
    return strcmp(postgres_server_ask(one, "SELECT 1"), "1") == 0;
}

const char postgres_server_schema[] = DLK_POSTGRES_SCHEMA;

static const server_kind kind = {"the PostgreSQL", become, is_up};

/* Runs it to its end; what it says goes to the log. */
static bool run_initdb(const postgres_server *server)
{
    char data[96], log[96];
    snprintf(data, sizeof(data), "%s/data", server->dir);
    snprintf(log, sizeof(log), "%s/initdb.log", server->dir);
    pid_t pid = fork();
    int status = -1;
    if (pid == 0) {
        step_down();
        if (!freopen(log, "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
            _exit(126);
        execl(program("initdb"), "initdb", "-D", data, "-A", "trust", "-U", "postgres",
              "--no-sync", "--locale=C", "-E", "UTF8", NULL);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool install_schema(const postgres_server *server)
{
    const char *text = postgres_server_load(server, postgres_server_schema);
    if (text[0])
        harness_note("%s", text);
    return !text[0];
}

bool postgres_server_start(postgres_server *server)
{
    const struct passwd *one = somebody();
    *server = (postgres_server){0};
    strcpy(server->dir, "/tmp/dlock-postgres-XXXXXX");
    if (!harness_check(__FILE__, __LINE__, harness_mkdtemp(server->dir) != NULL,
                       "a directory"))
        return false;
    if (one && chown(server->dir, one->pw_uid, one->pw_gid) != 0)
        return harness_check(__FILE__, __LINE__, false, "a directory of its own");
    if (!harness_check(__FILE__, __LINE__, run_initdb(server), "initdb"))
        return false;
    for (int i = 0; i < 5; i++) {
        server->port = server_free_port(0);
        if (!server_start(&kind, &server->pid, server))
            continue;
        return harness_check(__FILE__, __LINE__, install_schema(server),
                             "the schema dlock");
    }
    return harness_check(__FILE__, __LINE__, false,
                         "a PostgreSQL that takes connections");
}

/* ---- all of its processes: each connection has one ---- */

enum { PROCESSES = 512 };

static int processes(pid_t pid, pid_t *list)
{
    char path[64];
    int count = 0;
    list[count++] = pid;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *in = fopen(path, "re");
    int child;
    while (in && count < PROCESSES && fscanf(in, "%d", &child) == 1)
        list[count++] = child;
    if (in)
        fclose(in);
    return count;
}

/* The first makes the others, so when it stands still there are no more. */
void postgres_server_freeze(postgres_server *server)
{
    pid_t list[PROCESSES];
    server_freeze(server->pid);
    int count = processes(server->pid, list);
    for (int i = 1; i < count; i++)
        server_freeze(list[i]);
}

void postgres_server_thaw(postgres_server *server)
{
    pid_t list[PROCESSES];
    int count = server->pid > 0 ? processes(server->pid, list) : 0;
    while (count > 0)
        server_thaw(list[--count]);
}

static bool is_gone(pid_t pid)
{
    return kill(pid, 0) != 0;
}

void postgres_server_kill(postgres_server *server)
{
    pid_t list[PROCESSES];
    int count = server->pid > 0 ? processes(server->pid, list) : 0;
    server_kill(&server->pid);
    for (int i = 1; i < count; i++)
        (void)kill(list[i], SIGKILL);
    for (int i = 1; i < count;
         i++) /* its memory is theirs as long as one of them lives */
        while (!is_gone(list[i]))
            nap_ms(1);
}

bool postgres_server_restart(postgres_server *server)
{
    postgres_server_kill(server);
    return server_restart(&kind, &server->pid, server);
}

static int remove_one(const char *path, const struct stat *about, int type,
                      struct FTW *ftw)
{
    (void)about;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* The System V segment by which a server sees that it is the only one outlives it when it is killed, and there are so
 * many for the whole machine (4,096). Its number is the last word of its process file's seventh line. */
static void remove_segment(const postgres_server *server)
{
    char path[96], line[256];
    int number = 0, segment = -1;
    snprintf(path, sizeof(path), "%s/data/postmaster.pid", server->dir);
    FILE *in = fopen(path, "re");
    while (in && number < 7 && fgets(line, sizeof(line), in))
        number++;
    if (in)
        fclose(in);
    if (number == 7 && sscanf(line, "%*u %d", &segment) == 1)
        (void)shmctl(segment, IPC_RMID, NULL);
}

void postgres_server_stop(postgres_server *server)
{
    postgres_server_kill(server);
    if (server->dir[0]) {
        remove_segment(server);
        (void)nftw(server->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    server->dir[0] = '\0';
    server_let_go(server->port);
}
