/* What is said of a member that doesn't answer as one: who, what it was asked for, and what happened,
 * in our words and not in those of the libraries that speak HTTP/2 and TLS for us. */
#include "harness/certificates.h"
#include "harness/etcd_server.h"
#include "harness/server.h"
#include "harness/wrong.h"

#include "harness/harness.h"

#include "net/http2_frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- a member that does one thing wrong ---- */

/* Bytes of HTTP/2, with their size. */
#define BYTES(text) text, sizeof(text) - 1

#define SETTINGS    "\0\0\0\4\0\0\0\0\0"
#define STATUS(digits)                                                                   \
    "\0\0\5\1\5\0\0\0\1\x08\3" digits /* all of an answer to the first request */
#define RESET   "\0\0\4\3\0\0\0\0\1\0\0\0\2"
#define UNKNOWN "\0\0\0\xaa\0\0\0\0\0"
#define GOAWAY  "\0\0\x08\7\0\0\0\0\0\0\0\0\0\0\0\0\0"

typedef struct misdeed {
    const char *greeting; /* NULL: none, and the connection stays */
    size_t greeting_size;
    const char
        *says; /* behind the first request; NULL: nothing, without waiting for it */
    size_t size;
    bool unread; /* before it has read what it is asked: so the end is a reset */
    size_t more; /* so many frames that nobody knows, behind that */
    bool silent; /* and then it says nothing more */
} misdeed;

/* The first request, whole. */
static void read_request(int fd)
{
    unsigned char bytes[4096];
    size_t used = 0, at = HTTP2_PREFACE;
    ssize_t got;
    while ((got = recv(fd, bytes + used, sizeof(bytes) - used, 0)) > 0) {
        http2_frame frame;
        used += (size_t)got;
        while (used > at && http2_frame_read(bytes + at, used - at, &frame)) {
            if (frame.type == NGHTTP2_DATA)
                return;
            at += HTTP2_HEAD + frame.size;
        }
    }
}

static void answer(const misdeed *of, int fd)
{
    char byte;
    if (of->unread)
        (void)recv(fd, &byte, 1, MSG_PEEK); /* it has come */
    else if (!of->says)
        (void)recv(fd, (char[4096]){0}, 4096, 0);
    (void)!send(fd, of->greeting, of->greeting_size, MSG_NOSIGNAL);
    if (of->says) {
        read_request(fd);
        (void)!send(fd, of->says, of->size, MSG_NOSIGNAL);
    }
    for (size_t sent = 0; sent < of->more; sent++)
        if (send(fd, UNKNOWN, sizeof(UNKNOWN) - 1, MSG_NOSIGNAL) < 0)
            return;
}

static bool meet(const void *what, int fd)
{
    const misdeed *of = what;
    if (of->greeting)
        answer(of, fd);
    return !of->greeting || of->silent;
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

/* Opens a client there, which fails for this reason, or one with these words in it; '#' is the port. */
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
    (void)harness_contains(__FILE__, __LINE__, uri, dlock_error_text(err), want);
    (void)harness_str(__FILE__, __LINE__, uri, dlock_error_backend(err), "");
}

#define LONG "client.connect_ms=30000&client.timeout_ms=30000&"

TEST(a_member_that_does_not_answer_is_told_in_our_words)
{
    static const struct {
        const char *greeting;
        size_t greeting_size;
        const char *says;
        size_t size, more;
        bool unread, silent;
        dlock_err code;
        const char *words, *settings;
    } cases[] = {
        {BYTES(""), NULL, 0, 0, false, false, DLOCK_EUNAVAIL,
         "etcd: connection to 127.0.0.1:# lost: it was closed by the server: does it "
         "expect "
         "TLS (etcds://)?",
         ""},
        {BYTES(""), NULL, 0, 0, true, false, DLOCK_EUNAVAIL,
         "etcd: connection to 127.0.0.1:# lost: Connection reset by peer: does it expect "
         "TLS "
         "(etcds://)?",
         ""},
        {BYTES("-ERR unknown command 'PRI'\r\n"), NULL, 0, 0, false, false, DLOCK_EPROTO,
         "etcd: 127.0.0.1:#: it doesn't answer in HTTP/2: is it the right port?", ""},
        {BYTES("HTTP/1.1 400 Bad Request\r\n\r\n"), NULL, 0, 0, false, false,
         DLOCK_EPROTO,
         "etcd: 127.0.0.1:#: it doesn't answer in HTTP/2: is it the right port?", ""},
        {NULL, 0, NULL, 0, 0, false, false, DLOCK_EUNAVAIL,
         "etcd: 127.0.0.1:#: connected, but it doesn't answer within 200 ms",
         "client.connect_ms=200&"},
        {BYTES(SETTINGS), NULL, 0, 40000, false, false, DLOCK_EPROTO,
         "etcd: 127.0.0.1:#: it sends what says nothing, and no end of it", ""},
        {BYTES(SETTINGS), BYTES(STATUS("503")), 0, false, false, DLOCK_EUNAVAIL,
         "etcd: can't get a lease at 127.0.0.1:#: it answers with status 503", ""},
        {BYTES(SETTINGS), BYTES(STATUS("404")), 0, false, false, DLOCK_EPROTO,
         "etcd: can't get a lease at 127.0.0.1:#: it answers with status 404", ""},
        {BYTES(SETTINGS), BYTES(STATUS("200")), 0, false, false, DLOCK_EUNAVAIL,
         "etcd: can't get a lease at 127.0.0.1:#: ", ""},
        {BYTES(SETTINGS), BYTES(RESET), 0, false, false, DLOCK_EUNAVAIL,
         "etcd: can't get a lease at 127.0.0.1:#: the request was broken off", ""},
        {BYTES(SETTINGS), BYTES(GOAWAY), 0, false, false, DLOCK_EUNAVAIL,
         "etcd: can't get a lease at 127.0.0.1:#: it takes no more", ""},
        {BYTES(SETTINGS), BYTES("\0\0\1\4\0\0\0\0\0\0"), 0, false, false, DLOCK_EPROTO,
         "etcd: 127.0.0.1:#: it breaks the rules of HTTP/2", ""},
        {BYTES(SETTINGS), BYTES("\0\0\5\1\4"), 0, false, false, DLOCK_EUNAVAIL,
         "etcd: connection to 127.0.0.1:# lost: it was closed by the server", ""},
        {BYTES(SETTINGS), NULL, 0, 0, false, true, DLOCK_EUNAVAIL,
         "etcd: can't get a lease at 127.0.0.1:#: no answer within 200 ms",
         "client.connect_ms=30000&client.timeout_ms=200&"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char more[160];
        wrong member;
        const misdeed what = {.greeting = cases[i].greeting,
                              .greeting_size = cases[i].greeting_size,
                              .says = cases[i].says,
                              .size = cases[i].size,
                              .unread = cases[i].unread,
                              .silent = cases[i].silent,
                              .more = cases[i].more};
        snprintf(more, sizeof(more), "?%s",
                 cases[i].settings[0] ? cases[i].settings : LONG);
        CHECK(wrong_start(&member, meet, &what));
        is_told("etcd://127.0.0.1", member.port, more, cases[i].code, cases[i].words);
        wrong_stop(&member);
    }
    int port = server_free_port(0);
    is_told("etcd://127.0.0.1", port, "?" LONG, DLOCK_EUNAVAIL,
            "etcd: can't connect to 127.0.0.1:#: Connection refused");
    is_told("etcd://joe:secret@127.0.0.1", port, "?" LONG, DLOCK_EUNAVAIL,
            "etcd: can't connect to 127.0.0.1:#: Connection refused");
    is_told("etcd://[::1]", port, "?" LONG, DLOCK_EUNAVAIL,
            "etcd: can't connect to [::1]:#: Connection refused");
    server_let_go(port);
}

/* ---- TLS ---- */

TEST(who_speaks_no_TLS_is_told_so)
{
    certificates made;
    char more[200];
    if (!certificates_make(&made))
        return;
    wrong server;
    const misdeed http = {.greeting = BYTES("HTTP/1.1 400 Bad Request\r\n\r\n"),
                          .unread = true},
                  silent = {.greeting = NULL};
    snprintf(more, sizeof(more), "?" LONG "tls.ca_file=%s&",
             certificates_path(&made, "ca.pem"));
    CHECK(wrong_start(&server, meet, &http));
    is_told("etcds://127.0.0.1", server.port, more, DLOCK_EPROTO,
            "etcd: no TLS with 127.0.0.1:#: that port doesn't begin with TLS: use a URI "
            "without it, or the server's port for TLS");
    wrong_stop(&server);
    CHECK(wrong_start(&server, meet, &silent));
    is_told("etcds://127.0.0.1", server.port, "?client.connect_ms=200&", DLOCK_EUNAVAIL,
            "etcd: 127.0.0.1:#: connected, but that port doesn't begin with TLS (is it "
            "one for "
            "etcd://?) within 200 ms");
    wrong_stop(&server);
    certificates_remove(&made);
}

/* A server of this certificate, by openssl, for it is one that etcd wouldn't start with. */
static const certificates *ca;
static const char *shown;
static int server_port;

typedef enum demand {
    NOTHING,
    CERTIFICATE, /* the client's, of an authority that it knows */
    TLS_1_2,     /* … and it answers with what it hears, turned round */
} demand;
static demand demands;

static void become(const void *unused)
{
    char accept_at[32], cert[100], key[100], own[100];
    (void)unused;
    snprintf(accept_at, sizeof(accept_at), "127.0.0.1:%d", server_port);
    snprintf(cert, sizeof(cert), "%s/%s.pem", ca->dir, shown);
    snprintf(key, sizeof(key), "%s/%s.key", ca->dir, shown);
    snprintf(own, sizeof(own), "%s/ca.pem", ca->dir);
    (void)!freopen("/dev/null", "w", stdout);
    (void)!freopen("/dev/null", "w", stderr);
    if (demands == CERTIFICATE)
        execlp("openssl", "openssl", "s_server", "-quiet", "-accept", accept_at, "-cert",
               cert, "-key", key, "-CAfile", own, "-Verify", "1", "-verify_return_error",
               NULL);
    if (demands == TLS_1_2)
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

/* '#' in @p files is the certificates' folder. */
static void is_refused(const char *certificate, demand what, const char *files,
                       dlock_err code, const char *words)
{
    static const server_kind kind = {"openssl", become, is_up};
    char more[500], filled[300];
    pid_t pid = 0;
    shown = certificate;
    demands = what;
    server_port = server_free_port(0);
    CHECK(server_start(&kind, &pid, NULL));
    fill(filled, sizeof(filled), files, ca->dir);
    snprintf(more, sizeof(more), "?" LONG "%s&", filled);
    is_told("etcds://127.0.0.1", server_port, more, code, words);
    server_kill(&pid);
    server_let_go(server_port);
}

TEST(a_certificate_that_is_not_accepted_is_told_in_our_words)
{
    certificates made;
    if (!certificates_make(&made))
        return;
    ca = &made;
    for (size_t i = 0; i < certificate_refusal_count; i++) {
        const certificate_refusal *is = &certificate_refusals[i];
        char files[200];
        bool own_authority = is->key && strcmp(is->key, "tls.ca_file") == 0;
        snprintf(files, sizeof(files), "%s%s%s%s%s",
                 own_authority ? "" : "tls.ca_file=#/ca.pem&", is->key ? is->key : "",
                 is->key ? "=" : "", is->file ? "#/" : "",
                 is->file    ? is->file
                 : is->value ? is->value
                             : "");
        is_refused(is->shown, NOTHING, files, is->code, is->says);
    }
    certificates_remove(&made);
}

TEST(a_server_that_wants_a_certificate_of_ours_says_so)
{
    certificates made;
    if (!certificates_make(&made))
        return;
    ca = &made;
    is_refused("server", CERTIFICATE, "tls.ca_file=#/ca.pem", DLOCK_EACCES,
               "etcd: no TLS with 127.0.0.1:#: the server asks for a certificate of ours "
               "(tls.cert_file)");
    is_refused("server", CERTIFICATE,
               "tls.ca_file=#/ca.pem&tls.cert_file=#/other.pem&tls.key_file=#/other.key",
               DLOCK_EACCES,
               "etcd: no TLS with 127.0.0.1:#: the server refuses our certificate "
               "(tls.cert_file): it doesn't know its authority");
    certificates_remove(&made);
}

TEST(files_that_cant_be_used_are_refused_before_anybody_is_asked)
{
    static const struct {
        const char *files, *says;
    } cases[] = {
        {"tls.ca_file=/nowhere/ca.pem", "tls.ca_file '/nowhere/ca.pem': "},
        {"tls.ca_file=#/ca.pem&tls.crl_file=#/nowhere.pem",
         "/nowhere.pem': No such file"},
        {"tls.ca_file=#/ca.pem&tls.cert_file=#/client.pem&tls.key_file=#/server.key",
         "the key is not that of tls.cert_file"},
    };
    certificates made;
    if (!certificates_make(&made))
        return;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char uri[400], files[300];
        DLOCK_AUTO(dlock_client) client = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        fill(files, sizeof(files), cases[i].files, made.dir);
        snprintf(uri, sizeof(uri), "etcds://127.0.0.1:1?%s", files);
        CHECK_ERR(dlock_client_open(uri, NULL, &client, &err), DLOCK_EINVAL, err);
        CHECK_CONTAINS(dlock_error_text(err), cases[i].says);
    }
    certificates_remove(&made);
}

TEST(no_older_version_of_TLS_is_accepted_than_tls_min_version_says)
{
    certificates made;
    if (!certificates_make(&made))
        return;
    ca = &made;
    is_refused(
        "server", TLS_1_2, "tls.ca_file=#/ca.pem&tls.min_version=1.3", DLOCK_EPROTO,
        "etcd: no TLS with 127.0.0.1:#: the server speaks no version of TLS that we "
        "accept (tls.min_version)");
    is_refused("server", TLS_1_2, "tls.ca_file=#/ca.pem", DLOCK_EPROTO,
               "etcd: 127.0.0.1:#: it doesn't answer in HTTP/2: is it the right port?");
    certificates_remove(&made);
}
