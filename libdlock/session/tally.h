/*
 * How many signals are out at a condition, and whom they are for: a text that lies at the service, and
 * is changed only as it was read. Decisions over it and the line, as one look has found both.
 *
 *     <last>:<count> <last>:<count> …    so many signals, for those who stand up to the place <last>
 *
 * Each goes to the first of those who isn't signalled yet: so the signalled are the head of the line.
 * Whoever leaves it without having used his signal, or dies, makes room at the head, and the next one
 * stands there without anybody's doing; but nobody who came after the signal was given.
 */
#ifndef DLK_SESSION_TALLY_H
#define DLK_SESSION_TALLY_H

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dlk_tally_entry {
    int64_t last, count;
} dlk_tally_entry;

typedef struct dlk_tally {
    dlk_tally_entry *entries; /* by `last`, which rises */
    size_t count;
} dlk_tally;

/* The numbers of the places by which the line is ordered, the first one first. */
typedef struct dlk_queue {
    const int64_t *places;
    size_t count;
} dlk_queue;

/* Of the service @p what. DLOCK_ENOMEM, or DLOCK_EPROTO: it isn't one. */
dlock_err dlk_tally_read(dlk_tally *ret, const char *text, const char *what,
                         dlock_error **err);
void dlk_tally_free(dlk_tally *tally);
/* Yours to free(); "" when no signal is out, NULL without memory. */
char *dlk_tally_text(const dlk_tally *tally);

/* So many at the head of the line are signalled. */
size_t dlk_tally_signalled(const dlk_tally *tally, dlk_queue line);
/* @p wanted more, as far as there are who wait; how many in @p ret. False without memory. */
bool dlk_tally_add(dlk_tally *tally, dlk_queue line, int64_t wanted, size_t *ret);
/* Who stands at @p place leaves the line with its signal, if it has one. Of those before it some may
 * have gone since the line was looked at: so it takes the signal that reaches least far of those that reach
 * it, and leaves those that reach farther to whoever is left. No place that a signal reaches may have been
 * overlooked. */
void dlk_tally_use(dlk_tally *tally, dlk_queue line, int64_t place);

#endif
