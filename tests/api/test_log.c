/* The log sink: what it hears, when, and that nothing of ours is locked while it listens. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct sink {
    pthread_mutex_t mutex;
    char text[16384];
    atomic_int lines, entered;
    atomic_bool hold_up,
        passed; /* hold_up: the sink waits until somebody else has got through */
    int worst;  /* the loudest level, and the most talkative, that came */
    int least;
} sink;

static void hear(void *user, dlock_level level, const char *line)
{
    sink *s = user;
    s->entered++;
    int64_t end = now_ms() + patience_ms();
    while (s->hold_up && !s->passed && now_ms() < end)
        nap_ms(1);
    pthread_mutex_lock(&s->mutex);
    size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof(s->text) - used, "%s\n", line);
    s->worst = s->worst == 0 || (int)level < s->worst ? (int)level : s->worst;
    s->least = (int)level > s->least ? (int)level : s->least;
    pthread_mutex_unlock(&s->mutex);
    (void)dlock_strerror(DLOCK_OK); /* these two it may call */
    (void)dlock_errname(DLOCK_OK);
    s->lines++;
}

static dlock_client *client_with(sink *s, const char *settings)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_conf) conf = api_conf(settings);
    dlock_client *client = NULL;
    *s = (sink){.mutex = PTHREAD_MUTEX_INITIALIZER};
    dlock_err code = dlock_conf_set_log(conf, hear, s);
    if (code == DLOCK_OK)
        code = dlock_client_open(world_uri(), conf, &client, &err);
    harness_err(__FILE__, __LINE__, "dlock_client_open", code, DLOCK_OK, err);
    return client;
}

static bool lose_one(dlock_client *client, const char *name)
{
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, name, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    return world_lose(name, hold);
}

TEST(a_loss_is_a_warning_of_one_line_that_names_the_lock)
{
    BEGIN();
    sink s;
    DLOCK_AUTO(dlock_client) client = client_with(&s, NULL);
    CHECK(lose_one(client, "log\nwith two lines"));
    AWAIT(s.lines == 1);
    CHECK_CONTAINS(s.text, "log with two lines");
    CHECK_EQ_INT(s.worst, DLOCK_LOG_WARN);
    CHECK(strchr(s.text, '\n') == s.text + strlen(s.text) - 1);
    /* With a sink, lines aren't events. */
    int fd = dlock_client_event_fd(client);
    CHECK(lose_one(client, "log-again"));
    AWAIT(s.lines == 2);
    CHECK(!world_readable(fd) && dlock_client_next_event(client) == NULL);
}

TEST(a_line_has_no_control_characters)
{
    BEGIN();
    sink s;
    DLOCK_AUTO(dlock_client) client = client_with(&s, NULL);
    CHECK(lose_one(client, "log\x1b[2J\x7f\xc2\x9b"
                           "2J \xc3\x9b"));
    AWAIT(s.lines == 1);
    CHECK_CONTAINS(s.text, "log [2J   2J \xc3\x9b");
}

TEST(the_level_says_how_much_is_heard)
{
    BEGIN();
    sink off, error, debug;
    DLOCK_AUTO(dlock_client) silent = client_with(&off, "client.log_level=off");
    DLOCK_AUTO(dlock_client) quiet = client_with(&error, "client.log_level=error");
    DLOCK_AUTO(dlock_client) loud = client_with(&debug, "client.log_level=debug");
    CHECK(lose_one(silent, "level-1"));
    CHECK(lose_one(quiet, "level-2"));
    CHECK(lose_one(loud, "level-3"));
    AWAIT(strstr(debug.text, "level-3"));
    CHECK_EQ_INT(dlock_client_close(silent, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_close(quiet, NULL), DLOCK_OK);
    CHECK_EQ_INT(off.lines, 0);
    CHECK_EQ_INT(error.lines, 0); /* a loss is no error of ours */
    CHECK(debug.least <= DLOCK_LOG_DEBUG && debug.worst >= DLOCK_LOG_ERROR);
}

TEST(the_client_goes_on_while_the_sink_takes_its_time)
{
    BEGIN();
    sink s;
    DLOCK_AUTO(dlock_client) client = client_with(&s, "lock.ttl_ms=100 lock.renew=off");
    DLOCK_AUTO(dlock_lock)
    long_lock = world_lock(client, "log-long", "lock.ttl_ms=60000");
    DLOCK_AUTO(dlock_hold) held = world_take(long_lock);
    DLOCK_AUTO(dlock_hold) dying = NULL;
    s.hold_up = true;
    CHECK_EQ_INT(dlock_acquire(client, "log-dying", patience_ms(), &dying, NULL),
                 DLOCK_OK);
    AWAIT(s.entered > 0); /* the engine has lost it, and stands in the sink */
    CHECK_EQ_INT(dlock_hold_check(held), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_verify(held, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(held, NULL), DLOCK_OK);
    CHECK(api_stat(client, "losses") == 1);
    CHECK_EQ_INT(s.lines, 0); /* it still does */
    s.passed = true;
    AWAIT(s.lines == 1);
}

/* Takes a lock with an ugly name and gives it back. */
static bool take_and_release(dlock_client *client)
{
    DLOCK_AUTO(dlock_hold) hold = NULL;
    return dlock_acquire(client, "de\x1b[2Jbug\n\\", patience_ms(), &hold, NULL) ==
               DLOCK_OK &&
           dlock_hold_release(hold, NULL) == DLOCK_OK;
}

TEST(each_decision_of_a_topic_is_a_line_with_name_number_and_time)
{
    BEGIN();
    sink s;
    DLOCK_AUTO(dlock_client)
    client = client_with(&s, "client.debug=lock lock.data=canary");
    CHECK(take_and_release(client));
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    CHECK_CONTAINS(s.text, "lock: de\\x1b[2Jbug\\x0a\\\\ #1: granted after ");
    CHECK_CONTAINS(s.text, "lock: de\\x1b[2Jbug\\x0a\\\\ #1: released after ");
    CHECK(!strstr(s.text, "wait: ") && !strstr(s.text, "net: "));
    CHECK(!strstr(s.text, "canary"));
    CHECK_EQ_INT(s.least, DLOCK_LOG_DEBUG);
}

TEST(a_level_that_is_set_goes_before_the_topics_and_debug_alone_tells_none)
{
    BEGIN();
    sink quiet, plain;
    DLOCK_AUTO(dlock_client)
    warns = client_with(&quiet, "client.debug=all client.log_level=warn");
    DLOCK_AUTO(dlock_client) no_topics = client_with(&plain, "client.log_level=debug");
    CHECK(take_and_release(warns) && take_and_release(no_topics));
    CHECK_EQ_INT(dlock_client_close(warns, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_close(no_topics, NULL), DLOCK_OK);
    CHECK_EQ_INT(quiet.lines, 0);
    CHECK(!strstr(plain.text, "granted"));
}

TEST(without_a_sink_decisions_are_events_once_somebody_hears)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_conf) conf = api_conf("client.debug=lock client.events=16");
    DLOCK_AUTO(dlock_client) client = NULL;
    CHECK_OK(dlock_client_open(world_uri(), conf, &client, &err), err);
    CHECK(take_and_release(client));
    CHECK(dlock_client_next_event(client) == NULL); /* nobody did */
    CHECK(dlock_client_event_fd(client) >= 0);
    for (int i = 0; i < 16; i++)
        CHECK(take_and_release(client));
    DLOCK_AUTO(dlock_event) dropped = world_event(client, DLOCK_EVENT_OVERFLOW);
    CHECK(dropped && dlock_event_token(dropped) > 0);
    DLOCK_AUTO(dlock_event) line = world_event(client, DLOCK_EVENT_LOG);
    CHECK(line);
    CHECK_CONTAINS(dlock_event_text(line), "lock: ");
    CHECK_EQ_INT(dlock_event_token(line), DLOCK_LOG_DEBUG);
}

TEST(who_runs_the_program_has_the_last_word)
{
    BEGIN();
    sink s, wrong;
    CHECK(setenv("DLOCK_LOG", "lock", 1) == 0);
    DLOCK_AUTO(dlock_client) client = client_with(&s, "client.log_level=off");
    CHECK(setenv("DLOCK_LOG", "lock,loud", 1) == 0);
    DLOCK_AUTO(dlock_client) other = client_with(&wrong, NULL);
    CHECK(unsetenv("DLOCK_LOG") == 0);
    CHECK(take_and_release(client) && take_and_release(other));
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_close(other, NULL), DLOCK_OK);
    CHECK_CONTAINS(s.text, "granted after");
    CHECK_CONTAINS(wrong.text, "DLOCK_LOG: 'loud' is neither");
    CHECK_CONTAINS(wrong.text, "granted after");
}

TEST(what_is_granted_here_and_released_once_of_several_times_is_told)
{
    BEGIN();
    sink s;
    DLOCK_AUTO(dlock_client)
    client = client_with(&s, "client.debug=lock lock.reentrant=true");
    DLOCK_AUTO(dlock_hold) once = NULL;
    DLOCK_AUTO(dlock_hold) again = NULL;
    const char *name = "log-again-and-again";
    CHECK_EQ_INT(dlock_acquire(client, name, patience_ms(), &once, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_acquire(client, name, patience_ms(), &again, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(again, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(once, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    CHECK_CONTAINS(s.text, "#1: granted here, as its owner has it: 2 times, token ");
    CHECK_CONTAINS(s.text, "#1: released once, 1 times to go");
}

/* ---- DLOCK_LOG, where the program has no sink ---- */

static int stderr_was = -1;

static FILE *catch_stderr(void)
{
    FILE *file = tmpfile();
    stderr_was = dup(STDERR_FILENO);
    bool fine = file && stderr_was >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0;
    return harness_check(__FILE__, __LINE__, fine, "stderr is caught") ? file : NULL;
}

/* What came there meanwhile. */
static void read_stderr(FILE *file, char *text, size_t size)
{
    CHECK(file && dup2(stderr_was, STDERR_FILENO) >= 0);
    close(stderr_was);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static dlock_client *client_under(const char *log, const char *settings)
{
    bool fine = setenv("DLOCK_LOG", log, 1) == 0;
    dlock_client *client = world_client(settings);
    fine = unsetenv("DLOCK_LOG") == 0 && fine;
    return harness_check(__FILE__, __LINE__, fine, "the environment") ? client : NULL;
}

TEST(without_a_sink_it_goes_to_stderr_and_a_long_name_hides_no_decision)
{
    BEGIN();
    static char text[65536];
    char name[900];
    memset(name, '\x01', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    FILE *file = catch_stderr();
    DLOCK_AUTO(dlock_client) client = client_under("lock", NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = dlock_acquire(client, name, patience_ms(), &hold, NULL);
    dlock_err closed = dlock_client_close(client, NULL);
    read_stderr(file, text, sizeof(text));
    CHECK_EQ_INT(code, DLOCK_OK);
    CHECK_EQ_INT(closed, DLOCK_OK);
    CHECK_CONTAINS(text, "\\x01\\x01 #1: granted after ");
    CHECK(strncmp(text, "dlock ", 6) == 0 && text[strlen(text) - 1] == '\n');
}

TEST(what_a_program_hears_as_events_is_not_taken_away_nor_added_to)
{
    BEGIN();
    static char text[65536];
    static const char *const said[] = {"off", "error", "warn", "lock"};
    for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++) {
        FILE *file = catch_stderr();
        DLOCK_AUTO(dlock_client) client = client_under(said[i], NULL);
        bool fine = dlock_client_event_fd(client) >= 0 && take_and_release(client) &&
                    lose_one(client, "log-events");
        read_stderr(file, text, sizeof(text));
        CHECK(fine);
        DLOCK_AUTO(dlock_event) line = world_event(client, DLOCK_EVENT_LOG);
        CHECK(line);
        CHECK_CONTAINS(dlock_event_text(line), "log-events");
        CHECK_EQ_INT(dlock_event_token(line), DLOCK_LOG_WARN);
        CHECK((strstr(text, " warn ") != NULL) == (i >= 2));
        CHECK((strstr(text, "granted after") != NULL) == (i == 3));
    }
}

TEST(warnings_find_room_beside_however_many_decisions)
{
    BEGIN();
    DLOCK_AUTO(dlock_client)
    client = world_client("client.debug=lock client.events=16");
    CHECK(dlock_client_event_fd(client) >= 0);
    for (int i = 0; i < 16; i++)
        CHECK(take_and_release(client));
    CHECK(lose_one(client, "log-room"));
    for (;;) {
        DLOCK_AUTO(dlock_event) line = world_event(client, DLOCK_EVENT_LOG);
        CHECK(line);
        if (!line || dlock_event_token(line) == DLOCK_LOG_WARN)
            break;
    }
}

TEST(what_is_told_of_a_client_that_could_not_be_made_is_heard)
{
    sink s = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    if (!strstr(dlock_backends(), "rediss"))
        SKIP("no TLS in this build");
    DLOCK_AUTO(dlock_conf) conf = api_conf("tls.ca_file=/nonexistent");
    DLOCK_AUTO(dlock_client) client = NULL;
    CHECK_EQ_INT(dlock_conf_set_log(conf, hear, &s), DLOCK_OK);
    CHECK(setenv("DLOCK_LOG", "loud", 1) == 0);
    dlock_err code = dlock_client_open("rediss://127.0.0.1:1", conf, &client, NULL);
    CHECK(unsetenv("DLOCK_LOG") == 0);
    CHECK(code != DLOCK_OK);
    CHECK_CONTAINS(s.text, "DLOCK_LOG: 'loud' is neither");
}

TEST(a_conf_without_a_client_takes_and_drops_a_sink)
{
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    sink s;
    CHECK_EQ_INT(dlock_conf_set_log(conf, hear, &s), DLOCK_OK);
    CHECK_EQ_INT(dlock_conf_set_log(conf, NULL, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_conf_set_log(NULL, hear, &s), DLOCK_EINVAL);
}
