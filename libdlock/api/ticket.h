/*
 * Tickets: what a client must know to take over a grant that another one has given away, as one
 * line of text:
 *
 *     dlock1 . kind . layout . lease in ms . owner . name in base64url . checksum
 *
 * The checksum finds what was cut or mistyped; it is no signature. What makes a ticket good is
 * that the service still has its owner, and only once.
 */
#ifndef DLK_API_TICKET_H
#define DLK_API_TICKET_H

#include <dlock/dlock.h>

#define DLK_TICKET_MAX 2048 /* with the NUL */

typedef struct dlk_ticket {
    dlock_kind kind;
    char layout[32];
    int64_t ttl_ms;
    char owner[96];
    char name[1025];
} dlk_ticket;

/* Into @p text of DLK_TICKET_MAX bytes. The name has at most 1024. */
void dlk_ticket_write(const dlk_ticket *ticket, char *text);
/* EINVAL for what dlk_ticket_write hasn't made. */
dlock_err dlk_ticket_read(const char *text, dlk_ticket *ret, dlock_error **err);

#endif
