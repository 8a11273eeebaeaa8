/* A stream in its coat of TLS, against OpenSSL's own server on the other end of a socket pair. */
#include "harness/certificates.h"
#include "harness/harness.h"
#include "lines.h"
#include "net/tls.h"
#include "util/clock.h"
#include "util/error.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static certificates made;

/* ---- The server: a thread that sends back what it gets ---- */

typedef struct server {
    const char *shows; /* its certificate */
    int fd;
    pthread_t thread;
    bool accepted;
    bool breaks;  /* answers with what is no TLS */
    size_t heard; /* bytes */
    char asked_for[64];
    const char *speaks;       /* this protocol, and no other */
    char protocol[16];        /* that was agreed upon */
    unsigned char wanted[16]; /* `speaks`, as OpenSSL reads it */
} server;

static SSL_CTX *server_context(const char *shows)
{
    char file[32];
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    snprintf(file, sizeof(file), "%s.pem", shows);
    SSL_CTX_use_certificate_chain_file(context, certificates_path(&made, file));
    snprintf(file, sizeof(file), "%s.key", shows);
    SSL_CTX_use_PrivateKey_file(context, certificates_path(&made, file),
                                SSL_FILETYPE_PEM);
    return context;
}

static int choose(SSL *ssl, const unsigned char **ret, unsigned char *ret_size,
                  const unsigned char *offered, unsigned size, void *arg)
{
    server *s = arg; /* where what is chosen lies when this has returned */
    unsigned char *chosen = NULL;
    (void)ssl;
    s->wanted[0] = (unsigned char)strlen(s->speaks);
    memcpy(s->wanted + 1, s->speaks, s->wanted[0]);
    int found = SSL_select_next_proto(&chosen, ret_size, s->wanted, s->wanted[0] + 1u,
                                      offered, size);
    *ret = chosen;
    return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK
                                           : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static void note_protocol(server *s, const SSL *ssl)
{
    const unsigned char *agreed;
    unsigned size;
    SSL_get0_alpn_selected(ssl, &agreed, &size);
    snprintf(s->protocol, sizeof(s->protocol), "%.*s", (int)size, (const char *)agreed);
}

static void *serve(void *arg)
{
    server *s = arg;
    static _Thread_local char data[40000];
    SSL_CTX *context = server_context(s->shows);
    if (s->speaks)
        SSL_CTX_set_alpn_select_cb(context, choose, s);
    SSL *ssl = SSL_new(context);
    SSL_set_fd(ssl, s->fd);
    s->accepted = SSL_accept(ssl) == 1;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    snprintf(s->asked_for, sizeof(s->asked_for), "%s", name ? name : "");
    note_protocol(s, ssl);
    int got;
    while (s->accepted && (got = SSL_read(ssl, data, sizeof(data))) > 0) {
        s->heard += (size_t)got;
        if (s->breaks) {
            (void)send(s->fd, "no record of TLS", 16, MSG_NOSIGNAL);
            break;
        }
        if (SSL_write(ssl, data, got) != got)
            break;
    }
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(s->fd);
    return NULL;
}

/* ---- The client ---- */

static dlk_tls *tls;

static dlk_tls *make_tls(const char *ca, const char *verify)
{
    dlk_settings *settings = dlk_settings_new();
    dlk_tls *ret = NULL;
    dlock_error *err = NULL;
    dlock_err code =
        dlk_settings_set(settings, "tls.ca_file", certificates_path(&made, ca), &err);
    if (code == DLOCK_OK)
        code = dlk_settings_set(settings, "tls.verify", verify, &err);
    if (code == DLOCK_OK)
        code = dlk_tls_new(settings, &ret, &err);
    (void)harness_err(__FILE__, __LINE__, "dlk_tls_new", code, DLOCK_OK, err);
    dlk_error_clear(&err);
    dlk_settings_free(settings);
    return ret;
}

/* A stream and a server that are connected; by a pair of small buffers. */
static bool start_as(server *s, server is, const char *host, const char *verify)
{
    int ends[2], small = 4096;
    *s = is;
    if (!certificates_make(&made) || !(tls = make_tls("ca.pem", verify)))
        return false;
    bool fine = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 &&
                setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0;
    s->fd = ends[1];
    dlk_stream_init(&stream);
    dlk_stream_open(&stream, ends[0]);
    if (s->speaks)
        dlk_tls_speak(tls, "h2");
    dlock_error *error = dlk_tls_begin(tls, &stream, host, 1);
    fine = fine && !error && pthread_create(&s->thread, NULL, serve, s) == 0;
    dlk_error_clear(&error);
    return harness_check(__FILE__, __LINE__, fine, "a stream and a server");
}

static bool start(server *s, const char *shows, const char *host)
{
    return start_as(s, (server){.shows = shows}, host, "full");
}

static void stop(server *s)
{
    dlk_stream_close(&stream, DLK_END_ORDERLY);
    (void)harness_check(__FILE__, __LINE__, dlk_stream_reap(&stream), "reaped");
    dlk_stream_free(&stream);
    pthread_join(s->thread, NULL);
    dlk_tls_free(tls);
    certificates_remove(&made);
}

/* So much of `in` isn't digested yet. */
static size_t undigested;

/* One round of a driver; what came is in `in` until the next. */
static void round_trip(void)
{
    stream.in_size = undigested;
    pthread_mutex_lock(&mutex);
    dlk_stream_arm(&stream);
    pthread_mutex_unlock(&mutex);
    struct pollfd ready = {.fd = atomic_load(&stream.fd)};
    ready.events = dlk_stream_push(&stream);
    if (ready.events && poll(&ready, 1, 5) > 0)
        dlk_stream_pull(&stream);
    pthread_mutex_lock(&mutex);
    dlk_stream_disarm(&stream);
    pthread_mutex_unlock(&mutex);
}

static int64_t limit(void)
{
    return dlk_clock_now() + 60 * DLK_NS_PER_SEC;
}

enum { MUCH = 1 << 20 };

TEST(a_million_bytes_come_back_as_they_went)
{
    server s;
    CHECK(start(&s, "server", "localhost"));
    char *data = malloc(MUCH);
    CHECK(data != NULL);
    for (size_t i = 0; i < MUCH; i++)
        data[i] = (char)(i * 7 + i / 251);
    CHECK(dlk_buf_append(&stream.out, data, MUCH));
    size_t got = 0;
    int64_t end = limit();
    while (got < MUCH && !atomic_load(&stream.failure) && dlk_clock_now() < end) {
        round_trip();
        CHECK(stream.in_size <= MUCH - got);
        CHECK(memcmp(stream.in, data + got, stream.in_size) == 0);
        got += stream.in_size;
    }
    CHECK_EQ_INT(got, MUCH);
    CHECK(!dlk_stream_unsent(&stream, MUCH));
    free(data);
    stop(&s);
    CHECK_EQ_INT(s.heard, MUCH);
    CHECK_STR(s.asked_for, "localhost"); /* SNI */
}

/* What the server has agreed to speak, after a line there and back or the end of the connection. */
static const char *agreed(const char *speaks)
{
    static server s;
    if (!start_as(&s, (server){.shows = "server", .speaks = speaks}, "localhost",
                  "full") ||
        !dlk_buf_append(&stream.out, "hello", 5))
        return "";
    int64_t end = limit();
    do
        round_trip();
    while (stream.in_size == 0 && !atomic_load(&stream.failure) && dlk_clock_now() < end);
    bool refused = atomic_load(&stream.failure) == EPROTO;
    stop(&s);
    return refused ? "refused" : s.protocol;
}

TEST(a_server_of_several_protocols_is_asked_for_the_one_that_is_spoken)
{
    CHECK_STR(agreed("h2"), "h2");
    CHECK_STR(agreed(NULL), ""); /* who isn't asked, or knows nothing of it */
    CHECK_STR(agreed("http/1.1"), "refused");
}

enum { WRITERS = 3, LINES = 1000 };

TEST(writers_and_the_reader_dont_disturb_each_other)
{
    server s;
    CHECK(start(&s, "server", "127.0.0.1"));
    writers all;
    int lines = 0;
    CHECK(writers_start(&all, WRITERS, LINES));
    char line[LINE];
    size_t used = 0;
    int64_t end = limit();
    while (lines < WRITERS * LINES && dlk_clock_now() < end) {
        round_trip();
        CHECK_EQ_INT(atomic_load(&stream.failure), 0);
        for (size_t i = 0; i < stream.in_size; i++) {
            line[used++] = stream.in[i];
            if (used < LINE)
                continue;
            used = 0;
            lines++;
            CHECK(writers_wrote(&all, line));
        }
    }
    writers_join(&all);
    CHECK_EQ_INT(lines, WRITERS * LINES);
    stop(&s);
    CHECK_STR(s.asked_for, ""); /* an address is no name to ask for */
}

TEST(a_server_that_is_not_trusted_hears_nothing_of_the_secret)
{
    server s;
    char why[400];
    CHECK(start(&s, "selfsigned", "localhost"));
    CHECK(dlk_stream_hide(&stream, 64));
    CHECK(dlk_buf_append(&stream.out, "AUTH c4nary", 11));
    int64_t end = limit();
    while (!atomic_load(&stream.failure) && dlk_clock_now() < end)
        round_trip();
    CHECK_EQ_INT(dlk_stream_why(&stream, why, sizeof(why)), DLOCK_EACCES);
    CHECK_CONTAINS(why, "self-signed");
    stop(&s);
    CHECK(!s.accepted);
    CHECK_EQ_INT(s.heard, 0);
}

TEST(a_fault_that_was_tolerated_is_not_what_a_later_failure_is_told_as)
{
    server s;
    char why[400];
    CHECK(start_as(&s, (server){.shows = "selfsigned", .breaks = true}, "localhost",
                   "insecure_none"));
    CHECK(dlk_buf_append(&stream.out, "hello", 5));
    int64_t end = limit();
    while (!atomic_load(&stream.failure) && dlk_clock_now() < end)
        round_trip();
    CHECK_EQ_INT(dlk_stream_why(&stream, why, sizeof(why)), DLOCK_EPROTO);
    CHECK(!strstr(why, "certificate"));
    stop(&s);
    CHECK(s.accepted);
    CHECK_EQ_INT(s.heard, 5);
}

TEST(whatever_the_other_side_says_instead_of_tls_ends_the_stream)
{
    static const char *const words[] = {"-ERR unknown command\r\n", "\x15\x03\x01", "",
                                        "\x16\x03\x03\x40\x01garbage, long enough", "\n"};
    char why[400];
    if (!certificates_make(&made))
        return;
    CHECK((tls = make_tls("ca.pem", "full")) != NULL);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        int ends[2];
        CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        dlk_stream_init(&stream);
        dlk_stream_open(&stream, ends[0]);
        CHECK(!dlk_tls_begin(tls, &stream, "localhost", 1));
        CHECK(dlk_buf_append(&stream.out, "AUTH c4nary", 11));
        round_trip();
        CHECK_EQ_INT(send(ends[1], words[i], strlen(words[i]), MSG_NOSIGNAL),
                     strlen(words[i]));
        CHECK_EQ_INT(shutdown(ends[1], SHUT_WR), 0);
        int64_t end = limit();
        while (!atomic_load(&stream.failure) && dlk_clock_now() < end)
            round_trip();
        CHECK(dlk_stream_why(&stream, why, sizeof(why)) != DLOCK_OK);
        harness_note("%s", why);
        CHECK(strlen(why) > 20);
        char heard[4096] = "";
        CHECK(recv(ends[1], heard, sizeof(heard), 0) > 0);
        CHECK(!memmem(heard, sizeof(heard), "c4nary", 6));
        dlk_stream_close(&stream, DLK_END_ORDERLY);
        CHECK(dlk_stream_reap(&stream));
        dlk_stream_free(&stream);
        close(ends[1]);
    }
    dlk_tls_free(tls);
    certificates_remove(&made);
}

/* ---- How records lie in what is read at once ---- */

/* The server's side, in this thread: what it has to say leaves in pieces of a size of the test's choice. */
typedef struct peer {
    SSL_CTX *context;
    SSL *ssl;
    int fd;
} peer;

enum { FIVE_K = 5000, TOLD = 1 + 100 + FIVE_K + 3 + FIVE_K + 1 };
static const int records[] = {1, 100, FIVE_K, 3, 1, FIVE_K};
static char got[TOLD];
static size_t got_size;

static bool start_peer(peer *p, int version)
{
    int ends[2];
    got_size = 0;
    if (!(tls = make_tls("ca.pem", "full")) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    p->fd = ends[1];
    p->context = server_context("server");
    SSL_CTX_set_max_proto_version(p->context, version);
    p->ssl = SSL_new(p->context);
    SSL_set_bio(p->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(p->ssl);
    dlk_stream_init(&stream);
    dlk_stream_open(&stream, ends[0]);
    return !dlk_tls_begin(tls, &stream, "localhost", 1);
}

static void stop_peer(peer *p)
{
    SSL_free(p->ssl);
    SSL_CTX_free(p->context);
    close(p->fd);
    dlk_stream_close(&stream, DLK_END_RESET);
    CHECK(dlk_stream_reap(&stream));
    dlk_stream_free(&stream);
    dlk_tls_free(tls);
}

static void take_in(void)
{
    round_trip();
    size_t size = stream.in_size - undigested;
    CHECK(size <= sizeof(got) - got_size);
    memcpy(got + got_size, stream.in + undigested, size);
    got_size += size;
}

/* Both ways, once; the stream reads after each piece. */
static void go_between(peer *p, size_t piece)
{
    char data[4096], *rest;
    ssize_t come;
    while ((come = recv(p->fd, data, sizeof(data), MSG_DONTWAIT)) > 0)
        CHECK_EQ_INT(BIO_write(SSL_get_rbio(p->ssl), data, (int)come), come);
    long size = BIO_get_mem_data(SSL_get_wbio(p->ssl), &rest);
    for (size_t at = 0, next; at < (size_t)size; at = next) {
        next = (size_t)size - at < piece ? (size_t)size : at + piece;
        CHECK_EQ_INT(send(p->fd, rest + at, next - at, MSG_NOSIGNAL), next - at);
        take_in();
    }
    (void)BIO_reset(SSL_get_wbio(p->ssl));
    take_in();
}

/* The stream says this, and the server hears it. */
static void is_heard(peer *p, const char *text, size_t piece)
{
    char data[64];
    int size = 0;
    int64_t end = limit();
    CHECK(dlk_buf_append(&stream.out, text, strlen(text)));
    while (size <= 0 && dlk_clock_now() < end) {
        go_between(p, piece);
        size = SSL_read(p->ssl, data, sizeof(data));
    }
    CHECK_EQ_INT(size, strlen(text));
    CHECK(memcmp(data, text, strlen(text)) == 0);
}

/* Records of several sizes, new keys between them, and the end, if it @p ends, behind them. */
static void say(peer *p, bool ends)
{
    static char data[FIVE_K];
    char byte = 0;
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        for (int k = 0; k < records[i]; k++)
            data[k] = byte++;
        if (SSL_version(p->ssl) == TLS1_3_VERSION)
            CHECK_EQ_INT(SSL_key_update(p->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        if (SSL_version(p->ssl) == TLS1_3_VERSION)
            CHECK_EQ_INT(SSL_do_handshake(p->ssl), 1);
        CHECK_EQ_INT(SSL_write(p->ssl, data, records[i]), records[i]);
    }
    if (ends)
        CHECK(SSL_shutdown(p->ssl) >= 0);
}

static void come_in_pieces(int version, size_t piece, bool ends)
{
    peer p;
    CHECK(start_peer(&p, version));
    is_heard(&p, "hello", piece);
    CHECK_EQ_INT(SSL_version(p.ssl), version);
    say(&p, ends);
    int64_t end = limit();
    do
        go_between(&p, piece);
    while ((got_size < TOLD || (ends && !atomic_load(&stream.failure))) &&
           dlk_clock_now() < end);
    CHECK_EQ_INT(got_size, TOLD);
    for (size_t at = 0; at < TOLD; at++)
        CHECK(got[at] == (char)at);
    CHECK_EQ_INT(atomic_load(&stream.failure), ends ? DLK_STREAM_EOF : 0);
    if (!ends)
        is_heard(&p, "again", piece); /* by whichever keys it is now */
    stop_peer(&p);
}

TEST(nothing_stays_behind_however_records_lie_in_what_is_read_at_once)
{
    static const size_t pieces[] = {1, 7, 5000, SIZE_MAX};
    if (!certificates_make(&made))
        return;
    for (size_t i = 0; i < 8 * sizeof(pieces) / sizeof(pieces[0]); i++) {
        undigested =
            i & 4 ? sizeof(stream.in) - 1000 : 0; /* less room than a record has */
        come_in_pieces(i & 1 ? TLS1_3_VERSION : TLS1_2_VERSION, pieces[i / 8], i & 2);
    }
    undigested = 0;
    certificates_remove(&made);
}
