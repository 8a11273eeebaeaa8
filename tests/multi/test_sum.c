/* The order of a multi-lock's members, and what they come to together: libdlock/multi/sum.c. */
#include "harness/harness.h"

#include "multi/sum.h"
#include "multi/taking.h"

#include <string.h>

enum { FEW = 4, CODES = DLOCK_ENOMEM + 1 };

/* ---- the order ---- */

static const dlk_sum_key sorted[FEW] = {{"a", DLOCK_MUTEX, "redis://one"},
                                        {"a", DLOCK_MUTEX, "redis://two"},
                                        {"a", DLOCK_WRITE, "redis://one"},
                                        {"b", DLOCK_MUTEX, "file:///a"}};

TEST(in_whatever_order_they_are_given_they_are_taken_by_name_kind_and_service)
{
    for (int n = 0; n < FEW * FEW * FEW * FEW; n++) {
        dlk_sum_key keys[FEW];
        uint8_t order[DLK_MULTI_MAX];
        bool seen[FEW] = {false};
        int rest = n, different = 0;
        for (int i = 0; i < FEW; i++, rest /= FEW) {
            keys[i] = sorted[rest % FEW];
            different += !seen[rest % FEW];
            seen[rest % FEW] = true;
        }
        size_t twice = dlk_sum_order(keys, FEW, order);
        CHECK((twice == FEW) == (different == FEW));
        for (int i = 0; i < FEW && different == FEW; i++)
            CHECK(memcmp(&keys[order[i]], &sorted[i], sizeof(sorted[i])) == 0);
        for (int i = 0, of_that = 0; i < FEW && different < FEW; i++, of_that = 0) {
            for (int j = 0; j < FEW; j++)
                of_that += memcmp(&keys[j], &keys[twice], sizeof(keys[j])) == 0;
            CHECK(of_that > 1);
        }
    }
}

TEST(as_many_as_there_may_be_are_put_in_order)
{
    char names[DLK_MULTI_MAX][3];
    dlk_sum_key keys[DLK_MULTI_MAX];
    uint8_t order[DLK_MULTI_MAX];
    for (size_t i = 0; i < DLK_MULTI_MAX; i++) {
        size_t place = i * 37 % DLK_MULTI_MAX;
        names[i][0] = (char)('a' + place / 8);
        names[i][1] = (char)('a' + place % 8);
        names[i][2] = '\0';
        keys[i] = (dlk_sum_key){names[i], DLOCK_MUTEX, "mem:"};
    }
    CHECK_EQ_INT(dlk_sum_order(keys, DLK_MULTI_MAX, order), DLK_MULTI_MAX);
    for (size_t i = 0; i < DLK_MULTI_MAX; i++)
        CHECK_EQ_INT(order[i] * 37 % DLK_MULTI_MAX, i);
}

/* ---- what a release, or whatever is asked of all, ends with ---- */

static dlock_err worst_of(const dlock_err *codes, int count)
{
    dlock_err worst = DLOCK_OK;
    for (int i = 0; i < count; i++)
        if (dlk_sum_worse(worst, codes[i]))
            worst = codes[i];
    return worst;
}

/* By what it must be, not by how it is found. */
static dlock_err expected(const dlock_err *codes, int count)
{
    static const dlock_err first[] = {DLOCK_EFORKED, DLOCK_ELOST, DLOCK_ENOTHELD};
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < count; i++)
            if (codes[i] == first[j])
                return first[j];
    for (int i = 0; i < count; i++)
        if (codes[i] != DLOCK_OK)
            return codes[i];
    return DLOCK_OK;
}

TEST(of_several_codes_a_fork_a_loss_and_not_held_say_most_then_the_first_that_was_heard)
{
    for (int n = 0; n < CODES * CODES * CODES; n++) {
        dlock_err codes[3] = {(dlock_err)(n % CODES), (dlock_err)(n / CODES % CODES),
                              (dlock_err)(n / CODES / CODES)};
        for (int count = 1; count <= 3; count++)
            CHECK_EQ_INT(worst_of(codes, count), expected(codes, count));
    }
}

/* ---- its state and lease ---- */

TEST(a_lost_member_makes_all_lost_and_a_suspect_one_all_suspect)
{
    static const dlock_state states[] = {DLOCK_HELD, DLOCK_SUSPECT, DLOCK_LOST};
    for (int n = 0; n < 27; n++) {
        int which[3] = {n % 3, n / 3 % 3, n / 9}, worst = 0;
        dlock_state of[3];
        for (size_t i = 0; i < 3; i++) {
            of[i] = states[which[i]];
            worst = which[i] > worst ? which[i] : worst;
        }
        CHECK_EQ_INT(dlk_sum_state(of, 3), states[worst]);
    }
}

TEST(what_is_left_is_the_least_wherever_it_is)
{
    for (int n = 0; n < 256; n++) {
        int64_t of[4] = {n % 4, n / 4 % 4, n / 16 % 4, n / 64}, least = 4;
        for (int i = 0; i < 4; i++)
            least = of[i] < least ? of[i] : least;
        CHECK_EQ_INT(dlk_sum_least(of, 4), least);
    }
}

TEST(each_change_of_state_is_told_once_and_nothing_after_the_loss)
{
    static const dlock_state states[] = {DLOCK_HELD, DLOCK_SUSPECT, DLOCK_LOST};
    for (int told = 0; told < 3; told++)
        for (int now = 0; now < 3; now++)
            for (int revoked = 0; revoked < 2; revoked++) {
                dlk_sum_news news = dlk_sum_tell(states[told], states[now], revoked);
                bool lost = states[told] == DLOCK_LOST;
                CHECK_EQ_INT(news.changed, told != now && !lost);
                CHECK_EQ_INT(news.revoked, revoked && !lost);
                CHECK_EQ_INT(news.state, lost ? DLOCK_LOST : states[now]);
            }
}
