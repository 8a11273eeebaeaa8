/* What befalls a place, with a service that only notes what is wanted of it. */
#include "harness/harness.h"

#include "session/session.h"
#include "util/error.h"

#include <malloc.h>
#include <stdlib.h>

enum { MANY = 8 };

/* A service's own place. */
typedef struct spot {
    dlk_place base;
    bool there;
} spot;

static dlk_session session;
static dlk_host host;
static dlk_key key;
static dlk_ask asks[MANY];
static int count, left, closed, answered, lost, downs, lines;
static dlk_report *report;
static bool watched;
static dlk_ask *again; /* is asked from inside the next answer */

static spot *spot_of(dlk_place *place)
{
    return (spot *)(void *)place;
}

/* ---- the service ---- */

static bool is_up(const dlk_session *of)
{
    (void)of;
    return true;
}

static dlock_err line_open(dlk_line *line, const dlk_key *of, dlock_error **err)
{
    (void)line, (void)of, (void)err;
    lines++;
    return DLOCK_OK;
}

static void line_close(dlk_line *line)
{
    (void)line;
    lines--;
    CHECK(!watched); /* a watch knows whom it is for */
}

static void line_watch(dlk_line *line, bool on)
{
    (void)line;
    watched = on;
}

static void place_open(dlk_place *place, const dlk_ask *ask)
{
    (void)place, (void)ask;
}

static void place_close(dlk_place *place)
{
    (void)place;
    closed++;
}

static bool is_nowhere(const dlk_place *place)
{
    return !((const spot *)(const void *)place)->there;
}

static void take(dlk_place *place, int64_t now)
{
    (void)now;
    spot_of(place)->there = true;
}

static void wait(dlk_place *place, int64_t now)
{
    (void)place, (void)now;
}

static void leave(dlk_place *place, int64_t now)
{
    (void)place, (void)now;
    left++;
}

static void forget(dlk_place *place, int64_t now)
{
    (void)now;
    spot_of(place)->there = false;
    if (place->granted && !place->leaving)
        dlk_place_lost(place);
}

static void report_open(dlk_report *of, int64_t now)
{
    (void)now;
    of->calls++;
    report = of;
}

static void report_close(dlk_report *of)
{
    (void)of;
}

static const dlk_session_type type = {
    .is_up = is_up,
    .line_size = sizeof(dlk_line),
    .line_open = line_open,
    .line_close = line_close,
    .line_watch = line_watch,
    .place_size = sizeof(spot),
    .place_open = place_open,
    .place_close = place_close,
    .is_nowhere = is_nowhere,
    .take = take,
    .keep = wait,
    .verify = wait,
    .leave = leave,
    .forget = forget,
    .report_size = sizeof(dlk_report),
    .report_open = report_open,
    .report_close = report_close,
};

/* ---- whom it tells ---- */

static void on_answered(dlk_host *of, dlk_ask *ask)
{
    dlk_ask *next = again;
    (void)of, (void)ask;
    answered++;
    again = NULL;
    if (next)
        dlk_session_ask(&session.backend, next, 0);
}

static void on_lost(dlk_host *of, dlk_key *which, uint64_t number)
{
    (void)of;
    CHECK(which == &key && number == 1);
    lost++;
}

static void on_link(dlk_host *of, bool up, const dlock_error *why)
{
    (void)of;
    CHECK(!up && why == session.why_down);
    downs++;
}

static void on_notified(dlk_host *of, dlk_key *which)
{
    (void)of;
    CHECK(which == &key);
}

/* ---- what the tests do ---- */

static void begin(void)
{
    static const dlk_backend_type backend = {.name = "noted"};
    host = (dlk_host){.tell = &dlk_tell_nobody,
                      .answered = on_answered,
                      .lost = on_lost,
                      .link = on_link,
                      .notified = on_notified};
    key = (dlk_key){.name = "a", .size = 1, .kind = DLOCK_MUTEX};
    count = left = closed = answered = lost = downs = lines = 0;
    again = NULL;
    dlk_session_init(&session, &backend, &type, &host);
    CHECK(dlk_session_key_open(&session.backend, &key, NULL) == DLOCK_OK);
}

static dlk_ask *make(dlk_verb verb)
{
    dlk_ask *ask = &asks[count++];
    *ask = (dlk_ask){.verb = verb, .key = &key, .number = 1, .deadline = INT64_MAX};
    return ask;
}

static dlk_ask *ask_for(dlk_verb verb)
{
    dlk_ask *ask = make(verb);
    dlk_session_ask(&session.backend, ask, 0);
    return ask;
}

static dlk_place *granted(void)
{
    (void)ask_for(DLK_ACQUIRE);
    dlk_place *place = dlk_place_find(dlk_line_of(&key), 1);
    place->granted = true;
    dlk_place_answer(place, &place->take, DLK_YES, NULL);
    return place;
}

TEST(a_loss_that_no_answer_tells_is_told_to_the_host_and_once)
{
    begin();
    (void)granted();
    dlk_places_forget(&session, NULL, 0);
    CHECK_EQ_INT(lost, 1);
    CHECK_EQ_INT(closed, 1);
    dlk_session_key_close(&session.backend, &key);

    static const struct {
        dlk_verb verb;
        dlk_reply reply;
        int lost; /* who verifies may listen no more, so it is told besides */
    } told[] = {{DLK_RENEW, DLK_NOT_OURS, 0},
                {DLK_VERIFY, DLK_NOT_OURS, 1},
                {DLK_ACQUIRE, DLK_NOT_SENT, 0}};
    for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++) {
        begin();
        (void)granted();
        const dlk_ask *ask = ask_for(told[i].verb);
        dlk_places_forget(&session, NULL, 0);
        CHECK_EQ_INT(ask->reply, told[i].reply);
        CHECK_EQ_INT(lost, told[i].lost);
        CHECK_EQ_INT(closed, 1);
        dlk_session_key_close(&session.backend, &key);
    }
}

/* Its caller may have gone meanwhile, and then nobody hears the answer. */
TEST(a_loss_that_only_a_verify_is_answered_with_is_told_to_the_host)
{
    begin();
    (void)granted();
    const dlk_ask *verify = ask_for(DLK_VERIFY);
    dlk_places_forget(&session, NULL, 0);
    CHECK_EQ_INT(verify->reply, DLK_NOT_OURS);
    CHECK_EQ_INT(lost, 1);
    CHECK_EQ_INT(closed, 1);
    dlk_session_key_close(&session.backend, &key);
}

TEST(what_is_given_back_isnt_lost_and_ends_with_the_session)
{
    begin();
    (void)granted();
    const dlk_ask *give = ask_for(DLK_RELEASE);
    CHECK_EQ_INT(left, 1);
    CHECK_EQ_INT(give->reply, DLK_PENDING);
    dlk_places_forget(&session, NULL, 0);
    CHECK_EQ_INT(give->reply, DLK_NOT_OURS);
    CHECK_EQ_INT(lost, 0);
    CHECK_EQ_INT(closed, 1);
    dlk_session_key_close(&session.backend, &key);
}

TEST(a_name_that_is_closed_gives_its_places_back)
{
    begin();
    dlk_place *place = granted();
    dlk_session_key_close(&session.backend, &key);
    CHECK_EQ_INT(left, 1);
    CHECK(place->leaving && !place->line->key);
    dlk_places_sweep(&session, 0);
    CHECK_EQ_INT(left, 2);
    dlk_places_forget(&session, NULL, 0);
    CHECK_EQ_INT(lost, 0);
    CHECK_EQ_INT(closed, 1);
}

TEST(a_name_goes_with_the_last_that_is_about_it)
{
    begin();
    (void)ask_for(DLK_ACQUIRE);
    const dlk_ask *inspect = ask_for(DLK_INSPECT);
    dlk_session_key_close(&session.backend, &key);
    dlk_report_settle(report);
    CHECK_EQ_INT(inspect->reply, DLK_UNKNOWN);
    CHECK_EQ_INT(lines, 1);
    dlk_places_forget(&session, NULL, 0);
    CHECK_EQ_INT(lines, 0);
}

TEST(nothing_watches_for_a_name_that_is_closed)
{
    begin();
    dlk_session_watch(&session.backend, &key, true, 0);
    CHECK(watched);
    dlk_session_key_close(&session.backend, &key);
    CHECK(!watched);
}

/* Counts what is in use, where the allocator can say. */
TEST(of_why_the_link_is_down_the_last_reason_is_kept)
{
    enum { TIMES = 1000 };
    begin();
    dlk_session_key_close(&session.backend, &key);
    dlk_session_down(&session, dlk_error_make(DLOCK_EUNAVAIL, "down"));
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < TIMES; i++)
        dlk_session_down(&session, dlk_error_make(DLOCK_EUNAVAIL, "down"));
    CHECK(mallinfo2().uordblks < before + TIMES);
    CHECK_EQ_INT(downs, 1 + TIMES);
    dlk_session_clear(&session);
    CHECK(session.why_down == NULL);
}

TEST(whoever_is_answered_may_ask_anew_from_inside)
{
    begin();
    (void)ask_for(DLK_ACQUIRE);
    again = make(DLK_ACQUIRE);
    dlk_places_forget(&session, NULL, 0);
    CHECK_EQ_INT(asks[0].reply, DLK_NOT_SENT);
    CHECK_EQ_INT(asks[1].reply, DLK_PENDING);
    CHECK_EQ_INT(closed, 0);
    dlk_place_drop(&asks[1]);
    dlk_flight_answer_all(&session.flight, DLK_UNKNOWN);
    dlk_places_forget(&session, NULL, 0);
    CHECK_EQ_INT(closed, 1);
    dlk_session_key_close(&session.backend, &key);
}
