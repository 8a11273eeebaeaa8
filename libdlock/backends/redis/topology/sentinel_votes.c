/* What each of the sentinels says, and most of them; see sentinel.h. */
#include "backends/redis/topology/sentinel.h"

#include "backends/redis/errors.h"
#include "util/error.h"
#include "util/number.h"

#include <stdio.h>
#include <string.h>

static void names(dlk_sentinel *one, const char *host, const char *port)
{
    int64_t number = dlk_number_or(port, 1, UINT16_MAX, 0);
    size_t size = strlen(host);
    one->says = DLK_SENTINEL_NAMES;
    if (size >= DLK_SENTINEL_HOST_MAX || size == 0 || number == 0) {
        one->says = DLK_SENTINEL_FAILED;
        dlk_error_clear(&one->why);
        one->why = dlk_error_make(DLOCK_EPROTO, "it names a master that can't be one");
        return;
    }
    memcpy(one->master, host, size + 1);
    one->port = (uint16_t)number;
}

dlock_error *dlk_sentinel_take_vote(dlk_sentinel *one, const dlk_resp *reply)
{
    dlk_error_clear(&one->why);
    if (reply->type == DLK_RESP_ERROR) {
        one->says = DLK_SENTINEL_FAILED;
        one->why = dlk_redis_error(reply, "SENTINEL get-master-addr-by-name");
    } else if (reply->type == DLK_RESP_NIL) {
        one->says = DLK_SENTINEL_KNOWS_NOT;
    } else if (reply->type == DLK_RESP_ARRAY && reply->count == 2 &&
               dlk_resp_plain(&reply->items[0]) && dlk_resp_plain(&reply->items[1])) {
        names(one, reply->items[0].text, reply->items[1].text);
    } else {
        return dlk_error_make(DLOCK_EPROTO, "redis: sentinel %s answers with nonsense",
                              one->peer);
    }
    return NULL;
}

static bool same_master(const dlk_sentinel *a, const dlk_sentinel *b)
{
    return a->says == DLK_SENTINEL_NAMES && b->says == DLK_SENTINEL_NAMES &&
           a->port == b->port && strcmp(a->master, b->master) == 0;
}

size_t dlk_sentinels_count(const dlk_sentinels *all, dlk_sentinel_word what)
{
    size_t found = 0;
    for (size_t i = 0; i < all->count; i++)
        found += all->item[i].says == what;
    return found;
}

const dlk_sentinel *dlk_sentinels_most_named(const dlk_sentinels *all, size_t *ret)
{
    const dlk_sentinel *best = NULL;
    *ret = 0;
    for (size_t i = 0; i < all->count; i++) {
        size_t votes = 0;
        for (size_t k = 0; k < all->count; k++)
            votes += same_master(&all->item[i], &all->item[k]);
        if (votes > *ret) {
            *ret = votes;
            best = &all->item[i];
        }
    }
    return best;
}

dlock_error *dlk_sentinels_disagree(const dlk_sentinels *all)
{
    char text[512];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < all->count && used < sizeof(text); i++)
        if (all->item[i].says == DLK_SENTINEL_NAMES)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s names %s:%u",
                                     used ? ", " : "", all->item[i].peer,
                                     all->item[i].master, all->item[i].port);
    return dlk_error_make(
        DLOCK_EUNAVAIL,
        "redis+sentinel: the sentinels disagree on the master of '%s': %s", all->service,
        text);
}

dlock_error *dlk_sentinels_know_nobody(const dlk_sentinels *all)
{
    const dlk_sentinel *failed = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const dlk_sentinel *one = &all->item[i];
        if (one->says == DLK_SENTINEL_FAILED &&
            (!failed || failed->why->code == DLOCK_EUNAVAIL))
            failed = one;
    }
    if (dlk_sentinels_count(all, DLK_SENTINEL_KNOWS_NOT) > 0)
        return dlk_error_make(
            failed ? DLOCK_EUNAVAIL : DLOCK_EINVAL,
            "redis+sentinel: no sentinel that answers knows a service '%s'",
            all->service);
    if (!failed)
        return dlk_error_make(DLOCK_EUNAVAIL, "redis+sentinel: no sentinel answers");
    return dlk_error_make(failed->why->code, "redis+sentinel: sentinel %s: %s",
                          failed->peer, failed->why->text);
}
