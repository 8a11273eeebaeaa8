/* The floor under the etcd pairs: what a lock nobody else wants takes by two transactions through
 * the JSON gateway, in a loop of plain libcurl: those that libdlock sends, which put a key with a
 * lease and look who is first, and delete it. Each thread has a connection of its own, and all a lease that nobody renews. The answers aren't
 * taken apart but for one word. */
#include "bench.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_MAX = 65536 };
#define SIXTEEN "AAAAAAAAAAAAAAAA" /* of a value as long as libdlock's */

typedef struct scene {
    const char *host; /* "127.0.0.1:2379" */
    char lease[32];
    bench_spot *page;
} scene;

typedef struct link {
    CURL *easy;
    struct curl_slist *headers;
    char *answer;
    size_t size;
} link;

static size_t keep(char *data, size_t one, size_t size, void *user)
{
    link *to = user;
    size *= one;
    if (to->size + size >= ANSWER_MAX)
        bench_die("answer", "is too long");
    memcpy(to->answer + to->size, data, size);
    to->size += size;
    return size;
}

static link connect_to(void)
{
    link made = {.easy = curl_easy_init(), .answer = malloc(ANSWER_MAX)};
    made.headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (!made.easy || !made.answer || !made.headers)
        bench_die("libcurl", "no memory");
    (void)curl_easy_setopt(made.easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(made.easy, CURLOPT_HTTPHEADER, made.headers);
    (void)curl_easy_setopt(made.easy, CURLOPT_WRITEFUNCTION, keep);
    return made;
}

static const char *ask(const scene *at, link *to, const char *path, const char *body)
{
    char url[128];
    (void)snprintf(url, sizeof(url), "http://%s/v3/%s", at->host, path);
    to->size = 0;
    (void)curl_easy_setopt(to->easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(to->easy, CURLOPT_WRITEDATA, to);
    (void)curl_easy_setopt(to->easy, CURLOPT_POSTFIELDS, body);
    CURLcode code = curl_easy_perform(to->easy);
    if (code != CURLE_OK)
        bench_die(path, curl_easy_strerror(code));
    to->answer[to->size] = '\0';
    return to->answer;
}

static void disconnect(link *from)
{
    curl_easy_cleanup(from->easy);
    curl_slist_free_all(from->headers);
    free(from->answer);
}

static void get_lease(scene *at)
{
    link own = connect_to();
    const char *id =
        strstr(ask(at, &own, "lease/grant", "{\"TTL\":\"600\"}"), "\"ID\":\"");
    if (!id)
        bench_die(at->host, "grants no lease");
    (void)snprintf(at->lease, sizeof(at->lease), "%.*s", (int)strcspn(id + 6, "\""),
                   id + 6);
    disconnect(&own);
}

static void encode(const char *text, char *ret)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i += 3) {
        unsigned bits = (unsigned)text[i] << 16;
        bits |= i + 1 < size ? (unsigned)text[i + 1] << 8 : 0;
        bits |= i + 2 < size ? (unsigned)text[i + 2] : 0;
        *ret++ = digits[bits >> 18];
        *ret++ = digits[bits >> 12 & 63];
        *ret++ = i + 1 < size ? digits[bits >> 6 & 63] : '=';
        *ret++ = i + 2 < size ? digits[bits & 63] : '=';
    }
    *ret = '\0';
}

static void need(const char *answer, const char *what)
{
    if (!strstr(answer, "\"succeeded\":true"))
        bench_die(what, answer);
}

static void pairs(bench_stage *stage, bench_worker *me, void *shared)
{
    scene *at = shared;
    char text[64], key[96], from[96], to[96], none[96], end[96], put[2048], delete[512];
    (void)snprintf(text, sizeof(text), "floor/%d/1", me->number);
    encode(text, key);
    (void)snprintf(text, sizeof(text), "floor/%d/", me->number);
    encode(text, from);
    (void)snprintf(text, sizeof(text), "floor/%d0", me->number);
    encode(text, to);
    (void)snprintf(text, sizeof(text), "none/%d/", me->number);
    encode(text, none);
    (void)snprintf(text, sizeof(text), "none/%d0", me->number);
    encode(text, end);
    (void)snprintf(
        put, sizeof(put),
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"result\":\"EQUAL\","
        "\"create_revision\":\"0\"},{\"key\":\"%s\",\"range_end\":\"%s\",\"target\":"
        "\"CREATE\",\"result\":\"EQUAL\",\"create_revision\":\"0\"}],\"success\":["
        "{\"request_put\":{\"key\":\"%s\",\"value\":\"%s%s%s%s\",\"lease\":\"%s\"}},"
        "{\"request_range\":{\"key\":\"%s\",\"range_end\":\"%s\",\"sort_target\":"
        "\"CREATE\",\"sort_order\":\"DESCEND\",\"keys_only\":true,\"limit\":\"8\"}}],"
        "\"failure\":[{\"request_range\":{\"key\":\"%s\"}}]}",
        key, none, end, key, SIXTEEN, SIXTEEN, SIXTEEN, SIXTEEN, at->lease, from, to,
        key);
    (void)snprintf(delete, sizeof(delete),
                   "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"result\":"
                   "\"GREATER\",\"create_revision\":\"0\"}],\"success\":["
                   "{\"request_delete_range\":{\"key\":\"%s\"}}]}",
                   key, key);
    link own = connect_to();
    bench_spot *spot = &at->page[me->number];
    int64_t who = stage->options->base + me->number + 1;
    bench_ready(stage);
    BENCH_LOOP(stage, me, {
        need(ask(at, &own, "kv/txn", put), "put");
        (void)bench_enter(spot, who);
        bench_exit(spot);
        need(ask(at, &own, "kv/txn", delete), "delete");
    });
    disconnect(&own);
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "", 0);
    scene at = {.host = options.uri, .page = bench_page(&options)};
    if (!options.uri)
        bench_die("--uri", "is missing: HOST:PORT");
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        bench_die("libcurl", "doesn't start");
    get_lease(&at);
    bench_result result;
    bench_run_threads(&options, pairs, &at, &result);
    bench_print(&result);
    (void)puts("}");
    return 0;
}
