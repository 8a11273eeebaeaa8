/*
 * See model.h. Rows are kept by name, so that a list is merged in one pass.
 */
#include "top/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Answers --------------------------------------------------------------------------- */

void top_seen_clear(top_seen *seen)
{
    *seen = (top_seen){.pid = -1,
                       .token = -1,
                       .left_ms = -1,
                       .since = -1,
                       .held = -1,
                       .holders = -1,
                       .waiters = -1,
                       .first_since = -1,
                       .held_ms = -1,
                       .waited_ms = -1};
}

static int64_t number_of(const char *text)
{
    char *end = NULL;
    if (text == NULL || *text == '\0')
        return -1;
    long long number = strtoll(text, &end, 10);
    return *end == '\0' && number >= 0 ? number : -1;
}

/* A span or a date in ms, which is added to others: what is longer than ages of mankind is cut, as
 * a span, and no date. */
static const int64_t longest = INT64_C(1) << 50;

static int64_t span_of(const char *text)
{
    int64_t number = number_of(text);
    return number < longest ? number : longest;
}

static int64_t date_of(const char *text)
{
    int64_t number = number_of(text);
    return number < longest ? number : -1;
}

/* What an info says of a holder, in whichever list it stands. */
static void read_holder(top_seen *seen, const char *what, const char *text)
{
    if (strcmp(what, "owner") == 0)
        seen->owner = text;
    else if (strcmp(what, "client") == 0)
        seen->client = text;
    else if (strcmp(what, "host") == 0)
        seen->host = text;
    else if (strcmp(what, "pid") == 0)
        seen->pid = number_of(text);
    else if (strcmp(what, "token") == 0)
        seen->token = number_of(text);
    else if (strcmp(what, "remaining_ms") == 0)
        seen->left_ms = span_of(text);
    else if (strcmp(what, "since") == 0)
        seen->since = date_of(text);
}

static void read_holders(top_seen *seen, const dlock_info *info)
{
    static const char first[] = "holders.0.";
    seen->holders = 0;
    for (size_t i = 0; i < dlock_info_count(info); i++) {
        const char *key = dlock_info_key(info, i), *last = strrchr(key, '.');
        seen->holders += strncmp(key, "holders.", 8) == 0 && strcmp(last, ".owner") == 0;
        if (strncmp(key, first, sizeof first - 1) == 0)
            read_holder(seen, key + sizeof first - 1, dlock_info_text(info, i));
    }
}

void top_seen_of_lock(top_seen *seen, const dlock_info *info)
{
    top_seen_clear(seen);
    seen->kind = dlock_info_get(info, "kind");
    read_holders(seen, info);
    seen->held = number_of(dlock_info_get(info, "held"));
    seen->waiters = number_of(dlock_info_get(info, "waiters"));
    seen->first_waiter = dlock_info_get(info, "waiting.0.owner");
    seen->first_since = date_of(dlock_info_get(info, "waiting.0.since"));
}

/* How long ago that was, by the service's clock; -1: that isn't known. */
static int64_t age_of(int64_t since, int64_t date)
{
    if (since < 0 || date < 0)
        return -1;
    return since < date ? date - since : 0;
}

/* An entry "locks.N.what". */
static void read_entry(top_seen *seen, const char *what, const char *text)
{
    if (strcmp(what, "name") == 0)
        seen->name = text;
    else if (strcmp(what, "kind") == 0)
        seen->kind = text;
    else if (strcmp(what, "waiters") == 0)
        seen->waiters = number_of(text);
    else if (strcmp(what, "waiting.0.since") == 0)
        seen->first_since = date_of(text);
    else
        read_holder(seen, what, text);
}

size_t top_seen_of_list(top_seen *seen, size_t most, const dlock_info *list)
{
    int64_t date = date_of(dlock_info_get(list, "date"));
    size_t count = 0;
    for (size_t i = 0; i < dlock_info_count(list); i++) {
        const char *key = dlock_info_key(list, i);
        char *what = NULL;
        if (strncmp(key, "locks.", 6) != 0)
            continue;
        unsigned long place = strtoul(key + 6, &what, 10);
        if (*what != '.' || place >= most)
            continue;
        for (; count <= place; count++)
            top_seen_clear(&seen[count]);
        read_entry(&seen[place], what + 1, dlock_info_text(list, i));
    }
    size_t named = 0;
    for (size_t i = 0; i < count; i++) {
        seen[i].held = seen[i].owner != NULL ? 1 : -1;
        seen[i].held_ms = age_of(seen[i].since, date);
        seen[i].waited_ms = age_of(seen[i].first_since, date);
        if (seen[i].name != NULL)
            seen[named++] = seen[i];
    }
    return named;
}

/* ---- Rows ------------------------------------------------------------------------------ */

static bool set_text(char **text, const char *to)
{
    if (to == NULL) {
        free(*text);
        *text = NULL;
        return true;
    }
    if (*text != NULL && strcmp(*text, to) == 0)
        return true;
    char *copy = strdup(to);
    if (copy == NULL)
        return false;
    free(*text);
    *text = copy;
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void free_row(top_row *row)
{
    if (row == NULL)
        return;
    free(row->name);
    free(row->kind);
    free(row->owner);
    free(row->who);
    free(row->failed);
    free(row->first_waiter);
    free(row);
}

static top_row *new_row(const char *name)
{
    top_row *row = malloc(sizeof *row);
    if (row == NULL)
        return NULL;
    *row = (top_row){.token = -1,
                     .left_ms = -1,
                     .since = -1,
                     .holders = -1,
                     .waiters = -1,
                     .whole_ms = -1,
                     .looked = -1,
                     .asked = -1,
                     .held_from = -1,
                     .waited_from = -1,
                     .first_since = -1,
                     .held_ms = -1,
                     .waited_ms = -1,
                     .asked_as = DLOCK_MUTEX};
    row->name = strdup(name);
    if (row->name == NULL) {
        free(row);
        return NULL;
    }
    return row;
}

/* "client@host:pid", as far as it is known; a client that is called HOST:PID says that once. Then
 * the bare owner. */
static bool set_who(top_row *row, const top_seen *seen)
{
    char pid[24] = "", usual[300] = "", who[600];
    if (seen->client == NULL && seen->host == NULL)
        return set_text(&row->who, seen->owner);
    if (seen->pid >= 0)
        (void)snprintf(pid, sizeof pid, ":%lld", (long long)seen->pid);
    const char *client = seen->client != NULL ? seen->client : "";
    if (seen->host == NULL) {
        (void)snprintf(who, sizeof who, "%s%s", client, pid);
        return set_text(&row->who, who);
    }
    (void)snprintf(usual, sizeof usual, "%s%s", seen->host, pid);
    bool once = *client == '\0' || strcmp(client, usual) == 0;
    (void)snprintf(who, sizeof who, "%s%s%s", once ? "" : client, once ? "" : "@", usual);
    return set_text(&row->who, who);
}

/* The holder is gone: did its lease run out, as far as the last look could tell? What was released
 * or broken in time had some left. When the service looked is known as well as an answer is quick:
 * what wasn't renewed, and may have run out by the end of the answer that it is gone, has. */
static void count_loss(top_model *model, const top_row *row, int64_t now)
{
    if (row->held && row->left_ms >= 0 && row->left_ms < row->whole_ms / 2 &&
        now - row->read >= row->left_ms)
        model->lost++;
}

/* What the clocks are apart, by a holder that has come between two looks, and before whom nobody
 * waited: who did may have a date of when it asked. That nobody did is known of when it was asked last. */
static void learn_clock(top_model *model, int64_t since, int64_t before, int64_t now)
{
    enum { SLACK_MS = 1000 };
    int64_t latest = since - (model->date + now),
            earliest = since - (model->date + before);
    bool agree = latest <= SLACK_MS && earliest >= -SLACK_MS;
    model->clock_off = agree ? 0 : latest;
}

static bool set_holder(top_model *model, top_row *row, const top_seen *seen, bool knew,
                       int64_t before, int64_t now)
{
    bool held = seen->held > 0;
    /* A list may tell no token: that is no other one. */
    bool same = held && row->held && same_text(row->owner, seen->owner) &&
                (seen->token < 0 || row->token < 0 || seen->token == row->token);
    if (!same) {
        count_loss(model, row, now);
        row->held_from = now;
        row->seen_to_come = knew;
        row->whole_ms = row->token = -1;
        if (held && knew && seen->since >= 0 && row->waiters <= 0)
            learn_clock(model, seen->since, row->asked >= 0 ? row->asked : before, now);
    }
    row->held = held;
    row->left_ms = seen->left_ms;
    if (row->whole_ms < seen->left_ms)
        row->whole_ms = seen->left_ms;
    if (!same || seen->token >= 0)
        row->token = seen->token;
    if (!same || seen->since >= 0)
        row->since = seen->since;
    if (held && seen->held_ms >= 0) { /* there is nothing to reckon */
        row->held_from = now - seen->held_ms;
        row->seen_to_come = true;
    }
    return set_text(&row->owner, seen->owner) && set_who(row, seen);
}

/* ---- Looks ----------------------------------------------------------------------------- */

void top_model_begin(top_model *model, int64_t now, int64_t date)
{
    *model = (top_model){.listed = -1, .date = date - now};
}

void top_model_end(top_model *model)
{
    for (size_t i = 0; i < model->count; i++)
        free_row(model->rows[i]);
    free(model->rows);
    free(model->view);
    free(model->filter);
}

static int by_seen_name(const void *a, const void *b)
{
    return strcmp(((const top_seen *)a)->name, ((const top_seen *)b)->name);
}

/* Who waits, and what it is, where a list tells it; NULL and -1 are no news. */
static bool set_line(top_row *row, const top_seen *seen, int64_t now)
{
    if (seen->waiters < 0)
        return true;
    row->waiters = seen->waiters;
    row->waited_from = seen->waited_ms >= 0 ? now - seen->waited_ms : -1;
    row->waited_exactly = seen->waited_ms >= 0;
    return seen->kind == NULL || set_text(&row->kind, seen->kind);
}

/* A row for a name that wasn't there at the last look. */
static top_row *come(top_model *model, const top_seen *seen, int64_t asked, int64_t now)
{
    bool knew = model->listed >= 0 && model->whole;
    top_row *row = new_row(seen->name);
    if (row == NULL)
        return NULL;
    row->seen_to_come = knew;
    row->held_from = now;
    if ((seen->held > 0 && !set_holder(model, row, seen, knew, model->listed, now)) ||
        !set_line(row, seen, now)) {
        free_row(row);
        return NULL;
    }
    if (seen->held > 0) {
        row->looked = now;
        row->read = asked;
    }
    return row;
}

/* A list that tells no holder says nothing new of a row, but that it is there. */
static bool stay(top_model *model, top_row *row, const top_seen *seen, int64_t asked,
                 int64_t now)
{
    if (seen->held < 0)
        return true;
    bool done = set_holder(model, row, seen, row->looked >= 0, row->looked, now);
    row->looked = now;
    row->read = asked;
    return set_line(row, seen, now) && done;
}

bool top_model_list(top_model *model, top_seen *seen, size_t count, bool whole,
                    int64_t asked, int64_t now)
{
    top_row **rows = calloc(count > 0 ? count : 1, sizeof(*rows));
    if (rows == NULL)
        return false;
    if (count > 0)
        qsort(seen, count, sizeof *seen, by_seen_name);
    bool done = true;
    size_t made = 0, old = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(seen[i].name, seen[i - 1].name) == 0)
            continue;
        int order = 1;
        while (old < model->count &&
               (order = strcmp(model->rows[old]->name, seen[i].name)) < 0) {
            if (whole)
                count_loss(model, model->rows[old], now);
            free_row(model->rows[old++]);
        }
        bool known = old < model->count && order == 0;
        top_row *row = known ? model->rows[old++] : come(model, &seen[i], asked, now);
        if (known)
            done = stay(model, row, &seen[i], asked, now) && done;
        if (row != NULL)
            rows[made++] = row;
        else
            done = false;
    }
    for (; old < model->count; old++) {
        if (whole)
            count_loss(model, model->rows[old], now);
        free_row(model->rows[old]);
    }
    free(model->rows);
    model->rows = rows;
    model->count = made;
    model->shown = 0; /* the view points to rows that may be gone */
    model->whole = whole;
    model->listed = asked;
    return done;
}

static int by_name_of(const void *name, const void *row)
{
    return strcmp(name, (*(top_row *const *)row)->name);
}

top_row *top_model_find(const top_model *model, const char *name)
{
    if (name == NULL || model->count == 0)
        return NULL;
    top_row **found =
        bsearch(name, model->rows, model->count, sizeof(*model->rows), by_name_of);
    return found != NULL ? *found : NULL;
}

bool top_model_look(top_model *model, const top_seen *seen, int64_t asked, int64_t now)
{
    top_row *row = top_model_find(model, seen->name);
    if (row == NULL)
        return true;
    bool knew = row->looked >= 0;
    int64_t before = knew ? row->looked : model->listed;
    /* One that came with the last list has its holder since then. */
    bool done = set_holder(model, row, seen, knew || row->seen_to_come, before, now);
    row->looked = row->asked = now;
    row->read = asked;
    row->holders = seen->holders;
    row->waiters = seen->waiters;
    if (row->waiters <= 0 && seen->first_waiter == NULL)
        row->waited_from = -1;
    else if (row->waited_from < 0 || !same_text(row->first_waiter, seen->first_waiter))
        row->waited_from = now;
    row->waited_exactly = false;
    row->first_since = seen->first_since;
    done = set_text(&row->kind, seen->kind) && done;
    done = set_text(&row->first_waiter, seen->first_waiter) && done;
    return set_text(&row->failed, NULL) && done;
}

bool top_model_fail(top_model *model, const char *name, const char *why, int64_t now)
{
    top_row *row = top_model_find(model, name);
    if (row == NULL)
        return true;
    row->asked = now; /* the others have their turn */
    return set_text(&row->failed, why);
}

dlock_kind top_row_kind(const top_row *row)
{
    static const struct {
        const char *name;
        dlock_kind kind;
    } kinds[] = {{"mutex", DLOCK_MUTEX},
                 {"read", DLOCK_READ},
                 {"write", DLOCK_WRITE},
                 {"semaphore", DLOCK_SEMAPHORE},
                 {"election", DLOCK_ELECTION}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (row->kind != NULL && strcmp(row->kind, kinds[i].name) == 0)
            return kinds[i].kind;
    }
    return row->asked_as;
}

bool top_model_filter(top_model *model, const char *filter)
{
    return set_text(&model->filter, filter != NULL && *filter != '\0' ? filter : NULL);
}
