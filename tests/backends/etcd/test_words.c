/* What is said of a member that doesn't answer as one: who, what it was asked for, and what happened,
 * in our words and not in those of the library that speaks HTTP for us. */
#include "harness/certificates.h"
#include "harness/etcd_server.h"
#include "harness/server.h"

#include "harness/harness.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- a member that does one thing wrong ---- */

typedef struct wrong {
    const char *says; /* NULL: nothing, and the connection stays */
    bool unread;      /* before it has read what it is asked: so the end is a reset */
    size_t more;      /* so many bytes behind that */
    int port, listener;
    pthread_t thread;
    _Atomic bool ending;
} wrong;

/* The head and the body, whose size the head tells. */
static void read_request(int fd)
{
    char text[4096];
    size_t used = 0;
    while (used + 1 < sizeof(text)) {
        ssize_t got = recv(fd, text + used, sizeof(text) - used - 1, 0);
        if (got <= 0)
            return;
        used += (size_t)got;
        text[used] = '\0';
        const char *end = strstr(text, "\r\n\r\n"),
                   *size = strcasestr(text, "content-length:");
        if (end && (!size || strlen(end + 4) >= strtoul(size + 15, NULL, 10)))
            return;
    }
}

static void answer(const wrong *of, int fd)
{
    static const char filling[4096];
    char byte;
    if (of->unread)
        (void)recv(fd, &byte, 1, MSG_PEEK); /* it has come */
    else
        read_request(fd);
    (void)!send(fd, of->says, strlen(of->says), MSG_NOSIGNAL);
    for (size_t sent = 0; sent < of->more; sent += sizeof(filling))
        if (send(fd, filling, sizeof(filling), MSG_NOSIGNAL) < 0)
            return;
}

static void *serve(void *arg)
{
    wrong *of = arg;
    int fd, kept[64];
    size_t count = 0;
    while ((fd = accept(of->listener, NULL, NULL)) >= 0 && !of->ending) {
        if (of->says)
            answer(of, fd);
        if (of->says || count == sizeof(kept) / sizeof(*kept))
            (void)close(fd);
        else
            kept[count++] = fd;
    }
    if (fd >= 0)
        (void)close(fd);
    while (count > 0)
        (void)close(kept[--count]);
    return NULL;
}

static bool start(wrong *of)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    of->ending = false;
    of->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine = of->listener >= 0 &&
                bind(of->listener, (struct sockaddr *)&at, size) == 0 &&
                listen(of->listener, 64) == 0 &&
                getsockname(of->listener, (struct sockaddr *)&at, &size) == 0;
    of->port = ntohs(at.sin_port);
    fine = fine && pthread_create(&of->thread, NULL, serve, of) == 0;
    return harness_check(__FILE__, __LINE__, fine, "a server of our own");
}

static void stop(wrong *of)
{
    of->ending = true;
    int fd = server_dial(of->port, 1); /* ends its accept */
    (void)pthread_join(of->thread, NULL);
    server_hang_up(&fd);
    (void)close(of->listener);
}

/* ---- what is said ---- */

/* The text with @with in the place of each '#'. */
static void fill(char *to, size_t size, const char *text, const char *with)
{
    size_t used = 0;
    to[0] = '\0';
    for (; *text && used + 1 < size; text++) {
        char one[2] = {*text, '\0'};
        snprintf(to + used, size - used, "%s", *text == '#' ? with : one);
        used += strlen(to + used);
    }
}

/* Opens a client there, which fails for this reason; '#' in it is the port. */
static void is_told(const char *begin, int port, const char *more, dlock_err expected,
                    const char *words)
{
    char uri[700], want[500], digits[16];
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    snprintf(uri, sizeof(uri), "%s:%d%sclient.backoff_max_ms=50", begin, port, more);
    snprintf(digits, sizeof(digits), "%d", port);
    fill(want, sizeof(want), words, digits);
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    (void)harness_err(__FILE__, __LINE__, uri, code, expected, err);
    (void)harness_str(__FILE__, __LINE__, uri, dlock_error_text(err), want);
    (void)harness_str(__FILE__, __LINE__, uri, dlock_error_backend(err), "");
}

#define LONG "client.connect_ms=30000&client.timeout_ms=30000&"

TEST(a_member_that_does_not_answer_is_told_in_our_words)
{
    static const struct {
        const char *says, *words, *more;
        size_t filling;
        bool unread;
        dlock_err code;
    } cases[] = {
        {"", "the connection was closed before it answered", "", 0, false,
         DLOCK_EUNAVAIL},
        {"", "the connection was lost: Connection reset by peer", "", 0, true,
         DLOCK_EUNAVAIL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
         "the connection was closed in the midst of the answer", "", 0, false,
         DLOCK_EUNAVAIL},
        {NULL, "no answer within 200 ms", "client.timeout_ms=200&", 0, false,
         DLOCK_EUNAVAIL},
        {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\noops",
         "it answers with status 503", "", 0, false, DLOCK_EUNAVAIL},
        {"+PONG\r\n", "it doesn't answer in HTTP: is it etcd?", "", 0, false,
         DLOCK_EPROTO},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
         "its answer is longer than any of etcd's", "", 17 << 20, false, DLOCK_EPROTO},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char more[160], words[200];
        wrong member = {
            .says = cases[i].says, .unread = cases[i].unread, .more = cases[i].filling};
        snprintf(more, sizeof(more), "?%s", cases[i].more[0] ? cases[i].more : LONG);
        snprintf(words, sizeof(words), "etcd: can't get a lease at 127.0.0.1:#: %s",
                 cases[i].words);
        CHECK(start(&member));
        is_told("etcd://127.0.0.1", member.port, more, cases[i].code, words);
        stop(&member);
        CHECK(!harness_failed());
    }
    int port = server_free_port(0);
    is_told("etcd://127.0.0.1", port, "?" LONG, DLOCK_EUNAVAIL,
            "etcd: can't get a lease at 127.0.0.1:#: can't connect: Connection refused");
    is_told("etcd://joe:secret@127.0.0.1", port, "?" LONG, DLOCK_EUNAVAIL,
            "etcd: can't sign on at 127.0.0.1:#: can't connect: Connection refused");
    is_told("etcd://[::1]", port, "?" LONG, DLOCK_EUNAVAIL,
            "etcd: can't get a lease at [::1]:#: can't connect: Connection refused");
    server_let_go(port);
}

/* ---- TLS ---- */

TEST(who_speaks_no_TLS_is_told_so)
{
    certificates made;
    char more[200];
    if (!certificates_make(&made))
        return;
    wrong http = {.says = "HTTP/1.1 400 Bad Request\r\n\r\n"}, silent = {.says = NULL};
    snprintf(more, sizeof(more), "?" LONG "tls.ca_file=%s&",
             certificates_path(&made, "ca.pem"));
    http.unread = true;
    CHECK(start(&http));
    is_told("etcds://127.0.0.1", http.port, more, DLOCK_EUNAVAIL,
            "etcd: can't get a lease at 127.0.0.1:#: it answers without TLS: use a URI "
            "without it, or the server's port for TLS");
    stop(&http);
    CHECK(start(&silent));
    is_told(
        "etcds://127.0.0.1", silent.port,
        "?client.timeout_ms=200&client.connect_ms=30000&", DLOCK_EUNAVAIL,
        "etcd: can't get a lease at 127.0.0.1:#: no connection within 200 ms (is that "
        "its port for TLS?)");
    is_told(
        "etcds://127.0.0.1", silent.port, "?" LONG "tls.ca_file=/nowhere/ca.pem&",
        DLOCK_EPROTO,
        "etcd: can't get a lease at 127.0.0.1:#: tls.ca_file can't be read, or has no "
        "certificate");
    stop(&silent);
    certificates_remove(&made);
}

typedef struct certified {
    const char *certificate, *more, *words;
    dlock_err code;
} certified;

/* A server of this certificate, by openssl, for it is one that etcd wouldn't start with. */
static const certificates *ca;
static const certified *shown;
static int server_port;
/* It speaks TLS 1.2, and in that answers with what it hears, turned round. */
static bool old;

/* Whether the server asks for a certificate of the client's. */
static bool demands(const certified *one)
{
    return strstr(one->words, "ours") || strstr(one->words, "our ");
}

static void become(const void *unused)
{
    char accept_at[32], cert[100], key[100], own[100];
    (void)unused;
    snprintf(accept_at, sizeof(accept_at), "127.0.0.1:%d", server_port);
    snprintf(cert, sizeof(cert), "%s/%s.pem", ca->dir, shown->certificate);
    snprintf(key, sizeof(key), "%s/%s.key", ca->dir, shown->certificate);
    snprintf(own, sizeof(own), "%s/ca.pem", ca->dir);
    (void)!freopen("/dev/null", "w", stdout);
    (void)!freopen("/dev/null", "w", stderr);
    if (demands(shown))
        execlp("openssl", "openssl", "s_server", "-quiet", "-accept", accept_at, "-cert",
               cert, "-key", key, "-CAfile", own, "-Verify", "1", "-verify_return_error",
               NULL);
    if (old)
        execlp("openssl", "openssl", "s_server", "-quiet", "-accept", accept_at, "-cert",
               cert, "-key", key, "-tls1_2", "-rev", NULL);
    execlp("openssl", "openssl", "s_server", "-quiet", "-accept", accept_at, "-cert",
           cert, "-key", key, NULL);
}

static bool is_up(void *unused)
{
    (void)unused;
    int fd = server_dial(server_port, 1);
    bool up = fd >= 0;
    server_hang_up(&fd);
    return up;
}

static void is_refused(const certified *one)
{
    static const server_kind kind = {"openssl", become, is_up};
    char more[500], words[400], files[300];
    pid_t pid = 0;
    shown = one;
    server_port = server_free_port(0);
    CHECK(server_start(&kind, &pid, NULL));
    fill(files, sizeof(files), one->more, ca->dir);
    snprintf(more, sizeof(more), "?" LONG "%s&", files);
    snprintf(words, sizeof(words), "etcd: can't get a lease at 127.0.0.1:#: %s",
             one->words);
    is_told("etcds://127.0.0.1", server_port, more, one->code, words);
    server_kill(&pid);
    server_let_go(server_port);
}

static void are_refused(const certified *all, size_t count)
{
    certificates made;
    if (!certificates_make(&made))
        return;
    ca = &made;
    for (size_t i = 0; i < count; i++)
        is_refused(&all[i]);
    certificates_remove(&made);
}

TEST(a_certificate_that_is_not_accepted_is_told_in_our_words)
{
    static const certified all[] = {
        {"server", "tls.ca_file=#/other.pem",
         "its certificate comes from an authority that is not trusted (tls.ca_file)",
         DLOCK_EPROTO},
        {"selfsigned", "tls.ca_file=#/ca.pem",
         "its certificate is self-signed and not one that tls.ca_file trusts",
         DLOCK_EPROTO},
        {"wrong", "tls.ca_file=#/ca.pem", "its certificate is not for 127.0.0.1",
         DLOCK_EPROTO},
        {"server", "tls.ca_file=#/ca.pem&tls.server_name=elsewhere.example",
         "its certificate is not for elsewhere.example", DLOCK_EPROTO},
        {"expired", "tls.ca_file=#/ca.pem", "its certificate has expired", DLOCK_EPROTO},
        {"early", "tls.ca_file=#/ca.pem", "its certificate is not valid yet",
         DLOCK_EPROTO},
        {"revoked", "tls.ca_file=#/ca.pem&tls.crl_file=#/crl.pem",
         "its certificate was revoked (tls.crl_file)", DLOCK_EPROTO},
        {"server", "tls.ca_file=#/ca.pem&tls.crl_file=#/old.pem",
         "the list in tls.crl_file has expired: whether its certificate was revoked is "
         "unknown",
         DLOCK_EPROTO},
        {"server", "tls.ca_file=#/ca.pem&tls.crl_file=#/nowhere.pem",
         "tls.crl_file can't be read, or has no list", DLOCK_EPROTO},
        {"server",
         "tls.ca_file=#/ca.pem&tls.cert_file=#/client.pem&tls.key_file=#/server.key",
         "tls.cert_file and tls.key_file can't be used together, or "
         "tls.key_password_file "
         "is wrong",
         DLOCK_EPROTO},
        {"server", "tls.ca_file=#/ca.pem",
         "the server asks for a certificate of ours (tls.cert_file)", DLOCK_EUNAVAIL},
        {"server",
         "tls.ca_file=#/ca.pem&tls.cert_file=#/other.pem&tls.key_file=#/other.key",
         "the server refuses our certificate (tls.cert_file): it doesn't know its "
         "authority",
         DLOCK_EUNAVAIL},
    };
    are_refused(all, sizeof(all) / sizeof(*all));
}

TEST(no_older_version_of_TLS_is_accepted_than_tls_min_version_says)
{
    static const certified all[] = {
        {"server", "tls.ca_file=#/ca.pem&tls.min_version=1.3",
         "the server speaks no version of TLS that we accept (tls.min_version)",
         DLOCK_EUNAVAIL},
        {"server", "tls.ca_file=#/ca.pem", "it doesn't answer in HTTP: is it etcd?",
         DLOCK_EPROTO},
    };
    old = true;
    are_refused(all, sizeof(all) / sizeof(*all));
    old = false;
}
