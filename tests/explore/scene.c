/* The scenes. */
#include "scene.h"

#include "condition.h"
#include "poller.h"
#include "service.h"
#include "stage.h"
#include "strand.h"

#include "api/handles.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- waiting ---- */

static void plain(void)
{
    begin_with("");
}

/* Whoever isn't of this program has a, b and c for long. */
static void with_others(void)
{
    begin_with("");
    for (int i = 0; i < 3; i++)
        service_give_away(lock_names[i], began + LONG);
}

static void wait_20(void)
{
    dlock_hold *hold;
    expect(acquire(0, 20, &hold), DLOCK_ETIMEDOUT, DLOCK_ETIMEDOUT);
}

static void wait_30(void)
{
    dlock_hold *hold;
    expect(acquire(0, 30, &hold), DLOCK_ETIMEDOUT, DLOCK_ETIMEDOUT);
}

static void wait_25_elsewhere(void)
{
    dlock_hold *hold;
    expect(acquire(1, 25, &hold), DLOCK_ETIMEDOUT, DLOCK_ETIMEDOUT);
}

static void use_a(void)
{
    use(0, DLOCK_FOREVER, DLOCK_OK);
}

static void use_b(void)
{
    use(1, DLOCK_FOREVER, DLOCK_OK);
}

/* … and asks for nothing more. */
static void use_a_and_rest(void)
{
    use_a();
    nap_until(began + MS);
}

static void use_b_and_rest(void)
{
    use_b();
    nap_until(began + MS);
}

static void try_a(void)
{
    use(0, 0, DLOCK_EBUSY);
}

static void try_d(void)
{
    use(3, 0, DLOCK_EBUSY);
}

static void wait_until_cancelled(void)
{
    ops[0] = start(0, DLOCK_FOREVER);
    raise_flag(0);
    expect(wait_for(ops[0], DLK_NEVER), DLOCK_ECANCELED, DLOCK_ECANCELED);
}

static void cancel_it(void)
{
    await_flag(0);
    cancel(ops[0]);
}

static void driven(void)
{
    only_drivers_write = true;
    begin_with("");
}

/* … and looks away: an answer may lie for a while, a request may not. */
static void start_alone(void)
{
    ops[0] = start(0, DLOCK_FOREVER);
    nap_until(began + MS);
}

static void start_and_drop(void)
{
    dlock_op *op = start(0, DLOCK_FOREVER);
    free_op(op);
}

/* Two requests are under way, one of them is answered, and from then on the service is silent. */
static void one_more_answer(void)
{
    begin_with("");
    service_answers(0);
    ops[0] = dlock_lock_acquire_start(locks[0], DLOCK_FOREVER);
    ops[1] = dlock_lock_acquire_start(locks[1], DLOCK_FOREVER);
    service_answers(1);
}

static void wait_for_the_first(void)
{
    expect(wait_for(ops[0], DLK_NEVER), DLOCK_OK, DLOCK_EUNKNOWN);
}

static void start_10(void)
{
    ops[2] = start(2, 10);
    expect(wait_for(ops[2], strands_now() + 10 * MS), DLOCK_EUNKNOWN, DLOCK_EUNAVAIL);
}

static void silent(void)
{
    begin_with("");
    service_answers(0);
}

/* … and two requests are under way. */
static void two_unanswered(void)
{
    silent();
    ops[0] = dlock_lock_acquire_start(locks[0], DLOCK_FOREVER);
    ops[1] = dlock_lock_acquire_start(locks[1], DLOCK_FOREVER);
}

static void wait_in_silence(void)
{
    dlock_hold *hold;
    expect(acquire(0, 20, &hold), DLOCK_EUNKNOWN, DLOCK_EUNAVAIL);
}

static void wait_in_silence_elsewhere(void)
{
    dlock_hold *hold;
    expect(acquire(1, 30, &hold), DLOCK_EUNKNOWN, DLOCK_EUNAVAIL);
}

/* ---- leases ---- */

static void with_a_hold(const char *settings)
{
    begin_with(settings);
    if (dlock_lock_acquire(locks[0], 0, &holds[0], NULL) != DLOCK_OK ||
        dlock_client_event_fd(client) < 0 || dlock_hold_notify(holds[0], 7) != DLOCK_OK)
        explore_fail("no hold");
    service_give_away("b", began + LONG);
}

static void ends_in_100(void)
{
    with_a_hold("lock.ttl_ms=100&lock.renew=off&lock.owner=none");
}

static void renewed_all_100(void)
{
    with_a_hold("lock.ttl_ms=100&lock.owner=none");
}

static void hear_of_the_loss(void)
{
    dlock_event *event = await_event(DLOCK_EVENT_LOST);
    if (strands_now() != began + 100 * MS)
        explore_fail("the loss is told %.3f ms after its time",
                     (double)(strands_now() - began - 100 * MS) / 1e6);
    dlock_event_free(event);
}

static void wait_110_elsewhere(void)
{
    dlock_hold *hold;
    expect(acquire(1, 110, &hold), DLOCK_ETIMEDOUT, DLOCK_ETIMEDOUT);
}

static void still_held(void)
{
    if (dlock_hold_state(holds[0]) != DLOCK_HELD)
        explore_fail("it wasn't renewed in time");
}

/* ---- events ---- */

static void notified_op(void)
{
    begin_with("lock.owner=none");
    if (dlock_lock_acquire(locks[0], 0, &holds[0], NULL) != DLOCK_OK ||
        dlock_client_event_fd(client) < 0)
        explore_fail("no hold");
    taken[0] = true;
}

static void release_held(void)
{
    expect(release(0, holds[0]), DLOCK_OK, DLOCK_OK);
}

static void start_notified(void)
{
    ops[0] = start(0, DLOCK_FOREVER);
    call made = enter(0, "op_notify()");
    dlock_err code = leave(&made, dlock_op_notify(ops[0], 3));
    if (code == DLOCK_EPENDING) /* else it is over already */
        dlock_event_free(await_event(DLOCK_EVENT_DONE));
    expect(dlock_op_result(ops[0]), DLOCK_OK, DLOCK_OK);
}

/* ---- closing ---- */

static void wait_until_closed(void)
{
    dlock_hold *hold;
    expect(acquire(0, DLOCK_FOREVER, &hold), DLOCK_ECLOSED, DLOCK_ECLOSED);
}

static void use_or_closed(void)
{
    dlock_hold *hold;
    dlock_err code = acquire(3, DLOCK_FOREVER, &hold);
    expect(code, DLOCK_OK, DLOCK_ECLOSED);
    if (code != DLOCK_OK)
        return;
    expect(release(3, hold), DLOCK_OK, DLOCK_ENOTHELD);
    free_hold(hold);
}

static void nothing_held_there(void)
{
    if (service_is_taken("d"))
        explore_fail("the client is closed, and its lock held at the service");
}

/* ---- several as one ---- */

static dlock_lock *multi;

static void lost_and_kept(void)
{
    dlock_lock *both[] = {locks[0], locks[1]};
    begin_with("lock.ttl_ms=100&lock.renew=off");
    both[0] = locks[0];
    both[1] = locks[1];
    if (dlock_multi_new(both, 2, NULL, &multi, NULL) != DLOCK_OK)
        explore_fail("no multi-lock");
}

/* Its own hold of the second is lost, and not released. */
static void acquire_both(void)
{
    dlock_hold *lost, *hold = NULL;
    expect(acquire(1, 0, &lost), DLOCK_OK, DLOCK_OK);
    nap_until(began + 150 * MS);
    call made = enter(50, "acquire(a+b, 50)");
    expect(leave(&made, dlock_lock_acquire(multi, 50, &hold, NULL)), DLOCK_ELOST,
           DLOCK_ELOST);
    taken[1] = false;
    free_hold(lost);
    dlock_lock_free(multi);
}

static void use_a_briefly(void)
{
    nap_until(began + 150 * MS);
    use(0, DLOCK_FOREVER, DLOCK_OK);
}

/* Of two clients: a of the first, b of the second. */
static dlock_client *other;
static dlock_lock *others_b;

static void of_two_clients(void)
{
    begin_with("");
    other = open_another();
    if (dlock_lock_new(other, DLOCK_MUTEX, "b", NULL, &others_b, NULL) != DLOCK_OK)
        explore_fail("no lock");
    dlock_lock *both[] = {locks[0], others_b};
    if (dlock_multi_new(both, 2, NULL, &multi, NULL) != DLOCK_OK)
        explore_fail("no multi-lock");
}

static void start_both(void)
{
    call made = enter(0, "acquire_start(a+b)");
    dlock_op *op = dlock_lock_acquire_start(multi, DLOCK_FOREVER);
    (void)leave(&made, DLOCK_OK);
    expect(wait_for(op, DLK_NEVER), DLOCK_OK, DLOCK_OK);
    dlock_hold *hold = dlock_op_take_hold(op);
    free_op(op);
    if (dlock_hold_check(hold) == DLOCK_OK && taken[1])
        explore_fail("two have b");
    free_hold(hold);
}

/* … and somebody who isn't of this program has a, or b, for long. */
static void of_two_clients_without_a(void)
{
    of_two_clients();
    service_give_away("a", began + LONG);
}

static void of_two_clients_without_b(void)
{
    of_two_clients();
    service_give_away("b", began + LONG);
}

static void acquire_both_until_closed(void)
{
    dlock_hold *hold = NULL;
    call made = enter(DLOCK_FOREVER, "acquire(a+b)");
    expect(leave(&made, dlock_lock_acquire(multi, DLOCK_FOREVER, &hold, NULL)),
           DLOCK_ECLOSED, DLOCK_ECLOSED);
}

static void start_both_until_closed(void)
{
    call made = enter(0, "acquire_start(a+b)");
    dlock_op *op = dlock_lock_acquire_start(multi, DLOCK_FOREVER);
    (void)leave(&made, DLOCK_OK);
    expect(wait_for(op, DLK_NEVER), DLOCK_ECLOSED, DLOCK_ECLOSED);
    free_op(op);
}

static void close_other(void)
{
    call made = enter(DLOCK_FOREVER, "client_close(the other)");
    expect(leave(&made, dlock_client_close(other, NULL)), DLOCK_OK, DLOCK_EUNKNOWN);
}

static void use_others_b(void)
{
    dlock_lock *own = locks[1];
    locks[1] = others_b;
    use(1, DLOCK_FOREVER, DLOCK_OK);
    locks[1] = own;
}

static void free_second_client(void)
{
    dlock_lock_free(multi);
    dlock_lock_free(others_b);
    dlock_client_free(other);
}

/* ---- connections ---- */

static void use_over_a_cut(void)
{
    dlock_hold *hold;
    dlock_err code = acquire(0, 1000, &hold);
    expect(code, DLOCK_OK, DLOCK_EUNKNOWN);
    if (code != DLOCK_OK)
        return;
    (void)release(0, hold); /* that may be cut, too */
    free_hold(hold);
}

static void cut(void)
{
    explore_tell("the service hangs up");
    service_cut();
}

/* Whoever brings it has no mutex, as with the libraries of some backends. */
static void tell_news(void)
{
    dlk_host *host = &client->engine->host;
    call made = enter(0, "news()");
    host->news(host);
    (void)leave(&made, DLOCK_OK);
}

/* ---- one of several ---- */

static void wait_for_it_too(void)
{
    await_flag(0);
    expect(wait_for(ops[0], DLK_NEVER), DLOCK_OK, DLOCK_OK);
}

static void start_and_wait(void)
{
    ops[0] = start(0, DLOCK_FOREVER);
    raise_flag(0);
    expect(wait_for(ops[0], DLK_NEVER), DLOCK_OK, DLOCK_OK);
}

static void drop_held(void)
{
    taken[0] = false;
    free_hold(holds[0]);
    holds[0] = NULL;
}

/* ---- forks ---- */

/* What the child may do with what it has inherited: nothing, and that at once. */
static int be_a_child(void)
{
    dlock_hold *hold = NULL;
    if (dlock_lock_acquire(locks[0], DLOCK_FOREVER, &hold, NULL) != DLOCK_EFORKED)
        return 2;
    if (dlock_client_next_event(client))
        return 3;
    dlock_op *op = dlock_lock_acquire_start(locks[0], 10);
    if (dlock_op_wait(op, DLOCK_FOREVER) != DLOCK_OK ||
        dlock_op_result(op) != DLOCK_EFORKED)
        return 4;
    dlock_op_free(op);
    dlock_lock_free(locks[0]);
    dlock_client_free(client);
    return strand_holds() ? 5 : 0;
}

static void fork_once(void)
{
    call made = enter(0, "fork()");
    int status = -1;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(be_a_child());
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        explore_fail("the fork's child ended with %d", WEXITSTATUS(status));
    (void)leave(&made, DLOCK_OK);
}

/* ---- the list ---- */

/* What can be gone through in a second or two, and what takes a few minutes. */
#define P(p, t)                                                                          \
    {                                                                                    \
        .preemptions = (p), .turns = (t)                                                 \
    }
#define OF_TWO .limits = P(3, 1), .proof = P(3, 9)
/* … or of two who do much. */
#define OF_THREE .limits = P(2, 1), .proof = P(3, 9)

const scene scenes[] = {
    {.name = "who_waits_wakes_in_time",
     .set_up = with_others,
     .actors = {wait_20, wait_30},
     OF_TWO},
    {.name = "who_waits_wakes_in_time_in_bursts",
     .takeover = 2,
     .set_up = with_others,
     .actors = {wait_20, wait_30, wait_25_elsewhere},
     OF_THREE},
    {.name = "who_waits_wakes_in_time_though_nobody_answers",
     .takeover = 2,
     .set_up = silent,
     .actors = {wait_in_silence, wait_in_silence_elsewhere},
     OF_TWO},
    {.name = "no_deadline_is_told_late",
     .takeover = 2,
     .set_up = one_more_answer,
     .actors = {wait_for_the_first, start_10},
     OF_TWO},
    {.name = "no_deadline_is_told_late_though_nobody_answers",
     .takeover = 2,
     .set_up = two_unanswered,
     .actors = {start_10},
     OF_TWO},
    {.name = "a_loss_is_told_in_time",
     .set_up = ends_in_100,
     .actors = {hear_of_the_loss, wait_110_elsewhere},
     OF_TWO},
    {.name = "a_renewal_comes_in_time",
     .set_up = renewed_all_100,
     .actors = {wait_110_elsewhere, try_d},
     .check = still_held,
     OF_THREE},
    {.name = "a_lock_goes_from_hand_to_hand",
     .set_up = plain,
     .actors = {use_a, use_a},
     .at_once = true,
     OF_TWO},
    {.name = "a_lock_goes_from_hand_to_hand_in_bursts",
     .takeover = 2,
     .set_up = plain,
     .actors = {use_a, use_a, use_b},
     .at_once = true,
     OF_THREE},
    {.name = "what_was_taken_over_for_a_burst_is_given_back_behind_it",
     .takeover = 2,
     .set_up = plain,
     .actors = {use_a_and_rest, use_b_and_rest},
     OF_THREE},
    {.name = "what_is_dropped_comes_to_who_waits",
     .set_up = notified_op,
     .actors = {use_a, drop_held},
     .at_once = true,
     OF_TWO},
    {.name = "who_tries_is_told_at_once",
     .set_up = plain,
     .actors = {try_a, use_a},
     .at_once = true,
     OF_TWO},
    {.name = "a_cancel_ends_the_wait",
     .set_up = with_others,
     .actors = {wait_until_cancelled, cancel_it},
     .at_once = true,
     OF_TWO},
    {.name = "a_cancel_ends_the_wait_though_nobody_answers",
     .set_up = silent,
     .actors = {wait_until_cancelled, cancel_it},
     .at_once = true,
     OF_TWO},
    {.name = "an_op_that_is_dropped_gives_back_what_it_gets",
     .set_up = plain,
     .actors = {start_and_drop, use_a},
     .at_once = true,
     OF_TWO},
    {.name = "two_wait_for_one_op",
     .set_up = plain,
     .actors = {start_and_wait, wait_for_it_too},
     .at_once = true,
     OF_TWO},
    {.name = "an_event_wakes_its_reader",
     .set_up = notified_op,
     .actors = {start_notified, release_held},
     .at_once = true,
     OF_TWO},
    {.name = "a_poller_of_the_programs_own_is_woken",
     .set_up = with_a_poller,
     .actors = {visit_until_over, use_b},
     .at_once = true,
     OF_THREE},
    {.name = "between_two_visits_of_a_poller_of_the_programs_own_nobody_drives",
     .set_up = with_a_poller,
     .actors = {visit_and_rest, use_b},
     OF_THREE},
    {.name = "what_a_poller_of_the_programs_own_leaves_lying_is_read_in_time",
     .set_up = with_a_poller,
     .actors = {leave_it_lying, use_b},
     OF_THREE},
    {.name = "a_cut_that_a_poller_of_the_programs_own_reads_is_mended_in_time",
     .set_up = hung_up_unread,
     .actors = {visit_once, wait_30_for_it},
     OF_THREE},
    {.name = "news_from_outside_is_heard",
     .set_up = plain,
     .actors = {use_a, tell_news},
     .at_once = true,
     OF_TWO},
    {.name = "where_only_a_driver_writes_somebody_drives",
     .set_up = driven,
     .actors = {start_alone, use_b},
     OF_TWO},
    {.name = "a_cut_connection_loses_nothing",
     .set_up = plain,
     .actors = {use_over_a_cut, cut, use_b},
     OF_THREE},
    {.name = "closing_ends_every_wait",
     .set_up = with_others,
     .actors = {wait_until_closed, close_client, use_or_closed},
     .check = nothing_held_there,
     .at_once = true,
     OF_THREE},
    {.name = "closing_ends_a_wait_though_nobody_answers",
     .set_up = silent,
     .actors = {wait_until_closed, close_client},
     OF_TWO},
    {.name = "several_locks_of_two_clients_are_had_at_last",
     .set_up = of_two_clients,
     .actors = {start_both, use_others_b},
     .check = free_second_client,
     .at_once = true,
     OF_THREE},
    {.name = "several_locks_are_not_waited_for_when_the_other_client_closes",
     .set_up = of_two_clients_without_a,
     .actors = {acquire_both_until_closed, close_other},
     .check = free_second_client,
     .at_once = true,
     OF_THREE},
    {.name = "several_locks_are_not_waited_for_when_the_first_client_closes",
     .set_up = of_two_clients_without_b,
     .actors = {acquire_both_until_closed, close_client},
     .check = free_second_client,
     .at_once = true,
     OF_THREE},
    {.name = "an_op_of_several_locks_ends_when_the_other_client_closes",
     .set_up = of_two_clients_without_a,
     .actors = {start_both_until_closed, close_other},
     .check = free_second_client,
     .at_once = true,
     OF_THREE},
    {.name = "a_signal_after_the_lock_was_given_back_is_not_missed",
     .set_up = with_a_condition,
     .actors = {wait_until_ready, make_ready},
     .check = free_condition,
     .at_once = true,
     .limits = P(1, 1),
     .proof = P(2, 2)},
    {.name = "a_signal_of_one_who_is_cancelled_goes_to_the_next",
     .set_up = with_a_condition,
     .actors = {wait_and_be_cancelled, wait_until_ready, make_ready},
     .check = free_condition,
     .at_once = true,
     .limits = P(1, 1),
     .proof = P(2, 1)},
    {.name = "a_signal_that_is_lost_before_there_is_the_lock_is_counted",
     .set_up = with_a_condition,
     .actors = {wait_beyond_the_signal, signal_and_forget},
     .check = free_condition,
     .limits = P(1, 1),
     .proof = P(2, 1)},
    {.name = "a_multi_lock_with_a_lost_member_is_refused",
     .set_up = lost_and_kept,
     .actors = {acquire_both, use_a_briefly},
     OF_THREE},
    {.name = "a_forks_child_waits_for_nothing",
     .set_up = plain,
     .actors = {use_a, fork_once},
     .limits = P(1, 1),
     .proof = P(2, 2)},
};
const int scene_count = sizeof(scenes) / sizeof(*scenes);
