/*
 * What stands in an item that is a lock, and what a request makes of it: pure sums on text.
 *
 *     <owner> mutex <token> <about>             a mutex; the item's own time is the lease
 *     <owner> election <token> <about>          likewise
 *     read/write                                a read/write lock: a line for each holder,
 *     <owner> w 1 <until> <token> <about>       w or r, permits, and when its lease is over by
 *     semaphore <permits>                       the server's clock (seconds since 1970)
 *     <owner> r <take> <until> <token> <about>
 *
 * A token is made of the number (cas) of the store that granted the lock, which the server chooses.
 * So it stands there as 0 until the next store: until then the item's number is that one.
 *
 * <about> is who holds it (util/who.h), behind a tab since when by his date, and behind another what it shows
 * (lock.data).
 *
 * Anything else was put there by somebody else, and holds the name as long as it is there.
 *
 * Why an item with lines: memcached changes one item at a time, and tells nobody who holds what.
 * All holders in one item and one number for all of them (cas) make each change all or nothing.
 */
#ifndef DLK_BACKENDS_MEMCACHED_RECORD_H
#define DLK_BACKENDS_MEMCACHED_RECORD_H

#include "backends/memcached/wire.h"
#include "locks/ask.h"

#include <string.h>

/* Larger ones would come near the least that -I allows as the size of an item. */
#define DLK_MC_RECORD_MAX 65536

typedef enum dlk_mc_form {
    DLK_MC_FOREIGN, /* not ours */
    DLK_MC_MUTEX,
    DLK_MC_ELECTION,
    DLK_MC_READ_WRITE,
    DLK_MC_SEMAPHORE,
} dlk_mc_form;

dlk_mc_form dlk_mc_form_of(dlock_kind kind);
/* "mutex", "election", "write", "semaphore": what inspect calls it. */
const char *dlk_mc_form_name(dlk_mc_form form);

/* One holder. */
typedef struct dlk_mc_holder {
    dlk_mc_text owner, about;
    bool shared;
    int64_t take;
    int64_t until; /* the server's clock; 0: the item's own time */
    int64_t token; /* 0: that of the item's number */
} dlk_mc_holder;

/* A value, taken apart. Holders are found one by one. */
typedef struct dlk_mc_record {
    dlk_mc_form form;
    int64_t permits;
    dlk_mc_text rest; /* what dlk_mc_next_holder looks at next */
} dlk_mc_record;

dlk_mc_record dlk_mc_record_of(dlk_mc_text value);
/* Of a foreign value: itself as an owner, where it is one printable word, else none. False: no
 * more. Lines that make no sense are passed over. */
bool dlk_mc_next_holder(dlk_mc_record *record, dlk_mc_holder *ret);

/* Who holds a value of one holder; of others nobody (an owner of size 0). */
dlk_mc_holder dlk_mc_sole_holder(dlk_mc_text value);
/* The value of one holder; false without memory. */
bool dlk_mc_put_sole(dlk_buf *out, dlk_mc_form form, const dlk_mc_holder *holder);

static inline bool dlk_mc_same(dlk_mc_text a, dlk_mc_text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* What is asked of a record with lines. */
typedef struct dlk_mc_wish {
    dlk_verb verb; /* acquire, renew, release, verify, break, import */
    dlk_mc_form form;
    bool shared;
    int64_t take, permits;
    dlk_mc_text owner, about;
    const char *text; /* break, import: another's owner, or NULL */
    int64_t now;      /* the server's clock: not later than it is there */
    int64_t until;    /* … and when a lease given now is over */
    int64_t seen;     /* the token of the item's number */
} dlk_mc_wish;

/* What to do about it. */
typedef struct dlk_mc_plan {
    /* PENDING: store what was put into `out`, or drop the item if `empty`, and it is YES. NO
     * MEMORY and conflicts are REFUSED. */
    dlk_reply reply;
    bool empty;
    int64_t last; /* the item may go when this second has come */
    /* HELD: until the first of those in the way ends; < 0: nobody knows */
    int64_t wait_ms;
    const char *why; /* REFUSED … */
    dlock_err code;  /* … with this */
} dlk_mc_plan;

/* @p value NULL: there is no item. */
dlk_mc_plan dlk_mc_record_plan(const dlk_mc_wish *wish, const dlk_mc_text *value,
                               dlk_buf *out);

#endif
