/*
 * What is decided, told by topics for who looks for a fault: client.debug. Off, a place where something is told
 * costs a look at the topics, and nothing is formatted.
 */
#ifndef DLK_UTIL_TELL_H
#define DLK_UTIL_TELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum dlk_topic {
    DLK_TELL_LOCK = 1 << 0,  /* granted, refused, given back, handed on, kept, lost */
    DLK_TELL_RENEW = 1 << 1, /* leases: renewed, not renewed, suspect */
    DLK_TELL_WAIT = 1 << 2,  /* who waits, why it is asked again */
    DLK_TELL_NET = 1 << 3,   /* connections */
    DLK_TELL_TLS = 1 << 4,   /* what was agreed there */
    DLK_TELL_CLUSTER =
        1 << 5, /* which servers there are, and which of them can be used */
    DLK_TELL_ALL = (1 << 6) - 1,
} dlk_topic;

typedef struct dlk_tell dlk_tell;
struct dlk_tell {
    _Atomic unsigned topics; /* those that somebody wants to hear */
    /* With the client's mutex held. No secret may be told; a name may have any bytes. */
    void (*say)(dlk_tell *tell, dlk_topic topic, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
};

/* To whom nobody listens. */
extern dlk_tell dlk_tell_nobody;

#define DLK_TELL(tell, topic, ...)                                                       \
    do {                                                                                 \
        if (atomic_load_explicit(&(tell)->topics, memory_order_relaxed) & (topic))       \
            (tell)->say((tell), (topic), __VA_ARGS__);                                   \
    } while (0)

/* "lock", …; "all" is DLK_TELL_ALL. 0: there is no such topic. */
unsigned dlk_topic_of(const char *word, size_t size);
const char *dlk_topic_name(dlk_topic topic);
/* Words between commas; spaces don't count. False: @p ret_wrong, @p ret_size is the first that isn't one. */
bool dlk_topics_read(const char *text, unsigned *ret, const char **ret_wrong,
                     size_t *ret_size);

#endif
