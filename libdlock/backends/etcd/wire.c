/* HTTP by libcurl; see the header for who may do what when. */
#include "backends/etcd/wire.h"

#include "backends/etcd/json.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/secret.h"
#include "util/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More requests than these wait here; each has a connection of its own while it is under way. */
#define GOING_MAX (DLK_ETCD_SOCKS / 2)
#define FAREWELL  (500 * DLK_NS_PER_MS)

/* ---- calls ---- */

void dlk_etcd_call_free(dlk_etcd_call *call)
{
    dlk_json_unref(call->json);
    curl_slist_free_all(call->headers);
    dlk_buf_free(&call->answer);
    dlk_wipe_free(call->token);
    dlk_wipe_free(call->body); /* it may be a password */
    free(call);
}

/* libcurl's: what it waits for at a socket; one at which it waits no more is forgotten. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *own)
{
    dlk_etcd_wire *wire = user;
    (void)easy, (void)own;
    size_t at = 0;
    while (at < wire->sock_count && wire->socks[at].fd != fd)
        at++;
    if (what == CURL_POLL_REMOVE) {
        if (at < wire->sock_count)
            wire->socks[at] = wire->socks[--wire->sock_count];
        return 0;
    }
    if (at == DLK_ETCD_SOCKS)
        return 0; /* there are no more calls than that */
    if (at == wire->sock_count)
        wire->socks[wire->sock_count++] = (dlk_etcd_sock){.fd = fd, .polled = -1};
    wire->socks[at].events = (short)((what & CURL_POLL_IN ? POLLIN : 0) |
                                     (what & CURL_POLL_OUT ? POLLOUT : 0));
    return 0;
}

/* ---- handles: io held ---- */

static CURL *take_easy(dlk_etcd_wire *wire)
{
    return wire->spare_count > 0 ? wire->spare[--wire->spare_count]
                                 : dlk_etcd_handle_new(wire);
}

static void spare_easy(dlk_etcd_wire *wire, CURL *easy)
{
    if (wire->spare_count < sizeof(wire->spare) / sizeof(*wire->spare))
        wire->spare[wire->spare_count++] = easy;
    else
        curl_easy_cleanup(easy);
}

static void put(dlk_etcd_wire *wire, dlk_etcd_call *call)
{
    (void)pthread_mutex_lock(&wire->mail);
    dlk_list_append(&wire->inbox, &call->link);
    (void)pthread_mutex_unlock(&wire->mail);
}

static void end(dlk_etcd_wire *wire, dlk_etcd_call *call, CURLcode code)
{
    call->code = code;
    if (call->easy) /* which outlives the call's buffer */
        (void)curl_easy_setopt(call->easy, CURLOPT_ERRORBUFFER, NULL);
    dlk_etcd_explain(wire, call);
    if (call->easy) {
        (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &call->status);
        (void)curl_multi_remove_handle(wire->multi, call->easy);
        spare_easy(wire, call->easy);
        call->easy = NULL;
    }
    size_t size = dlk_buf_size(&call->answer);
    /* It doesn't say when it had no memory: what isn't JSON isn't so twice. */
    for (int i = 0; i < 2 && code == CURLE_OK && size > 0 && !call->json; i++)
        call->json = json_loadb(dlk_buf_head(&call->answer), size, 0, NULL);
    atomic_fetch_add(&wire->bytes_received, (int64_t)size);
    put(wire, call);
}

static struct curl_slist *add_header(struct curl_slist *list, const char *text)
{
    struct curl_slist *longer = text ? curl_slist_append(list, text) : NULL;
    if (!longer)
        curl_slist_free_all(list);
    return longer;
}

/* NULL without memory. */
static struct curl_slist *headers_of(dlk_etcd_wire *wire, dlk_etcd_call *call)
{
    static const char json[] = "Content-Type: application/json";
    char *line = NULL;
    if (!wire->way->headers)
        wire->way->headers = add_header(NULL, json);
    if (!call->token)
        return wire->way->headers;
    if (asprintf(&line, "Authorization: %s", call->token) < 0)
        line = NULL;
    call->headers = add_header(add_header(NULL, json), line);
    free(line);
    return call->headers;
}

static void begin(dlk_etcd_wire *wire, dlk_etcd_call *call)
{
    char *url = NULL;
    if (!wire->way || !wire->multi) {
        end(wire, call, CURLE_COULDNT_CONNECT);
        return;
    }
    CURL *easy = take_easy(wire);
    struct curl_slist *headers = headers_of(wire, call);
    if (!easy || !headers || asprintf(&url, "%s%s", wire->way->url, call->path) < 0)
        url = NULL;
    if (!url || curl_easy_setopt(easy, CURLOPT_URL, url) != CURLE_OK) {
        free(url);
        if (easy)
            spare_easy(wire, easy);
        end(wire, call, CURLE_OUT_OF_MEMORY);
        return;
    }
    free(url);
    size_t size = strlen(call->body);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)size);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, call);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->why);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)call->timeout_ms);
    call->easy = easy;
    dlk_list_append(&wire->going, &call->link);
    atomic_fetch_add(&wire->bytes_sent, (int64_t)size);
    if (curl_multi_add_handle(wire->multi, easy) != CURLM_OK) {
        dlk_list_remove(&call->link);
        end(wire, call, CURLE_OUT_OF_MEMORY);
    }
}

/* ---- where to: io held ---- */

/* Handles and connections are for one way only. */
static void close_all(dlk_etcd_wire *wire)
{
    dlk_list *link;
    while ((link = dlk_list_take_first(&wire->going)))
        end(wire, DLK_LIST_ITEM(link, dlk_etcd_call, link), CURLE_ABORTED_BY_CALLBACK);
    while (wire->spare_count > 0)
        curl_easy_cleanup(wire->spare[--wire->spare_count]);
    wire->ending = DLK_END_ORDERLY; /* of those that are left each has its answer */
    if (wire->multi)
        (void)curl_multi_cleanup(wire->multi);
    wire->ending = DLK_END_RESET;
    wire->multi = NULL;
    wire->sock_count = 0;
    dlk_etcd_way_free(wire->way);
    wire->way = NULL;
}

static size_t going_count(const dlk_etcd_wire *wire)
{
    size_t count = 0;
    DLK_LIST_FOR (it, &wire->going)
        count++;
    return count;
}

static void end_unwanted(dlk_etcd_wire *wire)
{
    dlk_list unwanted, *link;
    dlk_list_init(&unwanted);
    DLK_LIST_FOR (it, &wire->going) {
        if (!atomic_load(&DLK_LIST_ITEM(it, dlk_etcd_call, link)->unwanted))
            continue;
        dlk_list_remove(it);
        dlk_list_append(&unwanted, it);
    }
    while ((link = dlk_list_take_first(&unwanted)))
        end(wire, DLK_LIST_ITEM(link, dlk_etcd_call, link), CURLE_ABORTED_BY_CALLBACK);
}

/* Without memory there is none, and every call ends at once. */
static void make_multi(dlk_etcd_wire *wire)
{
    wire->multi = curl_multi_init();
    if (!wire->multi)
        return;
    (void)curl_multi_setopt(wire->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    (void)curl_multi_setopt(wire->multi, CURLMOPT_SOCKETDATA, wire);
}

/* Carries out what the others have left for whoever has `io`. */
static void obey(dlk_etcd_wire *wire)
{
    dlk_list fresh, *link;
    dlk_list_init(&fresh);
    size_t busy = going_count(wire);
    (void)pthread_mutex_lock(&wire->mail);
    bool leave = wire->leave, drop = wire->drop;
    dlk_etcd_way *next = wire->next;
    wire->leave = wire->drop = false;
    wire->next = NULL;
    for (; busy < GOING_MAX && (link = dlk_list_take_first(&wire->outbox)); busy++)
        dlk_list_append(&fresh, link);
    (void)pthread_mutex_unlock(&wire->mail);
    if (leave)
        close_all(wire);
    if (next) {
        wire->way = next;
        make_multi(wire);
    }
    if (drop)
        end_unwanted(wire);
    while ((link = dlk_list_take_first(&fresh)))
        begin(wire, DLK_LIST_ITEM(link, dlk_etcd_call, link));
}

/* Takes out the calls that have ended. */
static void collect(dlk_etcd_wire *wire)
{
    int left;
    const CURLMsg *news;
    while ((news = curl_multi_info_read(wire->multi, &left))) {
        char *user = NULL;
        CURLcode code = news->data.result;
        if (news->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(news->easy_handle, CURLINFO_PRIVATE, &user);
        dlk_etcd_call *call = (dlk_etcd_call *)(void *)user;
        dlk_list_remove(&call->link);
        end(wire, call, code);
    }
}

/* Begins what was asked for, and does what it is time for. */
static void perform(dlk_etcd_wire *wire)
{
    int running;
    obey(wire);
    if (!wire->multi)
        return;
    /* What goes wrong is said per call. */
    (void)curl_multi_socket_action(wire->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    collect(wire);
}

static bool is_over(dlk_etcd_wire *wire)
{
    (void)pthread_mutex_lock(&wire->mail);
    bool over = !dlk_list_empty(&wire->inbox);
    (void)pthread_mutex_unlock(&wire->mail);
    return over;
}

/* Says what libcurl waits for. */
static void arm(dlk_etcd_wire *wire, dlk_polls *polls)
{
    long ms = -1;
    for (size_t i = 0; i < wire->sock_count; i++) {
        dlk_etcd_sock *sock = &wire->socks[i];
        sock->polled = dlk_polls_add(polls, sock->fd, sock->events);
    }
    if (wire->multi && curl_multi_timeout(wire->multi, &ms) == CURLM_OK && ms >= 0)
        dlk_polls_hurry(polls, dlk_clock_after(dlk_clock_now(), ms));
}

/* What the sleep has shown of one of the sockets, which is looked at no more; or NULL. */
static dlk_etcd_sock *next_ready(dlk_etcd_wire *wire, const dlk_polls *polls,
                                 short *ret_came)
{
    for (size_t i = 0; i < wire->sock_count; i++) {
        dlk_etcd_sock *sock = &wire->socks[i];
        *ret_came = dlk_polls_came(polls, sock->polled);
        sock->polled = -1;
        if (*ret_came)
            return sock;
    }
    return NULL;
}

/* libcurl may open and close sockets at each of them. */
static void digest(dlk_etcd_wire *wire, const dlk_polls *polls)
{
    int running;
    short came;
    const dlk_etcd_sock *sock;
    while (wire->multi && (sock = next_ready(wire, polls, &came))) {
        int what = (came & ~POLLOUT ? CURL_CSELECT_IN : 0) |
                   (came & POLLOUT ? CURL_CSELECT_OUT : 0);
        (void)curl_multi_socket_action(wire->multi, sock->fd, what, &running);
    }
    if (wire->multi)
        collect(wire);
}

/* ---- from outside ---- */

void dlk_etcd_wire_push(dlk_etcd_wire *wire, dlk_polls *polls)
{
    (void)pthread_mutex_lock(&wire->io);
    perform(wire);
    if (is_over(wire))
        polls->doze = false;
    arm(wire, polls);
}

void dlk_etcd_wire_pull(dlk_etcd_wire *wire, const dlk_polls *polls)
{
    digest(wire, polls);
    (void)pthread_mutex_unlock(&wire->io);
}

bool dlk_etcd_wire_flush(dlk_etcd_wire *wire)
{
    if (pthread_mutex_trylock(&wire->io) != 0) {
        dlk_kick(wire->kicks);
        return false;
    }
    perform(wire);
    (void)pthread_mutex_unlock(&wire->io);
    return is_over(wire);
}

void dlk_etcd_wire_go(dlk_etcd_wire *wire, dlk_etcd_way *way)
{
    dlk_list *link;
    (void)pthread_mutex_lock(&wire->mail);
    dlk_etcd_way *unused = wire->next;
    wire->next = way;
    wire->leave = true;
    while ((link = dlk_list_take_first(&wire->outbox))) {
        DLK_LIST_ITEM(link, dlk_etcd_call, link)->code = CURLE_ABORTED_BY_CALLBACK;
        dlk_list_append(&wire->inbox, link);
    }
    (void)pthread_mutex_unlock(&wire->mail);
    dlk_etcd_way_free(unused);
    dlk_kick(wire->kicks);
}

void dlk_etcd_wire_send(dlk_etcd_wire *wire, dlk_etcd_call *call)
{
    (void)pthread_mutex_lock(&wire->mail);
    dlk_list_append(&wire->outbox, &call->link);
    (void)pthread_mutex_unlock(&wire->mail);
}

void dlk_etcd_wire_drop(dlk_etcd_wire *wire, dlk_etcd_call *call)
{
    atomic_store(&call->unwanted, true);
    (void)pthread_mutex_lock(&wire->mail);
    wire->drop = true;
    (void)pthread_mutex_unlock(&wire->mail);
    dlk_kick(wire->kicks);
}

void dlk_etcd_wire_take(dlk_etcd_wire *wire, dlk_list *ret)
{
    (void)pthread_mutex_lock(&wire->mail);
    dlk_list_splice(ret, &wire->inbox);
    (void)pthread_mutex_unlock(&wire->mail);
}

/* ---- beginning and end ---- */

dlock_err dlk_etcd_wire_init(dlk_etcd_wire *wire, const dlk_settings *settings, bool tls,
                             dlk_kicks *kicks, dlock_error **err)
{
    *wire = (dlk_etcd_wire){.settings = settings, .tls = tls, .kicks = kicks};
    dlk_list_init(&wire->outbox);
    dlk_list_init(&wire->inbox);
    dlk_list_init(&wire->going);
    if (pthread_mutex_init(&wire->mail, NULL) != 0 ||
        pthread_mutex_init(&wire->io, NULL) != 0)
        return dlk_error_nomem(err);
    dlock_err code = dlk_loaded_need(&dlk_curl, err);
    return code == DLOCK_OK ? dlk_loaded_need(&dlk_jansson, err) : code;
}

static void *say_farewell(void *arg)
{
    dlk_etcd_wire *wire = arg;
    dlk_kicks nobodys = DLK_KICKS_INIT;
    dlk_polls polls = {0};
    int64_t until = dlk_clock_now() + FAREWELL;
    (void)pthread_mutex_lock(&wire->io);
    perform(wire);
    while (!dlk_list_empty(&wire->going) && dlk_clock_now() < until) {
        dlk_polls_begin(&polls, until);
        arm(wire, &polls);
        (void)dlk_kicks_poll(&nobodys, &polls, 0);
        digest(wire, &polls);
        perform(wire);
    }
    dlk_polls_free(&polls);
    wire->ending = DLK_END_ORDERLY; /* unanswered is this at most, which may come late */
    close_all(wire);
    (void)pthread_mutex_unlock(&wire->io);
    return NULL;
}

void dlk_etcd_wire_part(dlk_etcd_wire *wire, dlk_etcd_call *call)
{
    dlk_list unsent, *link;
    dlk_list_init(&unsent);
    (void)pthread_mutex_lock(&wire->mail);
    dlk_list_splice(&unsent, &wire->outbox);
    if (call)
        dlk_list_append(&wire->outbox, &call->link);
    (void)pthread_mutex_unlock(&wire->mail);
    while ((link = dlk_list_take_first(&unsent)))
        dlk_etcd_call_free(DLK_LIST_ITEM(link, dlk_etcd_call, link));
    (void)pthread_mutex_lock(&wire->io);
    while ((link = dlk_list_take_first(&wire->going)))
        end(wire, DLK_LIST_ITEM(link, dlk_etcd_call, link), CURLE_ABORTED_BY_CALLBACK);
    (void)pthread_mutex_unlock(&wire->io);
    wire->role = (dlk_thread_role){"dlock-etcd", say_farewell, wire};
    wire->parting = call && dlk_thread_start(&wire->farewell, &wire->role);
}

void dlk_etcd_wire_free(dlk_etcd_wire *wire)
{
    dlk_list *link;
    if (wire->parting)
        (void)pthread_join(wire->farewell, NULL);
    close_all(wire);
    dlk_etcd_way_free(wire->next);
    while ((link = dlk_list_take_first(&wire->outbox)))
        dlk_etcd_call_free(DLK_LIST_ITEM(link, dlk_etcd_call, link));
    while ((link = dlk_list_take_first(&wire->inbox)))
        dlk_etcd_call_free(DLK_LIST_ITEM(link, dlk_etcd_call, link));
    (void)pthread_mutex_destroy(&wire->mail);
    (void)pthread_mutex_destroy(&wire->io);
}
