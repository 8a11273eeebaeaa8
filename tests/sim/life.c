/* A backend around each simulated client: its life, its driver, and what it is asked; alike for each
 * service whose requests go over the wires of net.c. */
#include "sim.h"

#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>

static const dlk_backend_type *type(void)
{
    return s.service->type;
}

void life_join(client *c, const char *address)
{
    dlk_uri *uri = NULL;
    (void)snprintf(c->uuid, sizeof(c->uuid), "%08x-0000-4000-8000-%012x",
                   (unsigned)c->index, (unsigned)c->generation); /* fits */
    if (!c->settings)
        c->settings = settings_of(s.config.kind);
    host_begin(c);
    if (dlk_uri_parse(address, &uri, NULL) != DLOCK_OK ||
        type()->open(&c->host, uri, c->settings, &c->backend, NULL) != DLOCK_OK)
        abort();
    dlk_uri_free(uri);
}

void life_start(client *c)
{
    AS(c, type()->start(c->backend, client_time(c)));
    life_wake(c);
}

void life_stop(client *c)
{
    AS(c, type()->stop(c->backend));
    client_digest(c);
}

void life_free(client *c)
{
    event_cancel(&c->drive);
    AS(c, type()->free(c->backend));
    dlk_settings_free(c->settings);
    dlk_error_clear(&c->process.link_error);
    c->backend = NULL;
    c->settings = NULL;
}

void life_key_open(client *c, dlk_key *key)
{
    key->settings = c->settings;
    if (type()->key_open(c->backend, key, NULL) != DLOCK_OK)
        abort();
}

void life_key_close(client *c, dlk_key *key)
{
    type()->key_close(c->backend, key);
}

/* ---- its driver ---- */

void life_tick(client *c)
{
    AS(c, c->process.next_tick = type()->tick(c->backend, client_time(c)));
}

static void run_drive(event *e)
{
    client *c = e->of;
    if (client_put_off(c, e))
        return;
    int64_t now = client_time(c);
    AS(c, sim_drive(c->backend); type()->process(c->backend, now));
    life_tick(c);
    client_after(c);
}

void life_wake(client *c)
{
    if (!c->drive.timer.place && c->backend)
        event_at(&c->drive, s.now + between(&c->rand, 500, 50000), run_drive, c);
}

void life_flush(client *c)
{
    if (!c->dead)
        AS(c, type()->flush(c->backend));
}

/* ---- what it is asked ---- */

void life_ask(client *c, dlk_ask *ask, int64_t now)
{
    if (c->dead)
        ask->reply = DLK_NOT_SENT;
    else
        AS(c, type()->ask(c->backend, ask, now));
}

/* Where nobody tells of a release. */
void life_watch_nothing(client *c, dlk_key *key, bool on, int64_t now)
{
    (void)c, (void)key, (void)on, (void)now;
}
