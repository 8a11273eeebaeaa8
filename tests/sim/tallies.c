/*
 * Promises about the conditions of services where signals are counted (ZooKeeper, etcd): none is lost or doubled,
 * and they go to the first in the line. Read from what lies there after each change, by the rule that a signal is
 * for the first who stood in the line when it was given, and not from the library.
 */
#include "sim.h"

#include "util/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 4096

typedef struct line {
    stander who[MAX_HELD];
    int count, signalled;
    char text[TEXT];
} line;

static line last[MAX_NAMES];
/* Signals that a client has given, and was told that it has. */
static int64_t given_by[MAX_CLIENTS][MAX_NAMES], told_to[MAX_CLIENTS][MAX_NAMES];

/* Owners who have said that they have used their signal, the last of them. */
#define MAX_USED 256
static struct {
    stander who;
    bool in_time; /* it wasn't on its way back already, or lost */
} users[MAX_USED];
static size_t user_count;

void tallies_begin(void)
{
    memset(last, 0, sizeof(last));
    memset(given_by, 0, sizeof(given_by));
    memset(told_to, 0, sizeof(told_to));
    memset(users, 0, sizeof(users));
    user_count = 0;
}

/* ---- who is signalled ---- */

/* The next "<last>:<count>" of a text, and where it goes on; NULL: there is no more. */
static const char *next_entry(const char *text, int64_t *ret_last, int64_t *ret_count)
{
    long long up_to, many;
    int size = 0;
    if (sscanf(text, "%lld:%lld%n", &up_to, &many, &size) != 2)
        return NULL;
    *ret_last = up_to;
    *ret_count = many;
    return text + size;
}

static int64_t count_of(const char *text, int64_t up_to)
{
    int64_t last_place, many;
    while ((text = next_entry(text, &last_place, &many)))
        if (last_place == up_to)
            return many;
    return 0;
}

int tally_signalled(const char *text, const stander *who, int count)
{
    int signalled = 0;
    int64_t up_to, many;
    while ((text = next_entry(text, &up_to, &many)))
        for (; many > 0 && signalled < count && who[signalled].place <= up_to; many--)
            signalled++;
    return signalled;
}

/* ---- what changes ---- */

static int index_in(const line *of, int64_t place)
{
    int i = 0;
    while (i < of->count && of->who[i].place != place)
        i++;
    return i;
}

static bool has_used(const stander *one, bool in_time)
{
    for (size_t i = 0; i < MAX_USED; i++) {
        const stander *who = &users[i].who;
        if (who->number && who->number == one->number && who->client == one->client &&
            who->generation == one->generation && (users[i].in_time || !in_time))
            return true;
    }
    return false;
}

/* Who comes is the last, and whoever stays keeps its place. */
static void check_order(int name, const line *now)
{
    const line *before = &last[name];
    int64_t end = before->count ? before->who[before->count - 1].place : -1;
    for (int i = 0; i < now->count; i++)
        if (index_in(before, now->who[i].place) == before->count &&
            now->who[i].place <= end)
            violated(name, "who comes to the line of %c isn't the last in it",
                     'a' + name);
}

/* Of those who were there before the first who isn't any more; NULL: they all are. */
static const stander *gone_from(int name, const line *now, int *ret_count)
{
    const line *before = &last[name];
    const stander *one = NULL;
    *ret_count = 0;
    for (int i = 0; i < before->count; i++)
        if (index_in(now, before->who[i].place) == now->count && ++*ret_count == 1)
            one = &before->who[i];
    return one;
}

/* How many signals came to what there were. Those that reach nobody any more may go. */
static int64_t signals_more(const line *before, const line *now)
{
    int64_t up_to, many, more = 0;
    for (const char *at = now->text; (at = next_entry(at, &up_to, &many));)
        if (many > count_of(before->text, up_to))
            more += many - count_of(before->text, up_to);
    return more;
}

/* Nobody has gone: there are more signals than before, and none for whom nobody gave one. Somebody may have gone
 * since the line was looked at, and then one too many comes to nothing. */
static void check_given_more(int name, int by, const line *now)
{
    int64_t more = signals_more(&last[name], now);
    int signalled = now->signalled - last[name].signalled;
    if (by == NOBODY && now->text[0] == '\0' &&
        (now->count == 0 || s.state_lost_at[name] == s.now))
        return; /* it goes when nobody is there, or it was an operator's doing */
    if (more <= 0 || signalled < 0 || signalled > more)
        violated(name, "the signals of %c become %s, of %s, and %d more are signalled",
                 'a' + name, now->text, last[name].text, signalled);
    if (by != NOBODY)
        given_by[by][name] += more;
}

/* One has gone with its signal, and nothing changes for the others. */
static void check_used(int name, int by, const line *now, const stander *one, int count)
{
    const line *before = &last[name];
    if (count != 1 || one->client != by || !has_used(one, false))
        violated(name, "a signal of %c goes with a place whose owner hasn't used it",
                 'a' + name);
    if (index_in(before, one->place) >= before->signalled)
        violated(name, "a signal of %c goes with who wasn't signalled", 'a' + name);
    if (now->signalled != before->signalled - 1)
        violated(name, "%d were signalled at %c, one has used its signal, and %d are",
                 before->signalled, 'a' + name, now->signalled);
}

/* Its owner takes its place away, and the signal goes on though it has done its work. Not so one that came to it
 * when it had used its own, which an operator had taken away. */
static void check_not_used(int name, int by, const line *now, const stander *one)
{
    const line *before = &last[name];
    if (by != NOBODY && one->client == by && has_used(one, true) &&
        index_in(before, one->place) < before->signalled &&
        now->signalled == before->signalled && !state_lost_of_late(name))
        violated(name, "a signal of %c that was used goes to another", 'a' + name);
}

void tally_seen(int name, int by, const stander *who, int count, const char *text)
{
    static line now;
    now = (line){.count = count};
    memcpy(now.who, who, (size_t)count * sizeof(*who));
    if (snprintf(now.text, TEXT, "%s", text) >= TEXT)
        abort();
    now.signalled = tally_signalled(text, who, count);
    int gone_count;
    const stander *gone = gone_from(name, &now, &gone_count);
    bool same = strcmp(text, last[name].text) == 0;
    if (count == MAX_HELD || last[name].count == MAX_HELD) {
        last[name] = now; /* there are more of the dead in it than are looked at */
        return;
    }
    check_order(name, &now);
    if (same && gone)
        check_not_used(name, by, &now, gone);
    else if (!same && gone)
        check_used(name, by, &now, gone, gone_count);
    else if (!same)
        check_given_more(name, by, &now);
    last[name] = now;
}

/* ---- what is said and told ---- */

void tally_used(const client *c, const dlk_grant *grant)
{
    size_t at = user_count++ % MAX_USED;
    users[at].who = (stander){
        .client = c->index, .generation = c->generation, .number = grant->number};
    users[at].in_time = dlk_grant_lives(grant);
}

/* A signal, and who stood in the line when it was asked for. */
typedef struct signal {
    dlk_query query; /* first */
    line line;
} signal;

dlk_query *tally_signal(int name)
{
    signal *one = calloc(1, sizeof(*one));
    if (!one)
        abort();
    one->line = last[name];
    return &one->query;
}

/* Nobody is passed by: fewer are signalled than were to be only where nobody waits any more. */
void tally_told(const client *c, const dlk_query *query)
{
    const signal *one = (const signal *)(const void *)query;
    int name = query->name->key.name[0] - 'a';
    if (query->code != DLOCK_OK || s.config.mode == MODE_REDIS ||
        !is_calm(s.state_lost_at[name]))
        return;
    int64_t count = dlock_info_int(query->info, 0);
    told_to[c->index][name] += count;
    if (told_to[c->index][name] > given_by[c->index][name])
        violated(name, "client %d is told of a signal of %c that nobody was given",
                 c->index, 'a' + name);
    for (int i = 0; i < one->line.count && count < query->ask.limit; i++) {
        int index = index_in(&last[name], one->line.who[i].place);
        if (index < last[name].count && index >= last[name].signalled)
            violated(name, "client %d signals %c, and one who waits there isn't",
                     c->index, 'a' + name);
    }
}
