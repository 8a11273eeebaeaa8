/* The checker against made-up histories: a good one passes, and each rule refuses one that breaks
 * it and nothing else. Times are in ms from 1 s. */
#include "histories/checker.h"

#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(ms) (SECOND + (int64_t)(ms)*MS)

/* Two processes, workers 1 and 2, on a lock service with a lease of 2 s and a poll of 0.5 s. */
typedef struct story {
    char directory[64];
    FILE *log;
    history histories[3];
    checker judge;
    bool ended[3];
} story;

static story tale;

static void tell(int64_t ms, const char *text)
{
    fprintf(tale.log, "%lld %s\n", (long long)AT(ms), text);
}

static int claim_ms = 500;

static void begin(const char *promises)
{
    char path[128];
    memset(&tale, 0, sizeof(tale));
    strcpy(tale.directory, "/tmp/dlock-history-XXXXXX");
    if (!mkdtemp(tale.directory))
        exit(2);
    (void)snprintf(path, sizeof(path), "%s/nemesis.log", tale.directory);
    tale.log = fopen(path, "we");
    for (int i = 1; i <= 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%d", tale.directory, i);
        if (!tale.log || !history_create(&tale.histories[i], path, 1000))
            exit(2);
    }
    fprintf(tale.log,
            "%lld backend some ttl_ms=2000 poll_ms=500 claim_ms=%d clients=2 %s\n",
            (long long)AT(0), claim_ms, promises);
    tell(0, "worker 1 some 1");
    tell(0, "worker 2 some 2");
}

static void kill_worker(int worker, int64_t ms)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "dead %d status -9", worker);
    tell(ms, text);
    tale.ended[worker] = true;
}

/* Judges it, cleans up, and returns what the first violation was, "" if there was none. */
static const char *end(int64_t ms)
{
    static char first[600];
    char path[128], text[32];
    for (int i = 1; i <= 2; i++) {
        (void)snprintf(text, sizeof(text), "ended %d status 0", i);
        if (!tale.ended[i])
            tell(ms, text);
        history_close(&tale.histories[i]);
    }
    (void)fclose(tale.log);
    if (!checker_open(&tale.judge, tale.directory))
        exit(2);
    checker_finish(&tale.judge);
    strcpy(first, tale.judge.first);
    checker_close(&tale.judge);
    static const char *const files[] = {"nemesis.log", "1", "2"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", tale.directory, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(tale.directory);
    return first;
}

/* ---- What a worker notes ---- */

static history_record record(uint64_t id, int64_t ms, history_event what)
{
    return (history_record){.op = id,
                            .time = AT(ms),
                            .event = (uint8_t)what,
                            .kind = DLOCK_MUTEX,
                            .take = 1,
                            .permits = 1,
                            .wait_ms = 5000};
}

static void put(int worker, history_record what)
{
    history_fill(history_claim(&tale.histories[worker]), what);
}

static void ask(int worker, uint64_t id, int64_t ms)
{
    put(worker, record(id, ms, HISTORY_ASK));
}

static void granted(int worker, uint64_t id, int64_t ms, int64_t token)
{
    history_record r = record(id, ms, HISTORY_ANSWER);
    r.token = token;
    r.value = AT(ms + 2000);
    put(worker, r);
}

static void checked(int worker, uint64_t id, int64_t ms, dlock_err code)
{
    history_record r = record(id, ms, HISTORY_CHECK);
    r.code = (uint8_t)code;
    r.extra = r.time + 1;
    r.value = code == DLOCK_OK ? AT(ms + 1500) : 0;
    put(worker, r);
}

static void leave(int worker, uint64_t id, int64_t ms, dlock_err code)
{
    history_record r = record(id, ms + 1, HISTORY_LEFT);
    put(worker, record(id, ms, HISTORY_LEAVE));
    r.code = (uint8_t)code;
    put(worker, r);
}

static void pulse(int worker, int64_t ms, int64_t gap_ms)
{
    history_record r = record(0, ms, HISTORY_PULSE);
    r.value = gap_ms * MS;
    put(worker, r);
}

/* From a look at `ms` - 1 on. */
static void write_it(int worker, uint64_t id, int64_t ms, int64_t token, int64_t seen,
                     int64_t sequence)
{
    history_record r = record(id, ms, HISTORY_WRITE);
    r.extra = AT(ms) - MS;
    r.token = token;
    r.value = seen;
    r.sequence = sequence;
    r.take = 0; /* the page */
    put(worker, r);
}

/* Asks, gets it 10 ms later and gives it back after another 20. */
static void stay_shortly(int worker, uint64_t id, int64_t ms, int64_t token)
{
    ask(worker, id, ms);
    granted(worker, id, ms + 10, token);
    leave(worker, id, ms + 30, DLOCK_OK);
}

/* ---- Fine ---- */

TEST(a_good_history_is_accepted)
{
    begin("fifo=1 deaths=1");
    stay_shortly(1, 1, 0, 10);
    stay_shortly(2, 2, 50, 11);
    ask(1, 3, 100);
    granted(1, 3, 101, 12);
    checked(1, 3, 102, DLOCK_OK);
    write_it(1, 3, 110, 12, 0, 1);
    leave(1, 3, 120, DLOCK_OK);
    ask(2, 4, 105);
    granted(2, 4, 121, 13);
    write_it(2, 4, 130, 13, 1, 2);
    leave(2, 4, 140, DLOCK_OK);
    CHECK_STR(end(200), "");
    CHECK_EQ_INT(tale.judge.records, 19);
    CHECK_EQ_INT(tale.judge.backends[0].sums.grants, 4);
    CHECK_EQ_INT(tale.judge.backends[0].sums.writes, 2);
}

TEST(a_holder_that_was_killed_overlaps_with_nobody)
{
    begin("fifo=1 deaths=1");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    stay_shortly(2, 2, 100, 11); /* the log knows of the death only later */
    kill_worker(1, 150);
    CHECK_STR(end(200), "");
}

/* ---- Exclusion ---- */

TEST(two_holders_at_once_are_refused)
{
    begin("fifo=0 deaths=0");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    stay_shortly(2, 2, 100, 11);
    leave(1, 1, 200, DLOCK_OK);
    CHECK_CONTAINS(end(300), "hold it at once");
    CHECK_EQ_INT(tale.judge.backends[0].sums.overlaps, 1);
}

TEST(an_overlap_after_a_loss_of_state_is_counted_and_no_violation)
{
    begin("fifo=0 deaths=0");
    tell(50, "fault 0 some wipe wipe");
    tell(51, "healed 0");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    stay_shortly(2, 2, 100, 11);
    leave(1, 1, 200, DLOCK_ELOST);
    CHECK_STR(end(300), "");
    CHECK_EQ_INT(tale.judge.backends[0].sums.excused, 1);
}

TEST(an_overlap_before_the_loss_of_state_is_refused)
{
    begin("fifo=0 deaths=0");
    tell(150, "fault 0 some wipe wipe");
    tell(151, "healed 0");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    stay_shortly(2, 2, 100, 11);
    leave(1, 1, 200, DLOCK_ELOST);
    CHECK_CONTAINS(end(300), "hold it at once");
}

TEST(a_writer_beside_a_reader_is_refused)
{
    begin("fifo=0 deaths=0");
    history_record read = record(1, 10, HISTORY_ASK);
    read.kind = DLOCK_READ;
    put(1, read);
    granted(1, 1, 20, 10);
    read.op = 2;
    put(2, read);
    granted(2, 2, 20, 10); /* two readers may share a token */
    history_record write = record(3, 30, HISTORY_ASK);
    write.kind = DLOCK_WRITE;
    put(2, write);
    granted(2, 3, 40, 11);
    leave(1, 1, 50, DLOCK_OK);
    leave(2, 2, 50, DLOCK_OK);
    leave(2, 3, 60, DLOCK_OK);
    CHECK_CONTAINS(end(100), "hold it at once");
}

TEST(more_permits_than_there_are_are_refused)
{
    begin("fifo=0 deaths=0");
    for (uint64_t id = 1; id <= 3; id++) {
        history_record r = record(id, 10, HISTORY_ASK);
        r.kind = DLOCK_SEMAPHORE;
        r.permits = 5;
        r.take = 2;
        put(1, r);
    }
    granted(1, 1, 20, 0);
    granted(1, 2, 21, 0);
    granted(1, 3, 22, 0);
    for (uint64_t id = 1; id <= 3; id++)
        leave(1, id, 50, DLOCK_OK);
    CHECK_CONTAINS(end(100), "6 of 5 permits");
}

/* ---- Tokens ---- */

TEST(a_token_that_goes_back_is_refused)
{
    begin("fifo=0 deaths=0");
    stay_shortly(1, 1, 0, 11);
    stay_shortly(2, 2, 100, 10);
    CHECK_CONTAINS(end(200), "had been given before it asked");
}

TEST(a_token_given_twice_is_refused)
{
    begin("fifo=0 deaths=0");
    ask(2, 2, 0); /* before the first grant is known */
    stay_shortly(1, 1, 0, 11);
    granted(2, 2, 100, 11);
    leave(2, 2, 110, DLOCK_OK);
    CHECK_CONTAINS(end(200), "was given twice");
}

/* ---- The resource ---- */

TEST(a_lost_update_is_refused)
{
    begin("fifo=0 deaths=0");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    write_it(1, 1, 20, 10, 0, 1);
    leave(1, 1, 30, DLOCK_OK);
    ask(2, 2, 40);
    granted(2, 2, 50, 11);
    write_it(2, 2, 60, 11, 0, 2);
    leave(2, 2, 70, DLOCK_OK);
    CHECK_CONTAINS(end(200), "doesn't follow");
    CHECK_EQ_INT(tale.judge.backends[0].sums.lost_updates, 1);
}

TEST(a_stale_write_that_was_accepted_is_refused)
{
    begin("fifo=0 deaths=0");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    checked(1, 1, 20, DLOCK_ELOST);
    ask(2, 2, 40);
    granted(2, 2, 50, 11);
    write_it(2, 2, 60, 11, 0, 1);
    write_it(1, 1, 70, 10, 1, 3); /* not the next one: only the order of times tells */
    leave(2, 2, 80, DLOCK_OK);
    leave(1, 1, 90, DLOCK_ELOST);
    CHECK_CONTAINS(end(200), "was let in with token 10 after 11");
    CHECK_EQ_INT(tale.judge.backends[0].sums.stale_tried, 1);
    CHECK_EQ_INT(tale.judge.backends[0].sums.stale_accepted, 1);
}

TEST(a_stale_write_that_was_refused_is_counted)
{
    begin("fifo=0 deaths=0");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    checked(1, 1, 20, DLOCK_ELOST);
    history_record r = record(1, 60, HISTORY_WRITE);
    r.extra = AT(59);
    r.token = 10;
    r.code = HISTORY_REFUSED;
    put(1, r);
    leave(1, 1, 90, DLOCK_ELOST);
    CHECK_STR(end(200), "");
    CHECK_EQ_INT(tale.judge.backends[0].sums.stale_tried, 1);
    CHECK_EQ_INT(tale.judge.backends[0].sums.stale_refused, 1);
}

/* ---- Order and liveness ---- */

/* Worker 1 asked long before worker 2, and is passed over. */
static void overtake(const char *promises, int64_t gap_ms)
{
    begin(promises);
    ask(2, 1, 0);
    granted(2, 1, 10, 10);
    ask(1, 2, 20);
    pulse(1, 1000, 0);
    ask(2, 3, 1500);
    leave(2, 1, 1600, DLOCK_OK);
    granted(2, 3, 1602, 11);
    pulse(1, 1620, gap_ms);
    leave(2, 3, 1630, DLOCK_OK);
    granted(1, 2, 1650, 12);
    leave(1, 2, 1660, DLOCK_OK);
}

TEST(an_overtaken_waiter_of_a_fair_service_is_refused)
{
    overtake("fifo=1 deaths=1", 0);
    CHECK_CONTAINS(end(2000), "was overtaken by worker 2");
    CHECK_EQ_INT(tale.judge.backends[0].sums.overtaken, 1);
}

TEST(an_overtaken_waiter_of_the_same_client_is_refused)
{
    begin("fifo=0 deaths=1");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    ask(1, 2, 20);
    ask(1, 3, 1500);
    leave(1, 1, 1600, DLOCK_OK);
    granted(1, 3, 1602, 11);
    pulse(1, 1620, 0);
    leave(1, 3, 1630, DLOCK_OK);
    granted(1, 2, 1650, 12);
    leave(1, 2, 1660, DLOCK_OK);
    CHECK_CONTAINS(end(2000), "was overtaken by worker 1");
}

/* Worker 2 has waited from the beginning, if not with the same request. */
TEST(a_client_keeps_its_place_while_somebody_there_waits)
{
    begin("fifo=1 deaths=1");
    history_record over = record(2, 1500, HISTORY_ANSWER);
    over.code = DLOCK_ETIMEDOUT;
    ask(2, 2, 10);
    ask(1, 1, 20);
    ask(2, 3, 1400);
    put(2, over);
    granted(2, 3, 1600, 11);
    pulse(1, 1620, 0);
    leave(2, 3, 1630, DLOCK_OK);
    granted(1, 1, 1650, 12);
    leave(1, 1, 1660, DLOCK_OK);
    CHECK_STR(end(2000), "");
}

TEST(a_client_that_gives_back_what_it_had_stands_in_the_line_no_sooner)
{
    history_record over = record(1, 1604, HISTORY_LEFT);
    begin("fifo=1 deaths=1");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    ask(1, 2, 20);
    ask(2, 3, 1500);
    put(1, record(1, 1600, HISTORY_LEAVE));
    granted(2, 3, 1602, 11); /* told before worker 1 is told that its release is done */
    put(1, over);
    pulse(1, 1620, 0);
    leave(2, 3, 1630, DLOCK_OK);
    granted(1, 2, 1650, 12);
    leave(1, 2, 1660, DLOCK_OK);
    CHECK_STR(end(2000), "");
}

TEST(who_promises_no_order_may_overtake)
{
    overtake("fifo=0 deaths=1", 0);
    CHECK_STR(end(2000), "");
}

TEST(a_waiter_that_was_stopped_is_not_overtaken)
{
    overtake("fifo=1 deaths=1", 500);
    CHECK_STR(end(2000), "");
}

TEST(a_free_lock_that_nobody_gets_is_refused)
{
    begin("fifo=0 deaths=0");
    stay_shortly(1, 1, 0, 10);
    ask(2, 2, 100);
    for (int64_t ms = 200; ms < 4400; ms += 200)
        pulse(2, ms, 0);
    granted(2, 2, 4400, 11);
    leave(2, 2, 4410, DLOCK_OK);
    CHECK_CONTAINS(end(4500), "the lock is free since");
}

TEST(a_grant_that_nobody_heard_of_is_no_excuse_in_quiet_times)
{
    begin("fifo=0 deaths=0");
    stay_shortly(1, 1, 5000, 10);
    ask(2, 2, 5100);
    for (int64_t ms = 5200; ms <= 7200; ms += 200)
        pulse(2, ms, 0);
    granted(2, 2, 7210, 11); /* within lease, poll and 1 s */
    leave(2, 2, 7220, DLOCK_OK);
    CHECK_CONTAINS(end(7300), "the lock is free since");
}

/* After a death the bound is lease + poll + 1 s: an orphan that lives longer is found by who waits for it. */
TEST(a_lock_that_its_killed_holder_keeps_for_longer_than_its_lease_is_refused)
{
    begin("fifo=0 deaths=0");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    kill_worker(1, 20);
    ask(2, 2, 100);
    for (int64_t ms = 200; ms <= 6000; ms += 200)
        pulse(2, ms, 0);
    granted(2, 2, 6000, 11);
    leave(2, 2, 6010, DLOCK_OK);
    CHECK_CONTAINS(end(7000), "the lock is free since");
}

/* A grant of the stopped one's that it hasn't heard of, and then a claim for each of its clients: 2 s and
 * twice 0.5 s, each until the next look, which is 0.625 s later at most, and 1 s for the machine. */
static const char *wait_behind_who_is_stopped(const char *what, int64_t until)
{
    begin("fifo=0 deaths=0");
    tell(5000, what);
    stay_shortly(1, 1, 5100, 10);
    history_record patient = record(2, 5200, HISTORY_ASK);
    patient.wait_ms = 20000;
    put(2, patient);
    for (int64_t ms = 5300; ms <= until; ms += 100)
        pulse(2, ms, 0);
    granted(2, 2, until, 11);
    leave(2, 2, until + 10, DLOCK_OK);
    return end(until + 100);
}

TEST(who_is_stopped_may_have_a_turn_with_each_of_its_clients)
{
    CHECK_STR(wait_behind_who_is_stopped("fault 0 some stop none", 11000), "");
    CHECK_CONTAINS(wait_behind_who_is_stopped("fault 0 some stop none", 11200),
                   "the lock is free since");
    CHECK_CONTAINS(wait_behind_who_is_stopped("fault 0 some reset none", 11000),
                   "the lock is free since");
}

TEST(where_whoever_is_next_has_it_at_once_that_is_for_a_lease_each)
{
    claim_ms = 0;
    CHECK_STR(wait_behind_who_is_stopped("fault 0 some stop none", 14000), "");
    CHECK_CONTAINS(wait_behind_who_is_stopped("fault 0 some stop none", 14200),
                   "the lock is free since");
    claim_ms = 500;
}

TEST(a_service_that_is_away_excuses_a_wait)
{
    begin("fifo=0 deaths=0");
    tell(100, "fault 0 some freeze delay");
    tell(4000, "healed 0");
    stay_shortly(1, 1, 0, 10);
    ask(2, 2, 100);
    for (int64_t ms = 200; ms < 4400; ms += 200)
        pulse(2, ms, 0);
    granted(2, 2, 4400, 11);
    leave(2, 2, 4410, DLOCK_OK);
    CHECK_STR(end(4500), "");
}

TEST(a_wait_beyond_its_end_is_refused)
{
    begin("fifo=0 deaths=0");
    ask(1, 1, 0);
    granted(1, 1, 1, 10);
    ask(2, 2, 100); /* for 5 s */
    for (int64_t ms = 200; ms < 8000; ms += 200) {
        pulse(1, ms, 0);
        pulse(2, ms, 0);
        checked(1, 1, ms + 1, DLOCK_OK);
    }
    history_record r = record(2, 8000, HISTORY_ANSWER);
    r.code = DLOCK_ETIMEDOUT;
    put(2, r);
    leave(1, 1, 8010, DLOCK_OK);
    CHECK_CONTAINS(end(9000), "longer than it asked to");
}

TEST(an_acquire_without_an_answer_is_refused)
{
    begin("fifo=0 deaths=0");
    ask(1, 1, 0);
    CHECK_CONTAINS(end(100), "never answered");
}

/* ---- Loss ---- */

TEST(a_check_that_is_ok_after_a_loss_is_refused)
{
    begin("fifo=0 deaths=0");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    checked(1, 1, 20, DLOCK_ELOST);
    checked(1, 1, 30, DLOCK_OK);
    leave(1, 1, 40, DLOCK_ELOST);
    CHECK_CONTAINS(end(100), "a check was OK after the hold was over");
}

TEST(a_release_that_is_ok_after_a_loss_is_refused)
{
    begin("fifo=0 deaths=0");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    checked(1, 1, 20, DLOCK_ELOST);
    leave(1, 1, 40, DLOCK_OK);
    CHECK_CONTAINS(end(100), "a release was OK after");
}

TEST(a_loss_that_is_told_twice_is_refused)
{
    begin("fifo=0 deaths=0");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    put(1, record(1, 20, HISTORY_LOST));
    put(1, record(1, 30, HISTORY_LOST));
    leave(1, 1, 40, DLOCK_ELOST);
    CHECK_CONTAINS(end(100), "told twice");
}

TEST(a_wipe_that_is_noticed_late_is_refused)
{
    begin("fifo=0 deaths=0");
    tell(100, "fault 0 some wipe wipe");
    tell(101, "healed 0");
    ask(1, 1, 0);
    granted(1, 1, 10, 10);
    checked(1, 1, 1500, DLOCK_OK); /* within a third of the lease and 1 s */
    checked(1, 1, 1950, DLOCK_OK);
    leave(1, 1, 2000, DLOCK_ELOST);
    CHECK_CONTAINS(end(3000), "still believes in token 10");
}

/* ---- The files ---- */

TEST(what_a_killed_process_left_half_written_is_passed_over)
{
    begin("fifo=0 deaths=1");
    stay_shortly(1, 1, 0, 10);
    (void)history_claim(&tale.histories[1]);
    ask(1, 2, 40);
    kill_worker(1, 50);
    stay_shortly(2, 3, 100, 11);
    CHECK_STR(end(200), "");
    CHECK_EQ_INT(tale.judge.records, 9);
}

TEST(a_log_that_can_not_be_read_is_refused)
{
    begin("fifo=0 deaths=1");
    tell(10, "murder 1");
    CHECK_CONTAINS(end(20), "the log can't be read");
}

static int64_t judged_so_far(void)
{
    checker_read(&tale.judge, false);
    return tale.judge.records;
}

/* While it runs, nothing is judged that something earlier may still come before. */
TEST(a_running_history_is_judged_as_far_as_it_is_complete)
{
    const history_record opened = {.event = HISTORY_OPENED};
    begin("fifo=0 deaths=0");
    (void)fflush(tale.log);
    CHECK(checker_open(&tale.judge, tale.directory));
    history_note(&tale.histories[1], opened);
    CHECK_EQ_INT(judged_so_far(), 1);
    history_record *slot = history_claim(&tale.histories[2]), late = opened;
    late.time = history_now();
    history_note(&tale.histories[1], opened);
    CHECK_EQ_INT(judged_so_far(),
                 1); /* worker 2 may be about to tell of something earlier */
    history_fill(slot, late);
    CHECK_EQ_INT(judged_so_far(), 3);
    checker_close(&tale.judge);
    CHECK_STR(end(200), "");
}
