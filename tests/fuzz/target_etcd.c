/* An etcd's keys and answers: what others put there, leases that end, answers that aren't what was asked
 * for, streams and connections that break. Each request has one answer, and what is told can be shown. */
#include "client.h"
#include "gateway.h"

#include "backends/etcd/fake_end.h"
#include "contract/sleep.h"
#include "util/clock.h"
#include "util/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "etcd";
const size_t fuzz_longest = 300;
const char *const fuzz_words[] = {"a/694d81417acd4754",
                                  "\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\n",
                                  "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\n",
                                  "\x12\x0c\x0a\x01"
                                  "a\x10\x07\x18\x07\x2a\x01z\x30\x07",
                                  "\x18\x01\n",
                                  "\x10\x01\x20\x01\n",
                                  "\x0a\x04\x18\x07\x20\x02",
                                  "{\"uuid\":\"11111111-2222-4333-8444-555555555555\"}",
                                  "\xff",
                                  "\n",
                                  NULL};

/* The linker gives it in the place of the one without "__wrap_". */
int64_t __wrap_dlk_clock_now(void);
int64_t __wrap_dlk_clock_now(void)
{
    return client.now;
}

/* Whoever parts waits for nobody. */
bool __wrap_dlk_thread_start(pthread_t *thread, const dlk_thread_role *role);
bool __wrap_dlk_thread_start(pthread_t *thread, const dlk_thread_role *role)
{
    (void)thread, (void)role;
    return false;
}

void target_answered(const dlk_ask *ask)
{
    if (ask->verb == DLK_ACQUIRE && ask->reply == DLK_YES)
        FUZZ_CHECK(ask->token > 0 || ask->key->kind == DLOCK_SEMAPHORE,
                   "granted with token %lld", (long long)ask->token);
}

void target_up(void)
{
}

void fake_end_drive(void)
{
    static dlk_polls polls;
    const dlk_backend_type *type = client.backend->type;
    dlk_polls_begin(&polls, client.now);
    type->arm(client.backend, &polls);
    dlk_sleep_on(client.backend, &polls, dlk_kicks_seen(client_kicks()), false);
    type->process(client.backend, client.now);
}

static void round_of(int64_t ms)
{
    client.now += ms * DLK_NS_PER_MS;
    (void)client.backend->type->tick(client.backend, client.now);
    gateway_hear();
}

/* In the line of a lock, or anywhere. */
static void others_put(uint8_t where)
{
    static const struct {
        const char *text;
        size_t size;
    } heads[] = {{"a/", 2},        {"w\0rw/w/", 7}, {"w\0rw/r/", 7}, {"s\0sem/2/", 8},
                 {"s\0sem/3/", 8}, {"e/", 2},       {"a\0", 2},      {"", 0}};
    fuzz_bytes rest = fuzz_take_until(&client.bytes, '\n');
    fuzz_bytes value = fuzz_take_until(&client.bytes, '\n');
    char key[64];
    size_t head = heads[where % 8].size;
    size_t size = rest.left < sizeof(key) - head ? rest.left : sizeof(key) - head;
    memcpy(key, heads[where % 8].text, head);
    if (size > 0)
        memcpy(key + head, rest.at, size);
    if (head + size > 0)
        gateway_put(key, head + size, value);
}

static void step(uint8_t what, uint8_t how)
{
    if (what == 3)
        round_of(INT64_C(1) << how % 16);
    else if (what == 4)
        others_put(how);
    else if (what == 5)
        gateway_expire();
    else if (what == 6)
        (void)gateway_answer(how, fuzz_byte(&client.bytes) | GATEWAY_LIES);
    else if (what == 7)
        client_ask(how, fuzz_byte(&client.bytes));
    for (int i = 0; what < 3 && i <= how && gateway_answer(what, 0); i++)
        round_of(0);
    round_of(0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const uris[] = {"etcd://127.0.0.1:1?lock.permits=2",
                                       "etcd://u:p@127.0.0.1:1?lock.permits=2"};
    static const client_key keys[CLIENT_KEYS] = {{"a", DLOCK_MUTEX},
                                                 {"w", DLOCK_WRITE},
                                                 {"s", DLOCK_SEMAPHORE},
                                                 {"e", DLOCK_ELECTION}};
    fuzz_bytes bytes = {data, size};
    uint8_t how = fuzz_byte(&bytes);
    gateway_begin(&client.bytes);
    client_open(uris[how % 2], keys, bytes);
    round_of(0);
    for (int steps = 0; client.bytes.left > 0 && steps < 64; steps++) {
        uint8_t what = fuzz_byte(&client.bytes);
        step(what % 8, what >> 3);
    }
    client_close();
    gateway_end();
    return 0;
}
