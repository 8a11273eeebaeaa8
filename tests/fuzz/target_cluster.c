/* What the nodes of a Redis Cluster answer: maps, MOVED, ASK and the like, and what they leave unsaid.
 * Whatever the map, a slot is one node's that is in it; the client goes to no node that none has named,
 * each request has one answer, and with a map that holds all is well again. */
#include "peers.h"

#include "backends/redis/topology/cluster_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "cluster";
const size_t fuzz_longest = 300;
const char *const fuzz_words[] = {"MOVED 15495 10.0.0.2:7002",
                                  "ASK 15495 10.0.0.3:7003",
                                  "MOVED 3300 :7001",
                                  "MOVED 1 ::1:7001",
                                  "CLUSTERDOWN x",
                                  "TRYAGAIN x",
                                  "CROSSSLOT x",
                                  "\xff\x3f",
                                  "\x81",
                                  "\x91",
                                  "\n",
                                  NULL};

static const char *host_of(uint8_t which, char room[32])
{
    static const char *const others[] = {"::1", "node.example", "", "?"};
    (void)snprintf(room, 32, "10.0.0.%d", which % 8);
    return which < 0xc0 ? room : others[which % 4];
}

/* Without a host it is that of who says it. */
static void say_range(const peer *of, dlk_buf *out, unsigned first, unsigned last,
                      uint8_t node)
{
    char room[32];
    const char *host = host_of(node, room);
    unsigned port = 7000 + node % 8;
    peers_put(out, "*3\r\n:%u\r\n:%u\r\n*3\r\n", first, last);
    if (node >= 0xf8)
        peers_put(out, "$-1\r\n");
    else
        peers_put(out, "$%zu\r\n%s\r\n", strlen(host), host);
    peers_put(out, ":%u\r\n$2\r\nid\r\n", port);
    bool told = node < 0xf8 && host[0] && host[0] != '?';
    peers_name(told ? host : of->host, port);
}

/* Some of its own, or with the whole of it one that holds. */
static bool say_map(const peer *of, uint8_t how, dlk_buf *out)
{
    static const char *const others[] = {
        "*0\r\n", "*1\r\n*0\r\n", "$-1\r\n",
        "-ERR This instance has cluster support disabled\r\n"};
    unsigned count = how % 8, next = 0;
    if (how >= 0xc0) {
        peers_put(out, "%s", others[how % 4]);
        return true;
    }
    if (count == 0) {
        peers_put(out, "*3\r\n");
        for (unsigned i = 0; i < 3;
             i++) /* few slots, those of the keys among them: faster */
            say_range(of, out, 3290 + i * 6100, 3310 + i * 6100, (uint8_t)(1 + i));
        return true;
    }
    peers_put(out, "*%u\r\n", count);
    for (unsigned i = 0; i < count; i++) {
        unsigned size = (unsigned)fuzz_number(&client.bytes, 2);
        uint8_t node = fuzz_byte(&client.bytes);
        say_range(of, out, next, next + size, node);
        next += how & 0x80 ? size : size + 1; /* or each overlaps the one before */
    }
    return true;
}

/* "MOVED slot host:port": the right slot, or any. */
static void say_redirection(const peer *of, const dlk_resp *command, uint8_t how,
                            dlk_buf *out)
{
    const dlk_resp *key = command->count > 3 ? &command->items[3] : &command->items[0];
    unsigned slot = dlk_cluster_slot(key->text, key->size);
    uint8_t node = fuzz_byte(&client.bytes);
    char room[32];
    if (how & 8)
        slot = (unsigned)fuzz_number(&client.bytes, 2);
    const char *host = host_of(node, room);
    peers_put(out, "-%s %u %s:%d\r\n", how & 4 ? "ASK" : "MOVED", slot, host,
              7000 + node % 8);
    peers_name(host[0] ? host : of->host, 7000 + node % 8);
}

static void say_error(dlk_buf *out)
{
    char *text = fuzz_text(peers_line());
    text[strcspn(text, "\r")] = '\0';
    peers_put(out, "-%s\r\n", text);
    peers.shifted = true; /* it may name anybody */
    free(text);
}

bool target_answers(peer *of, const dlk_resp *command, uint8_t how, dlk_buf *out)
{
    const char *word = command->items[0].text;
    bool script =
        strncmp(word, "EVAL", 4) == 0 && strcmp(command->items[2].text, "0") != 0;
    if (strcmp(word, "CLUSTER") == 0)
        return say_map(of, how, out);
    if (strcmp(word, "PUBSUB") == 0 && how & 1)
        peers_put(out, "-ERR unknown subcommand\r\n");
    else if (script && how >= 0xd0)
        say_error(out);
    else if (script && how >= 0x80)
        say_redirection(of, command, how, out);
    return dlk_buf_size(out) > 0;
}

void target_up(void)
{
}

static void check_map(uint8_t how)
{
    const dlk_cluster *cluster = (const dlk_cluster *)client.backend;
    FUZZ_CHECK(cluster->count >= 2 && cluster->count <= DLK_NODES_MAX, "%zu nodes",
               cluster->count);
    for (unsigned slot = how; slot < DLK_SLOTS; slot += 61) {
        FUZZ_CHECK(cluster->map[slot] <= cluster->count, "slot %u is nobody's", slot);
        const dlk_cluster_node *node = dlk_cluster_node_of(cluster, (uint16_t)slot);
        FUZZ_CHECK(!node || node->in_map, "slot %u is of one that isn't in the map",
                   slot);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes bytes = {data, size};
    uint8_t odd = fuzz_byte(&bytes);
    peers_open(odd & 2
                   ? "redis+cluster://10.0.0.1:7001,10.0.0.2:7002?redis.handover=false"
                   : "redis+cluster://10.0.0.1:7001,10.0.0.2:7002",
               bytes);
    peers.odd = odd & 1;
    peers_go(check_map);
    peers_settle();
    check_map(0);
    peers_close();
    return 0;
}
