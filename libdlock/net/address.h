/* Socket addresses: of a path, of a numeric host, or of a name, which a helper thread looks up
 * because a name service may block for as long as it likes. */
#ifndef DLK_NET_ADDRESS_H
#define DLK_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

typedef struct dlk_address {
    socklen_t size;
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
    } is;
} dlk_address;

#define DLK_ADDRESSES_MAX 8 /* of one name; further ones are left out */

typedef struct dlk_addresses {
    size_t count;
    dlk_address item[DLK_ADDRESSES_MAX];
} dlk_addresses;

/* Makes one address of a path; false when it doesn't fit into one. */
bool dlk_address_unix(const char *path, dlk_addresses *ret);
/* Makes one address of a numeric host; false when @p host is a name. */
bool dlk_address_numeric(const char *host, uint16_t port, dlk_addresses *ret);
/* How people are told of it: "host:port", or "[host]:port"; NULL without memory. */
char *dlk_address_text(const char *host, uint16_t port);
/* The same of an address; a path as it is. */
void dlk_address_show(const dlk_address *address, char *text, size_t size);
bool dlk_address_same(const dlk_address *a, const dlk_address *b);

/* A name being looked up. Any thread may start, ask and drop it, one at a time. */
typedef struct dlk_lookup dlk_lookup;

/* NULL without memory, descriptors or threads. */
dlk_lookup *dlk_lookup_start(const char *host, uint16_t port);
/* Becomes readable when the lookup has ended. Belongs to the lookup. */
int dlk_lookup_fd(const dlk_lookup *lookup);
bool dlk_lookup_ended(const dlk_lookup *lookup);
/* After its end: false and the reason (static text) when there is no address. */
bool dlk_lookup_result(const dlk_lookup *lookup, dlk_addresses *ret, const char **why);
/* The lookup may still be running: it then frees itself at its end. NULL is fine. */
void dlk_lookup_drop(dlk_lookup *lookup);

#endif
