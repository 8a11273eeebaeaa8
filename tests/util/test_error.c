/* Error objects: one line, one owner, and codes that all have names. */
#include "harness/harness.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

TEST(failure_replaces_what_was_there_and_success_clears_it)
{
    dlock_error *err = NULL;
    CHECK_EQ_INT(dlk_error_set(&err, DLOCK_EBUSY, "held by %s", "a"), DLOCK_EBUSY);
    CHECK_EQ_INT(dlk_error_set(&err, DLOCK_EINVAL, "number %d", 7), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_error_code(err), DLOCK_EINVAL);
    CHECK_STR(dlock_error_text(err), "number 7");
    CHECK_STR(dlock_error_backend(err), "");
    CHECK_EQ_INT(dlk_error_clear(&err), DLOCK_OK);
    CHECK(err == NULL);
}

TEST(a_null_err_is_fine_everywhere)
{
    CHECK_EQ_INT(dlk_error_set(NULL, DLOCK_EBUSY, "x"), DLOCK_EBUSY);
    CHECK_EQ_INT(dlk_error_nomem(NULL), DLOCK_ENOMEM);
    CHECK_EQ_INT(dlk_error_clear(NULL), DLOCK_OK);
    CHECK_EQ_INT(dlk_error_give(NULL, dlk_error_make(DLOCK_ELOST, "y")), DLOCK_ELOST);
    dlk_error_backend(NULL, "z");
    dlock_error_free(NULL);
    CHECK_EQ_INT(dlock_error_code(NULL), DLOCK_OK);
    CHECK_STR(dlock_error_text(NULL), "");
    CHECK_STR(dlock_error_backend(NULL), "");
    CHECK_EQ_INT(dlock_error_retriable(NULL), 0);
}

TEST(the_old_text_may_be_quoted_in_the_new_one)
{
    dlock_error *err = dlk_error_make(DLOCK_EUNAVAIL, "refused");
    dlk_error_set(&err, DLOCK_EUNAVAIL, "can't open: %s", dlock_error_text(err));
    CHECK_STR(dlock_error_text(err), "can't open: refused");
    dlock_error_free(err);
}

TEST(a_copy_has_text_and_the_backends_words)
{
    dlock_error *err = dlk_error_make(DLOCK_EACCES, "no right to EVALSHA");
    dlk_error_backend(&err, "NOPERM this user has no permissions\r\n");
    dlock_error *copy = dlk_error_copy(err);
    dlock_error_free(err);
    CHECK_EQ_INT(dlock_error_code(copy), DLOCK_EACCES);
    CHECK_STR(dlock_error_text(copy), "no right to EVALSHA");
    CHECK_STR(dlock_error_backend(copy), "NOPERM this user has no permissions  ");
    dlock_error_free(copy);
    CHECK(dlk_error_copy(NULL) == NULL);
}

TEST(the_text_is_always_one_line)
{
    dlock_error *err = dlk_error_make(DLOCK_EPROTO, "got '%s'", "a\nb\tc\x1b[31m");
    CHECK_STR(dlock_error_text(err), "got 'a b c [31m'");
    dlock_error_free(err);
}

/* C1, in 8 bits or as UTF-8, is obeyed by terminals as well: 0x9b begins what ESC [ does. */
TEST(no_control_character_of_a_server_gets_into_a_text)
{
    static const char said[] = "x\x7f\x1b[2J\xc2\x9b"
                               "2J\x9b"
                               "2J\xc2\x85y \xc3\x9b \xe2\x82\xac \xe9\x80\x80 \xe9";
    static const char kept[] = "x  [2J  2J 2J  y \xc3\x9b \xe2\x82\xac \xe9\x80\x80 \xe9";
    dlock_error *err = dlk_error_make(DLOCK_EPROTO, "%s", said);
    dlk_error_backend(&err, said);
    CHECK_STR(dlock_error_text(err), kept);
    CHECK_STR(dlock_error_backend(err), kept);
    dlock_error_free(err);
}

TEST(lack_of_memory_needs_no_memory)
{
    dlock_error *err = NULL;
    CHECK_EQ_INT(dlk_error_nomem(&err), DLOCK_ENOMEM);
    CHECK_STR(dlock_error_text(err), "out of memory");
    dlk_error_backend(&err, "ignored");
    CHECK_STR(dlock_error_backend(err), "");
    dlock_error *copy = dlk_error_copy(err);
    CHECK_EQ_INT(dlock_error_code(copy), DLOCK_ENOMEM);
    dlock_error_free(copy);
    dlock_error_free(err);
    dlock_error_free(err); /* static: nothing happens, however often */
}

TEST(retriable_are_those_that_may_pass_by_themselves)
{
    static const dlock_err yes[] = {DLOCK_EBUSY, DLOCK_ETIMEDOUT, DLOCK_EUNAVAIL,
                                    DLOCK_EUNKNOWN, DLOCK_EQUORUM};
    for (int code = DLOCK_EBUSY; code <= DLOCK_ENOMEM; code++) {
        bool expected = false;
        for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
            expected = expected || (int)yes[i] == code;
        dlock_error *err = dlk_error_make((dlock_err)code, "x");
        CHECK_EQ_INT(dlock_error_retriable(err), expected);
        dlock_error_free(err);
    }
}

TEST(every_code_has_a_name_and_words_of_its_own)
{
    CHECK_STR(dlock_errname(DLOCK_OK), "DLOCK_OK");
    CHECK_STR(dlock_errname(DLOCK_EBUSY), "DLOCK_EBUSY");
    CHECK_STR(dlock_errname(DLOCK_ENOMEM), "DLOCK_ENOMEM");
    for (int a = DLOCK_OK; a <= DLOCK_ENOMEM; a++) {
        CHECK(strcmp(dlock_errname((dlock_err)a), "DLOCK_E?") != 0);
        CHECK(strcmp(dlock_strerror((dlock_err)a), "unknown error code") != 0);
        for (int b = DLOCK_OK; b < a; b++) {
            CHECK(strcmp(dlock_errname((dlock_err)a), dlock_errname((dlock_err)b)) != 0);
            CHECK(strcmp(dlock_strerror((dlock_err)a), dlock_strerror((dlock_err)b)) !=
                  0);
        }
    }
}

TEST(a_code_from_a_later_version_gets_a_text_too)
{
    CHECK_STR(dlock_errname((dlock_err)31), "DLOCK_E?");
    CHECK_STR(dlock_strerror((dlock_err)31), "unknown error code");
}

TEST(the_version_loaded_is_the_version_compiled_against)
{
    CHECK_STR(dlock_version(), DLOCK_VERSION_STRING);
    CHECK_EQ_INT(dlock_version_num(), DLOCK_VERSION_NUM);
    CHECK_EQ_INT(DLOCK_VERSION_NUM, DLOCK_VERSION_MAJOR * 10000 +
                                        DLOCK_VERSION_MINOR * 100 + DLOCK_VERSION_PATCH);
}
