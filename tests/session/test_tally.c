/* Signals that are counted: who is signalled, and what becomes of the count. */
#include "harness/harness.h"

#include "session/tally.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 8 };

typedef struct scene {
    dlk_tally tally;
    int64_t places[ROOM];
    dlk_queue line;
} scene;

/* @p places: one digit each. */
static bool set_up(scene *at, const char *text, const char *places)
{
    dlock_error *err = NULL;
    *at = (scene){.line.count = strlen(places)};
    at->line.places = at->places;
    for (size_t i = 0; i < at->line.count; i++)
        at->places[i] = places[i] - '0';
    dlock_err code = dlk_tally_read(&at->tally, text, "test", &err);
    bool fine = harness_err(__FILE__, __LINE__, text, code, DLOCK_OK, err);
    dlk_error_clear(&err);
    return fine;
}

/* As text; until the next call. */
static const char *text_of(const dlk_tally *tally)
{
    static char text[200];
    char *made = dlk_tally_text(tally);
    text[0] = '\0';
    if (made)
        strncat(text, made, sizeof(text) - 1);
    free(made);
    return text;
}

static int signalled(const char *text, const char *places)
{
    scene at;
    if (!set_up(&at, text, places))
        return -1;
    int count = (int)dlk_tally_signalled(&at.tally, at.line);
    dlk_tally_free(&at.tally);
    return count;
}

static const char *added(const char *text, const char *places, int64_t wanted,
                         int expected)
{
    scene at;
    size_t count = 0;
    if (!set_up(&at, text, places))
        return "";
    bool fine = dlk_tally_add(&at.tally, at.line, wanted, &count);
    (void)harness_check(__FILE__, __LINE__, fine, "there is memory");
    (void)harness_eq_int(__FILE__, __LINE__, places, (int)count, expected);
    const char *ret = text_of(&at.tally);
    dlk_tally_free(&at.tally);
    return ret;
}

static const char *used(const char *text, const char *places, int64_t place)
{
    scene at;
    if (!set_up(&at, text, places))
        return "";
    dlk_tally_use(&at.tally, at.line, place);
    const char *ret = text_of(&at.tally);
    dlk_tally_free(&at.tally);
    return ret;
}

TEST(who_is_signalled_is_the_head_of_the_line)
{
    CHECK_EQ_INT(signalled("", "123"), 0);
    CHECK_EQ_INT(signalled("3:1", "123"), 1);
    CHECK_EQ_INT(signalled("3:2", "123"), 2);
    CHECK_EQ_INT(signalled("3:2", ""), 0);
    CHECK_EQ_INT(signalled("3:9223372036854775807", "12345"), 3);
    CHECK_EQ_INT(signalled("2:1 5:1", "1235"), 2);
}

TEST(a_signal_is_for_those_who_stood_there_when_it_was_given)
{
    CHECK_EQ_INT(signalled("3:1", "45"), 0);
    CHECK_EQ_INT(signalled("3:1", "345"), 1);
    CHECK_EQ_INT(signalled("3:2", "345"), 1);
    CHECK_EQ_INT(signalled("3:2 5:1", "345"), 2);
}

TEST(who_leaves_makes_room_for_the_next)
{
    CHECK_EQ_INT(signalled("3:1", "123"), 1);
    CHECK_EQ_INT(signalled("3:1", "23"), 1); /* the 2 now */
    CHECK_EQ_INT(signalled("2:1 5:1", "235"), 2);
    CHECK_EQ_INT(signalled("2:1 5:1", "35"), 1);
}

TEST(as_many_are_signalled_as_wait)
{
    CHECK_STR(added("", "", 1, 0), "");
    CHECK_STR(added("", "123", 1, 1), "3:1");
    CHECK_STR(added("", "123", INT64_MAX, 3), "3:3");
    CHECK_STR(added("3:1", "123", 1, 1), "3:2");
    CHECK_STR(added("3:1", "123", 5, 2), "3:3");
    CHECK_STR(added("3:3", "123", 1, 0), "3:3");
    CHECK_STR(added("3:1", "1235", 2, 2), "3:1 5:2");
    CHECK_STR(added("3:1", "56", 1, 1), "6:1"); /* nobody of the older ones is left */
    CHECK_STR(added("3:3 4:2", "145", 1, 1), "3:1 4:1 5:1"); /* of some, fewer are */
    CHECK_STR(added("7:2", "1", 1, 0), "7:2");               /* the last ones have gone */
}

TEST(who_has_used_a_signal_takes_it_along)
{
    CHECK_STR(used("3:2", "123", 1), "3:1");
    CHECK_STR(used("3:2", "123", 2), "3:1");
    CHECK_STR(used("3:1", "123", 1), "");
    CHECK_STR(used("2:1 5:1", "125", 1), "5:1");
    CHECK_STR(used("2:1 5:1", "125", 2), "5:1");
    CHECK_STR(used("2:1 5:1", "35", 3), ""); /* the first one reaches nobody any more */
    CHECK_STR(used("3:2", "3", 3), "");
    CHECK_STR(used("3:2", "", 3), "");
    CHECK_STR(used("3:1", "123", 2), "3:1"); /* who has none */
}

/* The places whose bits are set; until the next call but one. */
static const char *places_of(unsigned mask)
{
    static char texts[2][ROOM];
    static int turn;
    char *text = texts[turn = !turn], *at = text;
    for (unsigned i = 0; i < ROOM - 2; i++)
        if (mask & 1u << i)
            *at++ = (char)('1' + i);
    *at = '\0';
    return text;
}

/* Whoever stands in the line, and though some before it have gone since that was looked at: nobody who
 * doesn't leave loses a signal, or gets one. */
TEST(nothing_changes_for_the_others)
{
    static const char *const texts[] = {"3:1", "3:2", "4:1 6:2", "2:3 3:1 6:1", "6:4"};
    enum { ALL = (1 << 6) - 1 };
    for (unsigned i = 0; i < 5 * ALL * 6; i++) {
        const char *text = texts[i % 5];
        unsigned looked = i / 5 % ALL + 1, at = i / 5 / ALL, own = 1u << at;
        int place = (int)at + 1;
        const char *places = places_of(looked);
        const char *found = strchr(places, '0' + place);
        if (!found || found - places >= signalled(text, places))
            continue;
        char left[200] = "";
        strncat(left, used(text, places, place), sizeof(left) - 1);
        for (unsigned gone = 0; gone < own; gone++) {
            unsigned there = looked & ~gone;
            int before = signalled(text, places_of(there));
            CHECK_EQ_INT(signalled(left, places_of(there & ~own)), before - 1);
        }
    }
}

TEST(what_is_no_tally_is_refused)
{
    static const char *const texts[] = {"x",        "1",
                                        ":",        "1:",
                                        ":1",       "1:0",
                                        "1:-1",     "-1:1",
                                        "1:1 ",     "1:1  2:1",
                                        " ",        "2:1 1:1",
                                        "1:1 2:1x", "99999999999999999999:1"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        dlk_tally tally;
        dlock_error *err = NULL;
        dlock_err code = dlk_tally_read(&tally, texts[i], "test", &err);
        bool fine = strcmp(texts[i], "1:1 ") == 0; /* as a line's end */
        CHECK_ERR(code, fine ? DLOCK_OK : DLOCK_EPROTO, err);
        dlk_error_clear(&err);
        if (code == DLOCK_OK)
            dlk_tally_free(&tally);
    }
}
