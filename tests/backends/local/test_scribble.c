/* A file that somebody has scribbled in: whatever is in it, nobody crashes, hangs or reads what
 * isn't theirs. Errors are fine, and so are wrong answers about a table that is worth nothing, but not
 * where it is easily seen that it is. */
#include "client.h"
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fcntl.h>

#define TTL    1000
#define ROUNDS 600

static const char *const small[] = {"file.slots=16", NULL};
static const char *const names[] = {"a", "b", "c", "a name that is somewhat longer"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

/* Some of everything, by the dice. */
static void use(fake *client, dlk_key *keys[NAMES], dlk_rand *dice, int times)
{
    static const dlk_verb verbs[] = {DLK_ACQUIRE, DLK_ACQUIRE, DLK_RENEW,
                                     DLK_RELEASE, DLK_RELEASE, DLK_VERIFY};
    int64_t now = dlk_clock_now();
    for (int i = 0; i < times; i++) {
        dlk_verb verb = verbs[dlk_rand_next(dice) % 6];
        now += (int64_t)(dlk_rand_next(dice) % 100) * DLK_NS_PER_MS;
        (void)client_ask(client, verb, keys[dlk_rand_next(dice) % NAMES],
                         dlk_rand_next(dice) % 5 + 1, TTL, now);
    }
    (void)client_break(client, keys[0], NULL, now);
    dlock_info_free(client_info(client, DLK_INSPECT, keys[1], NULL, 0, now));
    dlock_info_free(client_info(client, DLK_LIST, NULL, NULL, 100, now));
    dlock_info_free(client_info(client, DLK_DOCTOR, NULL, NULL, 0, now));
    client->backend->type->process(client->backend, now);
}

/* A place worth scribbling in: mostly the words and refs, rarely a name. */
static char *somewhere(const dlk_table *table, dlk_rand *dice)
{
    struct part {
        char *start;
        size_t size;
    } parts[] = {
        {(char *)&table->head->inside, sizeof(dlk_head) - offsetof(dlk_head, inside)},
        {(char *)table->members, 3 * sizeof(dlk_member)},
        {(char *)table->rows, 6 * sizeof(dlk_row)},
        {(char *)table->places, 12 * sizeof(dlk_line_place)},
        {(char *)table->buckets, table->bucket_count * sizeof(uint32_t)},
    };
    struct part part = parts[dlk_rand_next(dice) % 5];
    return part.start + dlk_rand_next(dice) % part.size;
}

/* It stands for another process, so a race with our own threads is what it is meant to be. */
__attribute__((no_sanitize("thread"))) static void scribble(const dlk_table *table,
                                                            dlk_rand *dice)
{
    char *at = somewhere(table, dice);
    switch (dlk_rand_next(dice) % 4) {
    case 0:
        *at = (char)(*at ^ (1 << dlk_rand_next(dice) % 8));
        return;
    case 1:
        *at = (char)dlk_rand_next(dice);
        return;
    case 2:
        *at = (char)(*at + 1);
        return;
    default:
        *(char *)((uintptr_t)at & ~(uintptr_t)3) = (char)(dlk_rand_next(dice) % 20);
        return;
    }
}

TEST(a_table_scribbled_in_while_in_use_is_refused_or_survived)
{
    dlk_rand dice = {.state = 20260731};
    int opened = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 20 == 0)
            (void)unlink(temp_path("live"));
        fake *a = client_open_with(temp_uri("live"), small, NULL);
        fake *b = client_open_with(temp_uri("live"), small, NULL);
        if (!a || !b) { /* it wasn't even opened; the next round is a new file's */
            client_close(a);
            client_close(b);
            (void)unlink(temp_path("live"));
            continue;
        }
        opened++;
        dlk_key *ka[NAMES], *kb[NAMES];
        for (int i = 0; i < NAMES; i++) {
            ka[i] = client_key(a, names[i]);
            kb[i] = client_key(b, names[i]);
        }
        use(a, ka, &dice, 10);
        use(b, kb, &dice, 10);
        for (int i = 0; i < 4; i++) {
            scribble(dlk_local_of(a->backend)->table, &dice);
            use(a, ka, &dice, 6);
            use(b, kb, &dice, 6);
        }
        for (int i = 0; i < NAMES; i++) {
            client_key_close(a, ka[i]);
            client_key_close(b, kb[i]);
        }
        client_close(a);
        client_close(b);
    }
    harness_note("%d of %d rounds could be opened", opened, ROUNDS);
    CHECK(opened > ROUNDS / 2);
}

/* Anywhere in the file, the mutex and the stamp as well, while nobody has it open. */
TEST(a_file_scribbled_in_while_unused_is_refused_or_mended)
{
    dlk_rand dice = {.state = 4711};
    int refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 10 == 0) {
            (void)unlink(temp_path("dead"));
            client_close(client_open_with(temp_uri("dead"), small, NULL));
        }
        int fd = open(temp_path("dead"), O_RDWR | O_CLOEXEC);
        for (int i = 0; i < 8; i++) {
            unsigned char byte = (unsigned char)dlk_rand_next(&dice);
            off_t at = (off_t)(dlk_rand_next(&dice) % (i < 2 ? 800 : 80000));
            CHECK_EQ_INT(pwrite(fd, &byte, 1, at), 1);
        }
        CHECK_EQ_INT(close(fd), 0);
        fake *client = client_open_with(temp_uri("dead"), small, NULL);
        refused += client == NULL;
        if (!client) {
            (void)unlink(temp_path("dead"));
            client_close(client_open_with(temp_uri("dead"), small, NULL));
            continue;
        }
        dlk_key *keys[NAMES];
        for (int i = 0; i < NAMES; i++)
            keys[i] = client_key(client, names[i]);
        use(client, keys, &dice, 10);
        for (int i = 0; i < NAMES; i++)
            client_key_close(client, keys[i]);
        client_close(client);
    }
    harness_note("%d of %d were refused", refused, ROUNDS);
    CHECK(refused > 0);
}

/* Bad links of a bucket whose row has another name's hash: out of the table, and round in a circle. */
static void break_chain(const dlk_table *table, const char *name, bool circle)
{
    uint32_t hash = dlk_table_hash(name, strlen(name));
    _Atomic uint32_t *bucket = &table->buckets[hash & (table->bucket_count - 1)];
    dlk_row *row = &table->rows[atomic_load(bucket) - 1];
    atomic_store(&row->hash, ~hash);
    atomic_store(&row->next, circle ? atomic_load(bucket) : table->row_count + 1);
}

TEST(a_lock_that_a_broken_chain_hides_is_not_given_to_a_second_one)
{
    for (int circle = 0; circle < 2; circle++) {
        int64_t now = dlk_clock_now();
        (void)unlink(temp_path("chain"));
        fake *a = client_open_with(temp_uri("chain"), small, NULL);
        fake *b = client_open_with(temp_uri("chain"), small, NULL);
        CHECK(a && b);
        dlk_key *ka = client_key(a, "a"), *kb = client_key(b, "a");
        CHECK_EQ_INT(client_ask(a, DLK_ACQUIRE, ka, 1, TTL, now).reply, DLK_YES);
        break_chain(dlk_local_of(a->backend)->table, "a", circle);
        answer got = client_ask(b, DLK_ACQUIRE, kb, 1, TTL, now);
        CHECK_EQ_INT(got.reply, DLK_REFUSED);
        CHECK_EQ_INT(got.code, DLOCK_EPROTO);
        client_key_close(a, ka);
        client_key_close(b, kb);
        client_close(a);
        client_close(b);
    }
}

/* Who waits for the mutex looks whether that process is stopped, and blames it. */
TEST(whoever_has_left_the_table_is_not_said_to_be_inside)
{
    fake *a = client_open_with(temp_uri("left"), small, NULL);
    CHECK(a);
    dlk_key *key = client_key(a, "a");
    CHECK_EQ_INT(client_ask(a, DLK_ACQUIRE, key, 1, TTL, dlk_clock_now()).reply, DLK_YES);
    CHECK_EQ_INT(atomic_load(&dlk_local_of(a->backend)->table->head->inside), 0);
    client_key_close(a, key);
    client_close(a);
}
