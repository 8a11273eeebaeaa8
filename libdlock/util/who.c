/* Who a client is, as a text, and told; see the header. */
#include "util/who.h"

#include "util/info.h"
#include "util/number.h"
#include "util/rand.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

size_t dlk_who_owner_size(const char *text)
{
    const size_t uuid = DLK_UUID_SIZE - 1;
    if (strcspn(text, "\n") <= uuid || text[uuid] != ':')
        return 0;
    size_t digits = strspn(text + uuid + 1, "0123456789");
    return digits > 0 ? uuid + 1 + digits : 0;
}

static void copy(char *to, size_t room, const char *from, size_t size)
{
    if (size >= room)
        size = room - 1;
    memcpy(to, from, size);
    to[size] = '\0';
}

dlk_who dlk_who_here(const char *client)
{
    dlk_who who = {.pid = (int64_t)getpid()};
    copy(who.client, sizeof(who.client), client, strlen(client));
    if (gethostname(who.host, sizeof(who.host) - 1) != 0)
        who.host[0] = '\0';
    dlk_text_one_line(who.client);
    dlk_text_one_line(who.host);
    return who;
}

char *dlk_who_text(const dlk_who *who)
{
    char *text = NULL;
    return asprintf(&text, "%s\t%s\t%lld", who->client, who->host, (long long)who->pid) <
                   0
               ? NULL
               : text;
}

void dlk_who_tell(dlock_info *info, const dlk_who *who, const char *list, size_t number)
{
    if (who->client[0])
        dlk_info_add_text(info, who->client, "%s.%zu.client", list, number);
    if (who->host[0])
        dlk_info_add_text(info, who->host, "%s.%zu.host", list, number);
    if (who->pid > 0)
        dlk_info_add_int(info, who->pid, "%s.%zu.pid", list, number);
}

/* What stands before the next tab, or all that is left; goes on behind it. */
static void take(const char **at, size_t *left, char *to, size_t room)
{
    const char *tab = memchr(*at, '\t', *left);
    size_t size = tab ? (size_t)(tab - *at) : *left;
    copy(to, room, *at, size);
    size += tab != NULL;
    *at += size;
    *left -= size;
}

size_t dlk_who_tell_text(dlock_info *info, const char *text, size_t size,
                         const char *list, size_t number)
{
    dlk_who who;
    char pid[24], since[24];
    size_t left = size;
    if (size == 0)
        return 0;
    take(&text, &left, who.client, sizeof(who.client));
    take(&text, &left, who.host, sizeof(who.host));
    take(&text, &left, pid, sizeof(pid));
    who.pid = dlk_number_or(pid, 1, INT64_MAX, 0);
    dlk_who_tell(info, &who, list, number);
    take(&text, &left, since, sizeof(since));
    int64_t since_ms = dlk_number_or(since, 1, INT64_MAX, 0);
    if (since_ms > 0)
        dlk_info_add_int(info, since_ms, "%s.%zu.since", list, number);
    return size - left;
}
