/* Descriptors over forks: while one thread makes and closes ours, and another somebody else's, each
 * child has none of ours and all the others. */
#include "harness/fork.h"
#include "harness/harness.h"
#include "util/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 300 };

static _Atomic bool over;
static pthread_mutex_t theirs_mutex = PTHREAD_MUTEX_INITIALIZER; /* guards: */
static int theirs = -1;

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void *make_ours(void *arg)
{
    (void)arg;
    while (!atomic_load(&over))
        dlk_fd_close(DLK_FD(eventfd(0, EFD_CLOEXEC)));
    return NULL;
}

/* The lowest free number, which is often what ours was a moment ago. */
static void *make_theirs(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        (void)pthread_mutex_lock(&theirs_mutex);
        theirs = open("/dev/null", O_RDONLY | O_CLOEXEC);
        (void)pthread_mutex_unlock(&theirs_mutex);
        (void)pthread_mutex_lock(&theirs_mutex);
        close(theirs);
        theirs = -1;
        (void)pthread_mutex_unlock(&theirs_mutex);
    }
    return NULL;
}

static int count_open(void)
{
    int count = 0;
    for (int fd = 0; fd < 100; fd++)
        count += is_open(fd);
    return count;
}

/* In the child: what is wrong, as its exit status. */
static int judge(int others, int ours_till_now)
{
    if (is_open(ours_till_now))
        return 1;
    if (theirs >= 0 && !is_open(theirs))
        return 2;
    return count_open() == others + (theirs >= 0) ? 0 : 3;
}

TEST(a_forks_child_has_none_of_ours_and_all_others)
{
    if (ADDRESS_SANITIZER || THREAD_SANITIZER)
        LEAVE_OUT("threads are at work while it forks");
    pthread_t threads[2];
    int others = count_open(), kept = DLK_FD(eventfd(0, EFD_CLOEXEC));
    CHECK(kept >= 0);
    CHECK_EQ_INT(pthread_create(&threads[0], NULL, make_ours, NULL), 0);
    CHECK_EQ_INT(pthread_create(&threads[1], NULL, make_theirs, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        int status = 0;
        (void)pthread_mutex_lock(&theirs_mutex);
        pid_t pid = fork();
        if (pid == 0)
            _exit(judge(others, kept));
        (void)pthread_mutex_unlock(&theirs_mutex);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
        (void)harness_eq_int(__FILE__, __LINE__, "the child's verdict",
                             WEXITSTATUS(status), 0);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK(is_open(kept));
    dlk_fd_close(kept);
    CHECK(!is_open(kept));
}

TEST(numbers_of_any_size_are_noted)
{
    int low = DLK_FD(eventfd(0, EFD_CLOEXEC)), status = 0;
    CHECK(low >= 0);
    struct rlimit limit;
    CHECK_EQ_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int number = limit.rlim_cur > 100000 ? 100000 : (int)limit.rlim_cur - 1;
    int high = DLK_FD(fcntl(low, F_DUPFD_CLOEXEC, number));
    CHECK(high >= number);
    pid_t pid = harness_fork();
    if (pid == 0)
        _exit(is_open(low) || is_open(high));
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_EQ_INT(status, 0);
    dlk_fd_close(low);
    dlk_fd_close(high);
    CHECK(!is_open(low) && !is_open(high));
}

TEST(what_cannot_be_made_says_why)
{
    CHECK_EQ_INT(DLK_FD(open("/no/such/file", O_RDONLY | O_CLOEXEC)), -1);
    CHECK_EQ_INT(errno, ENOENT);
    dlk_fd_close(-1);
}
