/* The way to a member, where its name has led: libcurl looks none up again. */
#include "backends/etcd/inner.h"

#include "util/error.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_ipv6(const char *host)
{
    return strchr(host, ':') != NULL;
}

/* "name:2379:10.0.0.1,10.0.0.2", so that nobody looks the name up again. */
static struct curl_slist *addresses_of(const char *name, unsigned port,
                                       const dlk_addresses *found)
{
    dlk_say say = {0};
    dlk_say_text(&say, "%s:%u:", name, port);
    for (size_t i = 0; i < found->count; i++) {
        const dlk_address *item = &found->item[i];
        char text[INET6_ADDRSTRLEN];
        bool six = item->is.any.sa_family == AF_INET6;
        const void *address = six ? (const void *)&item->is.in6.sin6_addr
                                  : (const void *)&item->is.in.sin_addr;
        if (inet_ntop(item->is.any.sa_family, address, text, sizeof(text)))
            dlk_say_text(&say, "%s%s%s%s", i ? "," : "", six ? "[" : "", text,
                         six ? "]" : "");
    }
    char *line = dlk_say_end(&say);
    struct curl_slist *list = line ? curl_slist_append(NULL, line) : NULL;
    free(line);
    return list;
}

void dlk_etcd_way_free(dlk_etcd_way *way)
{
    if (!way)
        return;
    curl_slist_free_all(way->resolve);
    curl_slist_free_all(way->headers);
    dlk_secret_free(way->key_password);
    free(way->url);
    free(way);
}

dlk_etcd_way *dlk_etcd_way_to(const dlk_etcd *et, const dlk_addresses *found,
                              dlock_error **err)
{
    const dlk_uri_host *host = &et->hosts[et->host];
    const char *named = dlk_settings_text(et->settings, DLK_KEY_TLS_SERVER_NAME);
    const char *name = et->tls && named[0] ? named : host->host;
    const char *file = dlk_settings_text(et->settings, DLK_KEY_TLS_KEY_PASSWORD_FILE);
    dlk_etcd_way *way = calloc(1, sizeof(*way));
    if (!way) {
        (void)dlk_error_nomem(err);
        return NULL;
    }
    bool six = is_ipv6(name);
    if (asprintf(&way->url, "%s://%s%s%s:%u", et->tls ? "https" : "http", six ? "[" : "",
                 name, six ? "]" : "", host->port) < 0)
        way->url = NULL;
    bool given = found && (name != host->host || !is_ipv6(name));
    if (given)
        way->resolve = addresses_of(name, host->port, found);
    dlock_err code =
        way->url && (!given || way->resolve) ? DLOCK_OK : dlk_error_nomem(err);
    if (code == DLOCK_OK && file[0])
        code =
            dlk_secret_from_file("tls.key_password_file", file, &way->key_password, err);
    if (code == DLOCK_OK)
        return way;
    dlk_etcd_way_free(way);
    return NULL;
}
