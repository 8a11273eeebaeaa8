/* Names: different ones stay different wherever they become something else, that is in the keys
 * of Redis, in a client's table of names and in the rows of a table; and the same one is found
 * again, whatever came and went meanwhile. */
#include "fuzz.h"

#include "backends/local/memory.h"
#include "backends/redis/asks.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "backends/redis/wire.h"
#include "locks/core.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "name";
const size_t fuzz_longest = 300;
const char *const fuzz_words[] = {"{",
                                  "}",
                                  "{}",
                                  "{a}",
                                  "a",
                                  "b",
                                  ":",
                                  "redisson_lock_token:{",
                                  "redisson_lock__channel:",
                                  "\xff",
                                  "\x80",
                                  "%d",
                                  " ",
                                  "/",
                                  "\n",
                                  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                  NULL};

#define TOKEN   "redisson_lock_token"
#define CHANNEL "redisson_lock__channel"
#define LINE    "dlock_queue"
#define NAMES   8
#define ROWS    4
#define TTL     (30 * INT64_C(1000000000))

/* ---- keys of Redis ---- */

/* What Redis Cluster goes by: what is in the first pair of braces, if there is something. */
static fuzz_bytes slot_of(const char *key)
{
    const char *open = strchr(key, '{'), *close = open ? strchr(open, '}') : NULL;
    if (close && close > open + 1)
        return (fuzz_bytes){(const uint8_t *)open + 1, (size_t)(close - open) - 1};
    return (fuzz_bytes){(const uint8_t *)key, strlen(key)};
}

static bool same(fuzz_bytes a, fuzz_bytes b)
{
    return a.left == b.left && (a.left == 0 || memcmp(a.at, b.at, a.left) == 0);
}

/* Undoes dlk_redis_derive: all that could have been the name, at most two. */
static bool could_be(const char *derived, const char *prefix, const char *name)
{
    size_t size = strlen(name);
    const char *rest = derived + strlen(prefix) + 1;
    if (strncmp(derived, prefix, strlen(prefix)) != 0 || rest[-1] != ':')
        return false;
    if (strcmp(rest, name) == 0)
        return strchr(name, '{') != NULL;
    return rest[0] == '{' && strlen(rest) == size + 2 &&
           strncmp(rest + 1, name, size) == 0 && rest[size + 1] == '}' &&
           !strchr(name, '{');
}

static void check_derived(const char *name)
{
    char *token = dlk_redis_derive(TOKEN, name),
         *channel = dlk_redis_derive(CHANNEL, name);
    FUZZ_CHECK(could_be(token, TOKEN, name) && could_be(channel, CHANNEL, name),
               "'%s' became '%s' and '%s'", name, token, channel);
    FUZZ_CHECK(strcmp(token, channel) != 0 && strcmp(token, name) != 0,
               "two are one: '%s'", token);
    /* Redisson's rule keeps them in one slot, but for names with odd braces. */
    bool odd = strchr(name, '}') || strchr(name, '{');
    FUZZ_CHECK(odd || same(slot_of(name), slot_of(token)), "'%s' and '%s' in two slots",
               name, token);
    free(token);
    free(channel);
}

/* Braces around a name without any are the only way to make two names one, and Redisson's. */
static void check_pair(const char *a, const char *b)
{
    char *one = dlk_redis_derive(TOKEN, a), *other = dlk_redis_derive(TOKEN, b);
    if (strcmp(a, b) == 0)
        FUZZ_CHECK(strcmp(one, other) == 0, "'%s' becomes two things", a);
    else if (strcmp(one, other) == 0)
        FUZZ_CHECK(strchr(a, '{') == NULL
                       ? could_be(one, TOKEN, a) && could_be(one, TOKEN, b)
                       : strchr(b, '{') == NULL,
                   "'%s' and '%s' both become '%s'", a, b, one);
    free(one);
    free(other);
}

/* What is ours alone is never two locks'. */
static void check_ours(const char *a, const char *b)
{
    char *one = dlk_redis_derive(LINE, a), *other = dlk_redis_derive(LINE, b);
    FUZZ_CHECK((strcmp(a, b) == 0) == (strcmp(one, other) == 0),
               "'%s' and '%s' become '%s' and '%s'", a, b, one, other);
    free(one);
    free(other);
}

/* A command must name the lock and nothing else, whatever the name. */
static void check_commands(const char *name, dlk_resp_reader *reader)
{
    static dlk_settings *defaults;
    static dlk_redis redis; /* of which a key needs little more than there is in zeroes */
    const dlk_resp *reply = NULL;
    if (!defaults && !(defaults = redis.settings = dlk_settings_new()))
        abort();
    redis.layout = dlk_redis_layout_of(defaults);
    memcpy(redis.owner, "o:", redis.owner_size = 2);
    dlk_key key = {.name = name,
                   .size = (uint32_t)strlen(name),
                   .kind = DLOCK_MUTEX,
                   .settings = defaults};
    bool fits = key.size <= DLK_REDIS_NAME_MAX && !dlk_redis_is_derived(name);
    FUZZ_CHECK((dlk_redis_key_open(&redis.base, &key, NULL) == DLOCK_OK) == fits,
               "a name of %zu bytes", (size_t)key.size);
    if (!fits)
        return;
    const dlk_redis_key *data = key.data;
    const dlk_redis_form *form = data->form;
    const dlk_ask ask = {
        .verb = DLK_ACQUIRE, .key = &key, .number = 7, .ttl_ms = 1000, .take = 1};
    dlk_buf *whole = &redis.commands.link.stream.out;
    size_t keys = form->keys[DLK_SCRIPT_ACQUIRE];
    if (!dlk_redis_ask_put(&redis, &ask, false) || !dlk_resp_reset(reader) ||
        !dlk_resp_feed(reader, dlk_buf_head(whole), dlk_buf_size(whole)))
        abort();
    FUZZ_CHECK(dlk_resp_next(reader, &reply) == DLK_RESP_ONE &&
                   reply->count == 3 + keys + 3 + form->tokens + form->more_count,
               "no command");
    const dlk_resp *arg = &reply->items[3];
    char *token = dlk_redis_derive(form->derived[0], name);
    char *channel = dlk_redis_derive(form->channel, name);
    FUZZ_CHECK(strcmp(arg[0].text, name) == 0 && arg[0].size == key.size &&
                   strcmp(arg[1].text, token) == 0 &&
                   strcmp(arg[keys].text, channel) == 0 &&
                   strcmp(arg[keys + 1].text, "o:7") == 0,
               "the command is about something else");
    free(token);
    free(channel);
    dlk_buf_free(whole);
    dlk_redis_key_close(&redis.base, &key);
}

static void check_number(uint64_t number)
{
    char text[DLK_DIGITS_MAX + 1];
    int64_t back = -1;
    *dlk_digits_put(text, number) = '\0';
    FUZZ_CHECK(strtoull(text, NULL, 10) == number, "%" PRIu64 " is written '%s'", number,
               text);
    dlk_resp reply = {.type = DLK_RESP_TEXT, .text = text, .size = strlen(text)};
    bool fits = dlk_resp_decimal(&reply, &back);
    FUZZ_CHECK(fits == (number <= INT64_MAX) && (!fits || back == (int64_t)number),
               "'%s' is read %" PRId64, text, back);
}

/* ---- a client's table of names ---- */

static void on_free_name(void *unused, dlk_name *name)
{
    (void)unused;
    free(name);
}

typedef struct entry {
    char *text;
    size_t size;
    dlock_kind kind;
    dlk_name *name; /* in the table, or NULL */
} entry;

/* The one that stands for it, whoever added it; twins are found one after the other. */
static int count_found(dlk_core *core, const entry *it)
{
    int count = 0;
    for (dlk_name *at = NULL;
         (at = dlk_name_find(core, it->kind, it->text, it->size, at));) {
        FUZZ_CHECK(at->key.kind == it->kind && at->key.size == it->size &&
                       memcmp(at->key.name, it->text, it->size) == 0,
                   "another name was found");
        count++;
    }
    return count;
}

static int count_added(const entry *entries, const entry *it)
{
    int count = 0;
    for (int i = 0; i < NAMES; i++)
        count += entries[i].name && entries[i].kind == it->kind &&
                 entries[i].size == it->size &&
                 memcmp(entries[i].text, it->text, it->size) == 0;
    return count;
}

static void turn(dlk_core *core, entry *it)
{
    if (it->name) {
        dlk_name_unref(core, it->name);
        it->name = NULL;
        return;
    }
    it->name = calloc(1, sizeof(*it->name));
    if (!it->name)
        abort();
    it->name->key =
        (dlk_key){.name = it->text, .size = (uint32_t)it->size, .kind = it->kind};
    FUZZ_CHECK(dlk_name_add(core, it->name), "no memory");
    FUZZ_CHECK(!dlk_name_rival(core, it->name), "a rival that isn't in use");
}

static void check_table(entry *entries, fuzz_bytes moves)
{
    dlk_core core = {.port = {.free_name = on_free_name}};
    for (int steps = 0; steps < 8 && moves.left > 0; steps++) {
        turn(&core, &entries[fuzz_byte(&moves) % NAMES]);
        const entry *seen = &entries[fuzz_byte(&moves) % NAMES];
        FUZZ_CHECK(count_found(&core, seen) == count_added(entries, seen),
                   "'%s' is there %d times, found %d times", seen->text,
                   count_added(entries, seen), count_found(&core, seen));
    }
    for (int i = 0; i < NAMES; i++)
        if (entries[i].name)
            turn(&core, &entries[i]);
    FUZZ_CHECK(core.name_count == 0, "%zu names are left", core.name_count);
    free(core.names);
}

/* ---- rows of a table: so few that names must give way to each other ---- */

static void check_rows(const entry *entries, fuzz_bytes moves)
{
    static dlk_table table;
    static void *memory;
    static uint64_t owner;
    if (!memory) {
        memory = aligned_alloc(4096, dlk_table_measure(&table, ROWS));
        dlk_table_lay_out(&table, memory);
    }
    /* Zeroed memory is an empty table; no mutex is used here. */
    memset(memory, 0, (size_t)((char *)table.scratch - (char *)memory));
    dlk_section section = {.table = &table};
    owner =
        dlk_member_join(&section, &(dlk_identity){.pid = 1, .uuid = "u", .name = "n"});
    int64_t now = 1;
    for (int steps = 0; steps < 8 && moves.left > 0; steps++) {
        uint8_t move = fuzz_byte(&moves);
        const entry *it = &entries[move % NAMES];
        uint32_t hash = dlk_table_hash(it->text, it->size);
        uint32_t before = dlk_table_find(&section, it->text, it->size, hash);
        uint32_t row = dlk_table_make(&section, it->text, it->size, hash, now);
        FUZZ_CHECK(!section.damaged && row <= ROWS, "row %u", row);
        FUZZ_CHECK(!before || before == row, "a name moved from row %u to %u", before,
                   row);
        if (row == 0)
            continue; /* all rows are held */
        FUZZ_CHECK(dlk_table_find(&section, it->text, it->size, hash) == row,
                   "made, not found");
        FUZZ_CHECK(memcmp(dlk_row_name(&table, row), it->text, it->size) == 0,
                   "another name");
        for (int i = 1; i < NAMES; i *= 2) {
            const entry *other = &entries[(move + i) % NAMES];
            if (dlk_table_find(&section, other->text, other->size,
                               dlk_table_hash(other->text, other->size)) == row)
                FUZZ_CHECK(other->size == it->size &&
                               memcmp(other->text, it->text, it->size) == 0,
                           "'%s' and '%s' share a row", other->text, it->text);
        }
        dlk_request request = {
            .owner = owner, .number = move, .ttl = TTL, .now = now, .kind = 1};
        int64_t token, until;
        dlk_turn place = {0};
        dlk_record record;
        if (move & 0x40 && !dlk_table_holder(&section, row, now, &record))
            (void)dlk_table_acquire(&section, row, &request, &place, &token, &until);
        if (move & 0x80)
            now += TTL / 2;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static dlk_resp_reader *reader;
    fuzz_bytes bytes = {data, size}, moves = fuzz_take(&bytes, 24);
    entry entries[NAMES] = {{0}};
    if (!reader && !(reader = dlk_resp_new()))
        abort();
    for (int i = 0; i < NAMES; i++) {
        fuzz_bytes text = fuzz_take_until(&bytes, '\0');
        /* Behind the end of the input the first names come again: the same text twice. */
        entries[i].text =
            text.left ? fuzz_text(text) : strdup(i ? entries[i / 2].text : "x");
        entries[i].size = strlen(entries[i].text);
        entries[i].kind = i % 3 == 2 ? DLOCK_READ : DLOCK_MUTEX;
        check_derived(entries[i].text);
        check_pair(entries[i].text, entries[i ? i - 1 : 0].text);
        check_ours(entries[i].text, entries[i ? i - 1 : 0].text);
    }
    check_number(fuzz_number(&(fuzz_bytes){data, size}, 8) >> (size % 64));
    /* One of the three, by the size, which changes all the time: more inputs for the time. */
    if (size % 3 == 0)
        check_commands(entries[size % NAMES].text, reader);
    else if (size % 3 == 1)
        check_table(entries, moves);
    else
        check_rows(entries, moves);
    for (int i = 0; i < NAMES; i++)
        free(entries[i].text);
    return 0;
}
