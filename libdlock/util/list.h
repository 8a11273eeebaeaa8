/* Intrusive doubly linked list: a head is a node that points to itself when the list is empty.
 * A node that is in no list points to itself too, so removing it again does nothing. */
#ifndef DLK_UTIL_LIST_H
#define DLK_UTIL_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct dlk_list dlk_list;
struct dlk_list {
    dlk_list *prev, *next;
};

/* The object around its list node. */
#define DLK_LIST_ITEM(node, type, member)                                                \
    ((type *)(void *)((char *)(node)-offsetof(type, member)))

/* Walks the items; the body may remove the current one. */
#define DLK_LIST_FOR(it, head)                                                           \
    for (dlk_list *it = (head)->next, *it##_next = it->next; it != (head);               \
         it = it##_next, it##_next = it->next)

static inline void dlk_list_init(dlk_list *node)
{
    node->prev = node->next = node;
}

static inline bool dlk_list_empty(const dlk_list *head)
{
    return head->next == head;
}

static inline void dlk_list_remove(dlk_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    dlk_list_init(node);
}

/* @p node must be in no list. */
static inline void dlk_list_append(dlk_list *head, dlk_list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void dlk_list_prepend(dlk_list *head, dlk_list *node)
{
    dlk_list_append(head->next, node);
}

static inline dlk_list *dlk_list_first(const dlk_list *head)
{
    return dlk_list_empty(head) ? NULL : head->next;
}

static inline dlk_list *dlk_list_take_first(dlk_list *head)
{
    dlk_list *first = dlk_list_first(head);
    if (first)
        dlk_list_remove(first);
    return first;
}

/* A list whose head is a pointer: for lists that there are many of, most of them empty or with one item.
 * Its nodes are the same: the first one's `prev` is the last, the last one's `next` is NULL, and one that is
 * in none points to itself. */
typedef struct dlk_chain {
    dlk_list *first;
} dlk_chain;

/* Walks the items; the body may remove the current one. */
#define DLK_CHAIN_FOR(it, chain)                                                         \
    for (dlk_list *it = (chain)->first, *it##_next = it ? it->next : NULL; it;           \
         it = it##_next, it##_next = it ? it->next : NULL)

/* @p node must be in no list. */
static inline void dlk_chain_append(dlk_chain *chain, dlk_list *node)
{
    dlk_list *first = chain->first;
    node->next = NULL;
    node->prev = first ? first->prev : node;
    if (first)
        first->prev = first->prev->next = node;
    else
        chain->first = node;
}

/* Of this chain, or of none. */
static inline void dlk_chain_remove(dlk_chain *chain, dlk_list *node)
{
    if (node->next == node)
        return;
    if (node->next)
        node->next->prev = node->prev;
    else
        chain->first->prev = node->prev;
    if (chain->first == node)
        chain->first = node->next;
    else
        node->prev->next = node->next;
    dlk_list_init(node);
}

/* Moves all items of @p from to the end of @p to. */
static inline void dlk_list_splice(dlk_list *to, dlk_list *from)
{
    while (!dlk_list_empty(from)) {
        dlk_list *node = dlk_list_take_first(from);
        dlk_list_append(to, node);
    }
}

#endif
