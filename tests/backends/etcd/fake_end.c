/* See the header. */
#include "fake_end.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct fake_end fake_end = {.fd = -1};

static void need(bool fine)
{
    if (!fine)
        abort();
}

/* ---- the connection: linked in place of the system's ---- */

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size);

void fake_end_begin(void)
{
    fake_end.fd = -1;
}

void fake_end_hang_up(void)
{
    if (fake_end.fd < 0)
        return;
    (void)close(fake_end.fd);
    fake_end.fd = -1;
    peer_end(&fake_end.peer);
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size)
{
    int pair[2];
    (void)to, (void)size;
    fake_end_hang_up(); /* the client has left that one */
    need(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0 &&
         dup3(pair[0], fd, O_CLOEXEC) >= 0);
    (void)close(pair[0]); /* it has another number now */
    fake_end.fd = pair[1];
    peer_begin(&fake_end.peer);
    peer_frame(&fake_end.peer, NGHTTP2_SETTINGS, 0, 0, "", 0);
    fake_end_connected();
    return 0;
}

static bool hear(void)
{
    char bytes[4096];
    dlk_buf come = {0};
    ssize_t got;
    while ((got = recv(fake_end.fd, bytes, sizeof(bytes), 0)) > 0)
        need(dlk_buf_append(&come, bytes, (size_t)got));
    bool some = dlk_buf_size(&come) > 0;
    peer_hear(&fake_end.peer, &come);
    dlk_buf_free(&come);
    return some;
}

static bool say(void)
{
    size_t size = dlk_buf_size(&fake_end.peer.out);
    if (size > 0)
        (void)!send(fake_end.fd, dlk_buf_head(&fake_end.peer.out), size, MSG_NOSIGNAL);
    dlk_buf_eat(&fake_end.peer.out, size);
    return size > 0;
}

/* What a step of the driver has put together the next one sends. */
void fake_end_exchange(void)
{
    fake_end_drive();
    for (int silent = 0; silent < 2 && fake_end.fd >= 0;) {
        bool heard = hear(), said = say();
        silent = heard || said ? 0 : silent + 1;
        fake_end_drive();
    }
}

/* ---- calls ---- */

dlk_etcd_method fake_end_method(const peer_request *request)
{
    const char *path = strstr(request->fields, ":path=");
    for (int i = 0; path && i < DLK_ETCD_METHODS; i++) {
        const char *its = dlk_etcd_rpcs[i].path;
        if (strncmp(path + 6, its, strlen(its)) == 0 && path[6 + strlen(its)] == ' ')
            return (dlk_etcd_method)i;
    }
    abort();
}

const char *fake_end_message(const peer_request *request, size_t *ret_size)
{
    size_t size = dlk_buf_size(&request->body);
    if (size < FAKE_PREFIX)
        return NULL;
    const char *body = dlk_buf_head(&request->body);
    *ret_size = http2_number((const unsigned char *)body + 1, 4);
    return size - FAKE_PREFIX < *ret_size ? NULL : body + FAKE_PREFIX;
}

/* ---- answers ---- */

void fake_end_say_head(int stream)
{
    peer_headers(&fake_end.peer, 0, stream, ":status=200");
}

void fake_end_say_message(int stream, const void *message, size_t size)
{
    const char prefix[FAKE_PREFIX] = {0, (char)(size >> 24), (char)(size >> 16),
                                      (char)(size >> 8), (char)size};
    dlk_buf body = {0};
    need(dlk_buf_append(&body, prefix, sizeof(prefix)) &&
         dlk_buf_append(&body, message, size));
    peer_data(&fake_end.peer, 0, stream, dlk_buf_head(&body), dlk_buf_size(&body));
    dlk_buf_free(&body);
}

static void say_end(int stream, const char *before, int status, const char *words)
{
    char fields[1024];
    int used = snprintf(fields, sizeof(fields), "%sgrpc-status=%d%s%s", before, status,
                        words[0] ? " grpc-message=" : "", words);
    need(used > 0 && (size_t)used < sizeof(fields));
    peer_headers(&fake_end.peer, NGHTTP2_FLAG_END_STREAM, stream, fields);
}

void fake_end_say_status(int stream, int status, const char *words)
{
    say_end(stream, "", status, words);
}

void fake_end_refuse(int stream, int status, const char *words)
{
    say_end(stream, ":status=200 ", status, words);
}
