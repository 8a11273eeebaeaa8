/* A password that is given by a file lies in no page that a core dump has: not while it is waiting
 * to be sent, not after it was, and not after the next connect, which reads it anew.
 *
 * The test must not know the password itself, as it searches its own memory for it: it knows the
 * letters turned by half the alphabet, and others (tr) turn them back. */
#include "harness/certificates.h"
#include "harness/redis_server.h"
#include "world.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TURNED "pnanel-gung-ab-qhzc-unf-frra"

static redis_server server;
static certificates made;
static world w;

static char turn(char c)
{
    if (c < 'a' || c > 'z')
        return c;
    return (char)((c - 'a' + 13) % 26 + 'a');
}

/* How often the password is among these bytes. */
static int count_in(const char *data, size_t size)
{
    static const char turned[] = TURNED;
    const size_t length = sizeof(turned) - 1;
    char first = turn(turned[0]);
    int found = 0;
    for (size_t i = 0; i + length <= size; i++) {
        if (data[i] != first)
            continue;
        size_t same = 1;
        while (same < length && turn(data[i + same]) == turned[same])
            same++;
        found += same == length;
    }
    return found;
}

#define HUGE_SIZE (1UL << 30)

typedef struct sighted {
    int dumped, hidden;
} sighted;

/* One mapping, read in pieces that overlap. */
static int count_mapping(int memory, unsigned long from, unsigned long to)
{
    enum { PIECE = 1 << 16, OVERLAP = 64 };
    static char data[PIECE + OVERLAP];
    int found = 0;
    for (unsigned long at = from; at < to; at += PIECE) {
        size_t size = to - at < sizeof(data) ? to - at : sizeof(data);
        ssize_t got = pread(memory, data, size, (off_t)at);
        if (got > 0)
            found += count_in(data, (size_t)got);
    }
    explicit_bzero(data, sizeof(data)); /* else it would find itself */
    return found;
}

/* What a core dump of this process would have now, and what it would not. */
static sighted look(void)
{
    sighted found = {0};
    char line[512], rights[8] = "";
    unsigned long from = 0, to = 0, begin, end;
    FILE *maps = fopen("/proc/self/smaps", "re");
    int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    while (maps && memory >= 0 && fgets(line, sizeof(line), maps)) {
        char word[8];
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, word) == 3 && strlen(word) == 4) {
            from = begin;
            to = end - begin < HUGE_SIZE ? end : begin; /* a sanitizer's shadow */
            strcpy(rights, word);
        } else if (strncmp(line, "VmFlags:", 8) == 0 && rights[0] == 'r' &&
                   rights[1] == 'w') {
            *(strstr(line, " dd ") ? &found.hidden : &found.dumped) +=
                count_mapping(memory, from, to);
        }
    }
    (void)harness_check(__FILE__, __LINE__, maps && memory >= 0, "own memory");
    if (maps)
        fclose(maps);
    if (memory >= 0)
        close(memory);
    return found;
}

/* A server with a user whose password only the two of them have. */
static bool start(bool tls)
{
    char command[600], config[128];
    if (!redis_server_available() || !certificates_make(&made))
        return false;
    snprintf(command, sizeof(command),
             "cd %s && echo " TURNED " | tr a-z n-za-m > word && "
             "echo \"user locks on >$(cat word) ~* &* +@all\" > users",
             made.dir);
    snprintf(config, sizeof(config), "include %s/users", made.dir);
    return harness_check(__FILE__, __LINE__, system(command) == 0, "a password") &&
           (tls ? redis_server_start_tls(&server, made.dir, config)
                : redis_server_start(&server, config));
}

static bool open_it(bool tls)
{
    char uri[80];
    snprintf(uri, sizeof(uri), "redis%s://127.0.0.1:%d", tls ? "s" : "",
             tls ? server.tls_port : server.port);
    return world_open(&w, uri, "auth.username", "locks", "auth.password_file",
                      certificates_path(&made, "word"), "tls.ca_file",
                      certificates_path(&made, "ca.pem"), "client.backoff_min_ms", "10",
                      "client.backoff_max_ms", "20", NULL);
}

TEST(the_search_finds_what_is_there)
{
    char *word = strdup(TURNED);
    CHECK_EQ_INT(look().dumped, 0);
    for (char *at = word; *at; at++)
        *at = turn(*at);
    CHECK(look().dumped >= 1);
    explicit_bzero(word, strlen(word));
    free(word);
    char *secret = dlk_secret_dup(TURNED);
    for (char *at = secret; *at; at++)
        *at = turn(*at);
    sighted found = look();
    CHECK_EQ_INT(found.dumped, 0);
    CHECK(found.hidden >= 1);
    dlk_secret_free(secret);
}

static void lead_a_life(bool tls)
{
    if (!start(tls) || !open_it(tls))
        return;
    ROUNDS_UNTIL(&w, w.up);
    for (int connects = 2; connects < 4; connects++) {
        dlk_key *key = world_key(&w, "L");
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
        CHECK_EQ_INT(look().dumped, 0);
        redis_server_call(&server, "CLIENT KILL TYPE normal SKIPME yes");
        ROUNDS_UNTIL(&w, w.ups == connects);
        CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
        world_forget(&w, key);
        CHECK_EQ_INT(look().dumped, 0);
    }
    /* In the midst of a connect: it is waiting to be sent. */
    server_freeze(server.pid);
    world_close(&w);
    CHECK(open_it(tls));
    world_spin(&w, 100);
    CHECK_EQ_INT(look().dumped, 0);
    if (tls)
        ROUNDS_UNTIL(&w, look().hidden >= 1);
    CHECK_EQ_INT(look().dumped, 0);
    server_thaw(server.pid);
    ROUNDS_UNTIL(&w, w.up);
    CHECK_EQ_INT(look().dumped, 0);
    world_close(&w);
    redis_server_stop(&server);
    certificates_remove(&made);
}

TEST(a_password_from_a_file_is_in_no_core_dump)
{
    lead_a_life(false);
}

TEST(nor_is_it_over_tls)
{
#ifdef WITH_TLS
    lead_a_life(true);
#else
    LEAVE_OUT("this build has no TLS");
#endif
}
