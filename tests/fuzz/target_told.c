/* What clients of a Redis tell of their locks (told.h): a text that any other client may have written. However it
 * reads, a list ends, what it says is JSON, no line of a circle is one that the service denies, and each circle
 * is closed. Its answers are made of the input's lines: those with a '!' are what the server says of a lock. */
#include "fuzz.h"

#include "backends/redis/told_list.h"
#include "util/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "told";
const size_t fuzz_longest = 3000;
#define UUID0 "00000000-2222-4333-8444-555555555555"
#define UUID1 "00000001-2222-4333-8444-555555555555"
const char *const fuzz_words[] = {"h 5000 1 1 7 mutex a\n",
                                  "h 5000 1 1 7 mutex b\n",
                                  "w 4000 2 0 7 mutex a\n",
                                  "w 3000 2 0 7 mutex b\n",
                                  "w 3000 2 0 7 semaphore a\n",
                                  "h 3000 2 0 7 semaphore b\n",
                                  "h 3000 2 0 7 read a\n",
                                  "w 3000 2 0 7 write a\n",
                                  "h 1 1 1 0 election b\n",
                                  "!a " UUID0 ":1\n",
                                  "!b " UUID1 ":1\n",
                                  "a client\thost\t7\t\n1790000000000 " UUID0 "\n",
                                  "a client\thost\t7\t\n1790000000000 " UUID1 "\n",
                                  "\xff",
                                  "%00",
                                  "%zz",
                                  "%1b",
                                  "%",
                                  "+7\n",
                                  "+9223372036854775807\n",
                                  "9223372036854775807",
                                  "99999999999999999999",
                                  "-1",
                                  "\x1b[2J",
                                  "\xf0\x9f\x94",
                                  NULL};

#define CLIENTS 4
#define NAMES   7 /* in a request: few, so that there are several */
#define NOW     "1790000000500"

typedef struct answers {
    char *held[8]; /* "name owner" */
    size_t count;
} answers;

static bool who_has(const void *of, const char *name, dlk_redis_held *ret)
{
    const answers *all = of;
    for (size_t i = 0; i < all->count; i++) {
        const char *blank = strrchr(all->held[i], ' ');
        size_t size = blank ? (size_t)(blank - all->held[i]) : 0;
        if (size > 0 && strlen(name) == size && memcmp(all->held[i], name, size) == 0) {
            *ret = (dlk_redis_held){name, blank + 1, "", 30000, 1};
            return true;
        }
    }
    return false;
}

static dlk_resp text_of(const char *text, size_t size)
{
    return (dlk_resp){.type = DLK_RESP_TEXT, .text = text, .size = size};
}

static void tell_of_clients(dlk_redis_told_list *list, size_t count, bool again)
{
    char halves[CLIENTS][19];
    dlk_resp items[2 + 2 * CLIENTS] = {
        text_of(NOW, strlen(NOW)), {.type = DLK_RESP_INTEGER, .integer = (int64_t)count}};
    for (size_t i = 0; i < count; i++) {
        snprintf(halves[i], sizeof(halves[i]), "%08zx-2222-4333", i);
        items[2 * i + 2] = text_of(halves[i], 18);
        items[2 * i + 3] = text_of("1790000300000", 13);
    }
    const dlk_resp reply = {
        .type = DLK_RESP_ARRAY, .items = items, .count = 2 * count + 2};
    dlk_told_step step = dlk_redis_told_list_take(list, &reply);
    FUZZ_CHECK(step == (count > 0 && !again ? DLK_TOLD_MORE : DLK_TOLD_ALL),
               "clients: %d", step);
}

static void tell_of_lines(dlk_redis_told_list *list, fuzz_bytes *bytes, size_t count)
{
    dlk_resp items[CLIENTS];
    char *texts[CLIENTS];
    for (size_t i = 0; i < count; i++) {
        fuzz_bytes part =
            i + 1 < count ? fuzz_take_until(bytes, 0xfe) : fuzz_take(bytes, bytes->left);
        texts[i] = malloc(part.left + 1);
        if (!texts[i])
            abort();
        if (part.left > 0)
            memcpy(texts[i], part.at, part.left);
        texts[i][part.left] = '\0';
        items[i] = text_of(texts[i], part.left);
    }
    const dlk_resp reply = {.type = DLK_RESP_ARRAY, .items = items, .count = count};
    if (count > 0) {
        dlk_told_step step = dlk_redis_told_list_take(list, &reply);
        FUZZ_CHECK(step == DLK_TOLD_ALL, "lines: %d", step);
    }
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
}

/* Each name once, and then no more; and what was known of the others. */
static void ask_names(dlk_redis_told_list *list, bool permits)
{
    dlk_resp names[NAMES];
    dlk_redis_held passed;
    size_t all = 0, count;
    while ((count = dlk_redis_told_list_names(list, permits, true, names, NAMES)) > 0) {
        for (size_t i = 0; i < count; i++)
            FUZZ_CHECK(names[i].size > 0 && names[i].size == strlen(names[i].text),
                       "a name of %zu", names[i].size);
        all += count;
        FUZZ_CHECK(all <= fuzz_longest, "names without end");
    }
    while (dlk_redis_told_list_passed(list, &passed))
        FUZZ_CHECK(passed.left <= 30000, "%lld ms are left", (long long)passed.left);
}

static const char *of(const dlock_info *info, size_t circle, size_t wait,
                      const char *what)
{
    char key[64];
    snprintf(key, sizeof(key), "deadlocks.%zu.waits.%zu.%s", circle, wait, what);
    return dlock_info_get(info, key);
}

static void check_circle(const dlock_info *info, size_t circle, const answers *said)
{
    size_t size = 0;
    while (of(info, circle, size, "name"))
        size++;
    for (size_t i = 0; i < size; i++) {
        const char *name = of(info, circle, i, "name");
        dlk_redis_held held;
        FUZZ_CHECK(strcmp(name, of(info, circle, (i + 1) % size, "has")) == 0,
                   "'%s' isn't what the next one has", name);
        FUZZ_CHECK(who_has(said, name, &held), "nobody has '%s'", name);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes bytes = {data, size};
    size_t count = fuzz_byte(&bytes) % (CLIENTS + 1);
    answers said = {.count = 0};
    while (bytes.left > 0 && *bytes.at == '!' && said.count < 8) {
        (void)fuzz_byte(&bytes);
        said.held[said.count++] = fuzz_text(fuzz_take_until(&bytes, '\n'));
    }
    dlk_redis_told_memory *memory = NULL;
    for (int again = 0; again < 2;
         again++) { /* the second reads what the first has left */
        dlk_redis_told_list *list = dlk_redis_told_list_new("", 1000, memory);
        dlock_info *info = dlk_info_new();
        if (!list || !info)
            abort();
        tell_of_clients(list, count, again);
        if (!again)
            tell_of_lines(list, &bytes, count);
        ask_names(list, false);
        ask_names(list, true);
        dlk_redis_told_list_judge(list, who_has, &said);
        FUZZ_CHECK(dlk_redis_told_list_tell(list, info), "without memory");
        for (size_t i = 0; i < said.count; i++) {
            const char *blank = strrchr(said.held[i], ' ');
            dlk_redis_held held = {said.held[i], blank ? blank + 1 : "", "", -1, 0};
            dlk_redis_told_list_tell_lock(list, &held, info, i);
        }
        fuzz_check_json(dlock_info_json(info));
        for (size_t i = 0; of(info, i, 0, "name"); i++)
            check_circle(info, i, &said);
        memory = dlk_redis_told_list_remember(list, who_has, &said);
        dlk_info_free(info);
        dlk_redis_told_list_free(list);
    }
    dlk_redis_told_memory_free(memory);
    for (size_t i = 0; i < said.count; i++)
        free(said.held[i]);
    return 0;
}
