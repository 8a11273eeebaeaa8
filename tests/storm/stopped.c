/* A process that is stopped (not killed) inside the table, as others meet it through the public
 * API: their waits end when they are to end, and say who is in the way. */
#include "harness/harness.h"
#include "harness/time.h"

#include "util/clock.h"
#include "util/point.h"

#include <dlock/dlock.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT 300  /* ms */
#define LATE 2000 /* ms after its deadline a wait may end, on a machine with much to do */

void (*dlk_point_hook)(const char *name);

static char directory[64], uri[128];
static dlock_client *client;
static dlock_hold *mine;
static pid_t stopped;

static atomic_bool armed;

static void stop_there(const char *name)
{
    if (strcmp(name, "table.commit") == 0 && atomic_exchange(&armed, false))
        (void)kill(getpid(), SIGSTOP);
}

static void be_stopped(void)
{
    dlock_client *other = NULL;
    dlock_hold *hold = NULL;
    dlk_point_hook = stop_there; /* before there are threads that look at it */
    if (dlock_client_open(uri, NULL, &other, NULL) != DLOCK_OK)
        _exit(1);
    atomic_store(&armed, true);
    if (dlock_acquire(other, "theirs", 0, &hold, NULL) != DLOCK_OK)
        _exit(1);
    (void)pause();
    _exit(0);
}

/* A client with a lock of its own, and another process stopped inside. */
static bool set_up(void)
{
    int status;
    (void)snprintf(directory, sizeof(directory), "/tmp/dlock-stopped-XXXXXX");
    if (!harness_mkdtemp(directory))
        return false;
    (void)snprintf(uri, sizeof(uri), "file://%s/table", directory);
    stopped = fork();
    if (stopped == 0) {
        /* The parent's client comes first, so that it is the table's and not the dead's. */
        while (access(uri + strlen("file://"), F_OK) != 0)
            nap_ms(1);
        (void)raise(SIGSTOP);
        be_stopped();
    }
    if (dlock_client_open(uri, NULL, &client, NULL) != DLOCK_OK ||
        dlock_acquire(client, "mine", 0, &mine, NULL) != DLOCK_OK)
        return false;
    return waitpid(stopped, &status, WUNTRACED) == stopped && WIFSTOPPED(status) &&
           kill(stopped, SIGCONT) == 0 &&
           waitpid(stopped, &status, WUNTRACED) == stopped && WIFSTOPPED(status);
}

static void go_on(void)
{
    (void)kill(stopped, SIGCONT);
}

static void tear_down(void)
{
    char path[128];
    (void)kill(stopped, SIGKILL);
    go_on();
    (void)waitpid(stopped, NULL, 0);
    dlock_hold_free(mine);
    dlock_client_free(client);
    client = NULL;
    mine = NULL;
    (void)snprintf(path, sizeof(path), "%s/table", directory);
    (void)unlink(path);
    (void)rmdir(directory);
}

static bool names_it(const dlock_error *err)
{
    char who[32];
    (void)snprintf(who, sizeof(who), "process %d ", (int)stopped);
    return err && strstr(dlock_error_text(err), who) &&
           strstr(dlock_error_text(err), "is stopped");
}

/* Waits in vain, and for how long. */
static bool ends_in_time(int64_t wait_ms, dlock_error **err)
{
    dlock_hold *hold = NULL;
    int64_t began = dlk_clock_now();
    dlock_err code = dlock_acquire(client, "other", wait_ms, &hold, err);
    int64_t took = (dlk_clock_now() - began) / DLK_NS_PER_MS;
    harness_note("%s after %lld ms: %s", dlock_errname(code), (long long)took,
                 *err ? dlock_error_text(*err) : "");
    return code == DLOCK_EUNAVAIL && took >= wait_ms && took < wait_ms + LATE;
}

TEST(waits_end_at_their_deadlines_and_name_the_stopped_process)
{
    dlock_error *err = NULL;
    CHECK(set_up());
    CHECK(ends_in_time(0, &err));
    CHECK(names_it(err));
    CHECK(ends_in_time(WAIT, &err));
    CHECK(names_it(err));
    dlock_error_free(err);
    tear_down();
}

TEST(a_wait_goes_on_where_the_stopped_process_goes_on)
{
    dlock_error *err = NULL;
    dlock_hold *hold = NULL;
    CHECK(set_up());
    CHECK(ends_in_time(WAIT, &err));
    go_on();
    CHECK_OK(dlock_acquire(client, "other", 20000, &hold, &err), err);
    dlock_hold_free(hold);
    CHECK_OK(dlock_hold_release(mine, &err), err);
    tear_down();
}

TEST(a_release_is_unknown_in_time_and_done_later)
{
    dlock_error *err = NULL;
    dlock_hold *again = NULL;
    CHECK(set_up());
    int64_t began = dlk_clock_now();
    dlock_err code = dlock_hold_release(mine, &err);
    harness_note("%s after %lld ms", dlock_errname(code),
                 (long long)((dlk_clock_now() - began) / DLK_NS_PER_MS));
    CHECK(code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL);
    go_on();
    CHECK_OK(dlock_acquire(client, "mine", 20000, &again, &err), err);
    dlock_hold_free(again);
    tear_down();
}

TEST(an_open_and_a_close_end_too)
{
    dlock_error *err = NULL;
    dlock_client *late = NULL;
    CHECK(set_up());
    int64_t began = dlk_clock_now();
    CHECK_ERR(dlock_client_open(uri, NULL, &late, &err), DLOCK_EUNAVAIL, err);
    CHECK(names_it(err));
    dlock_error_free(err);
    dlock_client_free(client); /* closes, with a hold that can't be given back */
    client = NULL;
    CHECK((dlk_clock_now() - began) / DLK_NS_PER_MS < 5000 + 2000 + LATE);
    tear_down();
}
