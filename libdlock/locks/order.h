/*
 * The orders in which threads take locks, by class of name, and whether a new one contradicts those before it. A pure
 * data structure: whoever shares one between clients guards it (engine/order.c).
 *
 * "A before B" is learnt when a thread asks for a B, and is ready to wait for it, while it holds an A. That B is asked
 * for before A is found against it if there is a way back, from B over what was learnt to A, on which every two
 * that meet at a class shut each other out: of two readers neither waits for the other.
 */
#ifndef DLK_LOCKS_ORDER_H
#define DLK_LOCKS_ORDER_H

#include "locks/core.h"

/* So much is learnt; then no more. */
#define DLK_ORDER_CLASSES 1024
#define DLK_ORDER_PAIRS   8192

typedef struct dlk_order dlk_order;

dlk_order *dlk_order_new(void); /* NULL without memory */
void dlk_order_free(dlk_order *order);

/* How long the class of a name is, of its first bytes: slashes, then all up to the next slash or ASCII digit.
 * 0: it has none. */
size_t dlk_order_class_size(const char *name);

/* The number of a class of this service, the same for the same; 0: none, or there is no room. The class is
 * what is behind @p prefix bytes of the name, and the same class behind another prefix is another one. */
uint16_t dlk_order_class(dlk_order *order, const char *service, const char *name,
                         size_t prefix);

/* What is asked for, or taken. */
typedef struct dlk_order_lock {
    uint64_t owner;  /* a thread */
    uint16_t number; /* of its class */
    bool shared;
    /* not 0: with others of this number, which have no order among themselves */
    uint64_t together;
    const char *name; /* to be shown */
} dlk_order_lock;

typedef enum dlk_ordered {
    DLK_ORDER_FINE,
    DLK_ORDER_AGAINST,       /* what was learnt before */
    DLK_ORDER_AGAINST_AGAIN, /* and this has been said */
    DLK_ORDER_FULL, /* fine as far as is known; from now on no more is learnt. Once. */
} dlk_ordered;

/* Learns from it, unless it is against what is known. *ret_text is then a sentence, yours to free, or NULL
 * without memory; of AGAINST_AGAIN only with @p always. */
dlk_ordered dlk_order_ask(dlk_order *order, const dlk_order_lock *lock, bool always,
                          int64_t now, char **ret_text);

/* The grant is a thread's now, … NULL without memory: it isn't noticed. */
dlk_order_held *dlk_order_take(dlk_order *order, const dlk_order_lock *lock,
                               const dlk_grant *grant);
/* … no longer, … */
void dlk_order_give(dlk_order_held *held);
/* … only for reading. */
void dlk_order_turn(dlk_order_held *held);

#endif
