/* Connecting without blocking: the addresses of a host one after the other, each once, and each
 * gets its share of the time there is, so that a dead first address leaves time for the second. */
#ifndef DLK_NET_DIAL_H
#define DLK_NET_DIAL_H

#include "net/address.h"

typedef struct dlk_dial {
    dlk_addresses addresses;
    size_t next;                   /* address to try */
    int fd;                        /* of the address being tried, else -1 */
    int error;                     /* errno of the last failure … */
    int errors[DLK_ADDRESSES_MAX]; /* … and of each address that has failed */
    int64_t until;                 /* when to give the present address up */
    int64_t deadline;              /* of all of them */
} dlk_dial;

typedef enum dlk_dialled {
    DLK_DIAL_PENDING, /* until fd is writable or `until` has come */
    DLK_DIAL_DONE,    /* fd is connected, and the caller's now */
    DLK_DIAL_FAILED,  /* `error` says why */
} dlk_dialled;

void dlk_dial_begin(dlk_dial *dial, int64_t deadline);
/* To be called at the beginning, when fd is ready and when `until` has come. */
dlk_dialled dlk_dial_step(dlk_dial *dial, int64_t now);
void dlk_dial_end(dlk_dial *dial);

/* The address that dlk_dial_step connected. */
static inline const dlk_address *dlk_dial_address(const dlk_dial *dial)
{
    return &dial->addresses.item[dial->next - 1];
}

#endif
