/* A client that can't be opened: its error says of every address what was tried there last and what came of it,
 * whichever service it is. */
#include "harness/awake.h"
#include "harness/harness.h"
#include "harness/server.h"
#include "harness/wrong.h"

#include <dlock/dlock.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static char told[8192];

static bool has_backend(const char *uri)
{
    char scheme[32], all[256];
    snprintf(scheme, sizeof(scheme), " %.*s ", (int)strcspn(uri, ":"), uri);
    snprintf(all, sizeof(all), " %s ", dlock_backends());
    return strstr(all, scheme) != NULL;
}

/* What opening a client there says. */
static dlock_err refusal(const char *uri)
{
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    snprintf(told, sizeof(told), "%s", dlock_error_text(err));
    return code;
}

/* ---- servers that aren't what they should be ---- */

/* Says this to who comes, and hangs up; NULL: nothing, and waits. */
static bool meet(const void *says, int fd)
{
    const char *text = says;
    char in[4096];
    if (text && text[0]) {
        (void)recv(fd, in, sizeof(in), 0);
        (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
    }
    return !text;
}

/* ---- what is said ---- */

/* "%1$d" and so on are the ports. */
static const char *const everybody[] = {
    "redis://joe:canary@127.0.0.1:%1$d/?",
    "redis+sentinel://127.0.0.1:%1$d,127.0.0.1:%2$d,127.0.0.1:%3$d/service?",
    "redis+cluster://:canary@127.0.0.1:%1$d,127.0.0.1:%2$d,127.0.0.1:%3$d/?",
    "redlock://:canary@127.0.0.1:%1$d,127.0.0.1:%2$d,127.0.0.1:%3$d/?",
    "memcached://127.0.0.1:%1$d/?",
    "memlock://127.0.0.1:%1$d,127.0.0.1:%2$d,127.0.0.1:%3$d/?",
    "etcd://joe:canary@127.0.0.1:%1$d,127.0.0.1:%2$d,127.0.0.1:%3$d/?",
    "zookeeper://joe:canary@127.0.0.1:%1$d,127.0.0.1:%2$d,127.0.0.1:%3$d/?",
};

#pragma GCC diagnostic ignored "-Wformat-nonliteral"

/* Whether @p said is there, of each address that the URI names. */
static void check_each(const char *uri, const int ports[3], const char *const said[])
{
    for (int i = 0; i < 3; i++) {
        char address[32];
        snprintf(address, sizeof(address), "127.0.0.1:%d", ports[i]);
        if (!strstr(uri, address))
            continue;
        const char *at = strstr(told, address);
        bool fine = false;
        for (; at && !fine; at = strstr(at + 1, address))
            for (int k = 0; said[k] && !fine; k++) {
                const char *reason = strstr(at, said[k]);
                const char *next = strstr(at + 1, "127.0.0.1:");
                /* Its own, not the next one's. */
                fine = reason && (!next || reason < next ||
                                  strncmp(next, address, strlen(address)) == 0);
            }
        if (!fine)
            (void)harness_contains(__FILE__, __LINE__, address, told, said[0]);
    }
    (void)harness_check(__FILE__, __LINE__, !strstr(told, "canary"),
                        "no password is told");
    (void)harness_check(__FILE__, __LINE__, strlen(told) < 6000, "it is bounded");
    for (const char *c = told; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            (void)harness_check(__FILE__, __LINE__, false, "no control characters");
}

static void each_is_told(const int ports[3], const char *settings,
                         const char *const said[])
{
    for (size_t i = 0; i < sizeof(everybody) / sizeof(*everybody); i++) {
        char uri[400];
        snprintf(uri, sizeof(uri), everybody[i], ports[0], ports[1], ports[2]);
        strncat(uri, settings, sizeof(uri) - strlen(uri) - 1);
        if (!has_backend(uri))
            continue;
        dlock_err code = refusal(uri);
        (void)harness_check(__FILE__, __LINE__, code != DLOCK_OK, uri);
        check_each(uri, ports, said);
    }
}

TEST(whoever_refuses_is_said_to_refuse)
{
    int ports[3] = {server_free_port(0), server_free_port(0), server_free_port(0)};
    each_is_told(ports, "client.connect_ms=600",
                 (const char *const[]){"Connection refused", NULL});
    for (int i = 0; i < 3; i++)
        server_let_go(ports[i]);
}

TEST(whoever_says_nothing_is_said_to_say_nothing)
{
    wrong of[3];
    int ports[3];
    for (int i = 0; i < 3; i++) {
        CHECK(wrong_start(&of[i], meet, NULL));
        ports[i] = of[i].port;
    }
    each_is_told(
        ports, "client.connect_ms=400",
        (const char *const[]){"doesn't answer", "no answer", "not connected yet", NULL});
    for (int i = 0; i < 3; i++)
        wrong_stop(&of[i]);
}

TEST(whoever_hangs_up_is_said_to_hang_up)
{
    wrong of[3];
    int ports[3];
    for (int i = 0; i < 3; i++) {
        CHECK(wrong_start(&of[i], meet, ""));
        ports[i] = of[i].port;
    }
    each_is_told(ports, "client.connect_ms=600",
                 (const char *const[]){"closed by the server", "reset by peer",
                                       "not connected yet", "no answer yet", NULL});
    for (int i = 0; i < 3; i++)
        wrong_stop(&of[i]);
}

TEST(what_a_hostile_server_says_is_not_told_raw)
{
    wrong of[3];
    int ports[3];
    for (int i = 0; i < 3; i++) {
        CHECK(wrong_start(&of[i], meet, "-ERR \x1b[2J\x1b]0;owned\x07 and so on\r\n"));
        ports[i] = of[i].port;
    }
    each_is_told(ports, "client.connect_ms=600", (const char *const[]){": ", NULL});
    for (int i = 0; i < 3; i++)
        wrong_stop(&of[i]);
}

TEST(a_port_that_does_not_begin_with_tls_is_said_to_be_that)
{
    static const char *const tls[] = {"rediss://127.0.0.1:%d/?",
                                      "memcacheds://127.0.0.1:%d/?",
                                      "etcds://127.0.0.1:%d/?"};
    wrong of;
    char uri[128];
    if (!has_backend("rediss://"))
        SKIP("no TLS in this build");
    for (int round = 0; round < 2; round++) {
        CHECK(wrong_start(&of, meet,
                          round == 0 ? "HTTP/1.1 400 Bad Request\r\n\r\n" : NULL));
        for (size_t i = 0; i < sizeof(tls) / sizeof(*tls); i++) {
            snprintf(uri, sizeof(uri), tls[i], of.port);
            strcat(uri, "client.connect_ms=400");
            if (!has_backend(uri))
                continue;
            (void)refusal(uri);
            CHECK_CONTAINS(told, "that port doesn't begin with TLS");
            snprintf(uri, sizeof(uri), "127.0.0.1:%d: ", of.port);
            CHECK_CONTAINS(told, uri);
        }
        wrong_stop(&of);
    }
}

TEST(a_name_that_cannot_be_found_is_said_so)
{
    static const char *const all[] = {
        "redis://nohost.invalid:4711/?",
        "redis+sentinel://nohost.invalid:4711/service?",
        "redis+cluster://nohost.invalid:4711/?",
        "redlock://nohost.invalid:4711,nohost2.invalid:4711,nohost3.invalid:4711/?",
        "memcached://nohost.invalid:4711/?",
        "etcd://nohost.invalid:4711/?",
        "zookeeper://nohost.invalid:4711/?"};
    struct addrinfo *found = NULL;
    int number = getaddrinfo("nohost.invalid", "4711", NULL, &found);
    if (number == 0) {
        freeaddrinfo(found);
        SKIP("here every name is found");
    }
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        char uri[160];
        snprintf(uri, sizeof(uri), "%sclient.connect_ms=20000", all[i]);
        if (!has_backend(uri))
            continue;
        CHECK(refusal(uri) != DLOCK_OK);
        CHECK_CONTAINS(told, "nohost.invalid:4711: ");
        CHECK_CONTAINS(told, gai_strerror(number));
    }
}

TEST(of_a_name_each_address_is_told)
{
    char uri[128], said[160];
    int port = server_free_port(0);
    snprintf(uri, sizeof(uri), "redis://localhost:%d", port);
    if (!has_backend(uri))
        SKIP("no redis in this build");
    CHECK_EQ_INT(refusal(uri), DLOCK_EUNAVAIL);
    snprintf(said, sizeof(said),
             "localhost:%d at 127.0.0.1:%d: connect: Connection refused", port, port);
    CHECK_CONTAINS(told, said);
    server_let_go(port);
}
