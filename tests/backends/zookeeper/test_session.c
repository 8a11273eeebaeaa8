/* What a session is used for, by our own clock, and what is believed of what it lost, behind a wire of the
 * test's (fake_wire.h). */
#include "fake_wire.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

/* ---- past its end by our own clock ---- */

/* The servers have kept it for longer, as after an election; and the process was stopped, or busy: what
 * the library brings is the first that is heard, no tick came before. */
TEST(a_session_that_is_over_by_our_own_clock_is_not_used_though_the_servers_have_kept_it)
{
    for (int at_once = 0; at_once < 2; at_once++) {
        CHECK(begin());
        CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
        if (!at_once) {
            pass(1);
            bring(DLK_ZK_DISCONNECTED, 0);
            process();
            CHECK(!w.up);
        }
        pass(SESSION_MS);
        int before = there.requests;
        if (at_once)
            bring(DLK_ZK_DISCONNECTED, 0);
        bring(DLK_ZK_CONNECTED, SESSION);
        process();
        serve();
        CHECK(!w.up);
        CHECK_EQ_INT(there.requests, before);
        CHECK_EQ_INT(there.closed, 1);
        CHECK_EQ_INT(w.lost, 1);
        CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_NOT_SENT);
        CHECK(to_alarm()); /* the next try */
        CHECK_EQ_INT(there.opened, 2);
        bring(DLK_ZK_CONNECTED, SESSION + 1);
        process();
        serve();
        CHECK(w.up);
        end();
    }
}

TEST(a_session_that_was_proved_to_live_so_shortly_before_is_gone_on_with)
{
    CHECK(begin());
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    pass(SESSION_MS - 1);
    bring(DLK_ZK_DISCONNECTED, 0);
    bring(DLK_ZK_CONNECTED, SESSION);
    process();
    serve();
    CHECK(w.up);
    CHECK_EQ_INT(there.closed, 0);
    CHECK_EQ_INT(w.lost, 0);
    CHECK_EQ_INT(ask(DLK_RENEW), DLK_YES);
    end();
}

/* Nothing of ours hangs on it: it saves a hand-shake. */
TEST(a_session_with_nothing_in_it_is_gone_on_with_however_late)
{
    CHECK(begin());
    pass(10 * SESSION_MS);
    bring(DLK_ZK_DISCONNECTED, 0);
    bring(DLK_ZK_CONNECTED, SESSION);
    process();
    serve();
    CHECK(w.up);
    CHECK_EQ_INT(there.closed, 0);
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    end();
}

/* Where the tick comes first it is that which ends the session. */
TEST(a_session_that_is_over_while_nobody_answers_is_ended_by_the_tick)
{
    CHECK(begin());
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    bring(DLK_ZK_DISCONNECTED, 0);
    process();
    pass(SESSION_MS - 1);
    (void)tick();
    CHECK_EQ_INT(there.closed, 0);
    pass(1);
    (void)tick();
    CHECK_EQ_INT(there.closed, 1);
    CHECK_EQ_INT(w.lost, 1);
    end();
}

/* ---- when it wants to be called ---- */

/* Through a whole life: who drives sleeps until the moment that is named, and no longer than that. */
TEST(whatever_a_session_does_by_the_clock_it_names_the_moment_of)
{
    CHECK(open_it(DLOCK_MUTEX));
    there.full = true;
    w.type->start(w.backend, w.now);
    CHECK_EQ_INT(w.downs, 1);
    int64_t since = w.now;
    CHECK(to_alarm()); /* the next try: none can be opened */
    CHECK_EQ_INT(w.downs, 2);
    there.full = false;
    CHECK(to_alarm());
    CHECK_EQ_INT(there.opened, 1);
    CHECK(w.now - since < CONNECT_MS * MS);
    CHECK(to_alarm()); /* nobody has answered */
    CHECK_EQ_INT(w.downs, 3);
    CHECK(to_alarm());
    CHECK_EQ_INT(w.downs, 4);
    bring(DLK_ZK_CONNECTED, SESSION);
    process();
    CHECK(to_alarm()); /* connected, and it says nothing */
    CHECK_EQ_INT(w.downs, 5);
    serve();
    CHECK(w.up);
    (void)tick();
    CHECK_EQ_INT(tick(), DLK_NEVER); /* there is nothing to lose */
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    int before = there.requests;
    CHECK(to_alarm()); /* asks the leader whether it lives */
    CHECK_EQ_INT(there.requests, before + 1);
    serve();
    since = w.now;
    bring(DLK_ZK_DISCONNECTED, 0);
    process();
    while (there.closed == 0 && !harness_failed())
        CHECK(to_alarm());
    CHECK_EQ_INT(w.now - since, SESSION_MS * MS);
    CHECK_EQ_INT(w.lost, 1);
    since = w.now;
    CHECK(to_alarm());
    CHECK_EQ_INT(there.opened, 2);
    CHECK(w.now - since < CONNECT_MS * MS);
    bring(DLK_ZK_CONNECTED, SESSION);
    process();
    serve();
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES); /* nothing of what was is left */
    CHECK_EQ_INT(there.made, 2);
    end();
}

/* ---- whoever waits ---- */

/* Every other call would be a request for nothing, of every waiter there is. */
TEST(a_waiter_is_called_when_the_one_before_it_goes_and_for_nothing_else)
{
    static char ahead[] = "/n/_c_00000000-0000-4000-8000-000000000000-lock-0000000000";
    CHECK(begin());
    there.beside = ahead;
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_HELD);
    static const char *const others[] = {"/n", "/o", "/n/x"};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        bring_of(DLK_ZK_CHANGED, 0, others[i]);
    bring_of(DLK_ZK_CHANGED, 0, there.node);
    process();
    CHECK_EQ_INT(w.notified, 0);
    bring_of(DLK_ZK_CHANGED, 0, ahead);
    process();
    CHECK_EQ_INT(w.notified, 1);
    bring_of(DLK_ZK_CHANGED, 0, ahead); /* it has looked away since */
    process();
    CHECK_EQ_INT(w.notified, 1);
    there.beside = NULL;
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    end();
}

/* ---- how a request ends ---- */

static dlk_reply kept_as(dlk_zk_end end)
{
    return end == DLK_ZK_OK        ? DLK_YES
           : end == DLK_ZK_NO_NODE ? DLK_NOT_OURS
                                   : DLK_UNKNOWN;
}

/* Else it is tried again only when its time is up, and that is much of what is left of the lease. */
TEST(whoever_keeps_a_lock_is_answered_at_once_however_the_request_ends)
{
    static const dlock_kind kinds[] = {DLOCK_MUTEX, DLOCK_WRITE};
    static const dlk_verb verbs[] = {DLK_RENEW, DLK_VERIFY};
    for (unsigned i = 0; i < 8u * (DLK_ZK_NO_MEMORY + 1); i++) {
        dlk_zk_end how = (dlk_zk_end)(i / 8);
        dlk_verb verb = verbs[i & 1];
        CHECK(begin_with(kinds[i / 2 & 1]));
        CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
        if (i & 4) /* it has looked at its node before */
            CHECK_EQ_INT(ask(DLK_RENEW), DLK_YES);
        there.ends[DLK_ZK_GET] = there.ends[DLK_ZK_EXISTS] = how;
        CHECK_EQ_INT(ask(verb), kept_as(how));
        there.ends[DLK_ZK_GET] = there.ends[DLK_ZK_EXISTS] = DLK_ZK_OK;
        CHECK_EQ_INT(ask(verb), how == DLK_ZK_NO_NODE ? DLK_NOT_OURS : DLK_YES);
        end();
    }
}

static dlk_reply turned_as(dlk_zk_verb what, dlk_zk_end end)
{
    if (what != DLK_ZK_CREATE)
        return kept_as(end);
    return end == DLK_ZK_OK || end == DLK_ZK_NODE_EXISTS  ? DLK_YES
           : end == DLK_ZK_CUT || end == DLK_ZK_NO_MEMORY ? DLK_UNKNOWN
                                                          : DLK_REFUSED;
}

TEST(whoever_turns_from_writing_to_reading_is_answered_at_once_however_a_request_ends)
{
    static const dlk_zk_verb steps[] = {DLK_ZK_CREATE, DLK_ZK_EXISTS, DLK_ZK_DELETE};
    for (unsigned i = 0; i < 3u * (DLK_ZK_NO_MEMORY + 1); i++) {
        dlk_zk_end how = (dlk_zk_end)(i / 3);
        dlk_zk_verb what = steps[i % 3];
        CHECK(begin_with(DLOCK_WRITE));
        CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
        there.ends[what] = how;
        dlk_reply reply = ask_side(DLK_RENEW, true);
        CHECK_EQ_INT(reply, turned_as(what, how));
        there.ends[what] = DLK_ZK_OK;
        CHECK_EQ_INT(ask_side(DLK_RENEW, true), reply == DLK_NOT_OURS ? reply : DLK_YES);
        CHECK_EQ_INT(ask(DLK_RELEASE), reply == DLK_NOT_OURS ? reply : DLK_YES);
        end();
    }
}

/* … and what it may have left at the server it finds there, or takes away. */
TEST(whoever_takes_or_gives_back_a_lock_is_answered_at_once_however_a_request_ends)
{
    for (unsigned i = 0; i < DLK_ZK_UNWATCH * (DLK_ZK_NO_MEMORY + 1u); i++) {
        dlk_zk_verb what = (dlk_zk_verb)(1 + i % DLK_ZK_UNWATCH);
        dlk_zk_end how = (dlk_zk_end)(i / DLK_ZK_UNWATCH);
        CHECK(begin());
        there.ends[what] = how;
        dlk_reply taken = ask(DLK_ACQUIRE);
        CHECK(taken != DLK_PENDING && taken != DLK_HELD);
        dlk_reply given = ask(DLK_RELEASE);
        CHECK(given != DLK_PENDING);
        there.ends[what] = DLK_ZK_OK;
        if (given == DLK_UNKNOWN || given == DLK_NOT_SENT || given == DLK_REFUSED)
            CHECK_EQ_INT(ask(DLK_RELEASE), DLK_YES);
        CHECK_EQ_INT(ask(DLK_RELEASE),
                     DLK_NOT_OURS); /* it knows nothing of it any more */
        /* That it has gone is believed. */
        CHECK(!there.node || how == DLK_ZK_NO_NODE || how == DLK_ZK_GONE);
        end();
    }
}

/* ---- what got no answer ---- */

/* Of a writer that becomes a reader: the delete of its write node was done, and its answer lost. The server
 * tells that the node has gone, and that is our own doing. */
TEST(a_turn_whose_last_answer_was_lost_is_no_loss)
{
    CHECK(begin_with(DLOCK_WRITE));
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    char *node = strdup(there.node);
    CHECK_EQ_INT(ask(DLK_RENEW), DLK_YES); /* and looks after its node from now on */
    there.ends[DLK_ZK_DELETE] = DLK_ZK_CUT;
    CHECK_EQ_INT(ask_side(DLK_RENEW, true), DLK_UNKNOWN);
    there.ends[DLK_ZK_DELETE] = there.ends[DLK_ZK_GET] = DLK_ZK_NO_NODE;
    bring(DLK_ZK_DISCONNECTED, 0);
    bring(DLK_ZK_CONNECTED, SESSION);
    process();
    serve();
    bring_of(DLK_ZK_CHANGED, 0, node);
    process();
    serve();
    CHECK_EQ_INT(w.lost, 0);
    CHECK_EQ_INT(ask_side(DLK_VERIFY, true),
                 DLK_NOT_SENT); /* one node has gone, or the other */
    there.ends[DLK_ZK_CREATE] = DLK_ZK_NODE_EXISTS;
    CHECK_EQ_INT(ask_side(DLK_RENEW, true), DLK_YES);
    there.ends[DLK_ZK_GET] = DLK_ZK_OK;
    CHECK_EQ_INT(ask_side(DLK_RENEW, true), DLK_YES);
    CHECK_EQ_INT(ask_side(DLK_VERIFY, true), DLK_YES);
    CHECK_EQ_INT(w.lost, 0);
    there.ends[DLK_ZK_DELETE] = DLK_ZK_OK;
    CHECK_EQ_INT(ask_side(DLK_RELEASE, true), DLK_YES);
    free(node);
    end();
}

/* Somebody has deleted its write node before it did so itself, and others may be in. */
TEST(a_loss_while_it_turns_is_told_though_nobody_waits_for_the_answer_any_more)
{
    CHECK(begin_with(DLOCK_WRITE));
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    there.ends[DLK_ZK_DELETE] = DLK_ZK_NO_NODE;
    dlk_ask turn = make(DLK_RENEW, true, 100);
    put(&turn);
    serve_some(2); /* the read node is there, beside the write node */
    CHECK_EQ_INT(turn.reply, DLK_PENDING);
    pass(100);
    (void)tick();
    CHECK_EQ_INT(turn.reply, DLK_UNKNOWN);
    CHECK_EQ_INT(w.lost, 0);
    serve();
    CHECK_EQ_INT(w.lost, 1);
    CHECK_EQ_INT(ask_side(DLK_VERIFY, true), DLK_NOT_OURS);
    end();
}

/* Asked again in the next session it would take the lock from whoever has it then. */
TEST(a_break_whose_session_is_over_before_its_answer_may_have_been_done)
{
    CHECK(begin());
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    dlk_ask one = make(DLK_BREAK, false, 60000);
    one.number = 0;
    put(&one);
    serve_some(2); /* who has it, and what is in that node: then it is deleted */
    CHECK_EQ_INT(one.reply, DLK_PENDING);
    bring(DLK_ZK_EXPIRED, 0);
    process();
    CHECK_EQ_INT(w.lost, 1);
    process(); /* no answer will come */
    CHECK_EQ_INT(one.reply, DLK_UNKNOWN);
    dlk_error_clear(&one.error);
    end();
}

/* ---- answers that come late ---- */

TEST(a_question_whose_time_was_up_is_left_alone_by_its_answer)
{
    driven_answers_late(begin_with, end);
}

/* ---- several leases at once ---- */

/* The answer to the create of the leases is lost; the line's node was made before. */
static bool take_unanswered(void)
{
    enum { LINE = 2 }; /* what lies beside, and the create, before the list */
    if (!begin_with(DLOCK_SEMAPHORE))
        return false;
    w.take = 2;
    dlk_ask one = make(DLK_ACQUIRE, false, 60000);
    put(&one);
    serve_some(LINE);
    there.ends[DLK_ZK_CREATE] = DLK_ZK_CUT;
    serve();
    there.ends[DLK_ZK_CREATE] = DLK_ZK_OK;
    dlk_reply reply = one.reply;
    dlk_error_clear(&one.error);
    return harness_eq_int(__FILE__, __LINE__, "the answer", reply, DLK_UNKNOWN) &&
           harness_eq_int(__FILE__, __LINE__, "creates", there.made, 2);
}

TEST(several_leases_whose_create_got_no_answer_are_found)
{
    CHECK(take_unanswered());
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    CHECK_EQ_INT(there.made, 2);
    CHECK_EQ_INT(there.several, 2);
    CHECK_EQ_INT(ask(DLK_RENEW), DLK_YES);
    CHECK_EQ_INT(ask(DLK_RELEASE), DLK_YES);
    CHECK(!there.node);
    end();
}

TEST(of_several_leases_that_arent_all_there_any_more_none_is_used)
{
    CHECK(take_unanswered());
    there.several = 1;
    int before = there.deleted;
    CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
    CHECK_EQ_INT(there.made, 3);
    CHECK_EQ_INT(there.several, 2);
    CHECK(there.deleted > before);
    CHECK_EQ_INT(ask(DLK_RELEASE), DLK_YES);
    end();
}

TEST(a_renewal_or_verify_of_several_leases_needs_all_of_them)
{
    static const dlk_verb verbs[] = {DLK_RENEW, DLK_VERIFY};
    for (int i = 0; i < 2; i++) {
        CHECK(begin_with(DLOCK_SEMAPHORE));
        w.take = 3;
        CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
        CHECK_EQ_INT(ask(verbs[i]), DLK_YES);
        there.ends[DLK_ZK_CHECK] = DLK_ZK_CUT;
        CHECK_EQ_INT(ask(verbs[i]), DLK_UNKNOWN);
        int before = there.deleted;
        there.ends[DLK_ZK_CHECK] = DLK_ZK_NO_NODE;
        CHECK_EQ_INT(ask(verbs[i]), DLK_NOT_OURS);
        serve();
        CHECK_EQ_INT(there.deleted, before + 3); /* one by one */
        end();
    }
}

TEST(a_take_that_no_request_can_hold_is_refused)
{
    CHECK(begin_with(DLOCK_SEMAPHORE));
    w.take = 1000000;
    dlk_ask one = make(DLK_ACQUIRE, false, 60000);
    put(&one);
    serve();
    CHECK_EQ_INT(one.reply, DLK_REFUSED);
    CHECK_EQ_INT(dlock_error_code(one.error), DLOCK_EINVAL);
    CHECK_CONTAINS(dlock_error_text(one.error), "lock.take=1000000");
    dlk_error_clear(&one.error);
    end();
}
