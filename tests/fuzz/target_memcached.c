/* What a memcached says, what stands in its items, and what the names of locks are there. A reply is whole at its last byte and not
 * before, and what follows changes nothing of it. Whatever stands in an item, a plan that takes a lock
 * leaves it ours, one that gives it back leaves it not ours, and neither touches the others. */
#include "fuzz.h"

#include "backends/memcached/inner.h"

#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "memcached";
const size_t fuzz_longest = 400;
const char *const fuzz_words[] = {"\r\n",
                                  "HD c1\r\n",
                                  "VA 4 c7 t29\r\n",
                                  "VALUE k 0 3 9\r\n",
                                  "\r\nEND\r\n",
                                  "STAT time 1000\r\n",
                                  "SERVER_ERROR ",
                                  "read/write\n",
                                  "semaphore 3\n",
                                  "o:1 w 1 1001 0 x\n",
                                  "o:2 r 1 1001 7 x\n",
                                  "me:1 r 2 1002 7 x\n",
                                  "o:1 mutex 0 x",
                                  "9223372036854775808",
                                  "%dlock:",
                                  "%20",
                                  " ",
                                  NULL};

enum { NOW = 1000, LEASE = 31 };

/* From a copy of just that size, so that a byte read too far is found. */
static dlk_mc_got parse(const uint8_t *data, size_t size, dlk_mc_kind *ret, size_t *used)
{
    char *copy = malloc(size ? size : 1);
    dlk_mc_reply reply = {.kind = DLK_MC_GONE};
    memcpy(copy, data, size);
    dlk_mc_got got = dlk_mc_parse(copy, size, &reply, used);
    if (got == DLK_MC_ONE) {
        FUZZ_CHECK(*used > 0 && *used <= size, "a reply of %zu of %zu bytes", *used,
                   size);
        FUZZ_CHECK(reply.size == 0 ||
                       (reply.text >= copy && reply.text + reply.size <= copy + *used),
                   "its text lies in it");
    }
    *ret = reply.kind;
    free(copy);
    return got;
}

static void check_replies(const uint8_t *data, size_t size)
{
    dlk_mc_kind kind, again;
    size_t used = 0, same = 0;
    while (size > 0 && parse(data, size, &kind, &used) == DLK_MC_ONE) {
        FUZZ_CHECK(parse(data, used, &again, &same) == DLK_MC_ONE && same == used &&
                       again == kind,
                   "what follows a reply of %zu bytes changes it", used);
        FUZZ_CHECK(parse(data, used - 1, &again, &same) == DLK_MC_MORE,
                   "a reply of %zu bytes is whole before its last one", used);
        data += used;
        size -= used;
    }
}

/* Of a value: how many hold it by now, us aside, and how often we do. */
static int64_t others_of(dlk_mc_text value, int64_t *ret_own)
{
    dlk_mc_record record = dlk_mc_record_of(value);
    dlk_mc_holder holder;
    int64_t others = 0;
    *ret_own = 0;
    while (dlk_mc_next_holder(&record, &holder)) {
        bool own = dlk_mc_same(holder.owner, (dlk_mc_text){"me:1", 4});
        if (holder.until > NOW)
            *(own ? ret_own : &others) += 1;
    }
    return others;
}

static dlk_mc_plan plan(dlk_mc_wish wish, dlk_verb verb, dlk_mc_text value, dlk_buf *out)
{
    wish.verb = verb;
    dlk_buf_clear(out);
    return dlk_mc_record_plan(&wish, value.size ? &value : NULL, out);
}

static void check_item(dlk_mc_form form, bool shared, dlk_mc_text value)
{
    const dlk_mc_wish wish = {.form = form,
                              .shared = shared,
                              .take = 1,
                              .permits = form == DLK_MC_SEMAPHORE ? 3 : 0,
                              .owner = {"me:1", 4},
                              .about = {"x", 1},
                              .now = NOW,
                              .until = NOW + LEASE};
    dlk_buf taken = {0}, given = {0};
    int64_t own, before = others_of(value, &own);
    dlk_mc_plan acquired = plan(wish, DLK_ACQUIRE, value, &taken);
    if (acquired.reply == DLK_PENDING) {
        dlk_mc_text now = {dlk_buf_head(&taken), dlk_buf_size(&taken)};
        FUZZ_CHECK(others_of(now, &own) == before && own == 1, "taken beside %lld: %lld",
                   (long long)before, (long long)own);
        FUZZ_CHECK(form != DLK_MC_READ_WRITE || shared || before == 0,
                   "a writer beside %lld others", (long long)before);
        FUZZ_CHECK(acquired.last >= NOW + LEASE,
                   "the item goes before the lease is over");
        FUZZ_CHECK(plan(wish, DLK_VERIFY, now, &given).reply == DLK_YES, "it is ours");
        dlk_mc_plan released = plan(wish, DLK_RELEASE, now, &given);
        FUZZ_CHECK(released.reply == DLK_PENDING && released.empty == (before == 0),
                   "given back beside %lld others", (long long)before);
        dlk_mc_text left = {dlk_buf_head(&given), dlk_buf_size(&given)};
        FUZZ_CHECK(released.empty || (others_of(left, &own) == before && own == 0),
                   "what is given back is ours no longer, and the others' still");
    }
    dlk_buf_free(&taken);
    dlk_buf_free(&given);
}

/* ---- names ---- */

/* As key->data, or nothing where it is too long. */
static bool open_key(dlk_mc *mc, dlk_key *key, const char *name)
{
    *key = (dlk_key){.name = name,
                     .size = (uint32_t)strlen(name),
                     .kind = DLOCK_MUTEX,
                     .settings = mc->settings};
    bool fits = dlk_mc_key_open(&mc->base, key, NULL) == DLOCK_OK;
    FUZZ_CHECK(fits || key->size > (DLK_MC_KEY_MAX - 7) / 3, "'%s' is refused", name);
    return fits;
}

static void check_key(dlk_mc_text wire, const char *name)
{
    bool theirs = strncmp(name, "%dlock:", 7) != 0;
    for (const char *at = name; *at; at++)
        theirs = theirs && (unsigned char)*at > ' ' && *at != 0x7f;
    FUZZ_CHECK(wire.size > 0 && wire.size <= DLK_MC_KEY_MAX, "a key of %zu bytes",
               wire.size);
    for (size_t i = 0; i < wire.size; i++)
        FUZZ_CHECK((unsigned char)wire.data[i] > ' ' && wire.data[i] != 0x7f,
                   "'%s' can't be sent", wire.data);
    FUZZ_CHECK(theirs == (strcmp(wire.data, name) == 0), "'%s' became '%s'", name,
               wire.data);
}

/* Each has a key that can be sent, that which others could have written where it is theirs, and no two
 * have one. */
static void check_names(const char *a, const char *b)
{
    static dlk_mc mc;
    dlk_key one, other;
    if (!mc.settings && !(mc.settings = dlk_settings_new()))
        abort();
    if (!open_key(&mc, &one, a))
        return;
    dlk_mc_text wire = ((dlk_mc_key *)one.data)->wire;
    check_key(wire, a);
    if (open_key(&mc, &other, b)) {
        FUZZ_CHECK(dlk_mc_same(wire, ((dlk_mc_key *)other.data)->wire) ==
                       (strcmp(a, b) == 0),
                   "'%s' and '%s' become '%s'", a, b, wire.data);
        dlk_mc_key_close(&mc.base, &other);
    }
    dlk_mc_key_close(&mc.base, &one);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes bytes = {data, size};
    char *a = fuzz_text(fuzz_take_until(&bytes, '\0')), *b = fuzz_text(bytes);
    if (a[0] && b[0])
        check_names(a, b);
    free(a);
    free(b);
    check_replies(data, size);
    const dlk_mc_text value = {(const char *)data, size};
    check_item(DLK_MC_READ_WRITE, false, value);
    check_item(DLK_MC_READ_WRITE, true, value);
    check_item(DLK_MC_SEMAPHORE, true, value);
    return 0;
}
