/* What a lease is used for, by our own clock, at a member of the test's (fake_wire.h). */
#include "fake_wire.h"

/* Through a whole life: who drives sleeps until the moment that is named, and no longer than that. */
TEST(whatever_a_session_does_by_the_clock_it_names_the_moment_of)
{
    CHECK(open_it(DLOCK_MUTEX));
    w.type->start(w.backend, w.now);
    int64_t since = w.now;
    CHECK(to_alarm()); /* no name server answers: the other member's name */
    CHECK_EQ_INT(w.now - since, CONNECT_MS * MS);
    CHECK_EQ_INT(w.downs, 0);
    CHECK(to_alarm());
    CHECK_EQ_INT(there.lookups, 2);
    CHECK_EQ_INT(w.downs, 1);
    since = w.now;
    CHECK(to_alarm()); /* from the beginning, after a pause */
    CHECK_EQ_INT(there.lookups, 3);
    CHECK(w.now - since < CONNECT_MS * MS);
    there.found = true;
    (void)tick();
    serve();
    CHECK(w.up);
    for (int i = 0; i < 2; i++) {
        CHECK(to_alarm());
        CHECK_EQ_INT(count_asked(ASK_KEEP), 1);
        serve();
        CHECK(w.up);
    }
    CHECK(to_alarm());
    CHECK_EQ_INT(count_asked(ASK_KEEP), 1);
    CHECK_EQ_INT(w.downs, 1);
    CHECK(to_alarm()); /* nobody answers: its time is up, and the member given up */
    CHECK_EQ_INT(w.downs, 2);
    end();
}

/* Who was before it may have gone before it watched; of a watch that is to begin there etcd tells up to 100 ms
 * later, also of what comes meanwhile, and of one that begins now never. */
TEST(who_waits_looks_once_more_when_its_watch_begins_in_the_past)
{
    for (int past = 0; past < 2; past++) {
        CHECK(begin_with(DLOCK_MUTEX));
        there.other = true;
        CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_HELD);
        CHECK_EQ_INT(there.watches_from, 0);
        int64_t seen = there.revision;
        int notified = w.notified, requests = there.requests;
        there.other = false;
        CHECK(say_it_watches(seen + past));
        CHECK_EQ_INT(w.notified - notified, past);
        CHECK_EQ_INT(ask(DLK_ACQUIRE), past ? DLK_YES : DLK_HELD);
        CHECK_EQ_INT(there.requests - requests, past);
        end();
    }
}

/* … and once, if he is still there. */
TEST(who_has_looked_in_vain_goes_on_watching)
{
    CHECK(begin_with(DLOCK_MUTEX));
    there.other = true;
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_HELD);
    CHECK(say_it_watches(there.revision + 5));
    int requests = there.requests;
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_HELD);
    CHECK_EQ_INT(there.requests - requests, 1);
    end();
}

/* Its answer is of before the watch stood, and may come behind the watch's: neither tells what lies between. */
TEST(a_look_that_was_under_way_when_the_watch_stood_is_not_the_last)
{
    CHECK(begin_with(DLOCK_MUTEX));
    there.other = true;
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_HELD);
    pass(LEASE_MS / 2); /* nobody has said that it watches, so it looks again */
    there.held[ASK_TXN] = true;
    dlk_ask late = make(DLK_ACQUIRE, false, 60000);
    put(&late);
    serve();
    CHECK_EQ_INT(count_asked(ASK_TXN), 1);
    CHECK(say_it_watches(there.revision + 5));
    there.held[ASK_TXN] = false;
    serve();
    CHECK_EQ_INT(late.reply, DLK_HELD);
    CHECK_EQ_INT(there.watches, 2); /* another, which is looked behind */
    end();
}

static dlk_reply kept_as(dlk_verb verb, dlk_etcd_end end)
{
    bool refuses =
        end == DLK_ETCD_DENIED || end == DLK_ETCD_NO_TOKEN || end == DLK_ETCD_BUSY;
    return end == DLK_ETCD_OK             ? DLK_YES
           : refuses && verb == DLK_RENEW ? DLK_REFUSED
                                          : DLK_UNKNOWN;
}

/* Else it is tried again only when its time is up, and that is much of what is left of the lease. */
TEST(whoever_keeps_a_lock_is_answered_at_once_however_the_request_ends)
{
    static const dlock_kind kinds[] = {DLOCK_MUTEX, DLOCK_WRITE, DLOCK_ELECTION};
    static const dlk_verb verbs[] = {DLK_RENEW, DLK_VERIFY};
    for (unsigned i = 0; i < 6u * (DLK_ETCD_BAD + 1); i++) {
        dlk_etcd_end how = (dlk_etcd_end)(i / 6);
        dlk_verb verb = verbs[i & 1];
        CHECK(begin_with(kinds[i / 2 % 3]));
        CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
        there.ends[ASK_READ] = how;
        CHECK_EQ_INT(ask(verb), kept_as(verb, how));
        there.ends[ASK_READ] = DLK_ETCD_OK;
        pass(LEASE_MS / 2); /* the lease is renewed first */
        there.ends[ASK_KEEP] = how;
        CHECK(ask(DLK_RENEW) != DLK_PENDING);
        end();
    }
}

/* Whoever was cut off comes back. */
static void come_back(void)
{
    for (int tries = 0; tries < 10 && !w.up; tries++) {
        int64_t due = tick();
        serve();
        if (due != DLK_NEVER && due > w.now)
            w.now = due;
    }
    CHECK(w.up);
}

/* … and what it may have left at the server it finds there, or takes away. */
TEST(whoever_takes_or_gives_back_a_lock_is_answered_at_once_however_a_request_ends)
{
    static const dlock_kind kinds[] = {DLOCK_MUTEX, DLOCK_WRITE, DLOCK_ELECTION};
    static const fake_ask asks[] = {ASK_KEEP, ASK_TXN};
    for (unsigned i = 0; i < 12u * (DLK_ETCD_BAD + 1); i++) {
        dlk_etcd_end how = (dlk_etcd_end)(i / 12);
        fake_ask what = asks[i & 1];
        CHECK(begin_with(kinds[i / 4 % 3]));
        if (i & 2)
            pass(LEASE_MS / 2); /* the lease is renewed first */
        there.ends[what] = how;
        dlk_reply taken = ask(DLK_ACQUIRE);
        CHECK(taken != DLK_PENDING && taken != DLK_HELD);
        dlk_reply given = ask(DLK_RELEASE);
        CHECK(given != DLK_PENDING);
        there.ends[what] = DLK_ETCD_OK;
        come_back();
        if (given == DLK_UNKNOWN || given == DLK_NOT_SENT || given == DLK_REFUSED) {
            bool had = taken == DLK_YES || taken == DLK_UNKNOWN;
            dlk_reply again = ask(DLK_RELEASE);
            CHECK(again == DLK_YES || (again == DLK_NOT_OURS && !had));
        }
        CHECK_EQ_INT(ask(DLK_RELEASE), DLK_NOT_OURS);
        CHECK_EQ_INT(there.made, 0);
        end();
    }
}

/* What an earlier one of ours has left in its place is taken away first. */
TEST(whoever_finds_an_older_key_is_answered_at_once_when_taking_it_away_is_cut_off)
{
    CHECK(begin_with(DLOCK_WRITE));
    there.made = there.revision;
    there.well = 1;
    there.ends[ASK_TXN] = DLK_ETCD_CUT;
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_UNKNOWN);
    CHECK_EQ_INT(there.made, 0);
    there.ends[ASK_TXN] = DLK_ETCD_OK;
    come_back();
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    CHECK_EQ_INT(ask(DLK_RELEASE), DLK_YES);
    end();
}

/* By a ticket of the giver's key, which is the only one there. */
static dlk_reply import_of(const char *owner)
{
    dlk_ask one = make(DLK_IMPORT, false, 60000);
    one.text = owner;
    put(&one);
    serve();
    dlk_error_clear(&one.error);
    return one.reply;
}

TEST(whoever_imports_a_lock_is_answered_at_once_however_the_request_ends)
{
    for (int how = DLK_ETCD_OK; how <= DLK_ETCD_BAD; how++) {
        CHECK(begin_with(DLOCK_MUTEX));
        there.key = dlk_etcd_bytes_copy("n/9", 3);
        there.value = "giver:1\n";
        there.made = there.revision;
        there.ends[ASK_TXN] = (dlk_etcd_end)how;
        dlk_reply first = import_of("giver:1");
        CHECK(first != DLK_PENDING && first != DLK_NOT_OURS);
        there.ends[ASK_TXN] = DLK_ETCD_OK;
        come_back();
        CHECK(import_of("giver:1") != DLK_PENDING);
        end();
    }
}

/* A renewal of the lease that comes meanwhile, or did before, says nothing of that. */
TEST(a_writer_reads_only_when_its_key_says_so)
{
    CHECK(begin_with(DLOCK_WRITE));
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    pass(LEASE_MS / 2);
    CHECK_EQ_INT(ask(DLK_RENEW), DLK_YES); /* the lease was renewed for it */
    pass(LEASE_MS / 5); /* the next time comes before the request's time is up */
    there.held[ASK_TXN] = true;
    dlk_ask turn = make(DLK_RENEW, true, 60000);
    put(&turn);
    serve();
    CHECK_EQ_INT(count_asked(ASK_TXN), 1);
    CHECK_EQ_INT(turn.reply, DLK_PENDING);
    int before = there.requests;
    CHECK(to_alarm());
    CHECK_EQ_INT(count_asked(ASK_KEEP), 1);
    serve();
    CHECK_EQ_INT(there.requests, before + 1); /* of the lease alone */
    CHECK_EQ_INT(turn.reply, DLK_PENDING);
    there.held[ASK_TXN] = false;
    serve();
    CHECK_EQ_INT(turn.reply, DLK_YES);
    end();
}

/* ---- answers that come late ---- */

TEST(a_question_whose_time_was_up_is_left_alone_by_its_answer)
{
    driven_answers_late(begin_with, end);
}
