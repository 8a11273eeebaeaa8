/* Pieces of work in processes; see the header. What each writes goes into a file without a name until
 * its turn has come. */
#include "workers.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct worker {
    pid_t process; /* 0: not started, or over */
    FILE *written;
    int status;
    bool over;
} worker;

static void give_up(const char *what)
{
    (void)printf("Bail out! %s: %s\n", what, strerror(errno));
    exit(2);
}

static int processors(void)
{
    cpu_set_t usable;
    return sched_getaffinity(0, sizeof(usable), &usable) == 0 ? CPU_COUNT(&usable) : 1;
}

static void start(worker *one, int piece, int (*work)(int))
{
    pid_t parent = getpid();
    one->written = tmpfile();
    if (!one->written)
        give_up("no file for what a worker writes");
    (void)fflush(stdout);
    one->process = fork();
    if (one->process < 0)
        give_up("no process for a worker");
    if (one->process > 0)
        return;
    /* Whoever ends this program ends its workers; it may be gone already. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
        dup2(fileno(one->written), STDOUT_FILENO) < 0)
        _exit(2);
    exit(work(piece)); /* where LeakSanitizer looks as well */
}

/* Until one of them ends. */
static void await_one(worker *all, int count)
{
    int status;
    pid_t process;
    do
        process = waitpid(-1, &status, 0);
    while (process < 0 && errno == EINTR);
    if (process < 0)
        give_up("no worker is left");
    for (int i = 0; i < count; i++)
        if (all[i].process == process) {
            all[i].process = 0;
            all[i].status = status;
            all[i].over = true;
        }
}

static void show(worker *one)
{
    char part[4096];
    size_t size;
    rewind(one->written);
    while ((size = fread(part, 1, sizeof(part), one->written)) > 0)
        (void)fwrite(part, 1, size, stdout);
    (void)fclose(one->written);
    if (WIFSIGNALED(one->status))
        (void)printf("# FAILED: its worker was killed by signal %d, %s\n",
                     WTERMSIG(one->status), strsignal(WTERMSIG(one->status)));
    else if (WEXITSTATUS(one->status) != 0)
        (void)printf("# its worker exited with %d\n", WEXITSTATUS(one->status));
}

void workers_run(int count, int (*work)(int), void (*over)(int, bool))
{
    int room = processors(), running = 0, started = 0, shown = 0;
    worker *all = calloc((size_t)count, sizeof(*all));
    if (!all)
        give_up("no memory for the workers");
    while (shown < count) {
        for (; running < room && started < count; running++, started++)
            start(&all[started], started, work);
        await_one(all, count);
        running--;
        for (; shown < count && all[shown].over; shown++) {
            show(&all[shown]);
            over(shown, all[shown].status == 0);
            (void)fflush(stdout);
        }
    }
    free(all);
}
