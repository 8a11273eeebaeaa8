/* The header alone: it compiles as C99 and C11 without a warning, and its numbers never move. */
#include <dlock/dlock.h>

#include "harness/harness.h"

TEST(codes_keep_their_numbers)
{
    static const dlock_err codes[] = {
        DLOCK_OK,        DLOCK_EBUSY,   DLOCK_ETIMEDOUT, DLOCK_ECANCELED, DLOCK_ELOST,
        DLOCK_ENOTHELD,  DLOCK_EDEADLK, DLOCK_EPENDING,  DLOCK_EUNAVAIL,  DLOCK_EUNKNOWN,
        DLOCK_EINVAL,    DLOCK_ENOTSUP, DLOCK_EACCES,    DLOCK_ECONFLICT, DLOCK_EQUORUM,
        DLOCK_EOVERFLOW, DLOCK_ECLOSED, DLOCK_EFORKED,   DLOCK_EPROTO,    DLOCK_EUSER,
        DLOCK_ENOMEM,
    };
    CHECK_EQ_INT(sizeof(codes) / sizeof(codes[0]), 21);
    for (int i = 0; i < 21; i++)
        CHECK_EQ_INT(codes[i], i);
}

TEST(kinds_states_levels_and_events_keep_their_numbers)
{
    static const int kinds[] = {DLOCK_MUTEX, DLOCK_READ, DLOCK_WRITE, DLOCK_SEMAPHORE,
                                DLOCK_ELECTION};
    static const int states[] = {DLOCK_HELD, DLOCK_SUSPECT, DLOCK_LOST, DLOCK_RELEASED};
    static const int levels[] = {DLOCK_LOG_ERROR, DLOCK_LOG_WARN, DLOCK_LOG_INFO,
                                 DLOCK_LOG_DEBUG};
    static const int events[] = {
        DLOCK_EVENT_DONE, DLOCK_EVENT_HELD,     DLOCK_EVENT_SUSPECT,
        DLOCK_EVENT_LOST, DLOCK_EVENT_REVOKE,   DLOCK_EVENT_CONNECTION,
        DLOCK_EVENT_LOG,  DLOCK_EVENT_OVERFLOW, DLOCK_EVENT_CLOSED};
    for (int i = 0; i < 5; i++)
        CHECK_EQ_INT(kinds[i], i + 1);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_INT(states[i], i + 1);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_INT(levels[i], i + 1);
    for (int i = 0; i < 9; i++)
        CHECK_EQ_INT(events[i], i + 1);
    CHECK_EQ_INT(DLOCK_FOREVER, -1);
}

TEST(the_loaded_library_is_the_one_of_the_header)
{
    CHECK_STR(dlock_version(), DLOCK_VERSION_STRING);
    CHECK_EQ_INT(dlock_version_num(), DLOCK_VERSION_NUM);
}

TEST(scoped_objects_start_as_null_and_free_themselves)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_op) op = NULL;
    DLOCK_AUTO(dlock_event) event = NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK(!client && !lock && !hold && !op && !event);
    CHECK_OK(dlock_conf_dump(conf, &info, &err), err);
    CHECK_ERR(dlock_conf_set(conf, "lock.ttl_ms", "0", &err), DLOCK_EINVAL, err);
}
