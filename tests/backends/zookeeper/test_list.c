/* A list of locks is whole, or says that it isn't: with a few dozen nodes for what is a million, which
 * meson.build sets. */
#include "world.h"

#include <stdio.h>
#include <string.h>

enum { FOLDERS = 10, MANY = 2 * DLK_ZK_FOLDERS_MAX };

static dlock_client *client;
static dlock_hold *holds[MANY];

/* So many locks below a folder of this name, two down. */
static bool hold_some(const char *folder, int count)
{
    char name[40];
    client = world_client("");
    for (int i = 0; client && i < count; i++) {
        snprintf(name, sizeof(name), "%s/%d/%d", folder, i % FOLDERS, i);
        if (dlock_acquire(client, name, 30000, &holds[i], NULL) != DLOCK_OK)
            return harness_check(__FILE__, __LINE__, false, name);
    }
    return client != NULL;
}

static void let_go(void)
{
    for (int i = 0; i < MANY; i++) {
        dlock_hold_free(holds[i]);
        holds[i] = NULL;
    }
    dlock_client_free(client);
}

/* Of how many it tells this; *ret_whole: it is all there is. */
static int told_of(const char *what, const char *prefix, int64_t max, bool *ret_whole)
{
    dlock_info *info = NULL;
    dlock_error *err = NULL;
    int count = 0;
    dlock_err code = dlock_client_list(client, prefix, max, &info, &err);
    harness_check(__FILE__, __LINE__, code == DLOCK_OK, dlock_error_text(err));
    for (size_t i = 0; i < dlock_info_count(info); i++)
        count += strstr(dlock_info_key(info, i), what) != NULL;
    *ret_whole = dlock_info_get(info, "incomplete") == NULL;
    dlock_info_free(info);
    dlock_error_free(err);
    return count;
}

static int listed(const char *prefix, int64_t max, bool *ret_whole)
{
    return told_of(".name", prefix, max, ret_whole);
}

TEST(each_folder_counts_once)
{
    BEGIN();
    /* When the last are found the others have been looked into: twice they would be too many. */
    const int count = DLK_ZK_FOLDERS_MAX - FOLDERS - 4;
    bool whole;
    CHECK(hold_some("once", count));
    CHECK_EQ_INT(listed("once/", 1000, &whole), count);
    CHECK(whole);
    CHECK_EQ_INT(told_of(".host", "once/", 1000, &whole),
                 count); /* whose each of them is */
    CHECK(whole);
    let_go();
}

TEST(a_list_that_leaves_nodes_out_says_so)
{
    BEGIN();
    bool whole;
    CHECK(hold_some("many", MANY));
    int count = listed("many/", 1000, &whole);
    CHECK(count > 0 && count < MANY);
    CHECK(!whole);
    CHECK_EQ_INT(listed("many/", 5, &whole), 5); /* as many as were asked for */
    let_go();
}

TEST(a_list_that_may_not_read_a_node_says_so)
{
    BEGIN();
    enum { WRITE = 2, CREATE = 4 };
    bool whole;
    CHECK(hold_some("open", 1));
    CHECK_EQ_INT(zookeeper_wire_create_for(&world_wire, "/open/closed", "world", "anyone",
                                           WRITE | CREATE),
                 ZOOKEEPER_OK);
    CHECK_EQ_INT(listed("open/", 1000, &whole), 1);
    CHECK(!whole);
    let_go();
}
