/* Which nodes a name has: one that can be a path is that path, any other is escaped, part by part. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dlock_client *client;

static bool set_up(const char *path, const char *query)
{
    if (!world_ready())
        return false;
    dlock_error *err = NULL;
    dlock_err code = dlock_client_open(world_uri(path, query), NULL, &client, &err);
    (void)harness_err(__FILE__, __LINE__, "dlock_client_open", code, DLOCK_OK, err);
    dlock_error_free(err);
    return code == DLOCK_OK;
}

/* What a list of those that begin so names, with a | behind each. */
static const char *listed(const char *prefix)
{
    static char text[1000];
    DLOCK_AUTO(dlock_info) info = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    text[0] = '\0';
    if (!harness_err(__FILE__, __LINE__, "dlock_client_list",
                     dlock_client_list(client, prefix, 100, &info, &err), DLOCK_OK, err))
        return "";
    for (size_t i = 0; i < dlock_info_count(info); i++) {
        const char *part = strrchr(dlock_info_key(info, i), '.');
        if (part && strcmp(part, ".name") == 0) {
            (void)strcat(text, dlock_info_text(info, i));
            (void)strcat(text, "|");
        }
    }
    return text;
}

/* It is at that path, and a list shows it. */
static bool lies_at(const char *name, const char *path, const char *mark)
{
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    if (!harness_err(__FILE__, __LINE__, name,
                     dlock_acquire(client, name, 30000, &hold, &err), DLOCK_OK, err))
        return false;
    if (world_children_with(path, mark) != 1) {
        harness_note("%s isn't at %s", name, path);
        return harness_check(__FILE__, __LINE__, false, "it is there");
    }
    char wanted[100];
    (void)snprintf(wanted, sizeof(wanted), "%s|", name);
    return harness_str(__FILE__, __LINE__, "the list", listed(name), wanted) &&
           harness_err(__FILE__, __LINE__, "release", dlock_hold_release(hold, &err),
                       DLOCK_OK, err);
}

TEST(a_name_that_others_could_have_written_is_the_path_that_it_was)
{
    static const char *const names[] = {
        "n/plain", "n/with space", "n/gr\xc3\xbc\xc3\x9f", "n/%20", "n/a%dlock:b",
        "n/...",   "n/zookeeper",  "n/a:b{c}*?\\\"'",      "n/%",   "zookeeper2",
    };
    if (!set_up("", ""))
        return;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "/%s", names[i]);
        CHECK(lies_at(names[i], path, "lock-"));
    }
    dlock_client_free(client);
}

static const struct {
    const char *name, *path;
} odd[] = {
    {"e//b", "/e/%dlock:/b"},
    {"f/", "/f/%dlock:"},
    {"//b", "/%dlock:/b"},
    {"/", "/%dlock:/%dlock:"},
    {"./e", "/%dlock:./e"},
    {"e/../b", "/e/%dlock:../b"},
    {"e\x01", "/%dlock:e%01"},
    {"e/\n/b", "/e/%dlock:%0A/b"},
    {"e\xff", "/%dlock:e%FF"},
    {"e\xc2\x85", "/%dlock:e%C2%85"},
    {"e\xf0\x9f\x94\x92", "/%dlock:e%F0%9F%94%92"},
    {"e\xef\xbf\xbe", "/%dlock:e%EF%BF%BE"},
    {"\xc3\xa4\t%", "/%dlock:\xc3\xa4%09%25"},
    {"%dlock:e", "/%dlock:%25dlock:e"},
    {"zookeeper", "/%dlock:zookeeper"},
};
enum { ODD = sizeof(odd) / sizeof(*odd) };

/* Where a name lies below a chroot, or what a pattern puts before it. */
static const char *path_below(const char *above, size_t i)
{
    static char path[100];
    bool other =
        above[0] && strcmp(odd[i].name, "zookeeper") == 0; /* at the root alone */
    (void)snprintf(path, sizeof(path), "%s%s%s", above, other ? "/" : "",
                   other ? odd[i].name : odd[i].path);
    return path;
}

TEST(any_other_name_is_escaped_part_by_part_and_listed_as_it_is)
{
    if (!set_up("", ""))
        return;
    for (size_t i = 0; i < ODD; i++)
        CHECK(lies_at(odd[i].name, odd[i].path, "lock-"));
    dlock_client_free(client);
}

TEST(nobody_else_can_have_made_what_is_escaped)
{
    if (!world_ready())
        return;
    for (size_t i = 0; i < ODD; i++) {
        char path[64];
        if (strncmp(odd[i].name, "%dlock:", 7) == 0)
            continue;
        (void)snprintf(path, sizeof(path), "/%s", odd[i].name);
        int code =
            zookeeper_wire_create(&world_wire, path, "", ZOOKEEPER_PERSISTENT, NULL, 0);
        CHECK(code != ZOOKEEPER_OK);
        if (code == ZOOKEEPER_GONE)
            CHECK(world_ready());
    }
}

TEST(a_slash_before_a_name_means_nothing)
{
    if (!set_up("", ""))
        return;
    dlock_hold *hold = NULL, *none = NULL;
    CHECK_OK(dlock_acquire(client, "/s/a", 30000, &hold, NULL), NULL);
    dlock_client *other = world_client("");
    CHECK_EQ_INT(dlock_acquire(other, "s/a", 0, &none, NULL), DLOCK_EBUSY);
    CHECK_STR(listed("/s/"), "s/a|");
    CHECK_STR(listed("s/"), "s/a|");
    CHECK_STR(listed("//"), "");
    dlock_hold_free(hold);
    CHECK_OK(dlock_acquire(client, "/", 30000, &hold, NULL), NULL);
    CHECK_EQ_INT(dlock_acquire(other, "//", 0, &none, NULL), DLOCK_EBUSY);
    CHECK_STR(listed("//"), "/|");
    dlock_hold_free(hold);
    dlock_client_free(other);
    dlock_client_free(client);
}

TEST(below_a_chroot_zookeeper_is_a_name_like_others)
{
    if (!world_ready())
        return;
    (void)zookeeper_wire_create(&world_wire, "/below", "", ZOOKEEPER_PERSISTENT, NULL, 0);
    CHECK(set_up("/below", ""));
    CHECK(lies_at("zookeeper/e", "/below/zookeeper/e", "lock-"));
    CHECK(lies_at("e\n", "/below/%dlock:e%0A", "lock-"));
    dlock_client_free(client);
}

TEST(a_node_that_only_looks_escaped_is_listed_as_it_is)
{
    if (!set_up("", ""))
        return;
    char made[100];
    (void)zookeeper_wire_create(&world_wire, "/%dlock:f%2", "", ZOOKEEPER_PERSISTENT,
                                NULL, 0);
    CHECK_EQ_INT(zookeeper_wire_create(&world_wire, "/%dlock:f%2/lock-", "",
                                       ZOOKEEPER_EPHEMERAL | ZOOKEEPER_SEQUENTIAL, made,
                                       sizeof(made)),
                 ZOOKEEPER_OK);
    CHECK_STR(listed("%dlock:f"), "%dlock:f%2|");
    dlock_client_free(client);
}

TEST(every_layout_has_every_name)
{
    static const struct {
        const char *query, *above, *mark;
    } layouts[] = {
        {"zookeeper.layout=kazoo", "", "__lock__"},
        {"zookeeper.layout=bridge", "", "__lock__"},
        {"zookeeper.layout=pattern&zookeeper.node=/p/%7Bname%7D/x%7Bseq%7D", "/p", "x0"},
        {"zookeeper.layout=pattern&zookeeper.node=%7Bname%7D/%7Bsession%7D-%7Bseq%7D", "",
         "-0"},
    };
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        if (!set_up("", layouts[i].query))
            return;
        for (size_t j = 0; j < ODD; j++) {
            dlock_hold *hold = NULL;
            CHECK_OK(dlock_acquire(client, odd[j].name, 30000, &hold, NULL), NULL);
            CHECK_EQ_INT(
                world_children_with(path_below(layouts[i].above, j), layouts[i].mark), 1);
            CHECK_OK(dlock_hold_release(hold, NULL), NULL);
            dlock_hold_free(hold);
        }
        dlock_client_free(client);
    }
}

TEST(a_plain_node_has_every_name)
{
    if (!world_ready())
        return;
    (void)zookeeper_wire_create(&world_wire, "/sole", "", ZOOKEEPER_PERSISTENT, NULL, 0);
    CHECK(set_up("/sole", "zookeeper.layout=exclusive"));
    for (size_t i = 0; i < ODD; i++) {
        dlock_hold *hold = NULL;
        zookeeper_stat stat;
        CHECK_OK(dlock_acquire(client, odd[i].name, 30000, &hold, NULL), NULL);
        CHECK_EQ_INT(zookeeper_wire_stat(&world_wire, path_below("/sole", i), &stat),
                     ZOOKEEPER_OK);
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        dlock_hold_free(hold);
    }
    dlock_client_free(client);
}

/* A '/' makes no folder there; what stands before and behind the name makes it a node's in any case. */
TEST(a_name_in_the_last_part_of_a_pattern_is_escaped_as_a_whole)
{
    static const struct {
        const char *name, *head;
    } parts[] = {
        {"a", "l-a-0"},
        {"..", "l-..-0"},
        {"a b", "l-a b-0"},
        {"a/b", "l-%dlock:a%2Fb-0"},
        {"a//b", "l-%dlock:a%2F%2Fb-0"},
        {"\n%", "l-%dlock:%0A%25-0"},
        {"%dlock:a", "l-%dlock:%25dlock:a-0"},
    };
    if (!set_up("",
                "zookeeper.layout=pattern&zookeeper.node=/last/l-%7Bname%7D-%7Bseq%7D"))
        return;
    dlock_hold *holds[sizeof(parts) / sizeof(*parts)] = {NULL};
    dlock_client *other = world_client(
        "zookeeper.layout=pattern&zookeeper.node=/last/l-%7Bname%7D-%7Bseq%7D");
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        dlock_hold *none = NULL;
        CHECK_OK(dlock_acquire(client, parts[i].name, 30000, &holds[i], NULL), NULL);
        CHECK_EQ_INT(world_children_with("/last", parts[i].head), 1);
        CHECK_EQ_INT(dlock_acquire(other, parts[i].name, 0, &none, NULL), DLOCK_EBUSY);
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        dlock_hold_free(holds[i]);
    dlock_client_free(other);
    dlock_client_free(client);
}
