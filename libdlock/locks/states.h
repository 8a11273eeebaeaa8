/*
 * What a grant and a query can be, and which event is possible when: one table for each. An event
 * that its table doesn't allow is an assertion's failure. docs/design/0025-states.md says what the
 * states stand for, and why what isn't in them isn't.
 */
#ifndef DLK_LOCKS_STATES_H
#define DLK_LOCKS_STATES_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- a grant ---- */

/* How far it has come. Only ever downwards, but among those from OWED on. */
typedef enum dlk_stage {
    DLK_STAGE_TRIED,      /* the attempt of its name: name->trying */
    DLK_STAGE_IMPORTED,   /* an attempt beside the line: by a ticket */
    DLK_STAGE_HELD,       /* HELD or SUSPECT; all other stages are neither */
    DLK_STAGE_OWED,       /* to be given back as soon as possible */
    DLK_STAGE_RELEASING,  /* the release is under way */
    DLK_STAGE_CONFIRMING, /* released, but an older acquire of ours may still arrive: once
                           * more later */
    DLK_STAGE_OVER,       /* nothing of it is ours to give back */
    DLK_STAGES
} dlk_stage;

/* The request of it that is under way, beside a release. */
typedef enum dlk_asks {
    DLK_ASKS_NOTHING,
    DLK_ASKS_ACQUIRE,       /* its own, or along with another grant's release */
    DLK_ASKS_STALE_ACQUIRE, /* … and notified since: its "held" may be old news */
    DLK_ASKS_IMPORT,
    DLK_ASKS_RENEWAL,
    DLK_ASKS_FED_RENEWAL, /* one that the program has fed for */
    DLK_ASKS
} dlk_asks;

typedef enum dlk_grant_event {
    DLK_GRANT_ACQUIRE_SENT,
    DLK_GRANT_NOTIFIED, /* its name may be free, while its acquire is under way */
    DLK_GRANT_ACQUIRE_ANSWERED,
    DLK_GRANT_IMPORT_SENT,
    DLK_GRANT_IMPORT_ANSWERED,
    DLK_GRANT_RENEWAL_SENT,
    DLK_GRANT_FED_RENEWAL_SENT,
    DLK_GRANT_RENEWAL_ANSWERED,
    DLK_GRANT_GRANTED,
    DLK_GRANT_UNWANTED, /* the attempt is given up, and may have something at the server */
    DLK_GRANT_NOT_THERE, /* … and hasn't */
    DLK_GRANT_RELEASED,
    DLK_GRANT_EXPORTED,
    DLK_GRANT_EXPIRED,    /* lost by the clock, or an acquire may be done yet */
    DLK_GRANT_TAKEN_AWAY, /* lost by the server's word */
    DLK_GRANT_RELEASE_SENT,
    DLK_GRANT_RELEASE_ANSWERED,
    DLK_GRANT_RELEASE_PUT_OFF, /* to the next try */
    DLK_GRANT_CONFIRM_LATER,
    DLK_GRANT_GIVEN_BACK, /* confirmed, or surely forgotten by the server */
    DLK_GRANT_GOT_LATE, /* something came after the release that should have undone it */
    DLK_GRANT_STOPPED,  /* no answer will come any more */
    DLK_GRANT_EVENTS
} dlk_grant_event;

/* Where an event is possible, and what the grant is from then on. */
typedef struct dlk_grant_rule {
    uint8_t stages, requests; /* sets of them, by their bits */
    uint8_t stage, asks;      /* DLK_STAGES, DLK_ASKS: as before */
} dlk_grant_rule;

#define DLK_IN(member)  (1u << (member))

#define DLK_IN_ATTEMPTS (DLK_IN(DLK_STAGE_TRIED) | DLK_IN(DLK_STAGE_IMPORTED))
#define DLK_IN_WAITING  (DLK_IN(DLK_STAGE_OWED) | DLK_IN(DLK_STAGE_CONFIRMING))
#define DLK_IN_ENDED                                                                     \
    (DLK_IN_WAITING | DLK_IN(DLK_STAGE_RELEASING) | DLK_IN(DLK_STAGE_OVER))

#define DLK_ASKS_NONE        DLK_IN(DLK_ASKS_NOTHING)
#define DLK_ASKS_FOR_ACQUIRE (DLK_IN(DLK_ASKS_ACQUIRE) | DLK_IN(DLK_ASKS_STALE_ACQUIRE))
#define DLK_ASKS_TO_TAKE     (DLK_ASKS_FOR_ACQUIRE | DLK_IN(DLK_ASKS_IMPORT))
#define DLK_ASKS_TO_KEEP     (DLK_IN(DLK_ASKS_RENEWAL) | DLK_IN(DLK_ASKS_FED_RENEWAL))
#define DLK_ASKS_ANY         (DLK_ASKS_NONE | DLK_ASKS_TO_TAKE | DLK_ASKS_TO_KEEP)

/* clang-format off */
static const dlk_grant_rule dlk_grant_rules[DLK_GRANT_EVENTS] = {
    /* event                         in these stages, with these under way,    then */
    [DLK_GRANT_ACQUIRE_SENT] =       {DLK_IN(DLK_STAGE_TRIED), DLK_ASKS_NONE, DLK_STAGES, DLK_ASKS_ACQUIRE},
    [DLK_GRANT_NOTIFIED] =           {DLK_IN(DLK_STAGE_TRIED), DLK_ASKS_FOR_ACQUIRE, DLK_STAGES, DLK_ASKS_STALE_ACQUIRE},
    [DLK_GRANT_ACQUIRE_ANSWERED] =   {DLK_IN(DLK_STAGE_TRIED) | DLK_IN_ENDED, DLK_ASKS_FOR_ACQUIRE, DLK_STAGES, DLK_ASKS_NOTHING},
    [DLK_GRANT_IMPORT_SENT] =        {DLK_IN(DLK_STAGE_IMPORTED), DLK_ASKS_NONE, DLK_STAGES, DLK_ASKS_IMPORT},
    [DLK_GRANT_IMPORT_ANSWERED] =    {DLK_IN(DLK_STAGE_IMPORTED) | DLK_IN_ENDED, DLK_IN(DLK_ASKS_IMPORT), DLK_STAGES, DLK_ASKS_NOTHING},
    [DLK_GRANT_RENEWAL_SENT] =       {DLK_IN(DLK_STAGE_HELD), DLK_ASKS_NONE, DLK_STAGES, DLK_ASKS_RENEWAL},
    [DLK_GRANT_FED_RENEWAL_SENT] =   {DLK_IN(DLK_STAGE_HELD), DLK_ASKS_NONE, DLK_STAGES, DLK_ASKS_FED_RENEWAL},
    [DLK_GRANT_RENEWAL_ANSWERED] =   {DLK_IN(DLK_STAGE_HELD) | DLK_IN_ENDED, DLK_ASKS_TO_KEEP, DLK_STAGES, DLK_ASKS_NOTHING},

    [DLK_GRANT_GRANTED] =            {DLK_IN_ATTEMPTS, DLK_ASKS_NONE, DLK_STAGE_HELD, DLK_ASKS},
    [DLK_GRANT_UNWANTED] =           {DLK_IN_ATTEMPTS, DLK_ASKS_NONE | DLK_ASKS_TO_TAKE, DLK_STAGE_OWED, DLK_ASKS},
    [DLK_GRANT_NOT_THERE] =          {DLK_IN_ATTEMPTS, DLK_ASKS_NONE, DLK_STAGE_OVER, DLK_ASKS},
    [DLK_GRANT_RELEASED] =           {DLK_IN(DLK_STAGE_HELD), DLK_ASKS_NONE | DLK_ASKS_TO_KEEP, DLK_STAGE_OWED, DLK_ASKS},
    [DLK_GRANT_EXPORTED] =           {DLK_IN(DLK_STAGE_HELD), DLK_ASKS_NONE | DLK_ASKS_TO_KEEP, DLK_STAGE_OVER, DLK_ASKS},
    [DLK_GRANT_EXPIRED] =            {DLK_IN(DLK_STAGE_HELD), DLK_ASKS_NONE | DLK_ASKS_TO_KEEP, DLK_STAGE_OWED, DLK_ASKS},
    [DLK_GRANT_TAKEN_AWAY] =         {DLK_IN(DLK_STAGE_HELD), DLK_ASKS_NONE | DLK_ASKS_TO_KEEP, DLK_STAGE_OVER, DLK_ASKS},

    [DLK_GRANT_RELEASE_SENT] =       {DLK_IN_WAITING, DLK_ASKS_ANY, DLK_STAGE_RELEASING, DLK_ASKS},
    [DLK_GRANT_RELEASE_ANSWERED] =   {DLK_IN(DLK_STAGE_RELEASING), DLK_ASKS_ANY, DLK_STAGE_OWED, DLK_ASKS},
    [DLK_GRANT_RELEASE_PUT_OFF] =    {DLK_IN_WAITING, DLK_ASKS_ANY, DLK_STAGE_OWED, DLK_ASKS},
    [DLK_GRANT_CONFIRM_LATER] =      {DLK_IN(DLK_STAGE_OWED), DLK_ASKS_ANY, DLK_STAGE_CONFIRMING, DLK_ASKS},
    [DLK_GRANT_GIVEN_BACK] =         {DLK_IN_WAITING, DLK_ASKS_ANY, DLK_STAGE_OVER, DLK_ASKS},
    [DLK_GRANT_GOT_LATE] =           {DLK_IN_WAITING | DLK_IN(DLK_STAGE_OVER), DLK_ASKS_NONE, DLK_STAGE_OWED, DLK_ASKS},
    [DLK_GRANT_STOPPED] =            {DLK_IN_ENDED, DLK_ASKS_ANY, DLK_STAGE_OVER, DLK_ASKS_NOTHING},
};
/* clang-format on */

static inline bool dlk_grant_may(dlk_stage at, dlk_asks asks, dlk_grant_event event)
{
    const dlk_grant_rule *rule = &dlk_grant_rules[event];
    return (rule->stages & DLK_IN(at)) != 0 && (rule->requests & DLK_IN(asks)) != 0;
}

/* Which requests may be under way in a stage, as the table comes to. */
static inline bool dlk_stage_has(dlk_stage at, dlk_asks asks)
{
    if (asks == DLK_ASKS_NOTHING)
        return true;
    return dlk_grant_may(at, asks, DLK_GRANT_ACQUIRE_ANSWERED) ||
           dlk_grant_may(at, asks, DLK_GRANT_IMPORT_ANSWERED) ||
           dlk_grant_may(at, asks, DLK_GRANT_RENEWAL_ANSWERED);
}

/* ---- a query ---- */

/* What is asked. */
typedef enum dlk_query_kind {
    DLK_QUERY_PLAIN, /* one answer is all */
    /* asks nothing: over when the link is up, or a try to connect has failed */
    DLK_QUERY_CONNECT,
    DLK_QUERY_IDLE,     /* wait_idle: inspects until it is free */
    DLK_QUERY_IDLE_NOW, /* … with wait_ms 0 */
} dlk_query_kind;

typedef enum dlk_query_stage {
    DLK_QUERY_NEW,   /* not started; nothing becomes that */
    DLK_QUERY_RESTS, /* no request is under way */
    DLK_QUERY_ASKED,
    DLK_QUERY_ASKED_STALE, /* wait_idle: notified since, its "held" may be old news */
    DLK_QUERY_OVER_ASKED,  /* has its result, and a request is under way yet */
    DLK_QUERY_OVER,
    DLK_QUERY_STAGES
} dlk_query_stage;

/* What the requests up to now have left behind. */
typedef enum dlk_query_left {
    DLK_QUERY_LEFT_NOTHING,
    DLK_QUERY_LEFT_HELD,       /* wait_idle: the last answer was that somebody holds it */
    DLK_QUERY_LEFT_UNANSWERED, /* one went out since and got no answer */
} dlk_query_left;

typedef enum dlk_query_event {
    DLK_QUERY_STARTED,
    DLK_QUERY_SENT,
    DLK_QUERY_NOTIFIED, /* its name may be free, while it is asked for */
    DLK_QUERY_ANSWERED,
    DLK_QUERY_ENDED,   /* it has its result */
    DLK_QUERY_STOPPED, /* no answer will come any more */
    DLK_QUERY_EVENTS
} dlk_query_event;

/* What it is from then on; 0: that can't happen. */
/* clang-format off */
static const uint8_t dlk_query_next[DLK_QUERY_STAGES][DLK_QUERY_EVENTS] = {
    [DLK_QUERY_NEW] =         {[DLK_QUERY_STARTED] = DLK_QUERY_RESTS, [DLK_QUERY_ENDED] = DLK_QUERY_OVER},
    [DLK_QUERY_RESTS] =       {[DLK_QUERY_SENT] = DLK_QUERY_ASKED, [DLK_QUERY_ENDED] = DLK_QUERY_OVER,
                               [DLK_QUERY_STOPPED] = DLK_QUERY_RESTS},
    [DLK_QUERY_ASKED] =       {[DLK_QUERY_NOTIFIED] = DLK_QUERY_ASKED_STALE, [DLK_QUERY_ANSWERED] = DLK_QUERY_RESTS,
                               [DLK_QUERY_ENDED] = DLK_QUERY_OVER_ASKED, [DLK_QUERY_STOPPED] = DLK_QUERY_RESTS},
    [DLK_QUERY_ASKED_STALE] = {[DLK_QUERY_NOTIFIED] = DLK_QUERY_ASKED_STALE, [DLK_QUERY_ANSWERED] = DLK_QUERY_RESTS,
                               [DLK_QUERY_ENDED] = DLK_QUERY_OVER_ASKED, [DLK_QUERY_STOPPED] = DLK_QUERY_RESTS},
    [DLK_QUERY_OVER_ASKED] =  {[DLK_QUERY_ANSWERED] = DLK_QUERY_OVER, [DLK_QUERY_STOPPED] = DLK_QUERY_OVER},
};
/* clang-format on */

static inline bool dlk_query_may(dlk_query_stage at, dlk_query_event event)
{
    return dlk_query_next[at][event] != 0;
}

#endif
