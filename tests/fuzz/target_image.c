/* The table behind mem: and file:, written into by somebody who shouldn't. Clients ask, bytes
 * change under them, the table is rebuilt or taken over. Nobody crashes or hangs, whatever lies
 * there; and a table that was taken over (or never written into) is sound: every rule of map.h
 * holds after each request, and nobody is granted what another was granted before its time. */
#include "fuzz.h"

#include "../backends/local/check.h"
#include "backends/local/inner.h"
#include "backends/local/local.h"
#include "backends/local/memory.h"
#include "backends/local/process.h"
#include "util/clock.h"

#include <dlock/dlock.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char fuzz_name[] = "image";
const size_t fuzz_longest = 200;
const char *const fuzz_words[] = {"\x0a",
                                  "\x0b",
                                  "\x0c",
                                  "\x0d",
                                  "\x0e\x01",
                                  "\x0f",
                                  "\x01\x01\x01",
                                  "\x02\x01\x01",
                                  "\x05\x02\x03",
                                  "\x0a\x02\x10",
                                  "\x0a\x03\x08",
                                  "\x0a\x01\x02",
                                  NULL};

#define ROWS    16
#define CLIENTS 3
#define NAMES   6
#define NUMBERS 4
#define TTL_MS  1000
#define STEPS   40
#define REALLY                                                                           \
    256 /* one input in so many goes through a real file and the whole library */

typedef struct user {
    dlk_host host; /* first: what the backend is given */
    dlk_local *local;
    dlk_key keys[NAMES];
    char uuid[DLK_UUID_SIZE];
} user;

/* What somebody was told to have. */
typedef struct belief {
    uint64_t owner, number; /* owner 0: nothing */
    int64_t until, token;
    const user *by; /* who has it, or exported it */
} belief;

static struct {
    dlk_table table;
    char *memory, *fresh; /* as it is; as it was made */
    user clients[CLIENTS];
    belief beliefs[NAMES];
    bool sound, seen;
    int64_t now;
} world;

/* ---- clients ---- */

static void on_notified(dlk_host *host, dlk_key *key)
{
    (void)host, (void)key;
}

static void on_link(dlk_host *host, bool up, const dlock_error *error)
{
    (void)host, (void)up, (void)error;
}

__attribute__((format(printf, 3, 4))) static void
on_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    (void)host, (void)level, (void)format;
}

static void stay(dlk_local *local)
{
    (void)local; /* the table is ours */
}

static void make_client(user *it, int number)
{
    static const char *const names[NAMES] = {"a", "b", "c", "orders/42", "e", "ff"};
    (void)snprintf(it->uuid, sizeof(it->uuid), "%08d-2222-4333-8444-555555555555",
                   number);
    it->host = (dlk_host){.tell = &dlk_tell_nobody,
                          .notified = on_notified,
                          .link = on_link,
                          .log = on_log,
                          .uuid = it->uuid,
                          .name = "fuzz"};
    it->local = dlk_local_new(&dlk_mem_backend, &it->host);
    it->local->table = &world.table;
    it->local->leave = stay;
    it->local->watching = true; /* no thread that watches others */
    for (int i = 0; i < NAMES; i++)
        it->keys[i] = (dlk_key){
            .name = names[i], .size = (uint32_t)strlen(names[i]), .kind = DLOCK_MUTEX};
}

/* A client that has just come: it remembers neither places in lines nor where its names are. */
static void join(user *it)
{
    dlk_local *local = it->local;
    for (int i = 0; i < NAMES; i++) {
        if (it->keys[i].data)
            dlk_local_key_close(&local->base, &it->keys[i]);
        if (dlk_local_key_open(&local->base, &it->keys[i], NULL) != DLOCK_OK)
            abort();
    }
    dlk_section section = {.table = &world.table};
    local->who.uuid = it->uuid;
    local->who.name = "fuzz";
    local->owner = dlk_member_join(&section, &local->who);
    atomic_store(&local->me, dlk_member_of(&world.table, local->owner));
    local->up = local->owner != 0;
    local->stopped = false;
    local->check_at = DLK_NEVER;
}

/* ---- the table ---- */

static void make_world(void)
{
    dlk_table *table = &world.table;
    dlock_error *err = NULL;
    size_t size = dlk_table_measure(table, ROWS);
    world.memory = aligned_alloc(4096, size);
    world.fresh = calloc(1, size);
    memset(world.memory, 0, size);
    dlk_table_lay_out(table, world.memory);
    table->pid = (uint32_t)getpid();
    if (dlk_stamp_world(&table->head->stamp, &err) != DLOCK_OK)
        abort();
    dlk_stamp_fill(&table->head->stamp, table);
    memcpy(table->head->stamp.magic, DLK_TABLE_MAGIC, 8);
    atomic_store(&table->head->last_token, 1000);
    memcpy(world.fresh, world.memory, size);
    for (int i = 0; i < CLIENTS; i++)
        make_client(&world.clients[i], i);
    (void)snprintf(fuzz_litter, sizeof(fuzz_litter), "/tmp/dlock-fuzz-image-%d",
                   (int)getpid());
}

/* What is scribbled on a mutex is the C library's matter: ours is always a new one. */
static void renew_mutex(void)
{
    if (dlk_table_make_mutex(&world.table) != DLOCK_OK)
        abort();
    atomic_store(&world.table.head->inside, 0);
}

static void begin(bool shared)
{
    memcpy(world.memory, world.fresh, world.table.size);
    world.table.shared = shared;
    world.now = 1000 * DLK_NS_PER_SEC;
    world.sound = true;
    world.seen = false;
    memset(world.beliefs, 0, sizeof(world.beliefs));
    renew_mutex();
    for (int i = 0; i < CLIENTS; i++)
        join(&world.clients[i]);
}

static void check_sound(const char *after)
{
    const char *fault = world.sound ? table_fault(&world.table) : NULL;
    FUZZ_CHECK(!fault, "after %s: %s", after, fault);
}

/* ---- asking ---- */

static void owner_text(const user *it, uint64_t number, char text[DLK_OWNER_SIZE])
{
    (void)snprintf(text, DLK_OWNER_SIZE, "%s:%llu", it->uuid,
                   (unsigned long long)number); /* fits */
}

static bool is_ticket_of(const char *text, const belief *of)
{
    char owner[DLK_OWNER_SIZE];
    owner_text(of->by, of->number, owner);
    return strcmp(text, owner) == 0;
}

static void believe(const dlk_ask *ask, const user *it)
{
    belief *now = &world.beliefs[ask->key - it->keys];
    bool mine = now->owner == it->local->owner && now->number == ask->number;
    bool exported = now->owner == DLK_OWNER_EXPORTED, imports = ask->verb == DLK_IMPORT;
    if ((ask->verb == DLK_ACQUIRE || imports) && ask->reply == DLK_YES) {
        FUZZ_CHECK(now->owner == 0 || mine || now->until <= world.now ||
                       (imports && is_ticket_of(ask->text, now)),
                   "'%s' is granted to two", ask->key->name);
        FUZZ_CHECK(ask->token > 0 && ask->token >= now->token, "token %lld after %lld",
                   (long long)ask->token, (long long)now->token);
        FUZZ_CHECK(mine || ask->token != now->token, "two grants with one token");
        *now = (belief){.owner = it->local->owner,
                        .number = ask->number,
                        .until = ask->since + TTL_MS * DLK_NS_PER_MS,
                        .token = ask->token,
                        .by = it};
    }
    if (mine && now->until > world.now &&
        (ask->verb == DLK_RENEW || ask->verb == DLK_VERIFY))
        FUZZ_CHECK(ask->reply == DLK_YES, "what was granted isn't theirs");
    if (mine && ask->verb == DLK_RENEW && ask->reply == DLK_YES)
        now->until = ask->since + TTL_MS * DLK_NS_PER_MS;
    if (imports && exported && now->until > world.now)
        FUZZ_CHECK(ask->reply == DLK_YES || !is_ticket_of(ask->text, now),
                   "'%s' was exported, and can't be imported", ask->key->name);
    if ((mine && ask->verb == DLK_RELEASE) ||
        (ask->verb == DLK_BREAK && ask->reply == DLK_YES))
        now->owner = 0;
    if (mine && ask->exported && ask->reply == DLK_YES)
        now->owner = DLK_OWNER_EXPORTED;
}

static void ask(uint8_t verb, uint8_t who, uint8_t what)
{
    user *it = &world.clients[who % CLIENTS];
    char giver[DLK_OWNER_SIZE];
    dlk_ask ask = {.verb = (dlk_verb)verb,
                   .key = &it->keys[what % NAMES],
                   .number = (uint64_t)(what / NAMES) % NUMBERS + 1,
                   .ttl_ms = TTL_MS,
                   .deadline = DLK_NEVER,
                   .text = what & 0x80 ? "a" : NULL,
                   .limit = what + 1,
                   .since = world.now};
    ask.exported = verb == DLK_RELEASE && who >= 0x80;
    if (verb == DLK_IMPORT) { /* of somebody's */
        owner_text(&world.clients[who / CLIENTS % CLIENTS], ask.number, giver);
        ask.text = giver;
    }
    dlk_local_ask(&it->local->base, &ask, world.now);
    FUZZ_CHECK(ask.reply != DLK_PENDING, "a local table answers at once");
    FUZZ_CHECK(ask.reply != DLK_REFUSED || ask.error, "refused without saying why");
    if (world.sound) {
        FUZZ_CHECK(dlock_error_code(ask.error) != DLOCK_EPROTO,
                   "a sound table is damaged: %s", dlock_error_text(ask.error));
        if (it->local->up)
            believe(&ask, it);
    }
    if (ask.info && !world.seen) /* once is enough: it takes longer than all the rest */
        fuzz_check_json(dlock_info_json(ask.info));
    world.seen |= ask.info != NULL;
    dlock_error_free(ask.error);
    dlock_info_free(ask.info);
    check_sound("a request");
}

/* ---- what happens to a table ---- */

typedef struct part {
    char *start;
    size_t size;
} part;

/* Mostly the words and refs in use, rarely a name. */
static part part_of(uint8_t which)
{
    const dlk_table *table = &world.table;
    const part parts[] = {
        {(char *)&table->head->registry, sizeof(dlk_head) - offsetof(dlk_head, registry)},
        {(char *)table->members, 4 * sizeof(dlk_member)},
        {(char *)table->rows, 8 * sizeof(dlk_row)},
        {(char *)table->places, 16 * sizeof(dlk_line_place)},
        {(char *)table->buckets, table->bucket_count * sizeof(uint32_t)},
        {table->names, 4 * DLK_TABLE_NAME},
        {(char *)&table->head->stamp, sizeof(dlk_table_stamp)},
        {(char *)table->rows, 2 * sizeof(dlk_row)},
    };
    return parts[which % 8];
}

static void scribble(fuzz_bytes *bytes)
{
    part at_part = part_of(fuzz_byte(bytes));
    uint8_t how = fuzz_byte(bytes);
    char *at = at_part.start + fuzz_number(bytes, 2) % (at_part.size - 8);
    char *word = (char *)((uintptr_t)at & ~(uintptr_t)7);
    uint8_t value = fuzz_byte(bytes);
    uint64_t wide = how & 0x80 ? fuzz_number(bytes, 8) : value;
    world.sound = false;
    switch (how % 5) {
    case 0:
        *at = (char)(*at ^ (1 << value % 8));
        return;
    case 1:
        *at = (char)value;
        return;
    case 2: /* a ref, or half of a word */
        memcpy((char *)((uintptr_t)at & ~(uintptr_t)3), &wide, 4);
        return;
    case 3:
        memcpy(word, &wide, 8);
        return;
    default: { /* what stands elsewhere, so that two are the same */
        at_part = part_of(value);
        memmove(word, at_part.start + wide % (at_part.size - 8) / 8 * 8, 8);
        return;
    }
    }
}

/* As dlk_file_open does when nobody else has the file: what is found is checked, all clients of
 * before are void, and what can't be used is refused. */
static bool take_over(void)
{
    dlk_table *table = &world.table, measured = {.shared = table->shared};
    dlock_error *err = NULL;
    dlk_table_stamp stamp = table->head->stamp;
    dlock_err code = dlk_stamp_check(&stamp, "image", table->size, &measured, &err);
    FUZZ_CHECK(dlock_error_code(err) == code, "error and code disagree");
    dlock_error_free(err);
    if (code != DLOCK_OK)
        return false;
    FUZZ_CHECK(measured.size <= table->size, "a table larger than its file");
    if (measured.row_count != table->row_count)
        return false; /* a whole table, of another size */
    renew_mutex();
    for (uint32_t ref = 1; ref <= table->member_count; ref++) {
        dlk_member *member = dlk_member_at(table, ref);
        atomic_store(&member->word, member->word >> 32 << 32);
    }
    dlk_section section = {.table = table};
    dlk_table_rebuild(&section, world.now);
    if (section.damaged)
        return false;
    world.sound = true;
    for (int i = 0; i < NAMES; i++)
        world.beliefs[i] = (belief){.token = 0};
    for (int i = 0; i < CLIENTS; i++)
        join(&world.clients[i]);
    check_sound("a take-over");
    return true;
}

/* As after a death inside the mutex: the clients are still there. */
static void recover(void)
{
    dlk_section section = {.table = &world.table};
    dlk_table_rebuild(&section, world.now);
    if (world.sound)
        FUZZ_CHECK(!section.damaged, "a sound table is rebuilt to a damaged one");
    check_sound("a rebuild");
}

static void leave(user *it)
{
    dlk_section section = {.table = &world.table};
    dlk_member_let_go(&section, it->local->owner, world.now);
    dlk_member_vanish(&world.table, it->local->owner);
    for (int i = 0; i < NAMES; i++)
        if (world.beliefs[i].owner == it->local->owner)
            world.beliefs[i].owner = 0;
    join(it);
    check_sound("a departure");
}

/* False: the table is refused. */
static bool step(fuzz_bytes *bytes)
{
    uint8_t what = fuzz_byte(bytes) % 16;
    uint8_t who = what < 10 || what > 13 ? fuzz_byte(bytes) : 0;
    user *it = &world.clients[who % CLIENTS];
    switch (what) {
    case 10:
        scribble(bytes);
        return true;
    case 11:
        return take_over();
    case 12:
        recover();
        return true;
    case 13:
        leave(&world.clients[fuzz_byte(bytes) % CLIENTS]);
        return true;
    case 14:
        world.now += (int64_t)who * 10 * DLK_NS_PER_MS;
        return true;
    case 15:
        dlk_local_process(&it->local->base, world.now);
        return true;
    case 0:
    case 9: /* acquiring is what makes a table interesting */
        ask(DLK_ACQUIRE, who, fuzz_byte(bytes));
        return true;
    default:
        ask(what, who, fuzz_byte(bytes));
        return true;
    }
}

/* ---- the same bytes in a file ---- */

/* That stays, whoever has the file open. */
static bool was_exported(void)
{
    const dlk_table *table = &world.table;
    for (uint32_t ref = 1; ref <= table->row_count; ref++)
        if (dlk_row_record(dlk_row_at(table, ref)).owner == DLK_OWNER_EXPORTED)
            return true;
    return false;
}

static void check_client(dlock_client *client)
{
    dlock_info *info = NULL;
    dlock_hold *first = NULL, *second = NULL;
    dlock_error *err = NULL;
    dlock_err code = dlock_acquire(client, "a", 0, &first, &err);
    FUZZ_CHECK(code == DLOCK_OK || code == DLOCK_EOVERFLOW || code == DLOCK_EPROTO ||
                   (code == DLOCK_EBUSY && was_exported()),
               "nobody can hold it, but: %s", dlock_error_text(err));
    if (code == DLOCK_OK) {
        int64_t token = dlock_hold_token(first);
        FUZZ_CHECK(dlock_hold_release(first, &err) == DLOCK_OK, "%s",
                   dlock_error_text(err));
        code = dlock_acquire(client, "a", 0, &second, &err);
        FUZZ_CHECK(code != DLOCK_OK || dlock_hold_token(second) > token,
                   "tokens don't rise");
    }
    if (dlock_client_list(client, NULL, 100, &info, NULL) == DLOCK_OK)
        fuzz_check_json(dlock_info_json(info));
    dlock_info_free(info);
    dlock_hold_free(first);
    dlock_hold_free(second);
    dlock_error_free(err);
}

static void write_file(void)
{
    int fd = open(fuzz_litter, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 ||
        write(fd, world.memory, world.table.size) != (ssize_t)world.table.size ||
        close(fd) != 0)
        abort();
}

/* While the file is in use, bytes of it change; then everybody goes. */
static void through_a_file(fuzz_bytes bytes)
{
    char uri[sizeof(fuzz_litter) + 64];
    dlock_client *client = NULL, *other = NULL;
    dlock_error *err = NULL;
    memset(&world.table.head->mutex, fuzz_byte(&bytes), sizeof(pthread_mutex_t));
    write_file();
    (void)snprintf(uri, sizeof(uri), "file://%s?client.timeout_ms=100", fuzz_litter);
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    FUZZ_CHECK(code == DLOCK_OK || code == DLOCK_EPROTO || code == DLOCK_EUNAVAIL, "%s",
               dlock_error_text(err));
    if (client)
        check_client(client);
    if (client && dlock_client_open(uri, NULL, &other, &err) == DLOCK_OK)
        check_client(other);
    dlock_client_free(other);
    dlock_client_free(client);
    dlock_error_free(err);
    (void)unlink(fuzz_litter); /* gone is fine */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes bytes = {data, size};
    if (!world.memory)
        make_world();
    begin((fuzz_byte(&bytes) & 0x1f) == 0x1f);
    for (int steps = 0; steps < STEPS && bytes.left > 0; steps++)
        if (!step(&bytes))
            break;
    uint32_t hash = dlk_table_hash((const char *)data, size);
    if (hash % REALLY == 0)
        through_a_file((fuzz_bytes){data, size});
    return 0;
}
