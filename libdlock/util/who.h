/* Owners, "<uuid>:<number>", and whose process it is that holds a lock or waits for one, as its client says of itself: one text, which lies
 * where the service keeps it (in a key of the client's, or with what says that it holds or waits) and is read
 * back by inspect and list. Nobody vouches for it. */
#ifndef DLK_UTIL_WHO_H
#define DLK_UTIL_WHO_H

#include <dlock/dlock.h>

#include <stddef.h>
#include <stdint.h>

/* So many of those who wait in a lock's line are told. */
#define DLK_WAITING_MAX 64

/* How much of a text, from its beginning, is an owner; 0: nothing. */
size_t dlk_who_owner_size(const char *text);

typedef struct dlk_who {
    char client[256], host[256]; /* "": not known */
    int64_t pid;                 /* 0: likewise */
} dlk_who;

/* This process, under this name; what doesn't fit is cut off. */
dlk_who dlk_who_here(const char *client);
/* "<client><tab><host><tab><pid>", with no control character besides; NULL without memory. */
char *dlk_who_text(const dlk_who *who);

/* Adds what is known: client, host and pid of number @p of a list. */
void dlk_who_tell(dlock_info *info, const dlk_who *who, const char *list, size_t number);
/* The same of what such a text says, and of a date behind a tab behind it, in ms since 1970, since; answers how
 * much of it all that was, with the tab behind it. */
size_t dlk_who_tell_text(dlock_info *info, const char *text, size_t size,
                         const char *list, size_t number);

#endif
