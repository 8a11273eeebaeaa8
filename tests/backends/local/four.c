/* See the header. */
#include "four.h"

#include "check.h"
#include "harness/harness.h"

#include <stdio.h>

fake *clients[CLIENTS];
dlk_key *keys[CLIENTS];
static dlk_settings *settings;

int64_t four_set_up(dlock_kind kind, const char *setting, const char *value)
{
    static int number;
    char uri[32];
    settings = dlk_settings_new();
    if (value)
        (void)harness_check(__FILE__, __LINE__,
                            dlk_settings_set(settings, setting, value, NULL) == DLOCK_OK,
                            setting);
    (void)snprintf(uri, sizeof(uri), "mem:four-%d", number++);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_open(uri, NULL);
        keys[i] = client_key_of(clients[i], "orders/42", kind, settings);
    }
    return dlk_clock_now();
}

void tear_down(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        client_key_close(clients[i], keys[i]);
        client_close(clients[i]);
    }
    dlk_settings_free(settings);
}

static void check(int who)
{
    const char *fault = table_fault(dlk_local_of(clients[who]->backend)->table);
    (void)harness_check(__FILE__, __LINE__, !fault, fault ? fault : "sound");
}

answer ask(dlk_verb verb, int who, uint64_t number, int32_t take, int64_t now)
{
    answer got = client_ask_for(clients[who], verb, keys[who], number, take, TTL, now);
    check(who);
    return got;
}

answer ask_this(int who, dlk_ask *one, int64_t now)
{
    one->key = keys[who];
    one->since = now;
    answer got = client_answer(clients[who], one, now);
    dlock_info_free(one->info);
    check(who);
    return got;
}

int told(int who)
{
    int before = clients[who]->told;
    clients[who]->backend->type->process(clients[who]->backend, dlk_clock_now());
    return clients[who]->told - before;
}
