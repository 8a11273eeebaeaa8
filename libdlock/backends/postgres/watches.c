/* Who waits, and what the server's messages tell them. */
#include "backends/postgres/inner.h"

#include "util/clock.h"
#include "util/number.h"

#include <stdlib.h>
#include <string.h>

void dlk_pg_watch(dlk_backend *backend, dlk_key *key, bool on, int64_t now)
{
    dlk_pg *pg = dlk_pg_of(backend);
    dlk_pg_key *data = key->data;
    (void)now;
    data->look_at = 0;
    dlk_list_remove(&data->watched);
    if (!on)
        return;
    dlk_list_append(&pg->watched, &data->watched);
    if (data->asked_at != pg->messages) /* one of them may have been for it */
        backend->host->notified(backend->host, key);
}

/* Who was called has a second to come (schema.sql): whoever is next looks a little later. */
#define LOOK_NS (1100 * DLK_NS_PER_MS)

/* Whom a message means: all who wait for the name of this id, which may be used as several kinds; or, in a
 * condition's line, the one whose place has this number. */
static bool is_meant(const dlk_pg_key *key, char what, int64_t number)
{
    return what == 'w' ? key->number == (uint64_t)number : key->id == number;
}

/* Whoever is meant looks at @p at. */
static void look_at(dlk_pg *pg, char what, int64_t number, int64_t at)
{
    DLK_LIST_FOR (it, &pg->watched) {
        dlk_pg_key *key = DLK_LIST_ITEM(it, dlk_pg_key, watched);
        if (!is_meant(key, what, number) || (key->look_at > 0 && key->look_at <= at))
            continue;
        key->look_at = at;
        if (at < pg->look_at)
            pg->look_at = at;
    }
}

/* Somebody else wants what we keep: "<number> <name>", in hexadecimal. */
static void hear_asked(dlk_host *host, int64_t number, const char *text)
{
    const char *space = strchr(text, ' ');
    char *name = space ? dlk_pg_unhex(space + 1) : NULL;
    if (name)
        host->asked(host, (uint64_t)number, name, strlen(space + 1) / 2);
    free(name);
}

/* "free <id>", "soon <id>", "wake <number>", "revoke <number>", "asked <number> <name>": of the sequence that numbers
 * names, and of our grants. */
void dlk_pg_heard(dlk_pg *pg, const char *message, int64_t now)
{
    dlk_host *host = pg->base.host;
    int64_t number = 0;
    const char *space = strchr(message, ' ');
    if (space)
        number = dlk_number_before(space + 1, " ", 1, INT64_MAX, 0);
    if (number == 0)
        return;
    if (message[0] == 'a') {
        hear_asked(host, number, space + 1);
        return;
    }
    if (message[0] == 'r') {
        if (pg->listens)
            host->revoked(host, (uint64_t)number);
        return;
    }
    pg->messages++;
    look_at(pg, message[0], number, message[0] == 's' ? now + LOOK_NS : now);
    (void)dlk_pg_look(pg, now);
}

static dlk_pg_key *find_due(dlk_pg *pg, int64_t now)
{
    DLK_LIST_FOR (it, &pg->watched) {
        dlk_pg_key *key = DLK_LIST_ITEM(it, dlk_pg_key, watched);
        if (key->look_at > 0 && key->look_at <= now)
            return key;
    }
    return NULL;
}

/* Whoever is told may watch, or no longer: so each is looked for anew. */
int64_t dlk_pg_look(dlk_pg *pg, int64_t now)
{
    dlk_pg_key *key;
    if (now < pg->look_at)
        return pg->look_at;
    while ((key = find_due(pg, now))) {
        key->look_at = 0;
        pg->base.host->notified(pg->base.host, key->key);
    }
    pg->look_at = DLK_NEVER;
    DLK_LIST_FOR (it, &pg->watched) {
        int64_t at = DLK_LIST_ITEM(it, dlk_pg_key, watched)->look_at;
        if (at > 0 && at < pg->look_at)
            pg->look_at = at;
    }
    return pg->look_at;
}
