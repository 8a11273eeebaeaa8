/* How safe a link is from those on the way; see link.h. */
#include "net/link.h"

#include <stdio.h>
#include <time.h>

#define EXPIRES_SOON_S (14 * 24 * 60 * 60)

enum { FINE, WARNING, UNSAFE };

static bool is_local(const dlk_link *link)
{
    const dlk_address *at = dlk_dial_address(&link->dial);
    if (at->is.any.sa_family == AF_INET)
        return ntohl(at->is.in.sin_addr.s_addr) >> 24 == 127;
    return at->is.any.sa_family == AF_UNIX || IN6_IS_ADDR_LOOPBACK(&at->is.in6.sin6_addr);
}

static int judge_plain(const dlk_link *link, const char *plain, char *text, size_t size)
{
    bool local = is_local(link);
    snprintf(text, size, "%s", local ? "plain, on this machine" : plain);
    return local ? FINE : WARNING;
}

int dlk_link_judge(const dlk_link *link, const char *plain, char *text, size_t size)
{
    char agreed[128], date[32];
    int64_t until;
    if (!link->common->tls)
        return judge_plain(link, plain, text, size);
    dlk_tls_describe(&link->stream, agreed, sizeof(agreed), &until);
    time_t when = (time_t)until;
    struct tm is;
    if (until < 0 || !gmtime_r(&when, &is) ||
        !strftime(date, sizeof(date), "%Y-%m-%d", &is))
        snprintf(date, sizeof(date), "an unknown day");
    if (dlk_tls_blind(link->common->tls)) {
        snprintf(text, size,
                 "%s, but nobody checks who answers (tls.verify=insecure_none): whoever "
                 "is on the way can forge grants",
                 agreed);
        return UNSAFE;
    }
    if (until >= 0 && until - time(NULL) < EXPIRES_SOON_S) {
        snprintf(text, size,
                 "%s; the server's certificate expires on %s: no lock can be had then",
                 agreed, date);
        return WARNING;
    }
    snprintf(text, size, "%s; the server's certificate is valid until %s", agreed, date);
    return FINE;
}
