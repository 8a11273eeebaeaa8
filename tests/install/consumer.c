/* A stranger's C program: built with nothing but `pkg-config --cflags --libs dlock`, it takes a
 * lock, re-enters it, times out on it, loses it and notices. Usage: consumer URI NAME.
 *
 * On mem: it breaks its own lock; elsewhere it prints "held", and whoever started it takes the
 * lock away and writes a line. */
#include <dlock/dlock.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { LOST_TAG = 7, EVENT_LIMIT_MS = 20000 };

static int expect(const char *what, dlock_err got, dlock_err want, const dlock_error *err)
{
    if (got == want) {
        printf("%s: %s\n", what, dlock_errname(got));
        return 1;
    }
    printf("%s: %s, not %s (%s)\n", what, dlock_errname(got), dlock_errname(want),
           err != NULL ? dlock_error_text(err) : "no text");
    return 0;
}

/* Waits on the event fd, as a program with a poll loop of its own would. */
static int hears_of_the_loss(dlock_client *client)
{
    for (;;) {
        struct pollfd fd = {.fd = dlock_client_event_fd(client), .events = POLLIN};
        if (poll(&fd, 1, EVENT_LIMIT_MS) != 1) {
            printf("no event came\n");
            return 0;
        }
        DLOCK_AUTO(dlock_event) event = dlock_client_next_event(client);
        if (event != NULL && dlock_event_what(event) == DLOCK_EVENT_LOST)
            return dlock_event_tag(event) == LOST_TAG;
    }
}

static int take_away(dlock_lock *rival_lock, const char *uri)
{
    if (strncmp(uri, "mem:", 4) == 0) {
        DLOCK_AUTO(dlock_error) err = NULL;
        return expect("break", dlock_lock_break(rival_lock, NULL, &err), DLOCK_OK, err);
    }
    char line[16];
    printf("held\n");
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 64;
    const char *uri = argv[1];
    const char *name = argv[2];
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_client) rival = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_lock) rival_lock = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) again = NULL;
    DLOCK_AUTO(dlock_hold) never = NULL;

    int good =
        expect("conf", dlock_conf_set_int(conf, "lock.ttl_ms", 3000, &err), DLOCK_OK,
               err) &&
        expect("open", dlock_client_open(uri, conf, &client, &err), DLOCK_OK, err) &&
        expect("open rival", dlock_client_open(uri, conf, &rival, &err), DLOCK_OK, err) &&
        expect("lock", dlock_lock_new(client, DLOCK_MUTEX, name, NULL, &lock, &err),
               DLOCK_OK, err) &&
        expect("rival lock",
               dlock_lock_new(rival, DLOCK_MUTEX, name, NULL, &rival_lock, &err),
               DLOCK_OK, err) &&
        expect("take", dlock_lock_acquire(lock, 5000, &hold, &err), DLOCK_OK, err) &&
        expect("re-enter", dlock_lock_acquire(lock, 0, &again, &err), DLOCK_OK, err) &&
        expect("rival tries", dlock_lock_acquire(rival_lock, 0, &never, &err),
               DLOCK_EBUSY, err) &&
        expect("rival waits", dlock_lock_acquire(rival_lock, 300, &never, &err),
               DLOCK_ETIMEDOUT, err) &&
        expect("give one back", dlock_hold_release(again, &err), DLOCK_OK, err) &&
        expect("still held", dlock_hold_check(hold), DLOCK_OK, NULL) &&
        expect("arm", dlock_hold_notify(hold, LOST_TAG), DLOCK_OK, NULL) &&
        take_away(rival_lock, uri) && hears_of_the_loss(client) &&
        expect("lost", dlock_hold_check(hold), DLOCK_ELOST, NULL) &&
        expect("release", dlock_hold_release(hold, &err), DLOCK_ELOST, err);
    if (good && (dlock_hold_token(hold) <= 0 || dlock_hold_remaining_ms(hold) != 0)) {
        printf("token %lld, remaining %lld\n", (long long)dlock_hold_token(hold),
               (long long)dlock_hold_remaining_ms(hold));
        good = 0;
    }
    return good ? 0 : 1;
}
