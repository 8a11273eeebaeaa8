/* What a backend tells its host, and the settings that it is opened with: alike for each service
 * that is reached over a wire. What is told is digested when the backend has returned. */
#include "sim.h"

#include "util/error.h"

#include <stdlib.h>

/* ---- settings ---- */

static void set(dlk_settings *settings, const char *key, const char *value)
{
    if (dlk_settings_set(settings, key, value, NULL) != DLOCK_OK)
        abort();
}

dlk_settings *settings_of(kind which)
{
    const kind_info *info = &kinds[which];
    dlk_settings *settings = dlk_settings_new();
    if (!settings)
        abort();
    set(settings, "client.poll_ms", SIM_POLL_TEXT);
    set(settings, "client.name", "sim");
    /* A key of the client's goes ahead of a request now and then: in some runs, as in others one request is
     * all that is written. */
    set(settings, "redis.client_key", s.config.seed % 4 == 3 ? "true" : "false");
    set(settings, "lock.permits", info->permits == 1 ? "1" : SIM_PERMITS_TEXT);
    for (int i = 0; i < KIND_SETTINGS && info->settings[i]; i += 2)
        set(settings, info->settings[i], info->settings[i + 1]);
    return settings;
}

/* ---- what the backend tells ---- */

static client *client_of(dlk_host *host)
{
    return DLK_LIST_ITEM(host, client, host);
}

/* Answered by the service: an operation like any other. */
void host_count(const client *c, const dlk_ask *ask)
{
    bool decided =
        ask->reply == DLK_YES || ask->reply == DLK_HELD || ask->reply == DLK_NOT_OURS;
    (void)c;
    if (!decided || s.config.mode == MODE_REDIS) /* that is counted at its server */
        return;
    s.totals.decided[step_of(ask)]++;
    s.totals.of_kind[s.config.kind]++;
    tell(c->index, ask->key->name[0] - 'a', "%s #%llu: %s", verb_name(ask->verb),
         (unsigned long long)ask->number, reply_name(ask->reply));
}

static void told_answer(dlk_host *host, dlk_ask *ask)
{
    client *c = client_of(host);
    host_count(c, ask);
    dlk_list_append(&c->answers, &ask->link);
}

static void told_link(dlk_host *host, bool up, const dlock_error *error)
{
    client *c = client_of(host);
    process *p = &c->process;
    p->link_changed = true;
    p->link_up = up;
    c->connected = up;
    if (up) {
        c->up_since = s.now;
        return;
    }
    dlk_error_clear(&p->link_error);
    p->link_error = dlk_error_copy(error);
}

static void told_free(dlk_host *host, dlk_key *key)
{
    client_of(host)->process.news |= 1u << (key->name[0] - 'a');
}

static void told_lost(dlk_host *host, dlk_key *key, uint64_t number)
{
    const client *c = client_of(host);
    tell(c->index, key->name[0] - 'a', "hears that #%llu was taken away",
         (unsigned long long)number);
    dlk_core_mark_gone(key, number);
    told_free(host, key);
}

static void told_asked(dlk_host *host, uint64_t number, const char *name, size_t size)
{
    dlk_name *found = client_of(host)->names[name[0] - 'a'];
    (void)size;
    tell(client_of(host)->index, name[0] - 'a', "is asked for #%llu",
         (unsigned long long)number);
    if (dlk_core_mark_asked(&found->key, number))
        told_free(host, &found->key);
}

static void told_revoked(dlk_host *host, uint64_t number)
{
    (void)host; /* nobody asks for it here */
    (void)number;
}

__attribute__((format(printf, 3, 4))) static void
told_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    (void)host;
    (void)level;
    (void)format;
}

void host_begin(client *c)
{
    c->kicks = DLK_KICKS_INIT;
    c->host = (dlk_host){.tell = &dlk_tell_nobody,
                         .answered = told_answer,
                         .notified = told_free,
                         .revoked = told_revoked,
                         .lost = told_lost,
                         .asked = told_asked,
                         .link = told_link,
                         .log = told_log,
                         .kicks = &c->kicks,
                         .uuid = c->uuid,
                         .name = "sim",
                         .who = "sim\there\t1",
                         .rand = &c->rand};
    dlk_list_init(&c->answers);
}
