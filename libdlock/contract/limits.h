/* What a backend's type says of its clients' leases, as the decisions want it. The engine goes by it,
 * and so do the simulators: nothing of it is written down a second time, where a wrong margin would
 * go unseen. */
#ifndef DLK_CONTRACT_LIMITS_H
#define DLK_CONTRACT_LIMITS_H

#include "contract/backend.h"
#include "locks/core.h"

/* The rest is the settings'. */
static inline dlk_limits dlk_backend_limits(const dlk_traits *traits)
{
    return (dlk_limits){
        .margin = {traits->margin_percent, traits->margin_ms},
        .session = traits->session,
    };
}

#endif
