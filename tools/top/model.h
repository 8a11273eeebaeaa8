/*
 * What dlock top knows: a row for each lock, made of one look after the other, with what follows
 * from two of them: for how long somebody has held or waited, and whose lease ran out.
 *
 * Pure: it asks nobody and reads no clock. Times are milliseconds of one clock of this process. A
 * date ("since") is the service's, whose clock may be minutes off ours: by how much is learned from
 * holders that come while we look, and an age that rests on nothing else is said to be a least one.
 */
#ifndef DLOCK_TOOLS_TOP_MODEL_H
#define DLOCK_TOOLS_TOP_MODEL_H

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one answer says of a lock; what is absent there is NULL, or -1. */
typedef struct top_seen {
    const char *name, *kind;
    const char *owner, *client, *host; /* of the first holder */
    int64_t pid, token, left_ms, since;
    int64_t held; /* 0 or 1; -1: a list doesn't say */
    int64_t holders, waiters;
    const char *first_waiter;
    int64_t first_since;
    /* For how long, both by the service's clock; -1: unknown. */
    int64_t held_ms, waited_ms;
} top_seen;

typedef struct top_row {
    char *name, *kind, *owner, *who;
    char *failed; /* why it couldn't be looked at; NULL: it could */
    int64_t token, left_ms, since, holders, waiters;
    bool held;
    int64_t whole_ms; /* the most that was left of this holder's lease */
    int64_t looked; /* when the holder and its lease were so, at the latest; -1: never */
    int64_t read;   /* … at the earliest: when that was asked for */
    int64_t asked;  /* when the lock itself was asked last, not only listed; -1: never */
    int64_t held_from, waited_from;
    bool waited_exactly; /* the service tells so, by its own clock */
    bool seen_to_come;   /* the holder came while we looked */
    char *first_waiter;
    int64_t first_since;
    dlock_kind asked_as; /* the kind that is asked for */
    /* Of the view, by its time. */
    int64_t held_ms, waited_ms; /* -1: doesn't apply, or unknown */
    bool held_at_least, waited_at_least;
    bool late; /* a renewal has been missed, or there is none */
} top_row;

typedef enum top_order {
    TOP_BY_HURT,
    TOP_BY_NAME,
    TOP_BY_WAIT,
    TOP_BY_LEFT,
    TOP_BY_HELD,
    TOP_BY_WHO,
    TOP_ORDERS
} top_order;

typedef struct top_model {
    top_row **rows; /* by name */
    size_t count;
    top_row **view; /* those that pass the filter, in their order */
    size_t shown;
    top_order order;
    char *filter;   /* a part of a name or a holder; NULL: all */
    int64_t listed; /* when the last list was asked for; -1: never */
    bool whole;     /* the last list had all there is */
    int64_t clients, held, waiting, lost;
    int64_t date;      /* ours, at time 0 */
    int64_t clock_off; /* the service's clock is so much ahead of ours */
} top_model;

void top_seen_clear(top_seen *seen);
/* Reads an answer to inspect; the texts are the info's. */
void top_seen_of_lock(top_seen *seen, const dlock_info *info);
/* Reads a list, in one go however long it is: up to `most` locks. Returns how many. */
size_t top_seen_of_list(top_seen *seen, size_t most, const dlock_info *list);

void top_model_begin(top_model *model, int64_t now, int64_t date);
void top_model_end(top_model *model);

/* The following return false without memory; nothing is lost then but what was new. */

/* The names that are there, in any order, and what the list says of each. `whole`: there are no
 * others. It was asked for at `asked`. */
bool top_model_list(top_model *model, top_seen *seen, size_t count, bool whole,
                    int64_t asked, int64_t now);
/* What a lock's answer says, asked for at `asked`; a name that isn't there any more is ignored. */
bool top_model_look(top_model *model, const top_seen *seen, int64_t asked, int64_t now);
/* It couldn't be looked at. */
bool top_model_fail(top_model *model, const char *name, const char *why, int64_t now);
/* What it is as it says itself; where it doesn't, as it is asked for. */
dlock_kind top_row_kind(const top_row *row);
bool top_model_filter(top_model *model, const char *filter);
/* Makes the view of this moment, and counts. */
bool top_model_view(top_model *model, int64_t now);

top_row *top_model_find(const top_model *model, const char *name);
/* Up to `most` rows to look at next, in `ret`: those of the view from `first` on, a screen of
 * them, then those that weren't looked at for the longest time. Returns how many. */
size_t top_model_due(top_model *model, size_t first, size_t screen, top_row **ret,
                     size_t most);
/* The same where lists say enough: those of the screen alone that have another holder than when
 * they were asked last, or were asked long ago. */
size_t top_model_news(top_model *model, size_t first, size_t screen, top_row **ret,
                      size_t most, int64_t now);
const char *top_order_name(top_order order);

#endif
