/* What is tried at which address, and what comes of it, for who is told why nobody can be reached; see link.h
 * and util/whys.h. */
#include "net/link.h"

#include "util/error.h"

#include <stdio.h>
#include <string.h>

#define PLACE_MAX 256

/* The address that is dialled as this one, as people know it: of a name both. */
static const char *place(const dlk_link *link, size_t index, char *text)
{
    char address[128];
    if (link->to.count > 0 || index >= link->dial.addresses.count) {
        snprintf(text, PLACE_MAX, "%s", link->peer);
        return text;
    }
    dlk_address_show(&link->dial.addresses.item[index], address, sizeof(address));
    snprintf(text, PLACE_MAX, "%s at %s", link->peer, address);
    return text;
}

void dlk_link_note_dial(dlk_link *link, size_t count)
{
    const dlk_dial *dial = &link->dial;
    char text[PLACE_MAX], room[128];
    if (count == 0)
        dlk_whys_forget(link->common->whys, link->peer); /* it was found */
    for (size_t i = 0; i < (count ? count : dial->addresses.count); i++) {
        const char *reason = DLK_WHYS_NO_ANSWER;
        if (i < count)
            reason = i < dial->next ? dlk_error_errno(dial->errors[i], room, sizeof(room))
                                    : "there was no time for it";
        dlk_whys_note(link->common->whys, place(link, i, text), DLK_STEP_CONNECT, reason);
    }
}

void dlk_link_forget(dlk_link *link)
{
    char text[PLACE_MAX];
    dlk_whys_forget(link->common->whys, place(link, link->dial.next - 1, text));
}

static bool is_before_tls(const dlk_link *link)
{
    const dlk_coat *coat = link->stream.coat;
    return coat && (coat->code || dlk_tls_unanswered(&link->stream));
}

static dlk_whys_step step_of(const dlk_link *link, dlock_err code)
{
    if (link->phase == DLK_LINK_LOOKUP)
        return DLK_STEP_LOOK_UP;
    if (is_before_tls(link))
        return DLK_STEP_TLS;
    if (code == DLOCK_EACCES)
        return DLK_STEP_LOG_IN;
    return link->phase == DLK_LINK_GREETING ? DLK_STEP_GREET : DLK_STEP_REQUEST;
}

/* The error without what stands before it anyway: the service, and the peer. */
static const char *bare(const dlk_link *link, const char *text)
{
    const char *const before[] = {link->common->service, link->peer};
    for (size_t i = 0; i < 2; i++) {
        size_t size = strlen(before[i]);
        if (strncmp(text, before[i], size) == 0 && strncmp(text + size, ": ", 2) == 0)
            text += size + 2;
    }
    return text;
}

void dlk_link_note(dlk_link *link, dlock_err code, const char *reason)
{
    char text[PLACE_MAX];
    if (dlk_link_is_connected(link))
        dlk_whys_note(link->common->whys, place(link, link->dial.next - 1, text),
                      step_of(link, code), bare(link, reason));
    else if (link->phase == DLK_LINK_LOOKUP && !dlk_link_seeks(link))
        dlk_whys_note(link->common->whys, link->peer, DLK_STEP_LOOK_UP,
                      bare(link, reason));
}
