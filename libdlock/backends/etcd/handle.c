/* A handle of libcurl's: what it is set to, and what it calls while a request is under way. */
#include "backends/etcd/wire.h"

#include "net/silence.h"
#include "util/descriptor.h"

#include <string.h>

/* Nothing that we ask for is anywhere near as long: whoever sends that is no etcd. */
#define ANSWER_MAX (16u << 20)

/* ---- what comes, and what goes ---- */

/* The end of the first line, or NULL. A byte is looked at once, however many pieces come. */
static const char *end_of_line(dlk_etcd_call *call)
{
    size_t size = dlk_buf_size(&call->answer), looked = call->looked;
    call->looked = size;
    return size > looked
               ? memchr(dlk_buf_head(&call->answer) + looked, '\n', size - looked)
               : NULL;
}

/* What a watch says line by line; the first says that it watches. */
static bool tells_news(dlk_etcd_call *call)
{
    const char *end;
    while ((end = end_of_line(call))) {
        const char *line = dlk_buf_head(&call->answer);
        size_t size = (size_t)(end - line);
        call->looked = 0;
        bool created = memmem(line, size, "\"created\":true", 14) != NULL;
        bool events = memmem(line, size, "\"events\"", 8) != NULL;
        bool ended = memmem(line, size, "\"canceled\":true", 15) != NULL;
        dlk_buf_eat(&call->answer, size + 1);
        if (!created || events || ended)
            return true;
    }
    return false;
}

size_t dlk_etcd_call_hears(char *data, size_t one, size_t size, void *user)
{
    dlk_etcd_call *call = user;
    size *= one;
    if (size == 0) /* libcurl's word for an empty answer */
        return 0;
    if (dlk_buf_size(&call->answer) + size > ANSWER_MAX)
        return CURL_WRITEFUNC_ERROR;
    call->no_memory = !dlk_buf_append(&call->answer, data, size);
    if (call->no_memory)
        return CURL_WRITEFUNC_ERROR;
    if (!call->watch || !tells_news(call))
        return size;
    call->fired = true; /* that is all it was for: ends it */
    return CURL_WRITEFUNC_ERROR;
}

/* libcurl sends a request once more when the connection turns out to be cut. Whether the first one
 * was carried out is for us to find out: a second deletion finds nothing, and would look as if
 * somebody else had been there before. */
/* NOLINTNEXTLINE(readability-non-const-parameter): libcurl's types */
static int on_send(void *user, char *ip, char *local_ip, int port, int local_port)
{
    dlk_etcd_call *call = user;
    (void)ip, (void)local_ip, (void)port, (void)local_port;
    if (call->begun) {
        call->cut = true;
        return CURL_PREREQFUNC_ABORT;
    }
    call->begun = true;
    return CURL_PREREQFUNC_OK;
}

/* ---- sockets: none survives an exec, and a fork's child closes them all ----
 *
 * libcurl closes one when its call was aborted, has run out of time or has failed: with something
 * unanswered. What it keeps for the next call is closed by us, all at once. */

static curl_socket_t open_socket(void *user, curlsocktype purpose,
                                 struct curl_sockaddr *address)
{
    const dlk_etcd_wire *wire = user;
    (void)purpose;
    int fd = dlk_socket_new(address->family, address->socktype, address->protocol);
    if (fd >= 0) /* a watch has no deadline, and would wait for ever */
        dlk_silence_limit(fd,
                          dlk_settings_int(wire->settings, DLK_KEY_CLIENT_TIMEOUT_MS));
    return fd;
}

static int close_socket(void *user, curl_socket_t fd)
{
    const dlk_etcd_wire *wire = user;
    dlk_socket_end(fd, wire->ending);
    dlk_fd_close(fd);
    return 0;
}

/* ---- settings ---- */

static void set_tls(const dlk_etcd_wire *wire, CURL *easy)
{
    static const struct {
        dlk_key_id key;
        CURLoption option;
    } files[] = {
        {DLK_KEY_TLS_CA_FILE, CURLOPT_CAINFO},   {DLK_KEY_TLS_CA_DIR, CURLOPT_CAPATH},
        {DLK_KEY_TLS_CRL_FILE, CURLOPT_CRLFILE}, {DLK_KEY_TLS_CERT_FILE, CURLOPT_SSLCERT},
        {DLK_KEY_TLS_KEY_FILE, CURLOPT_SSLKEY},
    };
    const dlk_settings *settings = wire->settings;
    int64_t verify = dlk_settings_int(settings, DLK_KEY_TLS_VERIFY);
    bool new_only = dlk_settings_int(settings, DLK_KEY_TLS_MIN_VERSION) == 1;
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, verify == 2 ? 0L : 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, verify == 0 ? 2L : 0L);
    curl_easy_setopt(
        easy, CURLOPT_SSLVERSION,
        (long)(new_only ? CURL_SSLVERSION_TLSv1_3 : CURL_SSLVERSION_TLSv1_2));
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
        if (dlk_settings_text(settings, files[i].key)[0])
            curl_easy_setopt(easy, files[i].option,
                             dlk_settings_text(settings, files[i].key));
    if (dlk_settings_text(settings, DLK_KEY_TLS_CA_FILE)[0] &&
        !dlk_settings_text(settings, DLK_KEY_TLS_CA_DIR)[0])
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL); /* that file's and no others */
    if (wire->way->key_password)
        curl_easy_setopt(easy, CURLOPT_KEYPASSWD, wire->way->key_password);
}

CURL *dlk_etcd_handle_new(dlk_etcd_wire *wire)
{
    CURL *easy = curl_easy_init();
    if (!easy)
        return NULL;
    int64_t connect_ms = dlk_settings_int(wire->settings, DLK_KEY_CLIENT_CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* none, whatever the environment says */
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, dlk_etcd_call_hears);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_send);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, wire);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, wire);
    if (wire->way->resolve)
        curl_easy_setopt(easy, CURLOPT_RESOLVE, wire->way->resolve);
    if (wire->tls)
        set_tls(wire, easy);
    return easy;
}
