/* What three Sentinels answer and push, in every order, with connections that break and time that
 * passes: the client goes to no master that none of them has named, believes none that says it is no
 * master, and when all say the same once more it is there. */
#include "peers.h"

#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "sentinel";
const size_t fuzz_longest = 300;
const char *const fuzz_words[] = {"+switch-master",
                                  "svc 10.1.0.1 7001 10.1.0.2 7002",
                                  "svc",
                                  "10.1.0.1\n7001\n",
                                  "10.1.0.2\n7002\n",
                                  "::1\n7001\n",
                                  "65536\n",
                                  "0\n",
                                  "-1\n",
                                  "\xf5",
                                  NULL};

enum { SENTINELS = 3 };

static int role; /* how the last server that was asked called itself: 1 a master, 2 not */

static bool is_sentinel(const peer *of)
{
    return of->port >= 1 && of->port <= SENTINELS &&
           strncmp(of->host, "10.0.0.", strlen("10.0.0.")) == 0;
}

static void name(dlk_buf *out, const char *host, const char *port)
{
    peers_put(out, "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(host), host, strlen(port),
              port);
    peers_name(host, strtol(port, NULL, 10));
}

static void name_of_input(dlk_buf *out)
{
    char *host = fuzz_text(peers_line()), *port = fuzz_text(peers_line());
    name(out, host, port);
    free(host);
    free(port);
}

static bool answer_address(uint8_t how, dlk_buf *out)
{
    static const char *const others[] = {"*-1\r\n", "$-1\r\n", "-ERR no\r\n",
                                         "*2\r\n:1\r\n:2\r\n", "*1\r\n$1\r\nx\r\n"};
    static const char cut[] = "*2\r\n$10\r\n10.1.0.1\0x\r\n$4\r\n7001\r\n";
    if (how % 16 == 0)
        name(out, "10.1.0.1", "7001");
    else if (how % 16 == 1)
        name(out, "10.1.0.2", "7002");
    else if (how % 16 == 2)
        name(out, "::1", "7001");
    else if (how % 16 < 5)
        name_of_input(out);
    else if (how % 16 == 5 && !dlk_buf_append(out, cut, sizeof(cut) - 1))
        abort();
    else if (how % 16 > 5)
        peers_put(out, "%s", others[how % 5]);
    return true;
}

bool target_answers(peer *of, const dlk_resp *command, uint8_t how, dlk_buf *out)
{
    (void)of;
    const char *word = command->items[0].text;
    if (strcmp(word, "SENTINEL") == 0)
        return answer_address(how, out);
    if (strcmp(word, "ROLE") != 0)
        return false;
    role = how % 4 < 2 ? 1 : 2;
    if (role == 2)
        peers_put(out, "*3\r\n$5\r\nslave\r\n$1\r\nx\r\n:1\r\n");
    return role == 2;
}

void target_up(void)
{
    FUZZ_CHECK(role != 2 || peers.shifted, "it isn't a master");
}

static void push(uint8_t how)
{
    static const char *const channels[] = {"+switch-master", "+sdown", ""};
    dlk_buf out = {0};
    char *text = fuzz_text(peers_line());
    const char *channel = channels[how % 3],
               *said = how & 8 ? "svc 10.1.0.1 7001 10.1.0.2 7002" : text;
    peers_put(&out, "*3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
              strlen(channel), channel, strlen(said), said);
    for (int i = 0; i < PEERS; i++)
        if (is_sentinel(&peers.peers[i]) && (how & 16 || i % 4 == how % 4))
            peers_say(&peers.peers[i], &out);
    free(text);
    dlk_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes bytes = {data, size};
    role = 0;
    uint8_t odd = fuzz_byte(&bytes);
    peers_open("redis+sentinel://10.0.0.1:1,10.0.0.2:2,10.0.0.3:3/svc", bytes);
    peers.odd = odd & 1;
    peers_go(push);
    peers_settle();
    peers_close();
    return 0;
}
