/* A process that watches who waits for a processor; see the header. */
#include "harness/starved.h"

#include "harness/awake.h"
#include "harness/time.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Who wants to run at two looks, and hasn't run between them, was starved. */
enum { EVERY_MS = 100, TASKS = 512, THREADS = 64, PROCESSES = 64 };

/* A thread that wanted to run, or stood still in the kernel, when we last looked. */
typedef struct task {
    int id;
    char state;
    long long ran_ns;
    int64_t since_ms; /* since then it hasn't run */
} task;

/* Shared with who asks. */
static struct findings {
    _Atomic int64_t longest_ms, total_ms;
} * found;

/* What we saw at the last look, and see at this one. */
static task seen[2][TASKS];
static int counts[2];

/* The first line of /proc/PID/task/ID/WHAT. */
static bool read_line(char *line, size_t size, int pid, int id, const char *what)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, id, what);
    FILE *in = fopen(path, "re");
    bool read = in && fgets(line, (int)size, in) != NULL;
    if (in)
        fclose(in);
    return read;
}

/* The state follows the name in parentheses, which may hold anything; '?' for who has ended. */
static char state_of(int pid, int id)
{
    char line[512];
    if (!read_line(line, sizeof(line), pid, id, "stat"))
        return '?';
    const char *end = strrchr(line, ')');
    return end && end[1] ? end[2] : '?';
}

static const task *seen_before(int round, int id)
{
    for (int i = 0; i < counts[!round]; i++)
        if (seen[!round][i].id == id)
            return &seen[!round][i];
    return NULL;
}

/* For how long it hasn't run by now, though it wanted to. */
static int64_t look_at(int round, int pid, int id, int64_t now)
{
    char line[128];
    task it = {.id = id, .state = state_of(pid, id), .since_ms = now};
    if ((it.state != 'R' && it.state != 'D') || counts[round] == TASKS ||
        !read_line(line, sizeof(line), pid, id, "schedstat") ||
        sscanf(line, "%lld", &it.ran_ns) != 1)
        return 0;
    const task *before = seen_before(round, id);
    if (before && before->state == it.state && before->ran_ns == it.ran_ns)
        it.since_ms = before->since_ms;
    seen[round][counts[round]++] = it;
    return now - it.since_ms;
}

static int64_t look_at_process(int round, int pid, int64_t now)
{
    char path[32];
    int64_t most = 0;
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    const struct dirent *entry;
    for (int left = THREADS; left > 0 && dir && (entry = readdir(dir)); left--) {
        int id = atoi(entry->d_name);
        int64_t starved = id > 0 ? look_at(round, pid, id, now) : 0;
        most = starved > most ? starved : most;
    }
    if (dir)
        closedir(dir);
    return most;
}

static int add_numbers(const char *text, int *pids, int count)
{
    char *end;
    for (long pid; count < PROCESSES && (pid = strtol(text, &end, 10)) > 0; text = end)
        if (pid != getpid())
            pids[count++] = (int)pid;
    return count;
}

/* This program, those that its threads have started, who start nobody, and the shared servers. */
static int list_processes(int whose, int *pids)
{
    char line[512];
    int count = 0;
    const char *servers = getenv("DLK_TEST_SERVERS");
    pids[count++] = whose;
    if (servers)
        count = add_numbers(servers, pids, count);
    snprintf(line, sizeof(line), "/proc/%d/task", whose);
    DIR *dir = opendir(line);
    const struct dirent *entry;
    for (int left = THREADS; left > 0 && dir && (entry = readdir(dir)); left--)
        if (atoi(entry->d_name) > 0 &&
            read_line(line, sizeof(line), whose, atoi(entry->d_name), "children"))
            count = add_numbers(line, pids, count);
    if (dir)
        closedir(dir);
    return count;
}

static void note(int64_t at_once, int64_t gap)
{
    if (at_once < EVERY_MS)
        return;
    if (at_once > found->longest_ms)
        found->longest_ms = at_once;
    found->total_ms += gap;
}

static void keep_watch(int whose)
{
    struct timespec nap = {.tv_nsec = EVERY_MS * 1000000};
    int64_t before = now_ms();
    for (int round = 0;; round = !round) {
        int pids[PROCESSES];
        nanosleep(&nap, NULL);
        int64_t now = now_ms(), most = now - before - EVERY_MS; /* we may be, too */
        int count = list_processes(whose, pids);
        counts[round] = 0;
        for (int i = 0; i < count; i++) {
            int64_t starved = look_at_process(round, pids[i], now);
            most = starved > most ? starved : most;
        }
        note(most, now - before);
        before = now;
    }
}

bool starved_watch(void)
{
    int whose = (int)getpid();
    void *shared = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return false;
    found = shared;
    pid_t pid = awake_fork_watcher();
    if (pid != 0)
        return pid > 0;
    keep_watch(whose);
    _exit(0);
}

int64_t starved_longest_ms(void)
{
    return found ? found->longest_ms : 0;
}

int64_t starved_total_ms(void)
{
    return found ? found->total_ms : 0;
}

void starved_forget(void)
{
    if (found)
        found->longest_ms = found->total_ms = 0;
}
