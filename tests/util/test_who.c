/* Whose process a client is: written as one text, and told of whatever stands there. */
#include "harness/harness.h"
#include "util/info.h"
#include "util/who.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *told(const dlock_info *info, const char *key)
{
    const char *text = dlock_info_get(info, key);
    return text ? text : "";
}

TEST(an_owner_is_a_uuid_and_a_number)
{
    const char *owner = "0123abcd-0123-0123-0123-0123456789ab:17";
    char text[64];
    CHECK_EQ_INT(dlk_who_owner_size(owner), strlen(owner));
    snprintf(text, sizeof(text), "%s 5\nmore", owner);
    CHECK_EQ_INT(dlk_who_owner_size(text), strlen(owner));
    CHECK_EQ_INT(dlk_who_owner_size(""), 0);
    CHECK_EQ_INT(dlk_who_owner_size("somebody else"), 0);
    CHECK_EQ_INT(dlk_who_owner_size("0123abcd-0123-0123-0123-0123456789ab:"), 0);
    CHECK_EQ_INT(dlk_who_owner_size("0123abcd-0123-0123-0123-0123456789ab:x"), 0);
    CHECK_EQ_INT(dlk_who_owner_size("0123abcd-0123-0123\n0123-0123456789ab:17"), 0);
}

TEST(what_is_written_is_told)
{
    char host[256] = "", pid[24];
    (void)gethostname(host, sizeof(host) - 1); /* else it is compared with "" */
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    const dlk_who who = dlk_who_here("orders 7");
    char *text = dlk_who_text(&who);
    dlock_info *info = dlk_info_new();
    CHECK(text);
    CHECK_EQ_INT(dlk_who_tell_text(info, text, strlen(text), "list", 3), strlen(text));
    CHECK_STR(told(info, "list.3.client"), "orders 7");
    CHECK_STR(told(info, "list.3.host"), host);
    CHECK_STR(told(info, "list.3.pid"), pid);
    dlk_info_free(info);
    free(text);
}

TEST(a_name_does_not_leave_its_field)
{
    const dlk_who who = dlk_who_here("a\tb\nc");
    CHECK_STR(who.client, "a b c");
}

TEST(a_long_name_is_cut)
{
    char name[400];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    CHECK_EQ_INT(strlen(dlk_who_here(name).client), 255);
}

TEST(what_is_missing_is_not_told)
{
    static const struct {
        const char *text, *client, *host, *pid, *since, *rest;
    } cases[] = {
        {"", "", "", "", "", ""},
        {"a", "a", "", "", "", ""},
        {"a\tb", "a", "b", "", "", ""},
        {"a\tb\t3", "a", "b", "3", "", ""},
        {"a\tb\t3\t", "a", "b", "3", "", ""},
        {"a\tb\t3\t4\tmore\tof it", "a", "b", "3", "4", "more\tof it"},
        {"a\tb\t3\t\tmore", "a", "b", "3", "", "more"},
        {"a\tb\t3\tmore", "a", "b", "3", "", ""},
        {"a\tb\t3\t1700000000000", "a", "b", "3", "1700000000000", ""},
        {"\t\t3", "", "", "3", "", ""},
        {"\t\t\t\t\t", "", "", "", "", "\t"},
        {"a\tb\t0", "a", "b", "", "", ""},
        {"a\tb\t-3", "a", "b", "", "", ""},
        {"a\tb\t3 ", "a", "b", "", "", ""},
        {"a\tb\t9223372036854775808", "a", "b", "", "", ""},
        {"a\tb\t99999999999999999999999999999999", "a", "b", "", "", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const char *text = cases[i].text;
        dlock_info *info = dlk_info_new();
        CHECK_STR(text + dlk_who_tell_text(info, text, strlen(text), "l", 0),
                  cases[i].rest);
        CHECK_STR(told(info, "l.0.client"), cases[i].client);
        CHECK_STR(told(info, "l.0.host"), cases[i].host);
        CHECK_STR(told(info, "l.0.pid"), cases[i].pid);
        CHECK_STR(told(info, "l.0.since"), cases[i].since);
        dlk_info_free(info);
    }
}
