/* The functions of schema.sql, told once more; see the header. */
#include "model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MS = 1000, CALLED_FOR = 1000 * MS, SIGNALLED_FOR = 5000 * MS };

/* ---- what is said ---- */

__attribute__((format(printf, 2, 3))) static void say(model *m, const char *format, ...)
{
    size_t used = strlen(m->text);
    va_list args;
    va_start(args, format);
    vsnprintf(m->text + used, sizeof(m->text) - used, format, args);
    va_end(args);
}

static const char *or_null(char to[24], bool is_null, int64_t number)
{
    snprintf(to, 24, "%" PRId64, number);
    return is_null ? "-" : to;
}

static int64_t number_of(const char *owner)
{
    return strtoll(owner + 3, NULL, 10);
}

/* One message of a kind to a channel in one transaction. */
static void tell(model *m, const char *owner, const char *what, int64_t number,
                 const char *about)
{
    char message[64];
    snprintf(message, sizeof(message), "%.2s %s %" PRId64 "%s", owner, what, number,
             about);
    for (int i = 0; i < m->message_count; i++)
        if (strcmp(m->messages[i], message) == 0)
            return;
    strcpy(m->messages[m->message_count++], message);
}

const char *model_name_of(int name)
{
    static const char *const names[MODEL_NAMES] = {"orders", "users", "jobs", "x",
                                                   "bell"};
    return names[name];
}

/* Which comes after which. */
static const int in_order[MODEL_NAMES] = {4, 2, 0, 1, 3};

static void in_hex(const char *name, char to[32])
{
    for (; *name; name++, to += 2)
        snprintf(to, 3, "%02x", (unsigned char)*name);
}

/* ---- rows ---- */

static model_holder *find_holder(model_name *n, const char *owner)
{
    for (int i = 0; i < n->holder_count; i++)
        if (strcmp(n->holders[i].owner, owner) == 0)
            return &n->holders[i];
    return NULL;
}

static void remove_holder(model_name *n, model_holder *one)
{
    *one = n->holders[--n->holder_count];
}

/* How many that were. */
static int remove_ended(model_name *n, int64_t now)
{
    int before = n->holder_count;
    for (int i = n->holder_count; i-- > 0;)
        if (n->holders[i].ends <= now)
            remove_holder(n, &n->holders[i]);
    return before - n->holder_count;
}

static model_place *find_place(model_name *n, const char *owner)
{
    for (int i = 0; i < n->line_count; i++)
        if (strcmp(n->line[i].owner, owner) == 0)
            return &n->line[i];
    return NULL;
}

static void remove_place(model_name *n, model_place *one)
{
    int behind = (int)(&n->line[n->line_count--] - one) - 1;
    memmove(one, one + 1, (size_t)behind * sizeof(*one));
}

static bool is_over(const model_place *one, int64_t now)
{
    return one->ends <= now || (one->due && one->due <= now);
}

/* The name, made where it isn't there. */
static model_name *enter(model *m, int name, const char *kind)
{
    model_name *n = &m->names[name];
    if (n->there)
        return n;
    *n = (model_name){.there = true, .granted = m->now, .id = m->next++};
    strcpy(n->kind, kind);
    return n;
}

/* ---- who may ---- */

typedef struct sums {
    int64_t count, writers, taken;
} sums;

static void add(sums *to, bool shared, int take)
{
    to->count++;
    to->writers += !shared;
    to->taken += take;
}

static bool is_condition(const model_name *n)
{
    return strcmp(n->kind, "condition") == 0;
}

static bool fits(const model_name *n, bool shared, int take, sums ahead)
{
    if (is_condition(n))
        return false;
    for (int i = 0; i < n->holder_count; i++)
        add(&ahead, n->holders[i].shared, n->holders[i].take);
    if (strcmp(n->kind, "semaphore") == 0)
        return ahead.taken + take <= n->permits;
    return shared ? ahead.writers == 0 : ahead.count == 0;
}

static bool is_dead(const model *m, const model_place *one)
{
    return one->session && one->session != m->session;
}

static void call_next(model *m, model_name *n)
{
    sums ahead = {0};
    bool called = false;
    for (int i = 0; i < n->line_count;) {
        model_place *one = &n->line[i];
        if (is_over(one, m->now) || is_dead(m, one)) {
            remove_place(n, one);
            continue;
        }
        if (!fits(n, one->shared, one->take, ahead)) {
            if (called)
                tell(m, one->owner, "soon", n->id, "");
            return;
        }
        if (!one->due) {
            called = true;
            one->due = m->now + CALLED_FOR;
            tell(m, one->owner, "free", n->id, "");
        }
        add(&ahead, one->shared, one->take);
        i++;
    }
}

/* The first of those who wait at a condition have a signal each; the one behind them is told as well. */
static int64_t wake(model *m, model_name *n, int64_t most)
{
    int64_t woken = 0;
    while (n->line_count > 0) {
        model_place one = n->line[0];
        bool goes = one.ends <= m->now || is_dead(m, &one);
        if (!goes)
            tell(m, one.owner, "wake", number_of(one.owner), "");
        if (!goes && woken == most)
            break;
        remove_place(n, &n->line[0]);
        if (goes)
            continue;
        model_holder *held = &n->holders[n->holder_count++];
        *held = (model_holder){.take = 1,
                               .token = m->next++,
                               .since = m->now,
                               .ends = m->now + SIGNALLED_FOR};
        strcpy(held->owner, one.owner);
        woken++;
    }
    return woken;
}

static bool is_guarded(const model *m, const model_name *n)
{
    return m->guarded >= 0 && n == &m->names[m->guarded];
}

static int64_t later(int64_t one, int64_t other)
{
    return one > other ? one : other;
}

/* ---- those who may keep it ---- */

static bool may_keep(const char *owner)
{
    return strlen(owner + 3) == 19;
}

/* To an owner that has it: A: it may keep it, and others want it. */
static char reply_to(const model *m, const model_name *n, const char *owner)
{
    for (int i = 0; i < n->line_count && may_keep(owner); i++)
        if (n->line[i].ends > m->now)
            return 'A';
    return 'Y';
}

static void ask_keepers(model *m, const model_name *n)
{
    char name[40] = " ";
    in_hex(model_name_of((int)(n - m->names)), name + 1);
    for (int i = 0; i < n->holder_count; i++)
        if (may_keep(n->holders[i].owner))
            tell(m, n->holders[i].owner, "asked", number_of(n->holders[i].owner), name);
}

/* ---- acquire ---- */

static void answer(model *m, const model_name *n, char reply, int64_t token, int64_t left,
                   bool placed)
{
    char tokens[24], lefts[24];
    say(m, "%c %s %s %" PRId64 " %c", reply, or_null(tokens, token < 0, token),
        or_null(lefts, left < 0, left), n->id, placed ? 't' : 'f');
}

static bool is_idle(const model *m, const model_name *n)
{
    for (int i = 0; i < n->line_count; i++)
        if (n->line[i].ends > m->now)
            return false;
    return n->holder_count == 0;
}

/* The reply where it is another lock than asked for, or has another size; 0: it is that one, or has become it. */
static char differs(model *m, model_name *n, const model_ask *ask)
{
    bool counts = strcmp(ask->kind, "semaphore") == 0,
         same = strcmp(n->kind, ask->kind) == 0;
    bool idle = is_idle(m, n);
    if (same && n->permits == ask->size && !(counts && ask->size == 0))
        return 0;
    if (!same && !idle)
        return 'K';
    if (counts && ask->size > 0 && !idle && n->permits && n->permits != ask->size)
        return 'S';
    if (counts && ask->size == 0 && (!same || !n->permits))
        return 'P';
    if (!same || ask->size > 0) {
        strcpy(n->kind, ask->kind);
        n->permits = ask->size;
    }
    return 0;
}

static sums ahead_of(const model *m, const model_name *n, const model_place *mine)
{
    sums ahead = {0};
    for (int i = 0; i < n->line_count; i++)
        if (!is_over(&n->line[i], m->now) && (!mine || n->line[i].place < mine->place))
            add(&ahead, n->line[i].shared, n->line[i].take);
    return ahead;
}

static void grant(model *m, model_name *n, const model_ask *ask, model_place *mine)
{
    bool may_be_room = mine && (ask->shared || strcmp(n->kind, "semaphore") == 0);
    model_holder *one = &n->holders[n->holder_count++];
    *one = (model_holder){.shared = ask->shared,
                          .take = ask->take,
                          .token = m->next++,
                          .since = m->now,
                          .ends = m->now + ask->ttl_ms * MS};
    strcpy(one->owner, ask->owner);
    n->token = one->token;
    n->granted = m->now;
    if (mine)
        remove_place(n, mine);
    if (may_be_room)
        call_next(m, n);
    answer(m, n, reply_to(m, n, ask->owner), n->token, -1, false);
}

/* When it is worth to look again, in ms. */
static int64_t look_in(const model *m, const model_name *n, const model_ask *ask,
                       bool is_first)
{
    const char *owner = ask->owner;
    int64_t first = INT64_MAX, third = m->now + (ask->stay_ms * MS + 1) / 3;
    for (int i = 0; i < n->holder_count; i++)
        first = n->holders[i].ends < first ? n->holders[i].ends : first;
    for (int i = 0; i < n->line_count; i++)
        if (n->line[i].due && strcmp(n->line[i].owner, owner) != 0 &&
            n->line[i].due < first)
            first = n->line[i].due;
    if (is_condition(n) && (!is_first || first > third))
        first = third;
    if (first == INT64_MAX || first <= m->now)
        return 1;
    return (first - m->now + MS - 1) / MS + 1;
}

static void stand_in_line(model *m, model_name *n, const model_ask *ask,
                          model_place *mine, bool is_held_up)
{
    bool placed = !mine && !ask->once, is_first = ahead_of(m, n, mine).count == 0;
    int64_t left = 0;
    ask_keepers(m, n);
    if (placed) {
        mine = &n->line[n->line_count++];
        *mine = (model_place){.shared = ask->shared,
                              .take = ask->take,
                              .place = m->next++,
                              .since = m->now};
        strcpy(mine->owner, ask->owner);
    }
    if (mine) {
        mine->ends = m->now + ask->stay_ms * MS;
        mine->session = ask->listens ? m->session : 0;
        mine->due = is_held_up ? 0 : mine->due;
    }
    if (!is_held_up) {
        call_next(m, n);
        left = look_in(m, n, ask, is_first);
    }
    answer(m, n, 'H', -1, left, placed);
}

void model_acquire(model *m, const model_ask *ask)
{
    model_name *n = enter(m, ask->name, ask->kind);
    model_holder *held = find_holder(n, ask->owner);
    if (held && held->ends > m->now) {
        held->ends = later(held->ends, m->now + ask->ttl_ms * MS);
        answer(m, n, reply_to(m, n, ask->owner), held->token, -1, false);
        return;
    }
    int gone = remove_ended(n, m->now);
    if (gone > 0 && is_condition(n) && wake(m, n, gone) > 0) {
        model_acquire(m, ask); /* it may have one of these */
        return;
    }
    model_place *mine = find_place(n, ask->owner);
    if (mine && is_over(mine, m->now)) {
        remove_place(n, mine);
        mine = NULL;
    }
    char reply = differs(m, n, ask);
    if (!reply && strcmp(n->kind, "semaphore") == 0 && n->permits &&
        ask->take > n->permits)
        reply = 'S';
    bool room = fits(n, ask->shared, ask->take, ahead_of(m, n, mine));
    if (reply)
        answer(m, n, reply, -1, reply == 'S' ? n->permits : -1, false);
    else if (room && !is_guarded(m, n))
        grant(m, n, ask, mine);
    else
        stand_in_line(m, n, ask, mine, room);
}

/* ---- the others ---- */

void model_renew(model *m, const model_ask *ask)
{
    model_holder *held = find_holder(&m->names[ask->name], ask->owner);
    int64_t longest = m->now + ask->longest_ms * MS;
    if (!held || held->ends <= m->now) {
        say(m, "N - 0");
        return;
    }
    if (ask->longest_ms && held->ends > longest && held->ends == ask->named)
        held->ends = longest;
    else
        held->ends = later(held->ends, m->now + ask->ttl_ms * MS);
    say(m, "%c %" PRId64 " %" PRId64, reply_to(m, &m->names[ask->name], ask->owner),
        held->token, ask->longest_ms && held->ends > longest ? held->ends : 0);
}

void model_downgrade(model *m, const model_ask *ask)
{
    model_name *n = enter(m, ask->name, "write");
    model_holder *held = find_holder(n, ask->owner);
    if (held && held->ends > m->now) {
        held->shared = true;
        held->ends = later(held->ends, m->now + ask->ttl_ms * MS);
        say(m, "Y %" PRId64, held->token);
    } else {
        say(m, "N -");
    }
    call_next(m, n);
}

void model_release(model *m, const model_ask *ask)
{
    model_name *n = &m->names[ask->name];
    bool yes = false;
    if (n->there) {
        model_holder *held = find_holder(n, ask->owner);
        yes = held && held->ends > m->now;
        if (held)
            remove_holder(n, held);
        model_place *mine = find_place(n, ask->owner);
        yes = yes || mine;
        if (mine)
            remove_place(n, mine);
        if (is_condition(n))
            (void)wake(m, n, held ? 1 : 0);
        else
            call_next(m, n);
    }
    say(m, "%c", yes ? 'Y' : 'N');
}

void model_use(model *m, const model_ask *ask)
{
    model_name *n = &m->names[ask->name];
    model_holder *held = find_holder(n, ask->owner);
    if (held && held->token == ask->used) {
        remove_holder(n, held);
        say(m, "Y");
    } else {
        model_release(m, ask);
    }
}

void model_signal(model *m, const model_ask *ask)
{
    model_name *n = &m->names[ask->name];
    int64_t signalled = 0;
    bool in_use = false;
    for (int i = 0; i < n->holder_count; i++)
        in_use = in_use || n->holders[i].ends > m->now;
    for (int i = 0; i < n->line_count; i++)
        in_use = in_use || n->line[i].ends > m->now;
    if (n->there && is_condition(n)) {
        (void)wake(m, n, remove_ended(n, m->now));
        signalled = wake(m, n, ask->most);
        in_use = false;
    }
    say(m, "%c %" PRId64, in_use ? 'K' : 'Y', signalled);
}

void model_verify(model *m, const model_ask *ask)
{
    const model_holder *held = find_holder(&m->names[ask->name], ask->owner);
    say(m, "%c", held && held->ends > m->now ? 'Y' : 'N');
}

void model_break(model *m, const model_ask *ask)
{
    model_name *n = &m->names[ask->name];
    bool yes = false;
    if (n->there) {
        int gone = remove_ended(n, m->now);
        for (int i = n->holder_count; i-- > 0;)
            if (!ask->owner[0] || strcmp(n->holders[i].owner, ask->owner) == 0) {
                remove_holder(n, &n->holders[i]);
                yes = true;
                gone++;
            }
        if (is_condition(n))
            (void)wake(m, n, gone);
        if (yes && !is_guarded(m, n))
            n->token = m->next++;
        call_next(m, n);
    }
    say(m, "%c", yes ? 'Y' : 'N');
}

void model_import(model *m, const model_ask *ask)
{
    model_name *n = enter(m, ask->name, "mutex");
    model_holder *mine = find_holder(n, ask->owner), *given;
    if (is_condition(n)) {
        say(m, "N -");
        return;
    }
    if (mine && mine->ends > m->now) {
        mine->ends = later(mine->ends, m->now + ask->ttl_ms * MS);
        say(m, "Y %" PRId64, mine->token);
        return;
    }
    remove_ended(n, m->now);
    given = find_holder(n, ask->giver);
    if (!given) {
        say(m, "N -");
    } else if (is_guarded(m, n)) {
        say(m, "G -");
    } else {
        strcpy(given->owner, ask->owner);
        given->token = n->token = m->next++;
        given->since = n->granted = m->now;
        given->ends = m->now + ask->ttl_ms * MS;
        say(m, "Y %" PRId64, given->token);
    }
}

void model_listen(model *m, const model_ask *ask)
{
    m->listening[ask->owner[1] - '0'] = true;
    say(m, "Y");
}

void model_revoke(model *m, const model_ask *ask)
{
    const model_name *n = &m->names[ask->name];
    char reply = 'N';
    for (int i = 0; i < n->holder_count; i++) {
        const model_holder *held = &n->holders[i];
        if (held->ends <= m->now)
            continue;
        if (m->listening[held->owner[1] - '0']) {
            tell(m, held->owner, "revoke", number_of(held->owner), "");
            reply = 'Y';
        } else if (reply == 'N') {
            reply = 'D';
        }
    }
    say(m, "%c", reply);
}

void model_forget(model *m, int64_t idle_us)
{
    int gone = 0;
    for (int i = 0; i < MODEL_NAMES; i++) {
        model_name *n = &m->names[i];
        bool used = !n->there || n->granted >= m->now - idle_us || is_guarded(m, n);
        for (int k = 0; k < n->holder_count; k++)
            used = used || n->holders[k].ends > m->now;
        for (int k = 0; k < n->line_count; k++)
            used = used || n->line[k].ends > m->now;
        if (used)
            continue;
        n->there = false;
        n->holder_count = n->line_count = 0;
        gone++;
    }
    say(m, "%d", gone);
}

bool model_check(model *m, int name, int64_t token)
{
    const model_name *n = &m->names[name];
    if (!n->there || token <= 0 || n->token != token)
        return false;
    m->guarded = name;
    return true;
}

void model_reconnect(model *m)
{
    m->session++;
    memset(m->listening, 0, sizeof(m->listening));
}

/* ---- reports ---- */

static int64_t in_ms(int64_t us)
{
    return (us + MS / 2) / MS;
}

static int by_token(const void *one, const void *other)
{
    int64_t a = ((const model_holder *)one)->token,
            b = ((const model_holder *)other)->token;
    return (a > b) - (a < b);
}

static int by_owner(const void *one, const void *other)
{
    return strcmp(((const model_holder *)one)->owner,
                  ((const model_holder *)other)->owner);
}

void model_inspect(model *m, const model_ask *ask)
{
    model_name *n = &m->names[ask->name];
    char permits[24];
    int waiters = 0;
    if (!n->there)
        return;
    for (int i = 0; i < n->line_count; i++)
        waiters += !is_over(&n->line[i], m->now);
    say(m, "lock %s %s - - %d - - -", n->kind, or_null(permits, !n->permits, n->permits),
        waiters);
    qsort(n->holders, (size_t)n->holder_count, sizeof(model_holder), by_token);
    for (int i = 0; i < n->holder_count; i++) {
        const model_holder *one = &n->holders[i];
        if (one->ends > m->now)
            say(m, "\nholder - - %s %c %d %" PRId64 " %" PRId64 " %" PRId64, one->owner,
                one->shared ? 't' : 'f', one->take, one->token, in_ms(one->ends - m->now),
                in_ms(one->since));
    }
    for (int i = 0; i < n->line_count; i++) {
        const model_place *one = &n->line[i];
        if (!is_over(one, m->now))
            say(m, "\nwaiter - - %s %c %d - - %" PRId64, one->owner,
                one->shared ? 't' : 'f', one->take, in_ms(one->since));
    }
}

/* Of those that begin as the owner says: all, or those with that letter. */
void model_list(model *m, const model_ask *ask)
{
    int count = 0;
    for (int i = 0; i < MODEL_NAMES; i++) {
        model_name *n = &m->names[in_order[i]];
        const char *name = model_name_of(in_order[i]);
        const model_holder *first = NULL;
        if (strncmp(name, ask->owner, strlen(ask->owner)) != 0 || is_condition(n) ||
            count == ask->size)
            continue;
        for (int k = 0; k < n->holder_count; k++)
            if (n->holders[k].ends > m->now &&
                (!first || n->holders[k].token < first->token))
                first = &n->holders[k];
        if (!first)
            continue;
        char hex[32];
        in_hex(name, hex);
        say(m, "%s%s %s %" PRId64, count++ ? "\n" : "", hex, first->owner,
            in_ms(first->ends - m->now));
    }
}

void model_dump(model *m)
{
    for (int i = 0; i < MODEL_NAMES; i++) {
        model_name *n = &m->names[in_order[i]];
        const char *name = model_name_of(in_order[i]);
        if (!n->there)
            continue;
        say(m, "%s %s %d %" PRId64 " token %" PRId64 "\n", name, n->kind, n->permits,
            n->id, n->token);
        qsort(n->holders, (size_t)n->holder_count, sizeof(model_holder), by_owner);
        for (int k = 0; k < n->holder_count; k++)
            say(m, "%s holder %s %c %d %" PRId64 " %" PRId64 " %" PRId64 "\n", name,
                n->holders[k].owner, n->holders[k].shared ? 't' : 'f', n->holders[k].take,
                n->holders[k].token, n->holders[k].since, n->holders[k].ends);
        for (int k = 0; k < n->line_count; k++)
            say(m, "%s waiter %s %c %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
                name, n->line[k].owner, n->line[k].shared ? 't' : 'f', n->line[k].take,
                n->line[k].place, n->line[k].since, n->line[k].ends, n->line[k].due);
    }
}
