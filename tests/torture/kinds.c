/* The stories of the other kinds, of several locks as one, and of a lock that is handed on. */
#include "scenarios.h"
#include "steps.h"

#include <stdio.h>
#include <string.h>

#define MULTI_ERRORS (ACQUIRE_ERRORS | BIT(DLOCK_ELOST)) /* of a member, on the way */
#define HOLD_ERRORS  (ASK_ERRORS | BIT(DLOCK_ELOST))

/* A name of the story's own. */
static const char *name_of(const stage *s, const char *what)
{
    static char name[64];
    (void)snprintf(name, sizeof(name), "%s/%s", s->world->name, what); /* it fits */
    return name;
}

/* What an op brings; it is freed. */
static dlock_hold *take_from(stage *s, dlock_op *op, uint32_t others)
{
    FINISHES(DLOCK_OK, others, op);
    dlock_hold *hold = dlock_op_take_hold(op);
    dlock_op_free(op);
    return hold;
}

/* ---- several as one ---- */

/* A member of each client, the second name first. */
static dlock_lock *make_multi(stage *s, pair *two)
{
    dlock_lock *both = NULL, *members[2];
    for (int i = 0; i < 2; i++) {
        two->client[i] = open_client(s);
        two->lock[i] =
            make_kind(s, two->client[i], DLOCK_MUTEX, name_of(s, i == 0 ? "b" : "a"), "");
        members[i] = two->lock[i];
    }
    if (members[0] && members[1])
        SAYS(DLOCK_OK, MEM_ERRORS, dlock_multi_new(members, 2, NULL, &both, &s->err));
    return both;
}

static dlock_hold *acquire_multi(stage *s, dlock_lock *both)
{
    dlock_hold *hold = NULL;
    if (both)
        SAYS(DLOCK_OK, MULTI_ERRORS, dlock_lock_acquire(both, LONG_MS, &hold, &s->err));
    return hold;
}

static void use_multi(stage *s, dlock_hold *hold)
{
    HOLDS(dlock_hold_token(hold) == 0 && dlock_hold_owner(hold) != NULL);
    HOLDS(dlock_hold_member_token(hold, 0) > 0 && dlock_hold_member_token(hold, 1) > 0);
    SAYS(DLOCK_OK, HOLD_ERRORS, dlock_hold_verify(hold, &s->err));
    dlock_op *longer = dlock_hold_extend_start(hold, s->world->ttl_ms * 2);
    FINISHES(DLOCK_OK, HOLD_ERRORS, longer);
    dlock_op_free(longer);
}

/* Released by an op, and by nothing but being freed. */
static void take_by_op(stage *s, const pair *two, dlock_lock *both)
{
    int fd = dlock_client_event_fd(two->client[0]);
    dlock_op *op = dlock_lock_acquire_start(both, LONG_MS);
    dlock_err code = dlock_op_notify(op, 7);
    if (code == DLOCK_EPENDING)
        await_event(s, two->client[0], fd, 7);
    dlock_hold *hold = take_from(s, op, MULTI_ERRORS);
    if (hold) {
        op = dlock_hold_release_start(hold);
        FINISHES(DLOCK_OK, RELEASE_ERRORS, op);
        HOLDS(dlock_hold_check(hold) == DLOCK_ENOTHELD);
        dlock_op_free(op);
    }
    dlock_hold_free(hold);
    op = dlock_lock_acquire_start(both, LONG_MS);
    FINISHES(DLOCK_OK, MULTI_ERRORS, op);
    dlock_op_free(op); /* and with it the hold that nobody took */
}

/* One member is held: none is kept. */
static void want_in_vain(stage *s, const pair *two, dlock_lock *both)
{
    const uint32_t won = OK | MULTI_ERRORS | BIT(DLOCK_EBUSY);
    dlock_lock *same = make_kind(s, two->client[1], DLOCK_MUTEX, name_of(s, "b"), "");
    dlock_hold *theirs = acquire(s, same), *hold = NULL;
    if (theirs) {
        SAYS(DLOCK_EBUSY, won, dlock_lock_acquire(both, 0, &hold, &s->err));
        give_back_any(s, hold);
        hold = NULL;
        SAYS(DLOCK_ETIMEDOUT, won, dlock_lock_acquire(both, SHORT_MS, &hold, &s->err));
        give_back_any(s, hold);
        dlock_op *op = dlock_lock_acquire_start(both, DLOCK_FOREVER);
        nap_ms(2);
        dlock_op_cancel(op);
        FINISHES(DLOCK_ECANCELED, won, op);
        dlock_op_free(op);
    }
    give_back(s, theirs);
    dlock_lock_free(same);
}

void scenario_several_as_one(stage *s)
{
    pair two = {0};
    dlock_lock *both = make_multi(s, &two);
    dlock_hold *hold = acquire_multi(s, both);
    if (hold) {
        use_multi(s, hold);
        give_back_any(s, hold);
        take_by_op(s, &two, both);
        want_in_vain(s, &two, both);
    }
    dlock_lock_free(both);
    close_pair(s, &two);
}

/* The second client's member is taken away. */
void scenario_a_member_lost(stage *s)
{
    pair two = {0};
    dlock_lock *both = make_multi(s, &two);
    int fd = dlock_client_event_fd(two.client[0]);
    dlock_hold *hold = acquire_multi(s, both);
    if (hold)
        lose(s, &two, fd, hold);
    dlock_hold_free(hold);
    dlock_lock_free(both);
    close_pair(s, &two);
}

/* ---- handed on ---- */

#define IMPORT_ERRORS (ASK_ERRORS | BIT(DLOCK_ENOTHELD)) /* its lease ran out meanwhile */

/* What isn't imported stays for the length of a lease. */
static const char *export(stage *s, dlock_hold *hold)
{
    const char *ticket = NULL;
    if (hold && SAYS(DLOCK_OK, MEM_ERRORS | BIT(DLOCK_ELOST),
                     dlock_hold_export(hold, &ticket, &s->err))) {
        HOLDS(dlock_hold_check(hold) == DLOCK_ENOTHELD);
        s->exported = true;
        return ticket;
    }
    if (hold)
        SAYS(DLOCK_OK, RELEASE_ERRORS, dlock_hold_release(hold, &s->err));
    return NULL;
}

static void import_twice(stage *s, dlock_client *client, const char *ticket)
{
    dlock_hold *hold = NULL, *again = NULL;
    if (!SAYS(DLOCK_OK, IMPORT_ERRORS,
              dlock_client_import(client, ticket, &hold, &s->err))) {
        s->unsure = true;
        return;
    }
    SAYS(DLOCK_ENOTHELD, IMPORT_ERRORS,
         dlock_client_import(client, ticket, &again, &s->err));
    HOLDS(again == NULL);
    SAYS(DLOCK_OK, HOLD_ERRORS, dlock_hold_verify(hold, &s->err));
    give_back(s, hold);
}

static void import_in_vain(stage *s, dlock_client *client, const char *ticket)
{
    dlock_op *op = dlock_client_import_start(client, ticket);
    dlock_op_cancel(op);
    s->unsure = true;               /* it may not have come so far as to take it */
    (void)dlock_op_wait(op, 15000); /* its result says whether */
    if (dlock_op_result(op) == DLOCK_OK)
        give_back(s, dlock_op_take_hold(op));
    else
        FINISHES(DLOCK_ECANCELED, IMPORT_ERRORS, op);
    dlock_op_free(op);
}

void scenario_handed_on(stage *s)
{
    pair two = {0};
    bool open = open_pair(s, &two);
    dlock_hold *hold = open ? acquire(s, two.lock[0]) : NULL;
    const char *ticket = export(s, hold);
    if (ticket)
        import_twice(s, two.client[1], ticket);
    dlock_hold *none = NULL;
    if (open)
        SAYS(DLOCK_EINVAL, MEM_ERRORS,
             dlock_client_import(two.client[1], "dlock1.forged", &none, &s->err));
    dlock_hold_free(hold);
    hold = ticket ? acquire(s, two.lock[0]) : NULL;
    ticket = export(s, hold);
    if (ticket)
        import_in_vain(s, two.client[1], ticket);
    dlock_hold_free(hold);
    close_pair(s, &two);
}

/* ---- elected ---- */

void scenario_elected(stage *s)
{
    pair two = {0};
    dlock_info *info = NULL;
    for (int i = 0; i < 2; i++) {
        two.client[i] = open_client(s);
        two.lock[i] = make_kind(s, two.client[i], DLOCK_ELECTION, name_of(s, "leader"),
                                i == 0 ? "lock.data=first" : "lock.data=second");
    }
    dlock_hold *term = two.lock[1] ? acquire(s, two.lock[0]) : NULL;
    if (term) {
        dlock_op *op = dlock_lock_acquire_start(two.lock[1], LONG_MS);
        if (SAYS(DLOCK_OK, ASK_ERRORS, dlock_lock_inspect(two.lock[1], &info, &s->err))) {
            const char *data = dlock_info_get(info, "holders.0.data");
            if (dlock_hold_check(term) == DLOCK_OK) /* else the second one may lead */
                HOLDS(data ? strcmp(data, "first") == 0 : !s->baseline);
            read_info(s, info);
        }
        give_back(s, term); /* resigns */
        give_back(s, take_from(s, op, ACQUIRE_ERRORS));
    }
    close_pair(s, &two);
}

/* ---- read and written ---- */

/* The write is given back before the read within it; the grant goes on as a reader's. */
static void go_down(stage *s, dlock_lock *write, dlock_lock *read, dlock_lock *theirs)
{
    const uint32_t won = ACQUIRE_ERRORS | BIT(DLOCK_ELOST);
    dlock_hold *writer = NULL, *reader = NULL, *other = NULL;
    if (!SAYS(DLOCK_OK, won, dlock_lock_acquire(write, LONG_MS, &writer, &s->err)))
        return;
    SAYS(DLOCK_OK, won, dlock_lock_acquire(read, LONG_MS, &reader, &s->err));
    SAYS(DLOCK_OK, RELEASE_ERRORS, dlock_hold_release(writer, &s->err));
    dlock_hold_free(writer);
    if (reader)
        SAYS(DLOCK_OK, won, dlock_lock_acquire(theirs, LONG_MS, &other, &s->err));
    give_back(s, other);
    give_back(s, reader);
}

static void downgrade(stage *s, dlock_lock *write, dlock_lock *their_write)
{
    const uint32_t won = ACQUIRE_ERRORS | BIT(DLOCK_ELOST);
    dlock_hold *hold = NULL;
    if (!SAYS(DLOCK_OK, won, dlock_lock_acquire(write, LONG_MS, &hold, &s->err)))
        return;
    dlock_op *op = dlock_lock_acquire_start(their_write, LONG_MS);
    SAYS(DLOCK_OK, MEM_ERRORS | BIT(DLOCK_ELOST), dlock_hold_downgrade(hold, &s->err));
    SAYS(DLOCK_OK, HOLD_ERRORS, dlock_hold_verify(hold, &s->err));
    give_back(s, hold);
    give_back(s, take_from(s, op, won));
}

void scenario_read_and_written(stage *s)
{
    static const dlock_kind sides[2] = {DLOCK_READ, DLOCK_WRITE};
    dlock_client *clients[2];
    dlock_lock *locks[2][2]; /* a client's sides */
    bool all = true;
    for (int i = 0; i < 2; i++) {
        clients[i] = open_client(s);
        for (int side = 0; side < 2; side++) {
            locks[i][side] =
                make_kind(s, clients[i], sides[side], name_of(s, "page"), "");
            all = all && locks[i][side];
        }
    }
    if (all) {
        go_down(s, locks[0][1], locks[0][0], locks[1][0]);
        downgrade(s, locks[0][1], locks[1][1]);
    }
    for (int i = 0; i < 2; i++) {
        dlock_lock_free(locks[i][0]);
        dlock_lock_free(locks[i][1]);
        close_client(s, clients[i]);
    }
}

/* ---- permits ---- */

static void share(stage *s, dlock_lock *ours, dlock_lock *theirs)
{
    dlock_hold *first = acquire(s, ours), *second = first ? acquire(s, theirs) : NULL;
    if (second) {
        dlock_hold *third = NULL;
        SAYS(DLOCK_EBUSY, OK | ACQUIRE_ERRORS,
             dlock_lock_acquire(ours, 0, &third, &s->err));
        give_back_any(s, third);
        dlock_op *op = dlock_lock_acquire_start(theirs, LONG_MS);
        dlock_op *dropped = dlock_lock_acquire_start(ours, LONG_MS);
        dlock_op_free(dropped);
        give_back_any(s, first);
        give_back_any(s, take_from(s, op, ACQUIRE_ERRORS));
    } else {
        give_back_any(s, first);
    }
    give_back_any(s, second);
}

void scenario_permits(stage *s)
{
    pair two = {0};
    for (int i = 0; i < 2; i++) {
        two.client[i] = open_client(s);
        two.lock[i] = make_kind(s, two.client[i], DLOCK_SEMAPHORE,
                                name_of(s, PERMITS_NAME), "lock.permits=2");
    }
    if (two.lock[0] && two.lock[1])
        share(s, two.lock[0], two.lock[1]);
    close_pair(s, &two);
}

/* ---- revoked ---- */

/* Asks until the holder listens, whose subscription may be on its way, or still has to be repeated
 * because something failed. */
static bool ask_for_it(stage *s, dlock_lock *lock)
{
    const uint32_t lost = ASK_ERRORS | BIT(DLOCK_ENOTHELD) | BIT(DLOCK_ENOTSUP);
    dlock_err code;
    int64_t until = now_ms() + 20 * LONG_MS;
    while ((code = dlock_lock_revoke(lock, NULL)) == DLOCK_ENOTSUP && now_ms() < until)
        nap_ms(1);
    return SAYS(DLOCK_OK, lost,
                code == DLOCK_OK ? code : dlock_lock_revoke(lock, &s->err));
}

void scenario_revoked(stage *s)
{
    pair two = {0};
    dlock_hold *hold = open_pair(s, &two) ? acquire(s, two.lock[0]) : NULL;
    int fd = dlock_client_event_fd(two.client[0]);
    if (hold && dlock_hold_notify(hold, 9) == DLOCK_OK && ask_for_it(s, two.lock[1]) &&
        s->baseline) /* a message may be lost with its connection */
        await_event(s, two.client[0], fd, 9);
    give_back(s, hold);
    close_pair(s, &two);
}
