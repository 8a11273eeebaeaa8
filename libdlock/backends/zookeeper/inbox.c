/* Where answers and news wait for the driver; see library.h.
 *
 * No wake may be lost: whoever puts something first changes the bell, then looks whether somebody
 * sleeps; whoever sleeps first says so, then looks at the bell. */
#include "backends/zookeeper/library.h"

#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

dlk_zk_inbox *dlk_zk_inbox_new(void (*unheard)(void *user), void *user)
{
    dlk_zk_inbox *inbox = calloc(1, sizeof(*inbox));
    if (!inbox)
        return NULL;
    inbox->unheard = unheard;
    inbox->user = user;
    dlk_list_init(&inbox->items);
    (void)pthread_mutex_init(&inbox->mutex, NULL); /* a default one can't fail on Linux */
    return inbox;
}

static void free_inbox(dlk_zk_inbox *inbox)
{
    dlk_list *link;
    while ((link = dlk_list_take_first(&inbox->items))) {
        dlk_zk_item *item = DLK_LIST_ITEM(link, dlk_zk_item, link);
        dlk_zk_item_free(item);
        free(item); /* a call begins with its item */
    }
    (void)pthread_mutex_destroy(&inbox->mutex);
    free(inbox);
}

static void await_none(dlk_futex *count, int64_t until)
{
    uint32_t left;
    while ((left = atomic_load(count)) > 0 && dlk_clock_now() < until)
        dlk_futex_wait(count, left, until, false);
}

void dlk_zk_inbox_abandon(dlk_zk_inbox *inbox, int64_t until)
{
    await_none(&inbox->wires, until);
    (void)pthread_mutex_lock(&inbox->mutex);
    inbox->unheard = NULL;
    (void)pthread_mutex_unlock(&inbox->mutex);
    await_none(&inbox->callers, DLK_NEVER); /* they only set a flag and wake somebody */
    (void)pthread_mutex_lock(&inbox->mutex);
    inbox->abandoned = true;
    bool last = atomic_load(&inbox->wires) == 0;
    (void)pthread_mutex_unlock(&inbox->mutex);
    if (last)
        free_inbox(inbox);
}

void dlk_zk_inbox_ring(dlk_zk_inbox *inbox)
{
    atomic_fetch_add(&inbox->bell, 1);
    if (atomic_load(&inbox->asleep))
        dlk_futex_wake(&inbox->bell, 1, false);
}

static void call_unheard(dlk_zk_inbox *inbox)
{
    (void)pthread_mutex_lock(&inbox->mutex);
    void (*unheard)(void *user) = inbox->unheard;
    atomic_fetch_add(&inbox->callers, 1);
    (void)pthread_mutex_unlock(&inbox->mutex);
    if (unheard)
        unheard(inbox->user);
    (void)pthread_mutex_lock(&inbox->mutex);
    atomic_fetch_sub(&inbox->callers, 1);
    dlk_futex_wake(&inbox->callers, 1, false);
    (void)pthread_mutex_unlock(&inbox->mutex);
}

void dlk_zk_inbox_put(dlk_zk_inbox *inbox, dlk_zk_item *item)
{
    bool answer = item->news == DLK_ZK_ANSWER, quiet = false, asked = false;
    (void)pthread_mutex_lock(&inbox->mutex); /* a plain mutex we made: can't fail */
    if (answer) {
        dlk_zk_call *call = (dlk_zk_call *)item;
        dlk_list_remove(&call->sent);
        quiet = call->quiet;
        asked = call->asked;
    }
    dlk_list_append(&inbox->items, &item->link);
    (void)pthread_mutex_unlock(&inbox->mutex);
    if (quiet)
        return;
    dlk_zk_inbox_ring(inbox);
    if (!asked && !atomic_load(&inbox->asleep))
        call_unheard(inbox);
}

void dlk_zk_inbox_lose(dlk_zk_inbox *inbox)
{
    atomic_store(&inbox->lost, true);
    dlk_zk_inbox_ring(inbox);
    call_unheard(inbox);
}

void dlk_zk_inbox_left(dlk_zk_inbox *inbox)
{
    (void)pthread_mutex_lock(&inbox->mutex);
    bool last = atomic_fetch_sub(&inbox->wires, 1) == 1 && inbox->abandoned;
    (void)pthread_mutex_unlock(&inbox->mutex);
    if (last)
        free_inbox(inbox);
    else /* it may be gone by now; waking an address nobody sleeps at is harmless */
        dlk_futex_wake(&inbox->wires, 1, false);
}

void dlk_zk_inbox_take(dlk_zk_inbox *inbox, dlk_list *ret)
{
    (void)pthread_mutex_lock(&inbox->mutex);
    dlk_list_splice(ret, &inbox->items);
    (void)pthread_mutex_unlock(&inbox->mutex);
}

dlk_zk_item *dlk_zk_item_new(dlk_zk_news news, uint32_t epoch, const char *text)
{
    dlk_zk_item *item = calloc(1, sizeof(*item));
    if (!item)
        return NULL;
    *item =
        (dlk_zk_item){.news = news, .epoch = epoch, .text = text ? strdup(text) : NULL};
    dlk_list_init(&item->link);
    if (text && !item->text) {
        free(item);
        return NULL;
    }
    return item;
}

void dlk_zk_item_free(dlk_zk_item *item)
{
    free(item->text);
    item->text = NULL;
    if (item->news != DLK_ZK_ANSWER)
        return;
    dlk_zk_call *call = (dlk_zk_call *)item;
    free(call->children);
    call->children = NULL;
}
