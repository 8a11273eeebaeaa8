/* What a client says of itself to whoever looks: the locks that it has had, or has waited for, for a while. */
#ifndef DLK_LOCKS_TOLD_H
#define DLK_LOCKS_TOLD_H

#include "locks/ask.h"

typedef struct dlk_told {
    const dlk_key *key;
    int64_t since; /* of the client's clock */
    /* the owner on the wire is <uuid>:<number>; 0: none is known there */
    uint64_t number;
    /* who has it, or waits, of the client's threads; 0: that isn't known */
    uint64_t thread;
    int64_t token;
    bool waits;  /* for it, else it has it */
    bool shared; /* the read side */
} dlk_told;

typedef struct dlk_told_sum {
    size_t count; /* lines that were filled in */
    int64_t more; /* locks that weren't looked at for them */
    /* when the next one has lasted for a while; DLK_NEVER: none is younger */
    int64_t next;
} dlk_told_sum;

#endif
