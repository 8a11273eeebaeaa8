/*
 * A file whose bytes somebody changes while eight threads use it, each by a client of its own: what
 * `file.mode=0660` allows another user to do. Grants mean nothing then, and any error is fine. But
 * nobody reads or writes outside the table, and every call ends.
 *
 * Every mapping of the file lies between pages that nobody may touch. The hostile writer is a thread
 * with a mapping of its own, and also whoever passes a named point of the library, where it stands for
 * another process that wrote just then. It knows the layout: it writes what refs, counts, links, words
 * and times are dangerous as, and mostly takes it back a moment later, so that what comes after is
 * still used. The table is rebuilt meanwhile: in half of the rounds somebody dies inside the mutex now and
 * then, in the others it is taken over by whoever opens it and finds nobody else there. The mutex itself
 * is left alone: promises.md says what becomes of that.
 *
 * DLK_HOSTILE_SECONDS (3) is how long, DLK_HOSTILE_SEED where it begins.
 */
#include "client.h"
#include "harness/awake.h"
#include "harness/fork.h"
#include "harness/harness.h"
#include "harness/time.h"
#include "util/point.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, LOCKS = 7, SLOTS = 48, ROUND_MS = 120, LATE_MS = 10000 };
#define GUARD (INT64_C(16) << 30)
#define URI                                                                              \
    "%s?file.slots=48&file.mode=0666&client.timeout_ms=200&client.connect_ms=200&"       \
    "client.close_ms=100&"                                                               \
    "lock.permits=3&lock.ttl_ms=%d"

void (*dlk_point_hook)(const char *name);

/* ---- mappings between guards ---- */

void *__real_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t size);
void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t size);

static struct {
    pthread_mutex_t mutex;
    void *at[64];
} guarded = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Puts @p to where @p from stood; false: there is none. */
static bool note(const void *from, void *to)
{
    bool found = false;
    (void)pthread_mutex_lock(&guarded.mutex);
    for (int i = 0; i < 64 && !found; i++)
        if (guarded.at[i] == from) {
            guarded.at[i] = to;
            found = true;
        }
    (void)pthread_mutex_unlock(&guarded.mutex);
    return found;
}

void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
    if (at || fd < 0 || !(flags & MAP_SHARED))
        return __real_mmap64(at, size, prot, flags, fd, offset);
    char *room = __real_mmap64(NULL, size + 2 * (size_t)GUARD, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return room;
    void *got = __real_mmap64(room + GUARD, size, prot, flags | MAP_FIXED, fd, offset);
    if (got == MAP_FAILED || !note(NULL, got))
        abort();
    return got;
}

int __wrap_munmap(void *at, size_t size)
{
    if (!note(at, NULL))
        return __real_munmap(at, size);
    return __real_munmap((char *)at - GUARD, size + 2 * (size_t)GUARD);
}

/* ---- the hostile writer ---- */

static struct {
    dlk_table view;
    char *_Atomic memory; /* NULL: there is nothing to write in */
    _Atomic bool over;
    /* it has the table open, as far as the others can see, and dies in it */
    bool present;
    _Atomic uint64_t writes, deaths;
    char path[256];
} hostile;

static __thread dlk_rand dice;

static uint64_t roll(uint64_t below)
{
    return dlk_rand_next(&dice) % below;
}

/* What is dangerous as a ref, a count or a size. */
static uint32_t narrow(void)
{
    const uint32_t values[] = {0,          1,          2,         3,          SLOTS,
                               SLOTS + 1,  SLOTS * 2,  97,        64,         65,
                               1024,       1025,       0xffff,    0x7fffffff, 0x80000000,
                               UINT32_MAX, 0xfffffffe, 0x1000000, 4097,       16};
    return roll(4) ? values[roll(20)] : (uint32_t)dlk_rand_next(&dice);
}

/* … as a word, a number or a time. */
static uint64_t wide(void)
{
    const uint64_t values[] = {
        0,
        1,
        UINT64_MAX,
        INT64_MAX,
        (uint64_t)INT64_MIN,
        (uint64_t)dlk_clock_now(),
        UINT32_MAX,
        65536,
        UINT64_C(1) << 32 | (roll(9) + 1),
    };
    return roll(4) ? values[roll(9)] : (uint64_t)narrow() << 32 | narrow();
}

/* The words of the head that lie behind the mutex, places in use, links, names. */
static char *somewhere(void)
{
    const dlk_table *v = &hostile.view;
    const struct part {
        char *start;
        size_t size;
    } parts[] = {
        {(char *)&v->head->inside, sizeof(dlk_head) - offsetof(dlk_head, inside)},
        {(char *)&v->head->row_high, 8 * sizeof(uint32_t)},
        {(char *)v->rows, 8 * sizeof(dlk_row)},
        {(char *)v->rows, v->row_count * sizeof(dlk_row)},
        {(char *)v->places, 16 * sizeof(dlk_line_place)},
        {(char *)v->places, v->place_count * sizeof(dlk_line_place)},
        {(char *)v->members, 12 * sizeof(dlk_member)},
        {(char *)v->buckets, v->bucket_count * sizeof(uint32_t)},
        {(char *)v->scratch, 16 * sizeof(uint32_t)},
        {(char *)v->notices, 4 * sizeof(dlk_notice)},
        {v->names, 4 * DLK_TABLE_NAME},
        {(char *)v->pools, 8 * sizeof(dlk_pool)},
    };
    struct part part = parts[roll(12)];
    return part.start + roll(part.size / 8) * 8;
}

/* It stands for another process, so a race with our own threads is what it is meant to be. */
__attribute__((no_sanitize("thread"))) static void strike(void)
{
    volatile uint64_t *at = (volatile uint64_t *)(void *)somewhere();
    volatile uint32_t *half = (volatile uint32_t *)at + roll(2);
    uint64_t kept = *at;
    uint32_t half_kept = *half;
    bool as_half = roll(3) != 0, for_good = roll(12) == 0;
    if (as_half)
        *half = narrow();
    else
        *at = wide();
    atomic_fetch_add_explicit(&hostile.writes, 1, memory_order_relaxed);
    for (uint64_t i = roll(200); i > 0; i--)
        atomic_signal_fence(memory_order_seq_cst);
    if (roll(20) == 0)
        (void)sched_yield();
    if (!for_good && as_half)
        *half = half_kept;
    else if (!for_good)
        *at = kept;
}

/* Whoever passes here is the hostile writer for a moment. */
static void at_point(const char *name)
{
    (void)name;
    if (atomic_load(&hostile.memory) && roll(30) == 0)
        strike();
    else if (roll(50) == 0)
        (void)sched_yield();
}

static void *die_inside(void *arg)
{
    struct timespec until;
    (void)arg;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    if (pthread_mutex_timedlock(&hostile.view.head->mutex, &until) == 0)
        atomic_fetch_add(&hostile.deaths, 1);
    return NULL; /* with the mutex */
}

/* Once there is a whole table. */
static bool look_for_table(int *fd)
{
    struct stat st;
    *fd = open(hostile.path, O_RDWR | O_CLOEXEC);
    size_t size = dlk_table_measure(&hostile.view, SLOTS);
    if (*fd >= 0 && fstat(*fd, &st) == 0 && (size_t)st.st_size == size) {
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
        if (memory == MAP_FAILED)
            abort();
        dlk_table_lay_out(&hostile.view, memory);
        if (memcmp(hostile.view.head->stamp.magic, DLK_TABLE_MAGIC, 8) == 0) {
            atomic_store(&hostile.memory, memory);
            return true;
        }
        (void)munmap(memory, size);
    }
    if (*fd >= 0)
        (void)close(*fd);
    return false;
}

/* From then on nobody takes the table over, and makes its mutex anew. */
static void be_present(int fd)
{
    struct flock lock = {
        .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
    while (fcntl(fd, F_OFD_SETLK, &lock) != 0)
        (void)sched_yield();
}

static void *be_hostile(void *arg)
{
    int fd = -1;
    dice.state = *(uint64_t *)arg;
    while (!look_for_table(&fd))
        if (atomic_load(&hostile.over))
            return NULL;
    if (hostile.present)
        be_present(fd);
    while (!atomic_load(&hostile.over)) {
        pthread_t thread;
        if (hostile.present && roll(400) == 0 &&
            pthread_create(&thread, NULL, die_inside, NULL) == 0)
            (void)pthread_join(thread, NULL);
        strike();
        if (roll(4) == 0)
            (void)sched_yield();
    }
    (void)close(fd);
    return NULL;
}

/* ---- those who use it ---- */

typedef struct worker {
    pthread_t thread;
    uint64_t seed;
    char uri[512];
    int64_t calls, granted, worst_ms;
    dlock_client *client;
    dlock_lock *locks[LOCKS];
} worker;

static void timed(worker *it, int64_t began, int64_t wait_ms)
{
    int64_t ms = (awake_now_ns() - began) / DLK_NS_PER_MS - wait_ms;
    it->calls++;
    if (ms > it->worst_ms)
        it->worst_ms = ms;
}

static void open_all(worker *it)
{
    static const struct {
        const char *name;
        dlock_kind kind;
    } all[LOCKS] = {{"a", DLOCK_MUTEX},         {"b", DLOCK_MUTEX},
                    {"orders/42", DLOCK_MUTEX}, {"e", DLOCK_ELECTION},
                    {"book", DLOCK_READ},       {"book", DLOCK_WRITE},
                    {"seats", DLOCK_SEMAPHORE}};
    int64_t began = awake_now_ns();
    if (dlock_client_open(it->uri, NULL, &it->client, NULL) != DLOCK_OK)
        it->client = NULL;
    timed(it, began, 200);
    for (int i = 0; i < LOCKS; i++)
        if (!it->client || dlock_lock_new(it->client, all[i].kind, all[i].name, NULL,
                                          &it->locks[i], NULL) != DLOCK_OK)
            it->locks[i] = NULL;
}

static void close_all(worker *it)
{
    int64_t began = awake_now_ns();
    for (int i = 0; i < LOCKS; i++)
        dlock_lock_free(it->locks[i]);
    if (it->client)
        (void)dlock_client_close(it->client, NULL);
    dlock_client_free(it->client);
    timed(it, began, 200);
}

static void acquire_some(worker *it)
{
    static const int64_t waits[] = {0, 0, 3, 20};
    dlock_lock *lock = it->locks[roll(LOCKS)];
    dlock_hold *hold = NULL;
    int64_t wait_ms = waits[roll(4)], began = awake_now_ns();
    if (!lock)
        return;
    dlock_err code = dlock_lock_acquire(lock, wait_ms, &hold, NULL);
    timed(it, began, wait_ms);
    if (code != DLOCK_OK)
        return;
    it->granted++;
    if (roll(8) == 0)
        (void)sched_yield();
    began = awake_now_ns();
    if (roll(10) != 0)
        (void)dlock_hold_release(hold, NULL);
    dlock_hold_free(hold);
    timed(it, began, 200);
}

static void look(worker *it)
{
    dlock_info *info = NULL;
    int64_t began = awake_now_ns();
    dlock_lock *lock = it->locks[roll(LOCKS)];
    dlock_err code = DLOCK_EINVAL;
    if (!lock)
        return;
    switch (roll(4)) {
    case 0:
        code = dlock_client_list(it->client, NULL, 100, &info, NULL);
        break;
    case 1:
        code = dlock_client_doctor(it->client, &info, NULL);
        break;
    case 2:
        (void)dlock_lock_break(lock, NULL, NULL);
        break;
    default:
        code = dlock_lock_inspect(lock, &info, NULL);
        break;
    }
    timed(it, began, 200);
    if (code == DLOCK_OK)
        (void)dlock_info_json(info);
    dlock_info_free(info);
}

static void *use_it(void *arg)
{
    worker *it = arg;
    dice.state = it->seed;
    open_all(it);
    while (!atomic_load(&hostile.over)) {
        if (roll(100) == 0) {
            close_all(it);
            open_all(it);
        }
        if (roll(6) == 0)
            look(it);
        else
            acquire_some(it);
    }
    close_all(it);
    return NULL;
}

/* ---- rounds ---- */

static worker workers[THREADS];

static void one_round(uint64_t seed)
{
    pthread_t writer;
    (void)unlink(hostile.path);
    atomic_store(&hostile.over, false);
    if (pthread_create(&writer, NULL, be_hostile, &seed) != 0)
        abort();
    for (int i = 0; i < THREADS; i++) {
        workers[i].seed = seed + 1 + (uint64_t)i;
        if (pthread_create(&workers[i].thread, NULL, use_it, &workers[i]) != 0)
            abort();
    }
    int64_t until = dlk_clock_now() + ROUND_MS * DLK_NS_PER_MS;
    while (dlk_clock_now() < until)
        nap_ms(5);
    atomic_store(&hostile.over, true);
    (void)pthread_join(writer, NULL);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(workers[i].thread, NULL);
    char *memory = atomic_exchange(&hostile.memory, NULL);
    if (memory)
        (void)munmap(memory, hostile.view.size);
}

typedef struct outcome {
    int64_t rounds, calls, granted, worst_ms;
    uint64_t writes, deaths;
} outcome;

static void storm(uint64_t seed, int64_t seconds, outcome *ret)
{
    int64_t until = dlk_clock_now() + seconds * DLK_NS_PER_SEC;
    dlk_point_hook = at_point;
    for (int i = 0; i < THREADS; i++)
        (void)snprintf(workers[i].uri, sizeof(workers[i].uri), URI, temp_uri("hostile"),
                       i % 2 ? 100 : 1000);
    for (; dlk_clock_now() < until; seed += 1000003) {
        hostile.present = ret->rounds % 2 == 0;
        one_round(seed);
        ret->rounds++;
        ret->calls = ret->granted = 0;
        for (int i = 0; i < THREADS; i++) {
            ret->calls += workers[i].calls;
            ret->granted += workers[i].granted;
            if (workers[i].worst_ms > ret->worst_ms)
                ret->worst_ms = workers[i].worst_ms;
        }
        ret->writes = atomic_load(&hostile.writes);
        ret->deaths = atomic_load(&hostile.deaths);
    }
}

static int64_t number_of(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

TEST(no_writer_of_the_file_makes_us_crash_hang_or_leave_the_table)
{
    int64_t seconds = number_of("DLK_HOSTILE_SECONDS", 3);
    uint64_t seed = (uint64_t)number_of("DLK_HOSTILE_SEED", 20261123);
    outcome *seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(seen != MAP_FAILED);
    (void)snprintf(hostile.path, sizeof(hostile.path), "%s", temp_path("hostile"));
    pid_t child = harness_fork();
    if (child == 0) {
        storm(seed, seconds, seen);
        _exit(0);
    }
    int status = -1;
    CHECK_EQ_INT(waitpid(child, &status, 0), child);
    harness_note("%lld rounds, %lld calls, %lld grants; %llu hostile writes, %llu deaths "
                 "inside; a call ended %lld ms late at most",
                 (long long)seen->rounds, (long long)seen->calls,
                 (long long)seen->granted, (unsigned long long)seen->writes,
                 (unsigned long long)seen->deaths, (long long)seen->worst_ms);
    CHECK_EQ_INT(WIFSIGNALED(status) ? WTERMSIG(status) : 0, 0);
    CHECK_EQ_INT(WEXITSTATUS(status), 0);
    CHECK(seen->granted > 0);
    CHECK(seen->deaths > 0);
    CHECK(seen->worst_ms < LATE_MS);
    (void)munmap(seen, sizeof(*seen));
}

static void *wait_for_it(void *arg)
{
    dlock_hold *hold = NULL;
    int64_t began = awake_now_ns();
    dlock_err code = dlock_acquire(arg, "orders/42", 2 * LATE_MS, &hold, NULL);
    int64_t ms = (awake_now_ns() - began) / DLK_NS_PER_MS;
    dlock_hold_free(hold);
    return code == DLOCK_OK && ms < LATE_MS ? arg : NULL; /* at its end it looks anyway */
}

/* The bell is kept silent by saying that nobody sleeps on it. What ends the wait otherwise is the end
 * of the holder's lease, much later. */
TEST(who_sleeps_on_a_bell_that_others_may_write_looks_by_itself)
{
    char uri[512];
    dlock_client *giver = NULL, *waiter = NULL;
    dlock_hold *hold = NULL;
    pthread_t thread;
    void *in_time = NULL;
    int fd = -1;
    (void)snprintf(hostile.path, sizeof(hostile.path), "%s", temp_path("silent"));
    (void)snprintf(uri, sizeof(uri), "%s?file.slots=48&file.mode=0660&lock.ttl_ms=30000",
                   temp_uri("silent"));
    CHECK_EQ_INT(dlock_client_open(uri, NULL, &giver, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_open(uri, NULL, &waiter, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_acquire(giver, "orders/42", 0, &hold, NULL), DLOCK_OK);
    CHECK(look_for_table(&fd));
    _Atomic uint32_t *asleep = &hostile.view.members[1].asleep;
    CHECK_EQ_INT(pthread_create(&thread, NULL, wait_for_it, waiter), 0);
    /* In its line, and asleep: it may look once more before that. */
    while (DLK_GET(hostile.view.places[0].word) == 0 || atomic_exchange(asleep, 0) == 0)
        nap_ms(1);
    nap_ms(20);
    atomic_store(asleep, 0);
    dlock_hold_free(hold);
    CHECK_EQ_INT(pthread_join(thread, &in_time), 0);
    CHECK(in_time != NULL);
    dlock_client_free(giver);
    dlock_client_free(waiter);
    char *memory = atomic_exchange(&hostile.memory, NULL);
    (void)munmap(memory, hostile.view.size);
    (void)close(fd);
}

/* ---- at one moment ---- */

static dlk_table *rebuilt;

static void raise_the_marks(const char *name)
{
    if (strcmp(name, "table.rebuild") == 0) {
        DLK_PUT(rebuilt->head->row_high, UINT32_MAX);
        DLK_PUT(rebuilt->head->place_high, UINT32_MAX);
    }
}

/* Just behind the look at them, where the storm hardly ever hits on a busy machine. */
TEST(marks_that_are_raised_during_a_rebuild_are_not_followed)
{
    int64_t now = dlk_clock_now();
    dlk_section section;
    fake *client = client_open(temp_uri("raised"), NULL);
    dlk_key *key = client_key(client, "n");
    CHECK_EQ_INT(client_ask(client, DLK_ACQUIRE, key, 1, 1000, now).reply, DLK_YES);
    rebuilt = dlk_local_of(client->backend)->table;
    CHECK_EQ_INT(dlk_table_enter(rebuilt, &section, LATE_MS), DLK_ENTERED);
    dlk_point_hook = raise_the_marks;
    dlk_table_rebuild(&section, now);
    dlk_point_hook = NULL;
    CHECK(!section.damaged);
    dlk_table_leave(&section);
    CHECK_EQ_INT(DLK_GET(rebuilt->head->place_high), UINT32_MAX);
    CHECK_EQ_INT(client_ask(client, DLK_VERIFY, key, 1, 0, now).reply, DLK_YES);
    client_key_close(client, key);
    client_close(client);
}
