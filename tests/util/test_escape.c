/* Names as keys: what can be a key stays, nothing meets anything else, and each key tells its name. */
#include "harness/harness.h"

#include "util/escape.h"
#include "util/rand.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>

/* Like memcached's: bytes, but no spaces. */
static size_t printable(const char *text, size_t left)
{
    (void)left;
    return (unsigned char)*text > ' ' && *text != 0x7f;
}

static const dlk_alphabet bytes = {.character = printable};

/* Like ZooKeeper's: characters, and some words aren't. */
static size_t character(const char *text, size_t left)
{
    size_t size = dlk_utf8_size(text, left);
    return *text == '/' || (size == 1 && !printable(text, left)) ? 0 : size;
}

static bool is_word(const char *name, size_t size)
{
    return size == 0 || (size == 1 && *name == '.');
}

static const dlk_alphabet words = {.character = character, .reserved = is_word};

static bool is(const dlk_alphabet *alphabet, const char *name, const char *key)
{
    char *made = dlk_escape(alphabet, name, strlen(name));
    char *back = dlk_unescape(alphabet, key, strlen(key));
    bool fine = harness_str(__FILE__, __LINE__, "the key", made, key) &&
                harness_str(__FILE__, __LINE__, "the name", back, name);
    free(made);
    free(back);
    return fine;
}

TEST(what_can_be_a_key_stays_as_it_is)
{
    static const char *const names[] = {"a",    "a%20b",  "%20", "%a%20b", "%dlock",
                                        "100%", "dlock:", "%%",  "{a}",    "\xc3\xa4"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        CHECK(is(&bytes, names[i], names[i]));
        CHECK(is(&words, names[i], names[i]));
    }
    CHECK(is(&bytes, "\xff/.", "\xff/."));
}

TEST(what_cant_is_escaped_and_so_is_what_looks_like_it)
{
    CHECK(is(&bytes, "a b", "%dlock:a%20b"));
    CHECK(is(&bytes, "\x01%\x7f\xff", "%dlock:%01%25%7F\xff"));
    CHECK(is(&words, "\xc3/\xc3\xa4", "%dlock:%C3%2F\xc3\xa4"));
    CHECK(is(&words, "", "%dlock:"));
    CHECK(is(&words, ".", "%dlock:."));
    CHECK(is(&bytes, "%dlock:a%20b", "%dlock:%25dlock:a%2520b"));
    CHECK(is(&bytes, "%dlock:", "%dlock:%25dlock:"));
}

TEST(a_key_that_no_name_has_is_its_own_name)
{
    static const char *const keys[] = {"%dlock:a",    "%dlock:a%2",   "%dlock:a%2g",
                                       "%dlock:%0a%", "%dlock:%41 b", "%dlock:a%00b",
                                       "%dlock:%7f",  "%dlock:a%"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        char *name = dlk_unescape(&bytes, keys[i], strlen(keys[i]));
        CHECK_STR(name, keys[i]);
        free(name);
    }
}

/* Any bytes, with what an escaped name is made of among them. */
static void invent(dlk_rand *rand, char *name)
{
    static const char *const pieces[] = {DLK_ESCAPE_MARK, "%", "%20", "%25", "2", "F",
                                         "\xc3\xa4",      " ", ".",   "/",   "a", ""};
    size_t count = dlk_rand_next(rand) % 6;
    name[0] = '\0';
    while (count-- > 0) {
        const char byte[2] = {(char)(dlk_rand_next(rand) % 255 + 1), '\0'};
        size_t pick = dlk_rand_next(rand) % (2 * sizeof(pieces) / sizeof(*pieces));
        bool piece = pick < sizeof(pieces) / sizeof(*pieces);
        (void)strcat(name, piece ? pieces[pick] : byte);
    }
}

static bool is_key(const dlk_alphabet *alphabet, const char *text)
{
    size_t left = strlen(text);
    if (alphabet->reserved && alphabet->reserved(text, left))
        return false;
    for (size_t step; left > 0; text += step, left -= step)
        if (!(step = alphabet->character(text, left)))
            return false;
    return true;
}

static void check_many(const dlk_alphabet *alphabet)
{
    enum { MANY = 100000 };
    dlk_rand rand = {.state = 20};
    for (int i = 0; i < MANY; i++) {
        char name[64];
        invent(&rand, name);
        char *key = dlk_escape(alphabet, name, strlen(name));
        char *back = dlk_unescape(alphabet, key, strlen(key));
        CHECK(is_key(alphabet, key));
        CHECK_STR(back, name); /* so no other name has that key */
        CHECK_EQ_INT(strcmp(key, name) == 0,
                     is_key(alphabet, name) && strncmp(name, DLK_ESCAPE_MARK, 7) != 0);
        free(key);
        free(back);
    }
}

TEST(each_of_very_many_names_has_a_key_that_tells_it)
{
    check_many(&bytes);
    check_many(&words);
}
