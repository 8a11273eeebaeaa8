/* client.order: what locks/order.c learns of the clients of this process that have it, all in one, since a thread's
 * locks may be those of several. Its mutex is taken with a client's held, and never the other way round. */
#include "locks/order.h"

#include "engine/engine.h"
#include "util/settings.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static dlk_order *learnt; /* while there is such a client */
static int clients;
static dlk_order *left; /* a fork's child has its parent's, and lets it lie */

enum { OFF, WARN, REFUSE };

void dlk_engine_order_before_fork(void)
{
    (void)pthread_mutex_lock(&mutex);
}

void dlk_engine_order_after_fork(bool child)
{
    if (child && learnt) {
        left = learnt;
        learnt = NULL;
        clients = 0;
    }
    (void)pthread_mutex_unlock(&mutex);
}

/* ---- what the core tells: the client's mutex held ---- */

/* Whatever parameters a URI has, the service is the same. With the mutex. */
static uint16_t class_of(const dlk_engine *engine, const dlk_name *name)
{
    char *service = strndup(engine->uri, strcspn(engine->uri, "?"));
    uint16_t number =
        service ? dlk_order_class(learnt, service, name->key.name, engine->prefix_size)
                : 0;
    free(service);
    return number;
}

/* With the mutex. */
static dlk_order_lock lock_of(dlk_engine *engine, dlk_name *name, uint64_t owner,
                              bool shared, uint64_t together)
{
    if (!name->order_class)
        name->order_class = class_of(engine, name);
    return (dlk_order_lock){.owner = owner,
                            .number = name->order_class,
                            .shared = shared,
                            .together = together,
                            .name = name->key.name + engine->prefix_size};
}

static char *asked(void *world, const dlk_wait *wait, int64_t now)
{
    dlk_engine *engine = world;
    char *text = NULL;
    (void)pthread_mutex_lock(&mutex);
    dlk_order_lock lock =
        lock_of(engine, wait->name, wait->owner, wait->terms.shared, wait->together);
    dlk_ordered answer = dlk_order_ask(learnt, &lock, engine->order_refuses, now, &text);
    (void)pthread_mutex_unlock(&mutex);
    if (answer == DLK_ORDER_AGAINST && text)
        engine->core.port.log(engine, DLOCK_LOG_WARN, "%s: %s", lock.name, text);
    if (answer == DLK_ORDER_FULL)
        engine->core.port.log(
            engine, DLOCK_LOG_WARN,
            "client.order: there are %d classes of names, or %d orders of two: "
            "no more are learnt",
            DLK_ORDER_CLASSES, DLK_ORDER_PAIRS);
    if (engine->order_refuses)
        return text;
    free(text);
    return NULL;
}

static void took(void *world, dlk_grant *grant, const dlk_wait *wait)
{
    (void)pthread_mutex_lock(&mutex);
    dlk_order_lock lock =
        lock_of(world, grant->name, grant->owner, grant->terms.shared, wait->together);
    if (dlk_grant_need_more(grant)) /* else it isn't learnt from */
        grant->more->ordered = dlk_order_take(learnt, &lock, grant);
    (void)pthread_mutex_unlock(&mutex);
}

static void gave(void *world, dlk_grant *grant)
{
    (void)world;
    (void)pthread_mutex_lock(&mutex);
    dlk_order_give(grant->more->ordered);
    grant->more->ordered = NULL;
    (void)pthread_mutex_unlock(&mutex);
}

static void turned(void *world, dlk_grant *grant)
{
    (void)world;
    (void)pthread_mutex_lock(&mutex);
    dlk_order_turn(grant->more->ordered);
    (void)pthread_mutex_unlock(&mutex);
}

static const dlk_order_port port = {asked, took, gave, turned};

/* ---- a client's beginning and end ---- */

dlock_err dlk_engine_order_begin(dlk_engine *engine, const dlk_settings *settings,
                                 dlock_error **err)
{
    int64_t how = dlk_settings_int(settings, DLK_KEY_CLIENT_ORDER);
    if (how == OFF)
        return DLOCK_OK;
    if (dlk_settings_int(settings, DLK_KEY_LOCK_OWNER) == DLK_OWNER_NONE)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "client.order=%s learns what threads do, and with lock.owner=none no "
            "thread owns a lock",
            dlk_settings_word(settings, DLK_KEY_CLIENT_ORDER));
    (void)pthread_mutex_lock(&mutex);
    if (!learnt)
        learnt = dlk_order_new();
    engine->orders = learnt != NULL;
    clients += engine->orders;
    (void)pthread_mutex_unlock(&mutex);
    if (!engine->orders)
        return dlk_error_nomem(err);
    engine->order_refuses = how == REFUSE;
    engine->core.port.order = &port;
    return DLOCK_OK;
}

/* With the last one that ends, what was learnt is forgotten. */
void dlk_engine_order_end(dlk_engine *engine)
{
    if (!engine->orders || dlk_engine_forked(engine))
        return;
    engine->orders = false;
    engine->core.port.order = NULL;
    (void)pthread_mutex_lock(&mutex);
    if (--clients == 0) {
        dlk_order_free(learnt);
        learnt = NULL;
    }
    (void)pthread_mutex_unlock(&mutex);
}
