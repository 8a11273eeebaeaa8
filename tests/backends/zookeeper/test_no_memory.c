/* One allocation after the other fails, in whatever is asked: it is answered, and nothing of it stays. */
#include "fake_wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many allocations there will be yet; the one behind them fails. */
static int left = -1;

static bool fails(void)
{
    return !there.busy && left >= 0 && left-- == 0;
}

/* ---- linked in place of libc's ---- */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

int __wrap_asprintf(char **ret, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **ret, const char *format, ...)
{
    va_list args;
    if (fails())
        return -1;
    va_start(args, format);
    int size = vasprintf(ret, format, args);
    va_end(args);
    return size;
}

/* … of a libc that checks formats. */
int __wrap___asprintf_chk(char **ret, int flag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int __wrap___asprintf_chk(char **ret, int flag, const char *format, ...)
{
    va_list args;
    (void)flag;
    if (fails())
        return -1;
    va_start(args, format);
    int size = vasprintf(ret, format, args);
    va_end(args);
    return size;
}

/* ---- the search ---- */

/* The name that another create of the same number has made: one that came late. */
static char *twin_of(const char *node)
{
    char *twin = strdup(node);
    if (!twin)
        abort();
    twin[strlen(twin) - 1]++;
    return twin;
}

TEST(a_search_without_memory_is_begun_anew_and_finds_what_there_is)
{
    bool failed = true;
    for (int one = 0; failed; one++) {
        CHECK(begin());
        there.ends[DLK_ZK_CREATE] = DLK_ZK_CUT;
        CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_UNKNOWN);
        there.ends[DLK_ZK_CREATE] = DLK_ZK_OK;
        char *node = strdup(there.node);
        there.beside = twin_of(node);
        left = one;
        dlk_reply reply = ask(DLK_ACQUIRE);
        failed = left < 0;
        left = -1;
        CHECK(reply == DLK_YES || reply == DLK_UNKNOWN || reply == DLK_NOT_SENT);
        if (reply != DLK_YES)
            CHECK_EQ_INT(ask(DLK_ACQUIRE), DLK_YES);
        CHECK_EQ_INT(there.made, 1);
        CHECK_STR(there.node, node); /* it wasn't deleted */
        CHECK_EQ_INT(ask(DLK_RELEASE), DLK_YES);
        CHECK(!there.node);
        free(node);
        free(there.beside);
        end();
    }
}

/* ---- a life ---- */

/* With memory again: what couldn't be given back before is, or goes with the session. */
static void give_back(void)
{
    if (!w.up) {
        CHECK(to_alarm());
        bring(DLK_ZK_CONNECTED, SESSION);
        process();
        serve();
    }
    CHECK(w.up);
    dlk_reply reply = ask(DLK_RELEASE);
    CHECK(reply == DLK_YES || reply == DLK_NOT_OURS);
    pass(2000); /* what is tried again by itself */
    (void)tick();
    serve();
    CHECK_EQ_INT(ask(DLK_RELEASE), DLK_NOT_OURS);
    CHECK(!there.node || there.closed > 0);
}

TEST(whatever_is_asked_without_memory_is_answered_and_nothing_of_it_stays)
{
    static const dlock_kind kinds[] = {DLOCK_MUTEX, DLOCK_WRITE, DLOCK_ELECTION,
                                       DLOCK_SEMAPHORE};
    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++) {
        bool failed = true, reads = kinds[kind] == DLOCK_WRITE;
        for (int one = 0; failed; one++) {
            CHECK(begin_with(kinds[kind]));
            w.take = kinds[kind] == DLOCK_SEMAPHORE ? 2 : 1;
            left = one;
            const dlk_reply replies[] = {ask(DLK_ACQUIRE), ask(DLK_RENEW),
                                         ask_side(DLK_RENEW, reads), ask(DLK_VERIFY),
                                         ask(DLK_RELEASE)};
            failed = left < 0;
            left = -1;
            for (size_t i = 0; i < sizeof(replies) / sizeof(*replies); i++)
                CHECK(replies[i] != DLK_PENDING);
            give_back();
            CHECK(!harness_failed());
            end();
        }
    }
}

TEST(whoever_imports_without_memory_is_answered_and_what_lies_in_the_folder_stays)
{
    bool failed = true;
    for (int one = 0; failed; one++) {
        CHECK(begin_behind_a_giver());
        left = one;
        dlk_reply reply = ask_as_second(DLK_IMPORT);
        failed = left < 0;
        left = -1;
        CHECK(reply != DLK_PENDING && reply != DLK_NOT_OURS);
        if (w.up && reply != DLK_YES)
            CHECK_EQ_INT(ask_as_second(DLK_IMPORT), DLK_YES);
        CHECK_STR(there.data, THEIRS);
        reply = ask_as_second(DLK_RELEASE);
        CHECK(reply == DLK_YES || !w.up);
        CHECK(!there.node || !w.up);
        CHECK(!harness_failed());
        end();
    }
}
