/* How safe a link is from those on the way; see link.h. */
#include "net/link.h"

#include "util/findings.h"

#include <stdio.h>
#include <time.h>

#define EXPIRES_SOON_S (14 * 24 * 60 * 60)

static bool is_local(const dlk_link *link)
{
    const dlk_address *at = dlk_dial_address(&link->dial);
    if (at->is.any.sa_family == AF_INET)
        return ntohl(at->is.in.sin_addr.s_addr) >> 24 == 127;
    return at->is.any.sa_family == AF_UNIX || IN6_IS_ADDR_LOOPBACK(&at->is.in6.sin6_addr);
}

void dlk_link_judge(const dlk_link *link, const char *plain, dlock_info *info)
{
    char agreed[128], date[32];
    int64_t until;
    if (!link->common->tls) {
        bool local = is_local(link);
        dlk_find(info, "transport", local ? DLK_FINE : DLK_WARNING, "%s",
                 local ? "plain, on this machine" : plain);
        return;
    }
    dlk_tls_describe(&link->stream, agreed, sizeof(agreed), &until);
    time_t when = (time_t)until;
    struct tm is;
    if (until < 0 || !gmtime_r(&when, &is) ||
        !strftime(date, sizeof(date), "%Y-%m-%d", &is))
        snprintf(date, sizeof(date), "an unknown day");
    if (dlk_tls_blind(link->common->tls))
        dlk_find(info, "transport", DLK_UNSAFE,
                 "%s, but nobody checks who answers (tls.verify=insecure_none): whoever "
                 "is on the way can forge grants",
                 agreed);
    else if (until >= 0 && until - time(NULL) < EXPIRES_SOON_S)
        dlk_find(info, "transport", DLK_WARNING,
                 "%s; the server's certificate expires on %s: no lock can be had then",
                 agreed, date);
    else
        dlk_find(info, "transport", DLK_FINE,
                 "%s; the server's certificate is valid until %s", agreed, date);
}
