/* What ZooKeeper's nodes are called: Curator's, kazoo's, home-made ones and names that are nobody's, judged
 * by each rule there is. Of a line one is first at most, and who waits does so for somebody before it. And
 * what the names of locks are there: every one has a path, which tells it. */
#include "zknames.h"

#include "backends/zookeeper/paths.h"
#include "backends/zookeeper/plan.h"
#include "util/settings.h"

#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "zknames";
const size_t fuzz_longest = 200;
const char *const fuzz_words[] = {
    "\xff\xff"
    "_c_11111111-2222-4333-8444-555555555555-lock-0000000001\n",
    "\xff\xff"
    "0123456789ab4def0123456789abcdef__lock__0000000001\n",
    "2147483647",
    "-2147483648",
    "lock-",
    "latch-",
    "__READ__",
    "\n",
    "/",
    "%dlock:",
    "%25",
    "zookeeper",
    ".",
    "\xf0\x9f\x94\x92",
    NULL};

enum { NAMES = 12 };

static const dlk_zk_rule *some_rule(uint8_t which, dlk_settings *settings)
{
    static const char *const layouts[] = {"curator", "kazoo", "bridge", "exclusive",
                                          "pattern"};
    static const dlock_kind kinds[] = {DLOCK_MUTEX, DLOCK_WRITE, DLOCK_SEMAPHORE,
                                       DLOCK_ELECTION};
    (void)dlk_settings_set(settings, "zookeeper.layout", layouts[which % 5], NULL);
    const dlk_zk_plan *plan =
        dlk_zk_plan_of(settings, kinds[which / 5 % 4], which / 20 % 2, NULL);
    return plan ? plan->step[which / 40 % 2 * (plan->steps - 1)].rule : NULL;
}

static int64_t series_of(const char *own, char *const *names, size_t count)
{
    int64_t series = 0;
    for (size_t i = 0; i < count; i++)
        series += dlk_zk_same_series(names[i], own);
    return series;
}

/* Each of the names as our own. */
static void check_line(const dlk_zk_rule *rule, const dlk_zk_form *form,
                       char *const *names, size_t count, bool strict)
{
    const char *first = NULL;
    for (size_t i = 0; i < count; i++) {
        dlk_zk_look look = {.rule = rule,
                            .forms = {form},
                            .own = names[i],
                            .permits = 2,
                            .take = series_of(names[i], names, count),
                            .strict = strict};
        dlk_zk_verdict verdict = dlk_zk_judge(&look, names, count);
        FUZZ_CHECK(verdict != DLK_ZK_MISSING, "'%s' isn't there", names[i]);
        bool ours = form ? dlk_zk_has_form(form, names[i])
                         : dlk_zk_sort_of(names[i]) == rule->sort;
        if (rule->counts || !ours)
            continue;
        if (verdict == DLK_ZK_BEHIND)
            FUZZ_CHECK(dlk_zk_before(rule, look.ahead, names[i]), "'%s' waits for '%s'",
                       names[i], look.ahead);
        if (verdict != DLK_ZK_FIRST || rule->beside & DLK_ZK_BIT(rule->sort))
            continue; /* readers are many */
        FUZZ_CHECK(!first || (!dlk_zk_before(rule, first, names[i]) &&
                              !dlk_zk_before(rule, names[i], first)),
                   "'%s' and '%s' are first", first, names[i]);
        first = names[i];
    }
}

/* A path that others could have made of it stays that; the names of two paths are two. */
static void check_path(const char *chroot, const char *name)
{
    char *path = dlk_zk_path_of(chroot, name), *back = dlk_zk_name_of(chroot, path);
    const char *below = path + strlen(chroot);
    FUZZ_CHECK(strcmp(dlk_zk_proper_name(back), name) == 0, "'%s' is '%s' and that '%s'",
               name, path, back);
    FUZZ_CHECK(dlk_zk_check_path(below, "it", NULL) == DLOCK_OK &&
                   strncmp(path, "/zookeeper/", 11) != 0 &&
                   strcmp(path, "/zookeeper") != 0,
               "'%s' can't be made", path);
    bool theirs = strncmp(name, "zookeeper", 9) != 0 && !strstr(name, "%dlock:") &&
                  name[0] != '/' && dlk_zk_check_path(name, "it", NULL) == DLOCK_OK;
    FUZZ_CHECK(!theirs || strcmp(below + 1, name) == 0, "'%s' became '%s'", name, path);
    free(back);
    free(path);
}

static void check_name(const char *name)
{
    if (!name[0])
        return;
    check_path("", dlk_zk_proper_name(name));
    check_path("/root", dlk_zk_proper_name(name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *lock = fuzz_text((fuzz_bytes){data, size});
    check_name(lock);
    free(lock);
    static char head[] = "x-", none[] = "";
    fuzz_bytes bytes = {data, size};
    char *names[NAMES];
    size_t count = 0;
    uint8_t which = fuzz_byte(&bytes), forms = fuzz_byte(&bytes);
    const dlk_zk_form form = {.head = forms & 4 ? head : none,
                              .tail = none,
                              .session = forms & 1,
                              .uuid = forms & 2};
    dlk_settings *settings = dlk_settings_new();
    const dlk_zk_rule *rule = some_rule(which, settings);
    while (count < NAMES && bytes.left > 0)
        names[count++] = zk_name(&bytes);
    for (int strict = 0; rule && !rule->plain && strict < 2; strict++)
        check_line(rule, which % 5 == 4 ? &form : NULL, names, count, strict);
    while (count > 0)
        free(names[--count]);
    dlk_settings_free(settings);
    return 0;
}
