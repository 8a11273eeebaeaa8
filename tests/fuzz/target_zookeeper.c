/* A ZooKeeper's nodes and answers: nodes that others make, hold and delete meanwhile, in every layout, answers
 * that aren't what was asked for, sessions that end. Who is granted a mutex was the first that the list
 * named; each request has one answer. */
#include "client.h"
#include "zknames.h"
#include "zoo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "zookeeper";
const size_t fuzz_longest = 300;
const char *const fuzz_words[] = {
    "_c_11111111-2222-4333-8444-555555555555-lock-0000000001\n",
    "0123456789ab4def0123456789abcdef__lock__0000000001\n",
    "11111111-2222-4333-8444-555555555555:1 7\nclient\ndata",
    "__REVOKE__",
    "server.1=a:1:2:participant\n",
    "\n",
    NULL};

static struct {
    bool odd;
    const char *mark; /* of this layout's mutex, where one is checked */
    long smallest;    /* number of the first in the lists that are being taken in */
} world;

void zoo_listed(const char *folder)
{
    long smallest = -1;
    if (!world.mark || strcmp(folder, "/a") != 0)
        return;
    for (size_t i = 0; i < zoo.count; i++) {
        const char *path = zoo.nodes[i].path;
        long number = strncmp(path, "/a/", 3) == 0 ? zk_number(path + 3, world.mark) : -1;
        if (number >= 0 && (smallest < 0 || number < smallest))
            smallest = number;
    }
    world.smallest = smallest > world.smallest ? smallest : world.smallest;
}

void target_answered(const dlk_ask *ask)
{
    if (!world.mark || zoo.lied || ask->verb != DLK_ACQUIRE || ask->reply != DLK_YES ||
        ask->key != &client.keys[0])
        return;
    for (size_t i = 0; i < zoo.count; i++)
        if (zoo.nodes[i].czxid == ask->token)
            FUZZ_CHECK(zk_number(dlk_zk_base_name(zoo.nodes[i].path), world.mark) <=
                           world.smallest,
                       "'%s' is granted, and %ld was there", zoo.nodes[i].path,
                       world.smallest);
}

void target_up(void)
{
}

static void round_of(int64_t ms)
{
    client.now += ms * DLK_NS_PER_MS;
    (void)client.backend->type->tick(client.backend, client.now);
    client.backend->type->process(client.backend, client.now);
    world.smallest = -1;
}

static void others_make(uint8_t where)
{
    static const char *const folders[] = {"/a", "/w",       "/s/leases", "/s/locks",
                                          "/e", "/a-dlock", "",          "/zookeeper"};
    char *name = zk_name(&client.bytes), *path = NULL;
    fuzz_bytes data = fuzz_take_until(&client.bytes, '\0');
    if (asprintf(&path, "%s/%s", folders[where % 8], name) < 0)
        abort();
    if (name[0])
        (void)zoo_make(path, data.at, data.left, where & 8 ? 99 : 0);
    free(path);
    free(name);
}

static void news(uint8_t what)
{
    static const dlk_zk_news kinds[] = {DLK_ZK_CONNECTED, DLK_ZK_DISCONNECTED,
                                        DLK_ZK_EXPIRED, DLK_ZK_AUTH_FAILED,
                                        DLK_ZK_NOT_OPENED};
    dlk_zk_news is = kinds[what % 5];
    while (is != DLK_ZK_CONNECTED && zoo_answer(ZOO_LIES | (what >> 4)))
        continue; /* what is under way is cut */
    zoo_tell(is, is == DLK_ZK_NOT_OPENED ? "no" : NULL);
}

static void step(uint8_t what, uint8_t how)
{
    if (what == 3)
        round_of(INT64_C(1) << how % 16);
    else if (what == 4)
        others_make(how);
    else if (what == 5 && how < zoo.count)
        zoo_remove(how);
    else if (what == 6)
        news(how);
    else if (what == 7)
        client_ask(how, fuzz_byte(&client.bytes));
    for (int i = 0;
         what < 3 && i <= how && zoo_answer(world.odd ? fuzz_byte(&client.bytes) : 0);
         i++)
        continue;
    round_of(0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        const char *uri, *mark;
    } layouts[] = {{"zookeeper://h:1?lock.permits=2", "-lock-"},
                   {"zookeeper://h:1?zookeeper.layout=kazoo", "__lock__"},
                   {"zookeeper://h:1?zookeeper.layout=bridge", NULL},
                   {"zookeeper://h:1?zookeeper.layout=exclusive", NULL},
                   {"zookeeper://h:1?zookeeper.strict=false&lock.permits=2", "-lock-"},
                   {"zookeeper://h:1?zookeeper.layout=pattern&zookeeper.node=/%7Bname%7D/"
                    "x-%7Bsession%7D-%7Bseq%7D",
                    NULL},
                   {"zookeeper://h:1?zookeeper.layout=pattern&zookeeper.node=/%7Bname%7D/"
                    "%7Bside%7D-%7Bseq%7D",
                    NULL}};
    static const client_key keys[CLIENT_KEYS] = {{"a", DLOCK_MUTEX},
                                                 {"w", DLOCK_WRITE},
                                                 {"s", DLOCK_SEMAPHORE},
                                                 {"e", DLOCK_ELECTION}};
    fuzz_bytes bytes = {data, size};
    uint8_t how = fuzz_byte(&bytes);
    zoo = (struct zoo){.session = 7};
    world.odd = how & 0x40;
    world.mark = layouts[how % 7].mark;
    world.smallest = -1;
    client_open(layouts[how % 7].uri, keys, bytes);
    if (how & 0x80)
        client.backend->type->listen(client.backend, client.now);
    news(0); /* connected; disconnected later, perhaps */
    for (int steps = 0; client.bytes.left > 0 && steps < 64; steps++) {
        uint8_t what = fuzz_byte(&client.bytes);
        step(what % 8, what >> 3);
    }
    client_close();
    zoo_free();
    return 0;
}
