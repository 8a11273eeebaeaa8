/* What threads hold, what orders that taught, and the way back; see the header. A pair is of two nodes: a class as
 * it was held, for writing or for reading, and a class as it was asked for. */
#include "locks/order.h"

#include "util/clock.h"
#include "util/grow.h"
#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES        ((size_t)2 * (DLK_ORDER_CLASSES + 1))
#define CHAINS       256
#define SHOWN        127 /* bytes of a name in a sentence */
#define SHOWN_BEFORE 6   /* pairs of the way back */

typedef struct dlk_class {
    char *text; /* the service, a NUL, prefix and class */
    size_t size;
    uint16_t next; /* in its chain; 0: none */
    /* the last asking that has met it as held, for writing, for reading */
    uint64_t seen[2];
} dlk_class;

typedef struct dlk_pair {
    uint16_t held, asked;        /* nodes */
    uint16_t next, next_of_held; /* plus one; 0: none */
    bool against;                /* it contradicts others, and nothing follows from it */
    char *held_name, *asked_name;
} dlk_pair;

struct dlk_order_held {
    dlk_list link; /* in order->held */
    const dlk_grant *grant;
    dlk_order_lock lock; /* its name is the grant's */
};

struct dlk_order {
    dlk_class *classes; /* number 1 is the first */
    size_t class_count, class_room;
    uint16_t class_chains[CHAINS];
    dlk_pair *pairs;
    size_t pair_count, pair_room;
    uint16_t pair_chains[CHAINS], of_held[NODES]; /* plus one */
    dlk_list held[CHAINS];
    uint64_t askings;
    bool full, said_full;
    /* The search: the pair by which a node was reached, plus one. */
    uint16_t by[NODES], queue[NODES];
};

dlk_order *dlk_order_new(void)
{
    dlk_order *order = calloc(1, sizeof(*order));
    for (int i = 0; order && i < CHAINS; i++)
        dlk_list_init(&order->held[i]);
    return order;
}

void dlk_order_free(dlk_order *order)
{
    if (!order)
        return;
    for (size_t i = 0; i < order->class_count; i++)
        free(order->classes[i].text);
    for (size_t i = 0; i < order->pair_count; i++) {
        free(order->pairs[i].held_name);
        free(order->pairs[i].asked_name);
    }
    free(order->classes);
    free(order->pairs);
    free(order);
}

/* ---- classes ---- */

size_t dlk_order_class_size(const char *name)
{
    size_t slashes = strspn(name, "/"), rest = strcspn(name + slashes, "/0123456789");
    return rest ? slashes + rest : 0;
}

static bool is_class(const dlk_class *one, const char *service, size_t service_size,
                     const char *text, size_t size)
{
    return one->size == service_size + size &&
           memcmp(one->text, service, service_size) == 0 &&
           memcmp(one->text + service_size, text, size) == 0;
}

uint16_t dlk_order_class(dlk_order *order, const char *service, const char *name,
                         size_t prefix)
{
    size_t size = dlk_order_class_size(name + prefix);
    if (size == 0)
        return 0;
    size += prefix;
    size_t service_size = strlen(service) + 1;
    uint64_t hash = dlk_hash(dlk_hash(DLK_HASH_BEGIN, service, service_size), name, size);
    uint16_t *chain = &order->class_chains[hash % CHAINS];
    for (uint16_t i = *chain; i; i = order->classes[i - 1].next)
        if (is_class(&order->classes[i - 1], service, service_size, name, size))
            return i;
    order->full |= order->class_count >= DLK_ORDER_CLASSES;
    dlk_class *classes = order->full ? NULL
                                     : dlk_grow(order->classes, order->class_count,
                                                &order->class_room, sizeof(*classes));
    char *text = classes ? malloc(service_size + size) : NULL;
    if (classes)
        order->classes = classes;
    if (!text)
        return 0;
    memcpy(text, service, service_size);
    memcpy(text + service_size, name, size);
    classes[order->class_count++] =
        (dlk_class){.text = text, .size = service_size + size, .next = *chain};
    return *chain = (uint16_t)order->class_count;
}

/* ---- what is held ---- */

dlk_order_held *dlk_order_take(dlk_order *order, const dlk_order_lock *lock,
                               const dlk_grant *grant)
{
    dlk_order_held *held = lock->number ? malloc(sizeof(*held)) : NULL;
    if (!held)
        return NULL;
    *held = (dlk_order_held){.grant = grant, .lock = *lock};
    dlk_list_prepend(&order->held[lock->owner % CHAINS], &held->link);
    return held;
}

void dlk_order_give(dlk_order_held *held)
{
    dlk_list_remove(&held->link);
    free(held);
}

void dlk_order_turn(dlk_order_held *held)
{
    held->lock.shared = true;
}

/* ---- pairs ---- */

static uint16_t node_of(const dlk_order_lock *lock)
{
    return (uint16_t)(2 * lock->number + lock->shared);
}

static uint16_t class_of(uint16_t node)
{
    return node / 2;
}

/* Of one class: does who asks so wait for who holds so? */
static bool excludes(uint16_t node, uint16_t other)
{
    return !(node % 2 && other % 2);
}

static uint16_t *chain_of(dlk_order *order, uint16_t held, uint16_t asked)
{
    return &order->pair_chains[(held * 31u + asked) % CHAINS];
}

static dlk_pair *find(dlk_order *order, uint16_t held, uint16_t asked)
{
    for (uint16_t i = *chain_of(order, held, asked); i; i = order->pairs[i - 1].next)
        if (order->pairs[i - 1].held == held && order->pairs[i - 1].asked == asked)
            return &order->pairs[i - 1];
    return NULL;
}

/* NULL without memory or room. */
static dlk_pair *add(dlk_order *order, const dlk_order_lock *held,
                     const dlk_order_lock *asked)
{
    order->full |= order->pair_count >= DLK_ORDER_PAIRS;
    dlk_pair *pairs = order->full ? NULL
                                  : dlk_grow(order->pairs, order->pair_count,
                                             &order->pair_room, sizeof(*pairs));
    if (!pairs)
        return NULL;
    order->pairs = pairs;
    dlk_pair pair = {.held = node_of(held),
                     .asked = node_of(asked),
                     .held_name = strndup(held->name, SHOWN),
                     .asked_name = strndup(asked->name, SHOWN)};
    if (!pair.held_name || !pair.asked_name) {
        free(pair.held_name);
        free(pair.asked_name);
        return NULL;
    }
    uint16_t *chain = chain_of(order, pair.held, pair.asked);
    pair.next = *chain;
    pair.next_of_held = order->of_held[pair.held];
    pairs[order->pair_count++] = pair;
    *chain = order->of_held[pair.held] = (uint16_t)order->pair_count;
    return &pairs[order->pair_count - 1];
}

/* ---- the way back ---- */

/* What was asked for while this was held is reached; true: that is what we look for. */
static bool spread(dlk_order *order, uint16_t held, uint16_t target, size_t *count,
                   uint16_t *ret_last)
{
    for (uint16_t i = order->of_held[held]; i; i = order->pairs[i - 1].next_of_held) {
        const dlk_pair *pair = &order->pairs[i - 1];
        if (pair->against || order->by[pair->asked])
            continue;
        order->by[pair->asked] = i;
        if (class_of(pair->asked) == class_of(target) && excludes(pair->asked, target)) {
            *ret_last = i;
            return true;
        }
        order->queue[(*count)++] = pair->asked;
    }
    return false;
}

/* From what is asked for to what is held: the last pair of the way, plus one; 0: there is none. */
static uint16_t way_back(dlk_order *order, uint16_t asked, uint16_t held)
{
    uint16_t last = 0;
    size_t count = 1;
    memset(order->by, 0, sizeof(order->by));
    order->queue[0] = asked;
    for (size_t i = 0; i < count; i++) {
        uint16_t at = order->queue[i], first = (uint16_t)(at - at % 2);
        /* Held for writing; and for reading, by whoever shuts out who asked to write. */
        if (spread(order, first, held, &count, &last) ||
            (excludes(at, 1) && spread(order, first + 1, held, &count, &last)))
            return last;
    }
    return 0;
}

/* The way's pairs, the first one first: their numbers plus one. */
static size_t walk_back(const dlk_order *order, uint16_t asked, uint16_t last,
                        uint16_t *way, size_t room)
{
    size_t count = 0;
    for (uint16_t i = last; i && count < room;) {
        way[count++] = i;
        uint16_t held = order->pairs[i - 1].held;
        if (class_of(held) == class_of(asked))
            break;
        /* Whoever reached that class, in a way that waits for who held it so. */
        uint16_t first = (uint16_t)(held - held % 2);
        i = order->by[first] ? order->by[first] : order->by[first + 1];
    }
    for (size_t i = 0; i < count / 2; i++) {
        uint16_t swapped = way[i];
        way[i] = way[count - 1 - i];
        way[count - 1 - i] = swapped;
    }
    return count;
}

static char *append(char *text, const char *more, const dlk_pair *pair)
{
    char *longer = NULL;
    if (!text || asprintf(&longer, "%s%s'%s' while '%s' was held", text, more,
                          pair->asked_name, pair->held_name) < 0)
        longer = NULL;
    free(text);
    return longer;
}

static char *sentence(const dlk_order *order, const dlk_order_lock *lock,
                      const dlk_order_lock *held, uint16_t last)
{
    uint16_t way[SHOWN_BEFORE];
    size_t count = walk_back(order, node_of(lock), last, way, SHOWN_BEFORE);
    char *text = NULL;
    int held_class = (int)dlk_order_class_size(held->name),
        asked_class = (int)dlk_order_class_size(lock->name);
    if (asprintf(
            &text,
            "lock order: asked for while '%.*s' is held, '%.*s' before '%.*s'; before, "
            "it was the other way round:",
            SHOWN, held->name, held_class, held->name, asked_class, lock->name) < 0)
        return NULL;
    for (size_t i = 0; i < count; i++)
        text = append(text, i ? ", and " : " ", &order->pairs[way[i] - 1]);
    return text;
}

/* ---- asking ---- */

/* One of what the asking thread holds. */
static dlk_ordered compare(dlk_order *order, const dlk_order_lock *lock,
                           const dlk_order_lock *held, bool always, char **ret_text)
{
    uint16_t from = node_of(held), to = node_of(lock);
    dlk_pair *known = find(order, from, to);
    if (known && (!known->against || !always))
        return known->against ? DLK_ORDER_AGAINST_AGAIN : DLK_ORDER_FINE;
    uint16_t last = way_back(order, to, from);
    if (!known)
        known = add(order, held, lock);
    if (!last)
        return DLK_ORDER_FINE;
    *ret_text = sentence(order, lock, held, last);
    if (!known) /* nor that it is said */
        return DLK_ORDER_AGAINST;
    dlk_ordered result = known->against ? DLK_ORDER_AGAINST_AGAIN : DLK_ORDER_AGAINST;
    known->against = true;
    return result;
}

static bool is_compared(dlk_order *order, const dlk_order_held *held,
                        const dlk_order_lock *lock, int64_t now)
{
    if (held->lock.owner != lock->owner || held->lock.number == lock->number ||
        (lock->together && held->lock.together == lock->together))
        return false;
    dlk_class *one = &order->classes[held->lock.number - 1];
    if (one->seen[held->lock.shared] == order->askings || !dlk_grant_lives(held->grant) ||
        dlk_lease_over(&held->grant->lease, now))
        return false;
    one->seen[held->lock.shared] = order->askings;
    return true;
}

dlk_ordered dlk_order_ask(dlk_order *order, const dlk_order_lock *lock, bool always,
                          int64_t now, char **ret_text)
{
    *ret_text = NULL;
    order->askings++;
    DLK_LIST_FOR (it, &order->held[lock->owner % CHAINS]) {
        const dlk_order_held *held = DLK_LIST_ITEM(it, dlk_order_held, link);
        if (!lock->number || !is_compared(order, held, lock, now))
            continue;
        dlk_ordered result = compare(order, lock, &held->lock, always, ret_text);
        if (result == DLK_ORDER_AGAINST || (result != DLK_ORDER_FINE && always))
            return result;
    }
    if (!order->full || order->said_full)
        return DLK_ORDER_FINE;
    order->said_full = true;
    return DLK_ORDER_FULL;
}
