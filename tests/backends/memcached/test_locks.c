/* Locks on a real memcached, by the meta commands and by the classic ones: what stands there, what
 * others do to it, and what the server forgets. */
#include "api/world.h"
#include "harness/memcached_server.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LEASE_MS = 30000, RENEWED_MS = 3000 };

static const char *const protocols[] = {"meta", "classic"};
#define EACH_PROTOCOL(it)                                                                \
    for (size_t it##_i = 0; it##_i < 2 && !harness_failed(); it##_i++)                   \
        for (const char *it = protocols[it##_i]; it; it = NULL)

static dlock_client *client_of(const char *protocol, int64_t ttl_ms)
{
    char settings[128];
    snprintf(settings, sizeof(settings), "lock.ttl_ms=%lld memcached.protocol=%s",
             (long long)ttl_ms, protocol);
    return world_client(settings);
}

static const char *item(const char *name)
{
    return memcached_server_get(world_memcached(), name);
}

#define SAY(...) memcached_server_say(world_memcached(), __VA_ARGS__)

/* Somebody who knows nothing of us, with add and delete. */
static bool they_add(const char *name)
{
    return strcmp(SAY("add %s 0 60 6\r\ntheirs", name), "STORED") == 0;
}

TEST(a_lock_is_one_item_that_names_its_owner)
{
    BEGIN();
    EACH_PROTOCOL (protocol) {
        DLOCK_AUTO(dlock_client) client = client_of(protocol, LEASE_MS);
        DLOCK_AUTO(dlock_lock) lock = world_lock(client, "owner", NULL);
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        CHECK(hold != NULL);
        char expected[128];
        snprintf(expected, sizeof(expected), "%s mutex ", dlock_hold_owner(hold));
        CHECK(strncmp(item("owner"), expected, strlen(expected)) == 0);
        CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        CHECK_STR(item("owner"), "(nil)");
    }
}

TEST(meta_classic_and_strangers_exclude_each_other)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) meta = client_of("meta", LEASE_MS);
    DLOCK_AUTO(dlock_client) classic = client_of("classic", LEASE_MS);
    dlock_client *const both[] = {meta, classic};
    for (int i = 0; i < 2; i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        DLOCK_AUTO(dlock_hold) none = NULL;
        CHECK_OK(dlock_acquire(both[i], "mixed", 0, &hold, NULL), NULL);
        CHECK_ERR(dlock_acquire(both[!i], "mixed", 0, &none, NULL), DLOCK_EBUSY, NULL);
        CHECK_STR(SAY("add mixed 0 60 1\r\nx"), "NOT_STORED");
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        CHECK(they_add("mixed"));
        CHECK_ERR(dlock_acquire(both[i], "mixed", 0, &none, NULL), DLOCK_EBUSY, NULL);
        CHECK_STR(SAY("delete mixed"), "DELETED");
        DLOCK_AUTO(dlock_hold) again = NULL;
        CHECK_OK(dlock_acquire(both[i], "mixed", 0, &again, NULL), NULL);
        CHECK_OK(dlock_hold_release(again, NULL), NULL);
    }
}

TEST(who_waits_gets_what_a_stranger_deletes)
{
    BEGIN();
    EACH_PROTOCOL (protocol) {
        DLOCK_AUTO(dlock_client) client = client_of(protocol, LEASE_MS);
        DLOCK_AUTO(dlock_lock) lock = world_lock(client, "awaited", NULL);
        WAITER(waiter);
        CHECK(they_add("awaited"));
        world_wait_start(&waiter, client, lock, patience_ms());
        AWAIT(api_stat(client, "waits") >= 1);
        CHECK(!waiter.over);
        CHECK_STR(SAY("delete awaited"), "DELETED");
        CHECK_OK(world_wait_end(&waiter), waiter.err);
        CHECK_OK(dlock_hold_release(waiter.hold, NULL), NULL);
    }
}

/* ---- what the server forgets ---- */

static bool is_lost(const dlock_hold *hold)
{
    int64_t end = awake_now_ms() + patience_ms();
    while (dlock_hold_check(hold) == DLOCK_OK && awake_now_ms() < end)
        nap_ms(1);
    return harness_eq_int(__FILE__, __LINE__, "dlock_hold_check", dlock_hold_check(hold),
                          DLOCK_ELOST);
}

static void flush(void)
{
    CHECK_STR(SAY("flush_all"), "OK");
}

static void restart(void)
{
    (void)memcached_server_restart(world_memcached());
}

static void delete_it(void)
{
    CHECK_STR(SAY("delete forgotten"), "DELETED");
}

TEST(what_the_server_forgets_is_lost_with_the_next_renewal)
{
    static void (*const ways[])(void) = {flush, restart, delete_it};
    BEGIN();
    EACH_PROTOCOL (protocol)
        for (size_t way = 0; way < 3 && !harness_failed(); way++) {
            DLOCK_AUTO(dlock_client) client = client_of(protocol, RENEWED_MS);
            DLOCK_AUTO(dlock_hold) hold = NULL;
            CHECK_OK(dlock_acquire(client, "forgotten", 0, &hold, NULL), NULL);
            CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
            ways[way]();
            CHECK(is_lost(hold));
            CHECK_STR(item("forgotten"), "(nil)"); /* a renewal makes nothing anew */
            CHECK_ERR(dlock_hold_release(hold, NULL), DLOCK_ELOST, NULL);
        }
}

/* Until the item is gone, by others of its size. */
static bool evict(memcached_server *server, const char *name)
{
    char filler[256];
    size_t size = strlen(memcached_server_get(server, name));
    memset(filler, 'x', sizeof(filler));
    for (int i = 0; i < 400000; i++) {
        memcached_server_say(server, "set fill%d 0 0 %zu\r\n%.*s", i, size, (int)size,
                             filler);
        if (i % 500 == 0 && strcmp(memcached_server_get(server, name), "(nil)") == 0)
            return true;
    }
    return harness_check(__FILE__, __LINE__, false, "evicted");
}

TEST(what_the_server_evicts_is_lost_with_the_next_renewal)
{
    BEGIN();
    char uri[64];
    memcached_server small __attribute__((cleanup(memcached_server_stop)));
    DLOCK_AUTO(dlock_conf) conf = api_conf("lock.ttl_ms=60000 lock.renew=fed");
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    /* What is read again and again isn't evicted: without that, in the order of storing. */
    CHECK(memcached_server_start(&small, "-m 2 -o no_modern"));
    snprintf(uri, sizeof(uri), "memcached://127.0.0.1:%d", small.port);
    CHECK_OK(dlock_client_open(uri, conf, &client, NULL), NULL);
    CHECK_OK(dlock_acquire(client, "forgotten", 0, &hold, NULL), NULL);
    CHECK(evict(&small, "forgotten"));
    CHECK_OK(dlock_hold_check(hold), NULL);
    CHECK_ERR(dlock_hold_extend(hold, 70000, NULL), DLOCK_ELOST, NULL);
    CHECK_ERR(dlock_hold_check(hold), DLOCK_ELOST, NULL);
}

TEST(a_renewal_leaves_a_strangers_lease_alone)
{
    BEGIN();
    EACH_PROTOCOL (protocol) {
        DLOCK_AUTO(dlock_client) client = client_of(protocol, LEASE_MS);
        DLOCK_AUTO(dlock_hold) hold = NULL;
        CHECK_OK(dlock_acquire(client, "stranger", 0, &hold, NULL), NULL);
        CHECK_STR(SAY("delete stranger"), "DELETED");
        CHECK_STR(SAY("add stranger 0 1000 6\r\ntheirs"), "STORED");
        CHECK_ERR(dlock_hold_extend(hold, 2 * LEASE_MS, NULL), DLOCK_ELOST, NULL);
        CHECK_STR(item("stranger"), "theirs");
        const char *left = strstr(SAY("mg stranger t"), " t");
        CHECK(left && atoi(left + 2) > 900);
        CHECK_STR(SAY("delete stranger"), "DELETED");
    }
}

TEST(a_stale_release_never_frees_anothers_lock)
{
    BEGIN();
    EACH_PROTOCOL (protocol) {
        DLOCK_AUTO(dlock_client) stale = client_of(protocol, LEASE_MS);
        DLOCK_AUTO(dlock_client) other = client_of(protocol, LEASE_MS);
        DLOCK_AUTO(dlock_hold) old = NULL;
        DLOCK_AUTO(dlock_hold) new = NULL;
        CHECK_OK(dlock_acquire(stale, "stale", 0, &old, NULL), NULL);
        CHECK_STR(SAY("delete stale"), "DELETED"); /* as if its lease had ended */
        CHECK_OK(dlock_acquire(other, "stale", 0, &new, NULL), NULL);
        CHECK_ERR(dlock_hold_release(old, NULL), DLOCK_ELOST, NULL);
        CHECK_OK(dlock_hold_verify(new, NULL), NULL);
        CHECK_OK(dlock_hold_release(new, NULL), NULL);
    }
}

/* The same by the book of others: the clock said it was still theirs, so they delete. */
TEST(the_plain_delete_of_others_frees_anothers_lock)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = client_of("meta", LEASE_MS);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK(they_add("classic"));
    CHECK_STR(SAY("delete classic"), "DELETED"); /* as if their lease had ended */
    CHECK_OK(dlock_acquire(client, "classic", 0, &hold, NULL), NULL);
    CHECK_STR(SAY("delete classic"), "DELETED");
    CHECK_STR(item("classic"), "(nil)");
    CHECK_ERR(dlock_hold_verify(hold, NULL), DLOCK_ELOST, NULL);
}

/* Numbers begin anew with a server's process: another's item may have the one that was ours. */
TEST(a_number_of_before_a_restart_isn_t_trusted)
{
    BEGIN();
    EACH_PROTOCOL (protocol) {
        restart();
        DLOCK_AUTO(dlock_client) client = client_of(protocol, LEASE_MS);
        DLOCK_AUTO(dlock_lock) lock = world_lock(client, "number", NULL);
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        CHECK(hold != NULL);
        CHECK_STR(SAY("mg number c"), "HD c1");
        restart();
        CHECK(they_add("number"));
        CHECK_STR(SAY("mg number c"), "HD c1");
        AWAIT(world_seen(lock, "held") == 1 && api_stat(client, "reconnects") == 1);
        CHECK_ERR(dlock_hold_release(hold, NULL), DLOCK_ELOST, NULL);
        CHECK_STR(item("number"), "theirs");
    }
}

/* An acquire that was asked again, because its connection had broken, comes late after all: it finds
 * the item gone, which others may have had in between. */
TEST(who_was_forgotten_isn_t_kept_by_a_late_acquire_of_its_own)
{
    BEGIN();
    EACH_PROTOCOL (protocol) {
        for (int extends = 0; extends < 2; extends++) {
            DLOCK_AUTO(dlock_client) client = client_of(protocol, LEASE_MS);
            DLOCK_AUTO(dlock_hold) hold = NULL;
            char value[256];
            CHECK_OK(dlock_acquire(client, "late", 0, &hold, NULL), NULL);
            snprintf(value, sizeof(value), "%s", item("late"));
            CHECK_STR(SAY("delete late"), "DELETED");
            CHECK_STR(SAY("add late 0 60 %zu\r\n%s", strlen(value), value), "STORED");
            CHECK_ERR(extends ? dlock_hold_extend(hold, 2 * LEASE_MS, NULL)
                              : dlock_hold_verify(hold, NULL),
                      DLOCK_ELOST, NULL);
            CHECK_STR(item("late"), "(nil)");
        }
    }
}

TEST(tokens_rise_over_restarts_and_are_called_best_effort)
{
    BEGIN();
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        DLOCK_AUTO(dlock_client) client = client_of(protocols[i % 2], LEASE_MS);
        DLOCK_AUTO(dlock_info) info = NULL;
        CHECK_OK(dlock_client_features(client, &info, NULL), NULL);
        CHECK_STR(dlock_info_get(info, "class"), "efficiency");
        for (int k = 0; k < 2; k++) {
            DLOCK_AUTO(dlock_hold) hold = NULL;
            CHECK_OK(dlock_acquire(client, "token", 0, &hold, NULL), NULL);
            CHECK(dlock_hold_token(hold) > last);
            last = dlock_hold_token(hold);
            CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        }
        /* Its clock counts seconds: one that begins in the same second begins anew. */
        int64_t clock = atoll(memcached_server_stat(world_memcached(), "", "time"));
        AWAIT(atoll(memcached_server_stat(world_memcached(), "", "time")) > clock);
        restart();
    }
}

/* ---- leases ---- */

TEST(nobody_gets_it_before_its_validity_is_over)
{
    BEGIN();
    EACH_PROTOCOL (protocol) {
        DLOCK_AUTO(dlock_client) client = client_of(protocol, 1000);
        DLOCK_AUTO(dlock_lock) lock = world_lock(client, "lease", "lock.renew=off");
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        CHECK(hold != NULL);
        bool theirs = false;
        int64_t end = awake_now_ms() + patience_ms();
        while (!theirs && awake_now_ms() < end) {
            theirs = they_add("lease");
            CHECK_ALWAYS(!theirs || dlock_hold_remaining_ms(hold) == 0);
            nap_ms(1);
        }
        CHECK(theirs);
        CHECK_STR(SAY("delete lease"), "DELETED");
    }
}

TEST(an_extension_never_makes_the_item_end_sooner)
{
    BEGIN();
    EACH_PROTOCOL (protocol) {
        DLOCK_AUTO(dlock_client) client = client_of(protocol, LEASE_MS);
        DLOCK_AUTO(dlock_hold) hold = NULL;
        CHECK_OK(dlock_acquire(client, "extended", 0, &hold, NULL), NULL);
        /* Both are sent: the second doesn't know yet what the first has made of it. */
        server_freeze(world_memcached()->pid);
        DLOCK_AUTO(dlock_op) longer = dlock_hold_extend_start(hold, 600000);
        DLOCK_AUTO(dlock_op) shorter = dlock_hold_extend_start(hold, 90000);
        server_thaw(world_memcached()->pid);
        CHECK_OK(dlock_op_wait(longer, patience_ms()), NULL);
        CHECK_OK(dlock_op_wait(shorter, patience_ms()), NULL);
        CHECK(dlock_hold_remaining_ms(hold) > 400000);
        const char *left = strstr(SAY("mg extended t"), " t");
        CHECK(left && atoi(left + 2) > 400);
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    }
}

/* A time of more than 30 days is a date of 1970 there: what is stored with it is gone at once. */
TEST(an_item_that_somebody_made_last_for_more_than_30_days_stays_ours)
{
    BEGIN();
    EACH_PROTOCOL (protocol) {
        char settings[128];
        snprintf(settings, sizeof(settings),
                 "memcached.protocol=%s client.timeout_ms=300", protocol);
        DLOCK_AUTO(dlock_client) client = world_client(settings);
        DLOCK_AUTO(dlock_hold) hold = NULL;
        CHECK_OK(dlock_acquire(client, "touched", 0, &hold, NULL), NULL);
        CHECK_STR(SAY("touch touched %lld", (long long)time(NULL) + 40 * 86400),
                  "TOUCHED");
        server_freeze(world_memcached()->pid);
        CHECK_ERR(dlock_hold_verify(hold, NULL), DLOCK_EUNKNOWN, NULL);
        server_thaw(world_memcached()->pid);
        AWAIT(api_stat(client, "reconnects") == 1);
        CHECK_OK(dlock_hold_extend(hold, LEASE_MS, NULL), NULL);
        CHECK(strcmp(item("touched"), "(nil)") != 0);
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    }
}

/* ---- other kinds ---- */

TEST(another_kind_of_the_same_name_is_a_conflict)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = client_of("meta", LEASE_MS);
    DLOCK_AUTO(dlock_client) other = client_of("meta", LEASE_MS);
    static const dlock_kind kinds[] = {DLOCK_MUTEX, DLOCK_ELECTION, DLOCK_WRITE,
                                       DLOCK_SEMAPHORE};
    DLOCK_AUTO(dlock_conf) conf = api_conf("lock.permits=2");
    for (int i = 0; i < 4; i++) {
        DLOCK_AUTO(dlock_lock) lock = NULL;
        DLOCK_AUTO(dlock_hold) hold = NULL;
        CHECK_OK(dlock_lock_new(client, kinds[i], "kind", conf, &lock, NULL), NULL);
        CHECK_OK(dlock_lock_acquire(lock, 0, &hold, NULL), NULL);
        for (int k = 0; k < 4; k++) {
            DLOCK_AUTO(dlock_lock) second = NULL;
            DLOCK_AUTO(dlock_hold) none = NULL;
            CHECK_OK(dlock_lock_new(other, kinds[k], "kind", conf, &second, NULL), NULL);
            if (k != i)
                CHECK_ERR(dlock_lock_acquire(second, 0, &none, NULL), DLOCK_ECONFLICT,
                          NULL);
        }
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        CHECK_STR(item("kind"), "(nil)");
    }
}

TEST(permits_need_a_number_that_all_agree_on)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = client_of("meta", LEASE_MS);
    DLOCK_AUTO(dlock_client) other = client_of("meta", LEASE_MS);
    DLOCK_AUTO(dlock_conf) two = api_conf("lock.permits=2");
    DLOCK_AUTO(dlock_conf) three = api_conf("lock.permits=3");
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_lock) differs = NULL;
    DLOCK_AUTO(dlock_lock) open = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    DLOCK_AUTO(dlock_hold) one = NULL;
    DLOCK_AUTO(dlock_hold) both = NULL;
    CHECK_OK(dlock_lock_new(client, DLOCK_SEMAPHORE, "permits", two, &lock, NULL), NULL);
    CHECK_OK(dlock_lock_new(other, DLOCK_SEMAPHORE, "permits", three, &differs, NULL),
             NULL);
    CHECK_OK(dlock_lock_new(other, DLOCK_SEMAPHORE, "permits", NULL, &open, NULL), NULL);
    CHECK_ERR(dlock_lock_acquire(open, 0, &none, NULL), DLOCK_ECONFLICT, NULL);
    CHECK_OK(dlock_lock_acquire(lock, 0, &one, NULL), NULL);
    CHECK_ERR(dlock_lock_acquire(differs, 0, &none, NULL), DLOCK_ECONFLICT, NULL);
    CHECK_OK(dlock_lock_acquire(open, 0, &both, NULL), NULL);
    CHECK_ERR(dlock_lock_acquire(lock, 0, &none, NULL), DLOCK_EBUSY, NULL);
    CHECK_OK(dlock_hold_release(one, NULL), NULL);
    CHECK_OK(dlock_hold_release(both, NULL), NULL);
    CHECK_STR(item("permits"), "(nil)");
}

/* ---- bad input ---- */

static dlock_err open_code(const char *uri, const char *settings, dlock_error **err)
{
    DLOCK_AUTO(dlock_conf) conf = api_conf(settings);
    DLOCK_AUTO(dlock_client) client = NULL;
    return dlock_client_open(uri, conf, &client, err);
}

TEST(an_address_that_can_t_be_meant_is_refused_with_the_reason)
{
    BEGIN();
    static const struct {
        const char *uri, *settings, *says;
        dlock_err code;
    } all[] = {
        {"memcached://a,b", "", "one host", DLOCK_EINVAL},
        {"memcached://a/1", "", "no path", DLOCK_EINVAL},
        {"memcached://u:p@a", "", "passwords aren't supported", DLOCK_ENOTSUP},
        {"memcached://a", "client.require=fencing", "efficiency", DLOCK_ENOTSUP},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK_ERR(open_code(all[i].uri, all[i].settings, &err), all[i].code, err);
        CHECK_CONTAINS(dlock_error_text(err), all[i].says);
    }
}

TEST(what_memcached_can_t_do_is_refused_with_the_reason)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = client_of("meta", LEASE_MS);
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_info) info = NULL;
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "cannot", NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_ERR(dlock_client_list(client, "", 10, &info, &err), DLOCK_ENOTSUP, err);
    CHECK_CONTAINS(dlock_error_text(err), "can't list");
    CHECK_ERR(dlock_lock_revoke(lock, &err), DLOCK_ENOTSUP, err);
    CHECK_CONTAINS(dlock_error_text(err), "no messages");
    /* 30 days, less the two seconds by which its clock may be behind. */
    CHECK_ERR(dlock_hold_extend(hold, INT64_C(2591998001), &err), DLOCK_EINVAL, err);
    CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
    CHECK_OK(dlock_hold_extend(hold, INT64_C(2591998000), &err), err);
    const char *left = strstr(SAY("mg cannot t"), " t");
    CHECK(left && atoi(left + 2) > 2590000);
    static const char *const settings[] = {"lock.fair=true", "lock.ttl_ms=2591998001"};
    static const dlock_err codes[] = {DLOCK_ENOTSUP, DLOCK_EINVAL};
    for (int i = 0; i < 2; i++) {
        DLOCK_AUTO(dlock_conf) conf = api_conf(settings[i]);
        DLOCK_AUTO(dlock_lock) refused = NULL;
        CHECK_ERR(dlock_lock_new(client, DLOCK_MUTEX, "x", conf, &refused, &err),
                  codes[i], err);
    }
}

TEST(a_strangers_value_is_shown_and_can_be_broken)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = client_of("meta", LEASE_MS);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "foreign", NULL);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK(they_add("foreign"));
    CHECK_OK(dlock_lock_inspect(lock, &info, NULL), NULL);
    CHECK_STR(dlock_info_get(info, "held"), "1");
    CHECK_STR(dlock_info_get(info, "holders.0.owner"), "theirs");
    CHECK_ERR(dlock_lock_break(lock, "another", NULL), DLOCK_ENOTHELD, NULL);
    CHECK_OK(dlock_lock_break(lock, "theirs", NULL), NULL);
    CHECK_STR(item("foreign"), "(nil)");
    CHECK_STR(SAY("set foreign 0 0 9\r\ntwo words"), "STORED");
    CHECK_EQ_INT(world_seen(lock, "held"), 1);
    CHECK_OK(dlock_lock_break(lock, NULL, NULL), NULL);
    CHECK_STR(item("foreign"), "(nil)");
}

/* Something that isn't a memcached, and says so to whoever connects. */
static struct {
    int listener, port;
    const char *says;
    pthread_t thread;
} stranger;

static void *be_stranger(void *arg)
{
    int fd;
    (void)arg;
    while ((fd = accept(stranger.listener, NULL, NULL)) >= 0) {
        char heard[256];
        if (recv(fd, heard, sizeof(heard), 0) > 0)
            (void)send(fd, stranger.says, strlen(stranger.says), MSG_NOSIGNAL);
        while (recv(fd, heard, sizeof(heard), 0) > 0)
            continue;
        close(fd);
    }
    return NULL;
}

static bool stranger_start(const char *says)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    stranger.says = says;
    stranger.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(stranger.listener, (struct sockaddr *)&address, size) != 0 ||
        listen(stranger.listener, 8) != 0 ||
        getsockname(stranger.listener, (struct sockaddr *)&address, &size) != 0)
        return false;
    stranger.port = ntohs(address.sin_port);
    return pthread_create(&stranger.thread, NULL, be_stranger, NULL) == 0;
}

static void stranger_stop(void)
{
    shutdown(stranger.listener, SHUT_RDWR);
    pthread_join(stranger.thread, NULL);
    close(stranger.listener);
}

TEST(a_server_that_is_no_memcached_is_refused)
{
    static const struct {
        const char *says;
        dlock_err code;
    } all[] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", DLOCK_EPROTO},
        {"-ERR unknown command 'mn'\r\n", DLOCK_EPROTO},
        {"CLIENT_ERROR unauthenticated\r\n", DLOCK_EACCES},
        {"ERROR\r\nERROR\r\n", DLOCK_EPROTO},
    };
    BEGIN();
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && !harness_failed(); i++) {
        char uri[64];
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK(stranger_start(all[i].says));
        snprintf(uri, sizeof(uri), "memcached://127.0.0.1:%d", stranger.port);
        dlock_err code = open_code(uri, "client.connect_ms=20000", &err);
        stranger_stop();
        CHECK_ERR(code, all[i].code, err);
    }
}

/* ---- memory ---- */

/* Until nothing fits any more into the class of items of that size, with a name of four characters. */
static void fill(memcached_server *server, size_t size)
{
    char text[512];
    memset(text, 'x', sizeof(text));
    const char *said = "STORED";
    for (unsigned i = 0; i <= 0xffff && strcmp(said, "STORED") == 0; i++)
        said = memcached_server_say(server, "set %04x 0 0 %zu\r\n%.*s", i, size,
                                    (int)size, text);
    CHECK_CONTAINS(said, "out of memory");
}

/* What the classes of the server have free is found by the lock's own size; its name has four, too. */
static void fill_around(memcached_server *server, const char *name)
{
    size_t size = strlen(memcached_server_get(server, name));
    fill(server, size);
}

typedef struct full {
    memcached_server server;
    dlock_client *client, *other;
    dlock_hold *hold;
} full;

static bool full_begin(full *all, const char *protocol)
{
    char uri[128];
    DLOCK_AUTO(dlock_conf) conf = api_conf("client.name=a lock.ttl_ms=600000");
    if (!memcached_server_start(&all->server, "-M -m 2"))
        return false;
    snprintf(uri, sizeof(uri), "memcached://127.0.0.1:%d?memcached.protocol=%s",
             all->server.port, protocol);
    bool fine = dlock_client_open(uri, conf, &all->client, NULL) == DLOCK_OK &&
                dlock_client_open(uri, conf, &all->other, NULL) == DLOCK_OK &&
                dlock_acquire(all->client, "full", 0, &all->hold, NULL) == DLOCK_OK;
    if (harness_check(__FILE__, __LINE__, fine, "a lock"))
        fill_around(&all->server, "full");
    return !harness_failed();
}

static void full_end(full *all)
{
    dlock_hold_free(all->hold);
    dlock_client_free(all->client);
    dlock_client_free(all->other);
    memcached_server_stop(&all->server);
}

TEST(full_memory_refuses_new_locks_and_keeps_those_that_are_held)
{
    BEGIN();
    full all __attribute__((cleanup(full_end))) = {0};
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK(full_begin(&all, "auto"));
    CHECK_ERR(dlock_acquire(all.other, "none", 0, &none, &err), DLOCK_EUNAVAIL, err);
    CHECK_CONTAINS(dlock_error_backend(err), "out of memory");
    /* An add that finds no memory says that, whatever is there. */
    CHECK_ERR(dlock_acquire(all.other, "full", 0, &none, &err), DLOCK_EUNAVAIL, err);
    CHECK_OK(dlock_hold_verify(all.hold, NULL), NULL);
    CHECK_OK(dlock_hold_release(all.hold, NULL), NULL);
    /* Not at once: an item that was read lately may stand in a list that memcached's maintainer of
     * its LRU works off, and its memory is free only then. */
    AWAIT(dlock_acquire(all.other, "full", 0, &none, NULL) == DLOCK_OK);
    CHECK_OK(dlock_hold_release(none, NULL), NULL);
}

/* Why it isn't done so unless asked for: a meta store that finds no memory deletes what is there. */
TEST(the_meta_commands_on_such_a_server_delete_anothers_lock)
{
    BEGIN();
    full all __attribute__((cleanup(full_end))) = {0};
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK(full_begin(&all, "meta"));
    CHECK_ERR(dlock_acquire(all.other, "full", 0, &none, NULL), DLOCK_EUNAVAIL, NULL);
    CHECK_ERR(dlock_hold_verify(all.hold, NULL), DLOCK_ELOST, NULL);
}

/* ---- the doctor ---- */

static const char *finding(const dlock_info *info, const char *id)
{
    for (int i = 0; i < 16; i++) {
        char key[64];
        snprintf(key, sizeof(key), "findings.%d.id", i);
        const char *text = dlock_info_get((dlock_info *)info, key);
        if (!text || strcmp(text, id) != 0)
            continue;
        snprintf(key, sizeof(key), "findings.%d.severity", i);
        return dlock_info_get((dlock_info *)info, key);
    }
    return "none";
}

TEST(the_doctor_reads_eviction_and_uptime)
{
    BEGIN();
    full all __attribute__((cleanup(full_end))) = {0};
    DLOCK_AUTO(dlock_client) client = client_of("meta", LEASE_MS);
    DLOCK_AUTO(dlock_info) info = NULL;
    DLOCK_AUTO(dlock_info) strict = NULL;
    restart();
    CHECK_OK(dlock_client_doctor(client, &info, NULL), NULL);
    CHECK_STR(finding(info, "eviction"), "1");
    CHECK_STR(finding(info, "uptime"), "1");
    CHECK_STR(dlock_info_get(info, "verdict"), "1");
    CHECK(full_begin(&all, "auto"));
    CHECK_OK(dlock_client_doctor(all.client, &strict, NULL), NULL);
    CHECK_STR(finding(strict, "eviction"), "0");
    CHECK_STR(finding(strict, "protocol"), "none");
}

TEST(the_doctor_reads_what_was_evicted)
{
    BEGIN();
    memcached_server small __attribute__((cleanup(memcached_server_stop)));
    char uri[64], text[513];
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_info) info = NULL;
    memset(text, 'x', sizeof(text));
    text[512] = '\0';
    CHECK(memcached_server_start(&small, "-m 2"));
    for (int i = 0;
         i < 200000 && atoi(memcached_server_stat(&small, "", "evictions")) == 0; i++)
        for (int k = 0; k < 100; k++)
            CHECK_STR(memcached_server_say(&small, "set %d-%d 0 0 512\r\n%s", i, k, text),
                      "STORED");
    snprintf(uri, sizeof(uri), "memcached://127.0.0.1:%d", small.port);
    CHECK_OK(dlock_client_open(uri, NULL, &client, NULL), NULL);
    CHECK_OK(dlock_client_doctor(client, &info, NULL), NULL);
    CHECK_STR(finding(info, "evictions"), "2");
    CHECK_STR(dlock_info_get(info, "verdict"), "2");
}
