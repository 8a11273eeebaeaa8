/* What the files of locks/ share among themselves. */
#ifndef DLK_LOCKS_INNER_H
#define DLK_LOCKS_INNER_H

#include "locks/core.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/kind.h"
#include "util/point.h"
#include "util/probe.h"

#include <assert.h>
#include <inttypes.h>

/* Room in the heap for one more object with an alarm; false: no memory. */
static inline bool dlk_alarm_reserve(dlk_core *core)
{
    if (!dlk_heap_reserve(&core->alarms, core->alarm_users + 1))
        return false;
    core->alarm_users++;
    return true;
}

static inline void dlk_alarm_set(dlk_core *core, dlk_alarm *alarm, int64_t at)
{
    if (at < DLK_NEVER)
        dlk_heap_set(&core->alarms, &alarm->timer, at);
    else if (alarm->timer.place)
        dlk_heap_remove(&core->alarms, &alarm->timer);
}

static inline void dlk_alarm_unreserve(dlk_core *core, dlk_alarm *alarm)
{
    dlk_alarm_set(core, alarm, DLK_NEVER);
    core->alarm_users--;
}

/* What happens to a grant, or a query, as states.h has it. */
static inline void dlk_grant_step(dlk_grant *grant, dlk_grant_event event)
{
    const dlk_grant_rule *rule = &dlk_grant_rules[event];
    assert(dlk_grant_may(grant->stage, grant->asks, event));
    if (rule->stage != DLK_STAGES)
        grant->stage = rule->stage;
    if (rule->asks != DLK_ASKS)
        grant->asks = rule->asks;
}
static inline void dlk_query_step(dlk_query *query, dlk_query_event event)
{
    assert(dlk_query_may(query->stage, event));
    query->stage = (dlk_query_stage)dlk_query_next[query->stage][event];
}
/* An acquire, or import, of it is under way. */
static inline bool dlk_grant_takes(const dlk_grant *grant)
{
    return (DLK_ASKS_TO_TAKE & DLK_IN(grant->asks)) != 0;
}
/* A request of it may be granted yet. */
static inline bool dlk_grant_may_come(const dlk_grant *grant)
{
    return dlk_grant_takes(grant) || grant->ambiguous;
}
/* Something of the attempt may be at the server, or on the way there: so it has to be given back, and
 * whoever waited for it is told EUNKNOWN. Both go by this. */
static inline bool dlk_grant_may_be_there(const dlk_grant *grant)
{
    bool in_line = grant->name->key.queues && grant->was_behind;
    return dlk_grant_may_come(grant) || in_line;
}
/* Whose wish goes to the server, or NULL. */
static inline dlk_wait *dlk_name_head(const dlk_name *name)
{
    dlk_list *first = name->queue.first;
    return first ? DLK_LIST_ITEM(first, dlk_wait, link) : NULL;
}
/* An inspection that waits for the name to be free. */
static inline bool dlk_query_idles(const dlk_query *query)
{
    return query->kind == DLK_QUERY_IDLE || query->kind == DLK_QUERY_IDLE_NOW;
}

/* Of a grant, or an attempt: "name #number: …". */
#define DLK_TELL_OF(core, topic, grant, format, ...)                                     \
    DLK_TELL((core)->port.tell, topic, "%s #%" PRIu64 ": " format,                       \
             (grant)->name->key.name, (grant)->number, __VA_ARGS__)
/* A span in milliseconds, as a line has it. */
static inline long long dlk_tell_ms(int64_t from, int64_t to)
{
    return from >= DLK_NEVER || to >= DLK_NEVER ? -1 : (to - from) / DLK_NS_PER_MS;
}

/* core.c */
/* Jittered, doubling with each try. */
int64_t dlk_retry_after(dlk_core *core, int64_t now, uint8_t *retries);
/* A wait that begins; over without memory. */
void dlk_wait_begin(dlk_core *core, dlk_wait *wait, int64_t now);
void dlk_wait_end(dlk_core *core, dlk_wait *wait, dlock_err code, dlock_error *error);
/* A request of this grant, filled in, to be answered within so long; or NULL. Without memory there are
 * still some for giving back and renewing. */
dlk_ask *dlk_ask_new(dlk_core *core, dlk_verb verb, dlk_grant *grant, int64_t within_ms,
                     int64_t now);
/* Sends it. The answer goes to whoever it is for, at once perhaps; true then. */
bool dlk_ask_go(dlk_core *core, dlk_ask *ask, int64_t now);
/* Fills in what is asked; @p grant, if any, says for whom. */
void dlk_ask_prepare(dlk_ask *ask, dlk_verb verb, const dlk_grant *grant, int64_t ttl_ms,
                     int64_t deadline, int64_t now);
/* Sends a prepared ask; true when it was answered at once. */
bool dlk_ask_send(dlk_core *core, dlk_ask *ask, int64_t now);
/* A server, or most of several, that can't be reached just now: tried again by itself. */
static inline bool dlk_passes(dlock_err code)
{
    return code == DLOCK_EUNAVAIL || code == DLOCK_EQUORUM;
}
/* The link is down for a reason that trying again won't mend. */
static inline bool dlk_down_for_good(const dlk_core *core)
{
    return core->down && !dlk_passes(core->down->code);
}

/* The link has been neither up nor down: the first connection is under way, or not begun. */
static inline bool dlk_connecting(const dlk_core *core)
{
    return !core->up && !core->down;
}

/* It was asked of the writer, and the grant has turned, or is turning, into a reader's since. The turn
 * may have been done first, though it was asked later: a node of a cluster sends a request on, a script
 * that the server doesn't know is asked for again. So that there is no writer any more says nothing; the
 * reader has to be asked about, which stands for both. */
static inline bool dlk_ask_is_overtaken(const dlk_ask *ask, const dlk_grant *grant)
{
    return ask->reply == DLK_NOT_OURS && !ask->shared && grant->terms.shared;
}

/* An answer is there: its spans of time, which come from outside, are cut to what the clock has. */
void dlk_ask_trim(dlk_ask *ask);
/* When to ask again at the latest: at @p at, or when what is left of the holder's lease is over. */
int64_t dlk_ask_rest_over(const dlk_ask *ask, int64_t now, int64_t at);

/* Takes the error out of the ask. */
dlock_error *dlk_ask_error(dlk_ask *ask);

/* acquire.c: lets the head of the queue try, if nothing speaks against it. */
void dlk_contend_queued(dlk_core *core, dlk_name *name, int64_t now);
static inline void dlk_contend(dlk_core *core, dlk_name *name, int64_t now)
{
    if (!name->trying && name->queue.first)
        dlk_contend_queued(core, name, now);
}
void dlk_trying_send(dlk_core *core, dlk_grant *grant, int64_t now);
/* An attempt for the head of the queue that a release is to take with it, or NULL. */
dlk_grant *dlk_trying_inherit(dlk_core *core, dlk_name *name, int64_t now);
void dlk_trying_answered(dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now);
void dlk_trying_connected(dlk_core *core, dlk_grant *grant, int64_t now);
void dlk_trying_link_down(dlk_core *core, dlk_grant *grant, const dlock_error *why,
                          int64_t now);

/* acquire.c: a living grant of this client that excludes the wish. */
dlk_grant *dlk_name_blocker(const dlk_name *name, const dlk_terms *terms);

/* Can an attempt, or a grant, go on for this wish? */
static inline bool dlk_same_wish(const dlk_terms *a, const dlk_grant *of)
{
    const dlk_grant_terms *b = &of->terms;
    return a->ttl_ms == b->ttl_ms && a->shared == b->shared && a->take == b->take &&
           (a->keep_ms > 0) == (of->keep != NULL) && dlk_label_same(a->label, b->label);
}
/* here.c: client.order refuses it; it is over then. */
bool dlk_is_against_order(dlk_core *core, dlk_wait *wait, int64_t now);
static inline bool dlk_is_in_order(dlk_core *core, dlk_wait *wait, int64_t now)
{
    return !core->port.order || !dlk_is_against_order(core, wait, now);
}
/* Its first hold is there, of this wait's owner; its last one is gone. */
static inline void dlk_order_took(const dlk_core *core, dlk_grant *grant,
                                  const dlk_wait *wait)
{
    if (core->port.order && dlk_owner_is_thread(grant->owner))
        core->port.order->took(core->port.world, grant, wait);
}
static inline void dlk_order_gave(const dlk_core *core, dlk_grant *grant)
{
    if (grant->more && grant->more->ordered && grant->hold_count == 0)
        core->port.order->gave(core->port.world, grant);
}
/* here.c: another hold of a grant its owner has; of the read side also in one of the write side. */
void dlk_grant_enter_again(dlk_core *core, dlk_wait *wait, dlk_grant *grant);
/* here.c: a try behind others that will be answered as soon as they are: none of them excludes it, and
 * the first one's request is under way, or goes out with the first connection. */
bool dlk_turn_comes(const dlk_core *core, const dlk_name *name, const dlk_wait *wait);
/* here.c: is another name of this text in use? One that is only kept goes back. */
bool dlk_name_has_rival(dlk_core *core, const dlk_name *name, int64_t now);
/* here.c: what else its owner waits for are further holds of it. */
void dlk_grant_enter_waits(dlk_core *core, dlk_grant *grant);
static inline void dlk_grant_owners_waits(dlk_core *core, dlk_grant *grant)
{
    if (dlk_owner_is_thread(grant->owner) && grant->name->queue.first)
        dlk_grant_enter_waits(core, grant);
}

/* keep.c: grants that outlive their holds, of those that have grant->keep */
/* Makes it one, a new one; false: no memory. */
bool dlk_keep_add(const dlk_core *core, dlk_grant *grant);
/* There is one more of them, or one less. */
void dlk_keep_attend(const dlk_core *core, int by);
/* The server has given it, with this answer. */
void dlk_keep_begin(const dlk_core *core, dlk_grant *grant, const dlk_ask *ask,
                    int64_t now);
/* What an answer of the server's says to who keeps. */
void dlk_keep_reserved(const dlk_core *core, dlk_grant *grant, const dlk_ask *ask);
/* Its last hold is released: does it stay? Then it is kept. */
bool dlk_keep_stays(dlk_core *core, dlk_grant *grant, int64_t now);
/* It is in the way of the first one in the queue: if it is kept it is this one's now, or goes back. False
 * where it stays as it is for the moment. */
bool dlk_keep_next(dlk_core *core, dlk_grant *grant, dlk_wait *head, int64_t now);
/* When one that is kept goes back by itself. */
static inline int64_t dlk_keep_ends(const dlk_grant *grant)
{
    int64_t doubtful = grant->lease.suspect_at;
    return grant->keep->until < doubtful ? grant->keep->until : doubtful;
}
/* It goes back, if it is kept, and is counted there. */
void dlk_keep_end(dlk_core *core, dlk_grant *grant, int64_t *count, int64_t now);
/* If it is kept, and another has asked for it, it goes back. */
void dlk_keep_asked(dlk_core *core, dlk_grant *grant, int64_t now);
/* Whatever is kept of this name goes back. False: nothing was. */
bool dlk_keep_give_up(dlk_core *core, dlk_name *name, int64_t now);
/* The renewal of one that is kept is answered, in whichever way. */
void dlk_keep_answered(dlk_core *core, dlk_grant *grant, int64_t now);

/* failure.c */
/* "<name>: <text>" */
void dlk_wait_fail(dlk_core *core, dlk_wait *wait, dlock_err code, const char *text);
/* With this code, or with what @p why or the link has to say; takes @p why over. */
void dlk_wait_unreached(dlk_core *core, dlk_wait *wait, dlock_err code, dlock_error *why);
/* The server has refused it; takes the error over. */
void dlk_wait_refused(dlk_core *core, dlk_wait *wait, dlock_error *error);
/* Its time is over, it was cancelled, or the client closes. */
void dlk_wait_give_up(dlk_core *core, dlk_wait *wait, dlock_err code, int64_t now);
/* Those who only try, whom the attempt is for or who stand behind, wait for no second request, and of
 * connections for the first only. True when the attempt has lost its head. */
bool dlk_tries_unreached(dlk_core *core, dlk_grant *grant);

/* import.c */
/* Who waits for it as an import, or NULL. */
static inline dlk_wait *dlk_importer(const dlk_grant *grant)
{
    return grant->stage == DLK_STAGE_IMPORTED ? grant->waiter : NULL;
}
void dlk_import_send(dlk_core *core, dlk_grant *grant, int64_t now);
void dlk_import_answered(dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now);
void dlk_import_cancel(dlk_core *core, dlk_wait *wait, dlock_err code, int64_t now);

/* grant.c */
/* An attempt of this stage, in its name's list, with a number of its own; NULL without memory. */
dlk_grant *dlk_grant_new(dlk_core *core, dlk_name *name, const dlk_terms *terms,
                         dlk_stage stage);
/* All of them but the label. */
void dlk_grant_set_terms(dlk_grant *grant, const dlk_terms *terms);
/* The last acquire or release got no further because of this, which is taken over; NULL: it isn't said. */
void dlk_grant_failed(dlk_grant *grant, dlock_error *why);
static inline const dlock_error *dlk_grant_why(const dlk_grant *grant)
{
    return grant && grant->more ? grant->more->why : NULL;
}
/* It is about to be asked for, with its ttl_ms: acquired, inherited, imported. */
void dlk_grant_asked(const dlk_core *core, dlk_grant *grant, int64_t now);
/* @p ask was answered with YES: its lease runs from the request, if that says that it lasts; else
 * from the first one that may have got it. */
void dlk_grant_lease(dlk_core *core, dlk_grant *grant, const dlk_ask *ask);
/* It becomes the grant of this wait, which is over with that. */
void dlk_grant_hand_over(dlk_core *core, dlk_grant *grant, const dlk_ask *ask,
                         dlk_wait *wait, int64_t now);
void dlk_grant_add_hold(dlk_grant *grant, dlk_hold *hold);
/* The last one first is cheapest. */
void dlk_grant_remove_hold(dlk_grant *grant, dlk_hold *hold);
/* Asks for a renewal now, if none is under way. */
void dlk_grant_renew(dlk_core *core, dlk_grant *grant, int64_t now);
/* SUSPECT from now on, if it is held and renewed. */
void dlk_grant_doubt(dlk_core *core, dlk_grant *grant);
void dlk_grant_lose(dlk_core *core, dlk_grant *grant, dlk_loss cause, int64_t now);
/* A renewal is about to be sent with ask->ttl_ms: notes that, and says what the lease can be. */
void dlk_grant_bound(const dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now);
void dlk_grant_renewed(dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now);
void dlk_grant_keep_answered(dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now);
void dlk_grant_alarm(dlk_core *core, dlk_grant *grant, int64_t now);
/* Sets the alarm to whatever comes next for this grant. */
void dlk_grant_schedule(dlk_core *core, dlk_grant *grant);
/* It is asked for again after a pause, longer each time. */
void dlk_grant_ask_later(dlk_core *core, dlk_grant *grant, int64_t now);
/* Out of its name's list, if nothing keeps it. */
void dlk_grant_drop(dlk_core *core, dlk_grant *grant);

/* release.c */
/* Because of this event. */
void dlk_give_back(dlk_core *core, dlk_grant *grant, dlk_grant_event event, int64_t now);
void dlk_give_send(dlk_core *core, dlk_grant *grant, int64_t now);
void dlk_give_answered(dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now);
/* The acquire or import of one that nobody wants any more is answered. */
void dlk_given_up_answered(dlk_core *core, dlk_grant *grant, const dlk_ask *ask,
                           int64_t now);

/* query.c */
void dlk_query_end(dlk_core *core, dlk_query *query, dlock_err code, dlock_error *error);
void dlk_query_send(dlk_core *core, dlk_query *query, int64_t now);
void dlk_query_answered(dlk_core *core, dlk_query *query, int64_t now);
void dlk_query_fail(dlk_core *core, dlk_query *query, dlock_error *error);
void dlk_query_alarm(dlk_core *core, dlk_query *query, int64_t now);

#endif
