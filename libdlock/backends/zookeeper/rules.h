/*
 * What a node's name says: pure decisions over a list of children. Who comes before whom is
 * Curator's rule to the letter (StandardLockInternalsDriver, and that of the read/write lock): the
 * key of a child is what stands behind the last occurrence of the mark, or its whole name, and keys
 * are compared as bytes. To it we add kazoo's nodes, which Curator doesn't see.
 */
#ifndef DLK_BACKENDS_ZOOKEEPER_RULES_H
#define DLK_BACKENDS_ZOOKEEPER_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What kind of node a child is, by its name. */
typedef enum dlk_zk_sort {
    DLK_SORT_LOCK, /* …lock-<10 digits>: Curator's mutex and selector, go-zookeeper's */
    DLK_SORT_WRITE, /* …__WRIT__<digits> */
    DLK_SORT_READ,  /* …__READ__<digits> */
    DLK_SORT_LATCH, /* …latch-<digits> */
    DLK_SORT_LEASE, /* …lease-<digits> */
    DLK_SORT_KLOCK, /* …__lock__<digits>: kazoo's */
    DLK_SORT_KREAD, /* …__rlock__<digits> */
    DLK_SORT_BRIDGE, /* a KLOCK or KREAD of somebody who has, or will have, one of Curator's too */
    DLK_SORT_WAIT, /* …wait-<digits>: at a condition */
    DLK_SORT_PART, /* "locks", "leases": below them are a semaphore's */
    DLK_SORT_OTHER,
    DLK_SORT_COUNT,
} dlk_zk_sort;

#define DLK_ZK_DIGITS 10
/* From here on the server's counter comes near its end, where names repeat. */
#define DLK_ZK_SEQUENCE_LIMIT 2000000000

/* Where the digits of a sequential name are, or NULL: its last ten characters, with a sign before
 * them when the counter has run over. */
const char *dlk_zk_digits(const char *name);
dlk_zk_sort dlk_zk_sort_of(const char *name);

/* The form of a pattern layout: what stands before the digits of one lock's nodes, around what
 * differs between contenders. */
typedef struct dlk_zk_form {
    char *head, *tail;  /* owned; where nothing differs, the tail is "" */
    bool session, uuid; /* what stands between them */
} dlk_zk_form;

bool dlk_zk_has_form(const dlk_zk_form *form, const char *name);

/* How one node of ours stands among its siblings. */
typedef struct dlk_zk_rule {
    const char *mark; /* between the UUID and the digits */
    dlk_zk_sort sort; /* our own */
    bool kazoo;       /* the name begins with 32 hexadecimal digits, not with _c_ */
    bool bridge;      /* … and says that one of Curator's belongs to it */
    bool persistent;  /* the parents aren't containers */
    bool counts;      /* a lease: so many children in all, whatever their order */
    bool plain;       /* the path itself is the node, without digits */
    bool signals;     /* who is first is who is signalled: condition.c */
    uint32_t behind;  /* bits of the sorts that we wait for when they come first */
    uint32_t beside;  /* bits of those that may be there without meaning anything to us */
} dlk_zk_rule;

#define DLK_ZK_BIT(sort) (1u << (sort))

typedef enum dlk_zk_verdict {
    DLK_ZK_FIRST,
    DLK_ZK_BEHIND,  /* `ahead` is who to watch; counts: nobody */
    DLK_ZK_MISSING, /* our own node isn't there */
    DLK_ZK_LIMIT,   /* `ahead` has a number near the end */
    DLK_ZK_FOREIGN, /* `ahead` is of another kind */
} dlk_zk_verdict;

typedef struct dlk_zk_look {
    const dlk_zk_rule *rule;
    /* pattern: only children of these count, and none is foreign */
    const dlk_zk_form *forms[2];
    const char *own;      /* name of our node */
    const char *also_own; /* of another of ours in the same place, or NULL */
    /* counts: of all, and how many of them we want: so many are ours, with the same name but for
     * the digits */
    int64_t permits, take;
    bool strict; /* FOREIGN is a verdict */
    /* answered */
    const char *ahead;
    const char *foreign; /* not strict: one that is there, or NULL */
    bool others;         /* FIRST: somebody stands behind it */
} dlk_zk_look;

dlk_zk_verdict dlk_zk_judge(dlk_zk_look *look, char *const *children, size_t count);

/* Have both the same name but for their digits: several leases that were taken at once? */
bool dlk_zk_same_series(const char *a, const char *b);
/* Is the child one of those that stand in line under this rule? */
bool dlk_zk_contends(const dlk_zk_rule *rule, const char *child);
/* Is @p a before @p b, both of them contenders? */
bool dlk_zk_before(const dlk_zk_rule *rule, const char *a, const char *b);

#endif
