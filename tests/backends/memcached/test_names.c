/* Which keys names have: one that can be a key is that key, any other is escaped. */
#include "api/world.h"

#include "harness/memcached_server.h"

#include <stdio.h>
#include <string.h>

static const char *item(const char *name)
{
    return memcached_server_get(world_memcached(), name);
}

TEST(a_name_that_no_key_can_carry_is_escaped)
{
    static const struct {
        const char *name, *key;
    } all[] = {
        {"k:\xff%20%", "k:\xff%20%"}, /* as others could have written it */
        {"a b", "%dlock:a%20b"},           {"a\r\nb", "%dlock:a%0D%0Ab"},
        {"\x7f\x01%", "%dlock:%7F%01%25"}, {"%dlock:a%20b", "%dlock:%25dlock:a%2520b"},
    };
    enum { ALL = sizeof(all) / sizeof(*all) };
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client("memcached.protocol=meta");
    DLOCK_AUTO(dlock_client) other = world_client("memcached.protocol=classic");
    dlock_hold *holds[ALL] = {NULL}, *none = NULL;
    for (int i = 0; i < ALL; i++) {
        CHECK_OK(dlock_acquire(client, all[i].name, 0, &holds[i], NULL), NULL);
        CHECK(strcmp(item(all[i].key), "(nil)") != 0);
        CHECK_ERR(dlock_acquire(other, all[i].name, 0, &none, NULL), DLOCK_EBUSY, NULL);
    }
    for (int i = 0; i < ALL; i++) {
        CHECK_OK(dlock_hold_release(holds[i], NULL), NULL);
        CHECK_STR(item(all[i].key), "(nil)");
        dlock_hold_free(holds[i]);
    }
}

/* Of so many: whether it can be had, and what is said if it can't. */
static dlock_err try_of(const char *settings, char filled_with, size_t size, char *text,
                        size_t room)
{
    char name[300];
    memset(name, filled_with, sizeof(name));
    name[size] = '\0';
    DLOCK_AUTO(dlock_client) client = world_client(settings);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_err code = dlock_acquire(client, name, 0, &hold, &err);
    snprintf(text, room, "%s", err ? dlock_error_text(err) : "");
    return code;
}

TEST(a_name_that_is_too_long_for_a_key_is_refused_with_its_length)
{
    BEGIN();
    char text[200];
    static const struct {
        const char *settings, *says;
        size_t size; /* the longest */
        char of;
    } all[] = {
        {NULL, "has 251", 250, 'k'},
        {NULL, "has 253, escaped", 81, ' '}, /* 7 + 3 * 81 are 250 */
        {"memcached.key_encoding=base64", "has 252 in base64", 186, 'k'},
        {"memcached.key_encoding=base64", "has 252 in base64", 186, ' '},
        {"memcached.key_encoding=none", "has 251", 250, 'k'},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        CHECK_EQ_INT(try_of(all[i].settings, all[i].of, all[i].size, text, sizeof(text)),
                     DLOCK_OK);
        CHECK_EQ_INT(
            try_of(all[i].settings, all[i].of, all[i].size + 1, text, sizeof(text)),
            DLOCK_EINVAL);
        CHECK_CONTAINS(text, "250");
        CHECK_CONTAINS(text, all[i].says);
    }
}

TEST(names_are_encoded_otherwise_where_that_is_asked_for)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) base64 = world_client("memcached.key_encoding=base64");
    DLOCK_AUTO(dlock_client) none = world_client("memcached.key_encoding=none");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) plain = NULL;
    DLOCK_AUTO(dlock_hold) refused = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(dlock_acquire(base64, "a b\n", 0, &hold, NULL), NULL);
    CHECK(strcmp(item("YSBiCg=="), "(nil)") != 0);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_OK(dlock_acquire(none, "%dlock:a", 0, &plain, NULL), NULL);
    CHECK(strcmp(item("%dlock:a"), "(nil)") != 0);
    CHECK_OK(dlock_hold_release(plain, NULL), NULL);
    static const char *const unsafe[] = {"a b", "a\r\nb", "a\x7f", "\t"};
    for (size_t i = 0; i < 4; i++) {
        CHECK_ERR(dlock_acquire(none, unsafe[i], 0, &refused, &err), DLOCK_EINVAL, err);
        CHECK_CONTAINS(dlock_error_text(err), "memcached.key_encoding=escaped");
    }
}
