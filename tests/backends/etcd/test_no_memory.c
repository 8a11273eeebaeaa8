/* Inspecting a lock without memory for what is told of it: that is said, and changes nothing. */
#include "harness/api.h"
#include "util/info.h"
#include "world.h"

#include <stdatomic.h>
#include <stdlib.h>

static atomic_bool scarce;

/* Linked in place of dlk_info_new. */
dlock_info *__real_dlk_info_new(void);
dlock_info *__wrap_dlk_info_new(void);
dlock_info *__wrap_dlk_info_new(void)
{
    return atomic_load(&scarce) ? NULL : __real_dlk_info_new();
}

/* A deletion would be under way when inspect returns, so it is told by what was sent. */
TEST(an_inspect_without_memory_says_so_and_leaves_the_holder_its_lock)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client("");
    DLOCK_AUTO(dlock_client) other = world_client("&lock.ttl_ms=600000");
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, "no-memory", NULL);
    DLOCK_AUTO(dlock_lock) theirs = api_lock(other, DLOCK_MUTEX, "no-memory", NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock, PATIENCE_MS, NULL);
    DLOCK_AUTO(dlock_info) info = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK(hold);
    CHECK_EQ_INT(world_seen(theirs, "held"), 1); /* it is connected */
    int64_t before = api_stat(other, "commands");
    CHECK(before > 0);
    atomic_store(&scarce, true);
    dlock_err code = dlock_lock_inspect(theirs, &info, &err);
    atomic_store(&scarce, false);
    CHECK_ERR(code, DLOCK_ENOMEM, err);
    CHECK_EQ_INT(api_stat(other, "commands"), before + 1); /* it has read */
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_seen(theirs, "held"), 1);
}
