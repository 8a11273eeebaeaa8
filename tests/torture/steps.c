/* The steps of the stories; see the header. */
#include "steps.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

dlock_client *open_at(stage *s, const char *uri)
{
    dlock_client *client = NULL;
    SAYS(DLOCK_OK, OPEN_ERRORS, dlock_client_open(uri, NULL, &client, &s->err));
    return client;
}

dlock_client *open_client(stage *s)
{
    return open_at(s, s->world->uri);
}

/* What isn't confirmed when a client closes may stay for the length of a lease. */
void close_client(stage *s, dlock_client *client)
{
    if (client && !SAYS(DLOCK_OK, CLOSE_ERRORS, dlock_client_close(client, &s->err)))
        s->unsure = true;
    dlock_client_free(client);
}

dlock_lock *make_lock(stage *s, dlock_client *client)
{
    return make_kind(s, client, DLOCK_MUTEX, s->world->name, "");
}

/* @p settings: words like "lock.data=x". */
dlock_lock *make_kind(stage *s, dlock_client *client, dlock_kind kind, const char *name,
                      const char *settings)
{
    dlock_lock *lock = NULL;
    char words[200], *rest = NULL;
    dlock_conf *conf = client && settings[0] ? dlock_conf_new() : NULL;
    if (!client || (settings[0] && !conf)) {
        HOLDS(!s->baseline);
        return NULL;
    }
    bool fine = true;
    (void)snprintf(words, sizeof(words), "%s", settings); /* they are short */
    for (char *word = strtok_r(words, " ", &rest); word && fine;
         word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        *value = '\0';
        fine = SAYS(DLOCK_OK, MEM_ERRORS, dlock_conf_set(conf, word, value + 1, &s->err));
    }
    if (fine)
        SAYS(DLOCK_OK, MEM_ERRORS,
             dlock_lock_new(client, kind, name, conf, &lock, &s->err));
    dlock_conf_free(conf);
    return lock;
}

dlock_hold *acquire(stage *s, dlock_lock *lock)
{
    dlock_hold *hold = NULL;
    if (lock)
        SAYS(DLOCK_OK, ACQUIRE_ERRORS, dlock_lock_acquire(lock, LONG_MS, &hold, &s->err));
    return hold;
}

void give_back(stage *s, dlock_hold *hold)
{
    HOLDS(!hold || dlock_hold_token(hold) > 0);
    give_back_any(s, hold);
}

void give_back_any(stage *s, dlock_hold *hold)
{
    if (!hold)
        return;
    SAYS(DLOCK_OK, RELEASE_ERRORS, dlock_hold_release(hold, &s->err));
    HOLDS(dlock_hold_check(hold) == DLOCK_ENOTHELD);
    dlock_hold_free(hold);
}

void read_info(stage *s, dlock_info *info)
{
    HOLDS(info);
    for (size_t i = 0; i < dlock_info_count(info); i++)
        HOLDS(dlock_info_key(info, i) && dlock_info_text(info, i));
    if (info && !dlock_info_json(info))
        HOLDS(!s->baseline);
    dlock_info_free(info);
}

bool open_pair(stage *s, pair *two)
{
    for (int i = 0; i < 2; i++) {
        two->client[i] = open_client(s);
        two->lock[i] = make_lock(s, two->client[i]);
    }
    return two->lock[0] && two->lock[1];
}

void close_pair(stage *s, pair *two)
{
    for (int i = 0; i < 2; i++) {
        dlock_lock_free(two->lock[i]);
        close_client(s, two->client[i]);
    }
}

/* Fetches events until @p tag's comes. Whether there is one more that can't be had: without
 * memory next_event has none to give, and keeps it for later. */
static bool fetch_events(stage *s, dlock_client *client, uint64_t tag, bool *stuck,
                         bool readable)
{
    int count = 0;
    for (dlock_event *event; (event = dlock_client_next_event(client)); count++) {
        bool ours = dlock_event_tag(event) == tag;
        HOLDS(dlock_event_text(event) != NULL);
        dlock_event_free(event);
        if (ours)
            return true;
    }
    *stuck = readable && count == 0;
    return false;
}

void await_event(stage *s, dlock_client *client, int fd, uint64_t tag)
{
    int64_t until = now_ms() + LONG_MS * 2;
    for (int stuck_for = 0; now_ms() < until && stuck_for < 5;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        bool stuck = false;
        if (fd < 0)
            nap_ms(1);
        bool readable = fd >= 0 && poll(&ready, 1, 20) == 1;
        if (fetch_events(s, client, tag, &stuck, readable))
            return;
        stuck_for += stuck;
        if (stuck_for == 5 && !s->baseline)
            return;
    }
    stage_complain(s, "the event of an op doesn't come");
}

void lose(stage *s, pair *two, int fd, dlock_hold *hold)
{
    bool told = dlock_hold_notify(hold, 9) == DLOCK_OK;
    bool broken = SAYS(DLOCK_OK, ASK_ERRORS | BIT(DLOCK_ENOTHELD),
                       dlock_lock_break(two->lock[1], NULL, &s->err));
    if (broken) {
        int64_t until = now_ms() + LONG_MS;
        while (dlock_hold_check(hold) == DLOCK_OK && now_ms() < until)
            nap_ms(1);
        HOLDS(dlock_hold_check(hold) == DLOCK_ELOST);
        HOLDS(dlock_hold_state(hold) == DLOCK_LOST);
    }
    if (broken && told)
        await_event(s, two->client[0], fd, 9);
    SAYS(broken ? DLOCK_ELOST : DLOCK_OK, OK | RELEASE_ERRORS,
         dlock_hold_release(hold, &s->err));
}
