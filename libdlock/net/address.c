/* Socket addresses and looking up names; see the header.
 *
 * A lookup is owned by two: whoever started it and its detached helper thread. The last of them
 * to let go frees it, so neither has to wait for the other, however long the name service takes. */
#include "net/address.h"

#include "util/thread.h"
#include "util/wakeup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dlk_lookup {
    _Atomic int owners;
    _Atomic bool ended; /* set after the result, read before it */
    dlk_wakeup end;
    int code; /* of getaddrinfo */
    dlk_thread_role role;
    dlk_addresses result;
    char port[6];
    char host[];
};

bool dlk_address_unix(const char *path, dlk_addresses *ret)
{
    dlk_address *address = &ret->item[0];
    size_t size = strlen(path);
    if (size == 0 || size >= sizeof(address->is.un.sun_path))
        return false;
    *address = (dlk_address){.size = sizeof(address->is.un)};
    address->is.un.sun_family = AF_UNIX;
    memcpy(address->is.un.sun_path, path, size + 1);
    ret->count = 1;
    return true;
}

bool dlk_address_numeric(const char *host, uint16_t port, dlk_addresses *ret)
{
    dlk_address *address = &ret->item[0];
    *address = (dlk_address){0};
    if (inet_pton(AF_INET, host, &address->is.in.sin_addr) == 1) {
        address->size = sizeof(address->is.in);
        address->is.in.sin_family = AF_INET;
        address->is.in.sin_port = htons(port);
    } else if (inet_pton(AF_INET6, host, &address->is.in6.sin6_addr) == 1) {
        address->size = sizeof(address->is.in6);
        address->is.in6.sin6_family = AF_INET6;
        address->is.in6.sin6_port = htons(port);
    } else {
        return false;
    }
    ret->count = 1;
    return true;
}

char *dlk_address_text(const char *host, uint16_t port)
{
    char *text = NULL;
    bool ipv6 = strchr(host, ':') != NULL;
    int size = asprintf(&text, "%s%s%s:%u", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port);
    return size < 0 ? NULL : text;
}

void dlk_address_show(const dlk_address *address, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";
    switch (address->is.any.sa_family) {
    case AF_UNIX:
        snprintf(text, size, "%s", address->is.un.sun_path);
        break;
    case AF_INET6:
        (void)inet_ntop(AF_INET6, &address->is.in6.sin6_addr, host, sizeof(host));
        snprintf(text, size, "[%s]:%u", host, ntohs(address->is.in6.sin6_port));
        break;
    default:
        (void)inet_ntop(AF_INET, &address->is.in.sin_addr, host, sizeof(host));
        snprintf(text, size, "%s:%u", host, ntohs(address->is.in.sin_port));
    }
}

bool dlk_address_same(const dlk_address *a, const dlk_address *b)
{
    return a->size == b->size && memcmp(&a->is, &b->is, a->size) == 0;
}

static void let_go(dlk_lookup *lookup)
{
    if (atomic_fetch_sub(&lookup->owners, 1) > 1)
        return;
    dlk_wakeup_close(&lookup->end);
    free(lookup);
}

static void *look_up(void *arg)
{
    dlk_lookup *lookup = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    lookup->code = getaddrinfo(lookup->host, lookup->port, &hints, &found);
    dlk_addresses *result = &lookup->result;
    for (struct addrinfo *it = found; it && lookup->code == 0; it = it->ai_next) {
        dlk_address *address = &result->item[result->count];
        if (it->ai_addrlen > sizeof(address->is) || result->count == DLK_ADDRESSES_MAX)
            continue;
        address->size = it->ai_addrlen;
        memcpy(&address->is, it->ai_addr, it->ai_addrlen);
        result->count++;
    }
    if (found)
        freeaddrinfo(found);
    atomic_store(&lookup->ended, true);
    dlk_wakeup_ring(&lookup->end); /* it is ours until let_go */
    let_go(lookup);
    return NULL;
}

dlk_lookup *dlk_lookup_start(const char *host, uint16_t port)
{
    size_t size = strlen(host) + 1;
    dlk_lookup *lookup = calloc(1, sizeof(*lookup) + size);
    if (!lookup)
        return NULL;
    memcpy(lookup->host, host, size);
    snprintf(lookup->port, sizeof(lookup->port), "%u", port);
    atomic_init(&lookup->owners, 2);
    if (!dlk_wakeup_open(&lookup->end)) {
        free(lookup);
        return NULL;
    }
    pthread_t thread;
    lookup->role = (dlk_thread_role){"dlock-lookup", look_up, lookup};
    if (!dlk_thread_start(&thread, &lookup->role)) {
        dlk_wakeup_close(&lookup->end);
        free(lookup);
        return NULL;
    }
    pthread_detach(thread);
    return lookup;
}

int dlk_lookup_fd(const dlk_lookup *lookup)
{
    return lookup->end.fd;
}

bool dlk_lookup_ended(const dlk_lookup *lookup)
{
    return atomic_load(&lookup->ended);
}

bool dlk_lookup_result(const dlk_lookup *lookup, dlk_addresses *ret, const char **why)
{
    *ret = lookup->result;
    *why = lookup->code ? gai_strerror(lookup->code) : "the name has no address";
    return ret->count > 0;
}

void dlk_lookup_drop(dlk_lookup *lookup)
{
    if (lookup)
        let_go(lookup);
}
