/* dlock_hold_guard: which of the five steps run, in which order, and what it answers. */
#include "world.h"

#include <stddef.h>
#include <string.h>

/* What the steps write down, and what they are to do. */
typedef struct script {
    char trace[16];
    dlock_err prepare, run, commit;
    int64_t token;
    dlock_hold *hold;
    const char *lose_in; /* the step in which the lock is lost, by its letter */
    const char *release_in;
    const char *name;
} script;

static void note(script *s, char letter)
{
    size_t used = strlen(s->trace);
    s->trace[used] = letter;
    s->trace[used + 1] = '\0';
    if (s->lose_in && s->lose_in[0] == letter)
        (void)world_lose(s->name, s->hold);
    if (s->release_in && s->release_in[0] == letter)
        (void)dlock_hold_release(s->hold, NULL);
}

static dlock_err prepare(void *user)
{
    note(user, 'p');
    return ((script *)user)->prepare;
}

static dlock_err run(void *user)
{
    note(user, 'r');
    return ((script *)user)->run;
}

static dlock_err commit(void *user, int64_t token)
{
    note(user, 'c');
    ((script *)user)->token = token;
    return ((script *)user)->commit;
}

static void undo(void *user)
{
    note(user, 'u');
}

static void lost(void *user)
{
    note(user, 'l');
}

static const dlock_guarded table = {.size = sizeof(table),
                                    .prepare = prepare,
                                    .run = run,
                                    .commit = commit,
                                    .undo = undo,
                                    .lost = lost};

TEST(the_steps_run_in_order_and_the_answer_follows_from_theirs)
{
    BEGIN();
    static const struct {
        dlock_err prepare, run, commit;
        const char *lose_in, *release_in;
        const char *trace;
        dlock_err answer;
    } cases[] = {
        {DLOCK_OK, DLOCK_OK, DLOCK_OK, NULL, NULL, "prc", DLOCK_OK},
        {DLOCK_EINVAL, DLOCK_OK, DLOCK_OK, NULL, NULL, "p", DLOCK_EUSER},
        {DLOCK_ELOST, DLOCK_OK, DLOCK_OK, NULL, NULL, "p", DLOCK_EUSER},
        {DLOCK_OK, DLOCK_EUSER, DLOCK_OK, NULL, NULL, "pru", DLOCK_EUSER},
        {DLOCK_OK, DLOCK_ELOST, DLOCK_OK, NULL, NULL, "pru", DLOCK_EUSER},
        {DLOCK_OK, DLOCK_OK, DLOCK_ELOST, NULL, NULL, "prcul", DLOCK_ELOST},
        {DLOCK_OK, DLOCK_OK, DLOCK_ENOMEM, NULL, NULL, "prcu", DLOCK_EUSER},
        {DLOCK_OK, DLOCK_OK, DLOCK_OK, "p", NULL, "prul", DLOCK_ELOST},
        {DLOCK_OK, DLOCK_OK, DLOCK_OK, "r", NULL, "prul", DLOCK_ELOST},
        {DLOCK_OK, DLOCK_OK, DLOCK_OK, "c", NULL, "prc", DLOCK_OK}, /* it was in time */
        {DLOCK_OK, DLOCK_OK, DLOCK_OK, NULL, "r", "prul", DLOCK_ELOST},
    };
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, "lock.owner=none");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        DLOCK_AUTO(dlock_error) err = NULL;
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        script s = {.prepare = cases[i].prepare,
                    .run = cases[i].run,
                    .commit = cases[i].commit,
                    .lose_in = cases[i].lose_in,
                    .release_in = cases[i].release_in,
                    .hold = hold,
                    .name = __func__};
        CHECK_ERR(dlock_hold_guard(hold, &table, &s, &err), cases[i].answer, err);
        CHECK_STR(s.trace, cases[i].trace);
        CHECK_EQ_INT(dlock_error_code(err), cases[i].answer);
        CHECK(!strchr(s.trace, 'c') || s.token == dlock_hold_token(hold));
        /* It never releases. */
        bool still = !cases[i].lose_in && !cases[i].release_in;
        CHECK_EQ_INT(dlock_hold_check(hold) == DLOCK_OK, still);
    }
}

TEST(a_lock_lost_before_it_begins_runs_nothing_but_lost)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    script s = {.hold = hold};
    CHECK(world_lose(__func__, hold));
    CHECK_ERR(dlock_hold_guard(hold, &table, &s, &err), DLOCK_ELOST, err);
    CHECK_STR(s.trace, "l");
    s.trace[0] = '\0';
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    CHECK_ERR(dlock_hold_guard(hold, &table, &s, &err), DLOCK_ENOTHELD, err);
    CHECK_STR(s.trace, "");
}

static dlock_err outlast(void *user)
{
    script *s = user;
    note(s, 'r');
    while (dlock_hold_check(s->hold) == DLOCK_OK) /* by the clock: asks nobody */
        nap_ms(1);
    return DLOCK_OK;
}

static void outlasts(const char *name, int64_t ttl_ms)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client_of(ttl_ms, "lock.renew=off");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, name, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    script s = {.hold = hold};
    dlock_guarded slow = table;
    slow.run = outlast;
    CHECK_ERR(dlock_hold_guard(hold, &slow, &s, &err), DLOCK_ELOST, err);
    if (strcmp(s.trace, "l") == 0) /* over before it began */
        TOO_SLOW();
    CHECK_STR(s.trace, "prul");
    CHECK_CONTAINS(dlock_error_text(err), "lost");
}

TEST(work_that_outlasts_the_validity_is_undone_and_never_committed)
{
    BEGIN();
    WITH_LEASE_FROM(120, outlasts);
}

TEST(optional_steps_may_be_missing_run_and_commit_may_not)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    script s = {.hold = hold};
    dlock_guarded least = {.size = sizeof(least), .run = run, .commit = commit};
    CHECK_OK(dlock_hold_guard(hold, &least, &s, &err), err);
    CHECK_STR(s.trace, "rc");
    s = (script){.hold = hold, .run = DLOCK_EUSER};
    CHECK_ERR(dlock_hold_guard(hold, &least, &s, &err), DLOCK_EUSER, err);
    s = (script){.hold = hold, .commit = DLOCK_ELOST};
    CHECK_ERR(dlock_hold_guard(hold, &least, &s, &err), DLOCK_ELOST, err);
    s = (script){.hold = hold};
    dlock_guarded no_run = {.size = sizeof(no_run), .commit = commit};
    dlock_guarded no_commit = {.size = sizeof(no_commit), .run = run};
    CHECK_ERR(dlock_hold_guard(hold, &no_run, &s, &err), DLOCK_EINVAL, err);
    CHECK_ERR(dlock_hold_guard(hold, &no_commit, &s, &err), DLOCK_EINVAL, err);
    CHECK_ERR(dlock_hold_guard(hold, NULL, &s, &err), DLOCK_EINVAL, err);
    CHECK_ERR(dlock_hold_guard(NULL, &table, &s, &err), DLOCK_EINVAL, err);
    CHECK_STR(s.trace, "");
}

TEST(the_size_says_which_members_the_caller_knows)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    script s = {.hold = hold, .run = DLOCK_EUSER};
    dlock_guarded old = table;
    old.size = offsetof(dlock_guarded, undo); /* a caller from before there was undo */
    CHECK_ERR(dlock_hold_guard(hold, &old, &s, &err), DLOCK_EUSER, err);
    CHECK_STR(s.trace, "pr");
    s = (script){.hold = hold};
    struct {
        dlock_guarded known;
        void *newer[4];
    } newer = {.known = table, .newer = {(void *)&s, (void *)&s, NULL, NULL}};
    newer.known.size = sizeof(newer); /* a caller from a later version */
    CHECK_OK(dlock_hold_guard(hold, &newer.known, &s, &err), err);
    CHECK_STR(s.trace, "prc");
    static const size_t too_small[] = {0, 1, sizeof(size_t),
                                       offsetof(dlock_guarded, commit)};
    for (size_t i = 0; i < sizeof(too_small) / sizeof(*too_small); i++) {
        old.size = too_small[i];
        CHECK_ERR(dlock_hold_guard(hold, &old, &s, &err), DLOCK_EINVAL, err);
    }
}

static dlock_err use_the_library(void *user)
{
    script *s = user;
    note(s, 'r');
    DLOCK_AUTO(dlock_hold) again = NULL;
    dlock_err code = dlock_hold_check(s->hold);
    if (code == DLOCK_OK)
        code = dlock_hold_verify(s->hold, NULL);
    if (code == DLOCK_OK)
        code = dlock_hold_extend(s->hold, 60000, NULL);
    return code;
}

TEST(the_steps_run_on_the_callers_thread_and_may_use_the_library)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    script s = {.hold = hold};
    dlock_guarded busy = table;
    busy.run = use_the_library;
    CHECK_OK(dlock_hold_guard(hold, &busy, &s, &err), err);
    CHECK_STR(s.trace, "prc");
    CHECK(err == NULL);
}
