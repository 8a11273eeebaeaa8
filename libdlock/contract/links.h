/* The connections of a client: what all of them share, from what the engine gives its backend. */
#ifndef DLK_CONTRACT_LINKS_H
#define DLK_CONTRACT_LINKS_H

#include "contract/backend.h"
#include "net/link.h"

/* @p links has its service's words; it gets what the client counts, draws lots and is woken by. */
static inline void dlk_links_lend(dlk_link_common *links, dlk_host *host)
{
    links->kicks = host->kicks;
    links->rand = host->rand;
    links->bytes_sent = &host->bytes_sent;
    links->bytes_received = &host->bytes_received;
    links->wiring = &host->wiring;
    links->whys = host->whys;
    links->tell = host->tell;
}

#endif
