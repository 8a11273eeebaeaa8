/* What is told of the addresses that were tried in vain. */
#include "harness/harness.h"
#include "util/error.h"
#include "util/whys.h"

#include <stdio.h>
#include <string.h>

static char said[8192];

/* The text of an error with these words, completed. */
static const char *complete(const dlk_whys *whys, const char *words)
{
    dlock_error *error =
        dlk_whys_complete(whys, dlk_error_make(DLOCK_EUNAVAIL, "%s", words));
    (void)harness_eq_int(__FILE__, __LINE__, "code", error->code, DLOCK_EUNAVAIL);
    snprintf(said, sizeof(said), "%s", error->text);
    dlock_error_free(error);
    return said;
}

TEST(each_address_is_told_with_its_last_step_and_reason)
{
    dlk_whys whys = {0};
    dlk_whys_note(&whys, "a:1", DLK_STEP_CONNECT, DLK_WHYS_NO_ANSWER);
    dlk_whys_note(&whys, "b:2", DLK_STEP_LOOK_UP, "unknown");
    dlk_whys_note(&whys, "a:1", DLK_STEP_GREET, "hung up");
    CHECK_STR(complete(&whys, "late"),
              "late (a:1: greet: hung up; b:2: look up: unknown)");
    dlk_whys_forget(&whys, "a:1");
    dlk_whys_forget(&whys, "c:3");
    CHECK_STR(complete(&whys, "late"), "late (b:2: look up: unknown)");
    dlk_whys_clear(&whys);
    CHECK_STR(complete(&whys, "late"), "late");
    dlk_whys_note(NULL, "a:1", DLK_STEP_CONNECT, "nobody wants to know");
    dlk_whys_forget(NULL, "a:1");
}

TEST(what_the_error_says_itself_is_not_said_twice)
{
    dlk_whys whys = {0};
    dlk_whys_note(&whys, "10.0.0.1:63", DLK_STEP_CONNECT, "refused");
    CHECK_STR(complete(&whys, "can't connect to 10.0.0.1:63: refused"),
              "can't connect to 10.0.0.1:63: refused");
    CHECK_STR(complete(&whys, "connection to 10.0.0.1:63 lost: gone"),
              "connection to 10.0.0.1:63 lost: gone");
    /* Another's, or without a reason. */
    CHECK_CONTAINS(complete(&whys, "can't connect to 10.0.0.1:637: refused"),
                   "(10.0.0.1:63: connect: refused)");
    CHECK_CONTAINS(complete(&whys, "can't connect to 110.0.0.1:63: refused"),
                   "(10.0.0.1:63: connect: refused)");
    CHECK_CONTAINS(complete(&whys, "no server of 10.0.0.1:63 answers"),
                   "(10.0.0.1:63: connect: refused)");
    dlk_whys_clear(&whys);
}

TEST(it_is_bounded_and_has_no_control_characters)
{
    dlk_whys whys = {0};
    char address[400], reason[3000];
    memset(reason, 'r', sizeof(reason) - 1);
    reason[sizeof(reason) - 1] = '\0';
    memcpy(reason, "\x1b[2J\n", 5);
    for (int i = 0; i < DLK_WHYS_MAX + 10; i++) {
        snprintf(address, sizeof(address), "%0200d:%d", i, i);
        dlk_whys_note(&whys, address, DLK_STEP_GREET, reason);
    }
    CHECK_EQ_INT(whys.count, 1); /* as far as they are told apart, it is one */
    dlk_whys_clear(&whys);
    for (int i = 0; i < DLK_WHYS_MAX + 10; i++) {
        snprintf(address, sizeof(address), "%d:%0200d", i, i);
        dlk_whys_note(&whys, address, DLK_STEP_GREET, reason);
    }
    CHECK_EQ_INT(whys.count, DLK_WHYS_MAX);
    (void)complete(&whys, "late");
    CHECK(strlen(said) < 4300);
    CHECK(!strpbrk(said, "\x1b\n"));
    CHECK_CONTAINS(said, "; and more)");
    dlk_whys_clear(&whys);
    /* However often those that find no room are tried, they are no more for that. */
    for (int i = 0; i < 3 * DLK_WHYS_MAX; i++) {
        snprintf(address, sizeof(address), "%d:1", i % (DLK_WHYS_MAX + 1));
        dlk_whys_note(&whys, address, DLK_STEP_CONNECT, "no");
    }
    CHECK_CONTAINS(complete(&whys, "late"), "; 31:1: connect: no; and more)");
    dlk_whys_clear(&whys);
}

TEST(a_reason_is_cut_between_characters)
{
    dlk_whys whys = {0};
    char reason[301];
    for (int odd = 0; odd < 2; odd++) {
        memset(reason, 'e', sizeof(reason));
        for (int i = odd; i + 2 < 300; i += 2)
            memcpy(reason + i, "\xc3\xa9", 2);
        reason[300] = '\0';
        dlk_whys_note(&whys, "a:1", DLK_STEP_GREET, reason);
        (void)complete(&whys, "late");
        size_t size = strlen(said);
        CHECK(size > 200 && strcmp(said + size - 3, "\xc3\xa9)") == 0);
    }
    dlk_whys_clear(&whys);
}
