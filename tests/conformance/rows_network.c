/* Connections and servers that fail: every call ends in time, a hold is kept while its lease can be
 * renewed and lost before anybody else can have it, and afterwards all goes on. */
#include "grid.h"

#include "harness/redis_server.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static bool is_away(dlock_err code)
{
    return code == DLOCK_EUNAVAIL || code == DLOCK_EUNKNOWN ||
           (code == DLOCK_EQUORUM && service_here()->quorum);
}

/* What a client without a service can be asked, and how soon it has to say something. */
static void check_calls_end(dlock_client *client)
{
    DLOCK_AUTO(dlock_lock) other = world_lock(client, "other", NULL);
    DLOCK_AUTO(dlock_hold) none = NULL;
    DLOCK_AUTO(dlock_info) info = NULL;
    int64_t began = now_ms();
    CHECK(is_away(dlock_lock_acquire(other, 0, &none, NULL)));
    CHECK(grid_in_time("a try", began, 400));
    began = now_ms();
    CHECK(is_away(dlock_lock_acquire(other, 150, &none, NULL)));
    CHECK(grid_in_time("a wait of 150 ms", began, 150));
    began = now_ms();
    CHECK(is_away(dlock_lock_inspect(other, &info, NULL)));
    CHECK(grid_in_time("a question", began, 400));
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(other, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_wait(op, 20), DLOCK_EPENDING);
    began = now_ms();
    dlock_op_cancel(op);
    ENDS(op, DLOCK_ECANCELED);
    CHECK(grid_in_time("cancelling", began, 0));
}

/* The way is useless for longer than the lease, then whole again. The rival has a way of its own. */
static void lose_the_way(const char *fault)
{
    PARTY(holder) = party_new(wire_uri(), "lock.ttl_ms=900 client.timeout_ms=300 "
                                          "client.close_ms=200");
    PARTY(rival) = party_new(NULL, "client.poll_ms=50");
    DLOCK_AUTO(dlock_client) client = grid_client_at(wire_uri(), NULL);
    CHECK_EQ_INT(party_take(holder, "L", patience_ms()), DLOCK_OK);
    party_ask(rival, "L", DLOCK_FOREVER);
    nap_ms(900); /* renewed once or twice */
    CHECK(!party_answered(rival) && party_still(holder) == DLOCK_OK);
    CHECK(wire("%s", fault));
    check_calls_end(client);
    if (harness_failed())
        return;
    bool over = false, lost = false;
    while (!over ||
           !lost) { /* the rival has it: looked at *before* the holder is asked */
        over = party_answered(rival);
        dlock_err code = party_still(holder);
        lost = code == DLOCK_ELOST;
        CHECK(lost || code == DLOCK_OK);
        /* The command hears of its loss when it is scheduled. */
        MUST(lost || !over || !grid_binding_is("C"));
        nap_ms(1);
    }
    CHECK_EQ_INT(party_answer(rival), DLOCK_OK);
    CHECK(wire("pass"));
    CHECK_EQ_INT(party_give_back(holder), DLOCK_ELOST);
    CHECK_EQ_INT(party_still(rival), DLOCK_OK);
    CHECK_EQ_INT(party_give_back(rival), DLOCK_OK);
    CHECK_EQ_INT(party_take(holder, "L", patience_ms()), DLOCK_OK);
    MUST(grid_rises(party_token(rival), party_token(holder)));
    AWAIT(api_stat(client, "connected") == 1);
}

/* The way is disturbed, and the lock kept all the same. */
static void keep_the_lock(const char *fault, int times)
{
    PARTY(holder) = party_new(wire_uri(), "lock.ttl_ms=2100 client.timeout_ms=300");
    PARTY(rival) = party_new(NULL, NULL);
    CHECK_EQ_INT(party_take(holder, "L", patience_ms()), DLOCK_OK);
    for (int i = 0; i < times; i++) {
        CHECK(wire("%s", fault));
        nap_ms(2600 / times);
        CHECK_EQ_INT(party_still(holder), DLOCK_OK);
        CHECK_EQ_INT(party_take(rival, "L", 0), DLOCK_EBUSY);
    }
    CHECK_EQ_INT(party_give_back(holder), DLOCK_OK);
    AWAIT(world_try("L") == DLOCK_OK);
}

ROW(N1, refused, "nobody listens: connections are refused")
{
    NEEDS(CAN_SERVER);
    PARTY(holder) = party_new(NULL, "lock.ttl_ms=20000");
    CHECK_EQ_INT(party_take(holder, "L", 0), DLOCK_OK);
    service_here()->kill();
    PARTY(late) =
        grid_binding_is("dlock") ? party_new(NULL, "client.connect_ms=400") : NULL;
    if (late) {
        CHECK_EQ_INT(party_take(late, "L", 0), DLOCK_EUNAVAIL);
    } else {
        DLOCK_AUTO(dlock_client) none = NULL;
        int64_t began = now_ms();
        CHECK_EQ_INT(dlock_client_open(world_uri(), NULL, &none, NULL),
                     service_here()->quorum ? DLOCK_EQUORUM : DLOCK_EUNAVAIL);
        CHECK(grid_in_time("opening", began, 0)); /* refused is known at once */
    }
    CHECK_EQ_INT(party_still(holder), DLOCK_OK); /* nobody else can have it yet */
    CHECK(service_here()->restart());
}

ROW(N2, reset, "connections are reset")
{
    NEEDS(CAN_WIRE);
    keep_the_lock("reset", 9);
}

ROW(N3, half_open, "connections are half-open: the other side is gone and nobody said so")
{
    NEEDS(CAN_WIRE);
    keep_the_lock("half-open", 2);
}

ROW(N4, black_hole, "a black hole: nothing comes through, either way")
{
    NEEDS(CAN_WIRE);
    lose_the_way("hole both");
}

ROW(N5, slow, "bytes come slowly and in slices")
{
    NEEDS(CAN_WIRE);
    CHECK(wire("slice 3 200"));
    CHECK(wire("latency 30 10"));
    /* A request is some hundred slices, and each waits for a processor. */
    PARTY(holder) =
        party_new(wire_uri(), "client.timeout_ms=20000 client.connect_ms=20000");
    PARTY(rival) =
        party_new(wire_uri(), "client.timeout_ms=20000 client.connect_ms=20000");
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(party_take(holder, "L", patience_ms()), DLOCK_OK);
        party_ask(rival, "L", DLOCK_FOREVER);
        nap_ms(300);
        CHECK(!party_answered(rival));
        CHECK_EQ_INT(party_give_back(holder), DLOCK_OK);
        CHECK_EQ_INT(party_answer(rival), DLOCK_OK);
        CHECK_EQ_INT(party_give_back(rival), DLOCK_OK);
    }
}

ROW(N6, one_way, "requests arrive, answers don't")
{
    NEEDS(CAN_WIRE);
    lose_the_way("hole down");
}

ROW(N7, names_of_hosts, "names of hosts: unknown ones, and a first address that is dead")
{
    NEEDS(CAN_CALL, CAN_WIRE);
    char uri[192];
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) none = NULL;
    DLOCK_AUTO(dlock_conf) conf = api_conf("client.connect_ms=2000");
    int64_t began = now_ms();
    snprintf(uri, sizeof(uri), "%s://no-such-host.invalid%s", service_here()->backend,
             world_is("redis+sentinel") ? "/service" : "");
    CHECK_ERR(dlock_client_open(uri, conf, &none, &err), DLOCK_EUNAVAIL, err);
    CHECK(grid_in_time("an unknown name", began, 2000));
    /* The first of the two addresses is refused, as [::1] is where it exists. */
    DLOCK_AUTO(dlock_client)
    client = grid_client_at(service_uri("", "localhost", service_port()), NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
}

ROW(N8, killed_and_empty, "the server is killed and comes back with nothing")
{
    NEEDS(CAN_SERVER);
    PARTY(holder) = party_new(NULL, "lock.ttl_ms=20000 client.backoff_max_ms=50");
    PARTY(verifier) = party_new(NULL, "lock.ttl_ms=1500 client.backoff_max_ms=50");
    CHECK_EQ_INT(party_take(holder, "L", 0), DLOCK_OK);
    CHECK_EQ_INT(party_take(verifier, "V", 0), DLOCK_OK);
    CHECK(service_here()->restart());
    AWAIT(party_still(verifier) == DLOCK_ELOST); /* at its next renewal */
    PARTY(next) = party_new(NULL, NULL);
    CHECK_EQ_INT(party_take(next, "L", patience_ms()), DLOCK_OK);
    /* So the resource refuses the old one. */
    MUST(grid_rises(party_token(holder), party_token(next)));
    /* Perhaps it was told over the dead connection first: a repeated release counts as done. */
    dlock_err released = party_give_back(holder);
    CHECK(released == DLOCK_ELOST || released == DLOCK_OK);
    CHECK_EQ_INT(party_still(next), DLOCK_OK);
    CHECK_EQ_INT(world_try("L"), DLOCK_EBUSY);
}

static int thread_count(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

static void freeze(const char *how)
{
    if (how)
        (void)redis_server_call(world_redis(), "%s", how);
    else
        service_here()->freeze();
}

ROW(N9, frozen, "the server is frozen, asleep, or pauses its clients")
{
    NEEDS(CAN_SERVER);
    /* NULL: its process is stopped. The others end by themselves. */
    static const char *const ways[] = {NULL, "CLIENT PAUSE 1500 ALL"};
    size_t count = world_is_one_redis() ? sizeof(ways) / sizeof(*ways) : 1;
    for (size_t i = 0; i < count; i++) {
        PARTY(holder) = party_new(NULL, "lock.ttl_ms=600 client.timeout_ms=300 "
                                        "client.close_ms=200 client.backoff_max_ms=50");
        DLOCK_AUTO(dlock_client) client = grid_client_at(world_uri(), NULL);
        CHECK_EQ_INT(party_take(holder, "L", patience_ms()), DLOCK_OK);
        int threads = thread_count();
        freeze(ways[i]);
        int64_t began = now_ms();
        AWAIT(party_still(holder) == DLOCK_ELOST);
        bool in_time = grid_in_time("the loss", began, 600);
        if (!ways[i])
            check_calls_end(client);
        bool no_more_threads = thread_count() <= threads + 1;
        if (!ways[i])
            service_here()->thaw();
        CHECK(in_time && no_more_threads && !harness_failed());
        CHECK_EQ_INT(party_give_back(holder), DLOCK_ELOST);
        CHECK_EQ_INT(party_take(holder, "L", patience_ms()), DLOCK_OK);
        CHECK_EQ_INT(party_give_back(holder), DLOCK_OK);
    }
}

static const char no_scripts[] = "no scripts, replicas or memory limits of Redis's";

ROW(N10, no_script, "the server has forgotten our scripts")
{
    if (!world_is_one_redis())
        CANNOT(no_scripts);
    PARTY(one) = party_new(NULL, NULL);
    for (int i = 0; i < 5; i++) {
        CHECK_STR(redis_server_call(world_redis(), "SCRIPT FLUSH"), "OK");
        CHECK_EQ_INT(party_take(one, "L", 0), DLOCK_OK);
        CHECK_STR(redis_server_call(world_redis(), "SCRIPT FLUSH"), "OK");
        CHECK_EQ_INT(party_give_back(one), DLOCK_OK);
        CHECK_EQ_INT(world_try("L"), DLOCK_OK);
    }
}

/* A definite "not now": said as such, never as "held by another"; a wait lives to see it mended. */
static void refuse_and_mend(const char *ill, const char *well)
{
    PARTY(one) = party_new(NULL, "client.backoff_max_ms=50");
    CHECK_EQ_INT(party_take(one, "L", patience_ms()),
                 DLOCK_OK); /* so that it is connected */
    CHECK_EQ_INT(party_give_back(one), DLOCK_OK);
    CHECK_STR(redis_server_call(world_redis(), "%s", ill), "OK");
    CHECK_EQ_INT(party_take(one, "L", 0), DLOCK_EUNAVAIL);
    party_ask(one, "L", DLOCK_FOREVER);
    nap_ms(100);
    CHECK(!party_answered(one));
    CHECK_STR(redis_server_call(world_redis(), "%s", well), "OK");
    CHECK_EQ_INT(party_answer(one), DLOCK_OK);
    CHECK_EQ_INT(party_give_back(one), DLOCK_OK);
}

ROW(N11, read_only, "the server has become a replica")
{
    if (!world_is_one_redis())
        CANNOT(no_scripts);
    refuse_and_mend("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE");
}

ROW(N12, cluster, "keys have moved in a cluster")
{
    ONLY_FOR("redis+cluster", "no cluster's slots here");
    grid_shown_by("backends/redis/test_cluster.c",
                  "while_a_slot_moves_holds_live_and_waits_go_on");
    grid_shown_by("backends/redis/test_cluster.c",
                  "a_hold_whose_key_did_not_come_along_is_lost");
}

ROW(N13, not_now, "the server refuses for now: full, too few replicas, or busy")
{
    if (!world_is_one_redis())
        CANNOT(no_scripts);
    /* A script that has removed something by then may write, however full the memory is. */
    if (!grid_kind_is("fair"))
        refuse_and_mend("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0");
    refuse_and_mend("CONFIG SET min-replicas-to-write 1",
                    "CONFIG SET min-replicas-to-write 0");
}

/* Fills the memory with what lives longer than the lock. */
static void evict(void)
{
    char filler[1025];
    memset(filler, 'x', sizeof(filler) - 1);
    filler[sizeof(filler) - 1] = '\0';
    for (int i = 0; i < 30000 && strcmp(redis_server_call(world_redis(), "EXISTS %s",
                                                          service_here()->held),
                                        "1") == 0;
         i++)
        redis_server_call(world_redis(), "SETEX fill:%d 100000 %s", i, filler);
}

ROW(N14, evicted, "the server throws the lock away, short of memory")
{
    NEEDS(CAN_EVICT);
    CHECK_STR(
        redis_server_call(world_redis(), "CONFIG SET maxmemory-policy volatile-ttl"),
        "OK");
    CHECK_STR(redis_server_call(world_redis(), "CONFIG SET maxmemory 3mb"), "OK");
    PARTY(holder) = party_new(NULL, "lock.ttl_ms=1500");
    PARTY(next) = party_new(NULL, NULL);
    CHECK_EQ_INT(party_take(holder, "L", 0), DLOCK_OK);
    evict();
    CHECK_STR(redis_server_call(world_redis(), "EXISTS L"), "0");
    AWAIT(party_still(holder) == DLOCK_ELOST);
    CHECK_STR(redis_server_call(world_redis(), "FLUSHALL"), "OK");
    CHECK_EQ_INT(party_take(next, "L", patience_ms()), DLOCK_OK);
    MUST(grid_rises(party_token(holder), party_token(next)));
    /* Who needs fencing isn't let in at all. */
    PARTY(careful) =
        grid_binding_is("dlock") ? party_new(NULL, "client.require=fencing") : NULL;
    DLOCK_AUTO(dlock_conf) conf = api_conf("client.require=fencing");
    DLOCK_AUTO(dlock_client) client = NULL;
    if (careful)
        CHECK_EQ_INT(party_take(careful, "M", 0), DLOCK_EINVAL);
    else
        CHECK_EQ_INT(dlock_client_open(world_uri(), conf, &client, NULL), DLOCK_ENOTSUP);
}

ROW(N15, cache_evicts, "a cache drops items, or is flushed")
{
    if (!grid_layout_is("item"))
        CANNOT("memcached's items (N14 is Redis's eviction)");
    grid_shown_by("backends/memcached/test_locks.c",
                  "what_the_server_forgets_is_lost_with_the_next_renewal");
    grid_shown_by("backends/memcached/test_locks.c",
                  "what_the_server_evicts_is_lost_with_the_next_renewal");
}

ROW(N16, no_rights, "no password, a wrong one, a right that is missing or taken away")
{
    NEEDS(CAN_CALL, CAN_RIGHTS);
    redis_server *server = world_redis();
    const char *right = "u:c4nary-right@", *wrong = "u:c4nary-wrong@";
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) none = NULL;
    CHECK_STR(redis_server_call(server, "ACL SETUSER u on >c4nary-right ~* &* +@all"),
              "OK");
    DLOCK_AUTO(dlock_client)
    client = grid_client_at(service_uri(right, "127.0.0.1", service_port()), NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_STR(redis_server_call(server, "ACL SETUSER u -set"), "OK");
    int64_t commands = api_stat(client, "commands"), began = now_ms();
    CHECK_ERR(dlock_lock_acquire(lock, DLOCK_FOREVER, &hold, &err), DLOCK_EACCES, err);
    CHECK(grid_in_time("the refusal", began, 0));
    CHECK(api_stat(client, "commands") <= commands + 3); /* no storm */
    CHECK_STR(service_here()->leftovers(), "");
    CHECK_ERR(dlock_client_open(service_uri(right, "127.0.0.1", service_port()), NULL,
                                &none, &err),
              DLOCK_EACCES, err);
    CHECK_CONTAINS(dlock_error_text(err), "+set");
    CHECK_ERR(dlock_client_open(service_uri(wrong, "127.0.0.1", service_port()), NULL,
                                &none, &err),
              DLOCK_EACCES, err);
    CHECK(!strstr(dlock_error_text(err), "c4nary") &&
          !strstr(dlock_error_backend(err), "c4nary"));
}

ROW(N17, tls, "TLS: expired, wrong name, unknown authority, or none at all")
{
    if (world_is("memcached") || world_is("memlock")) {
        grid_shown_by("backends/memcached/test_tls.c",
                      "bad_certificates_are_refused_with_the_reason");
        return;
    }
    if (world_is("etcd")) {
        grid_shown_by("backends/etcd/test_refusals.c",
                      "a_server_is_known_by_its_certificate_and_name");
        return;
    }
    if (!world_is_one_redis() && !world_is("redlock"))
        CANNOT("there is no TLS, so nothing falls back from it to plain");
    grid_shown_by("backends/redis/test_tls.c",
                  "bad_certificates_and_old_versions_are_refused_with_the_reason");
}

ROW(N18, failover, "a fail-over loses a lock that was granted")
{
    if (world_is("redis+sentinel")) {
        grid_shown_by("backends/redis/test_sentinel.c",
                      "a_failover_moves_holders_and_waiters_to_the_new_master");
        return;
    }
    if (world_is("redis+cluster")) {
        grid_shown_by("backends/redis/test_cluster.c",
                      "a_replica_that_takes_over_serves_holders_and_waiters");
        return;
    }
    CANNOT("one server, whose fail-over is N8 to its clients; others: "
           "tests/backends/redis/topology_storm.c");
}

ROW(N19, minority, "some of several masters grant, restart, or disagree")
{
    CANNOT("one service; of several masters: tests/faults/test_redlock.c");
}

static const char zookeepers[] = "sessions are ZooKeeper's";

ROW(N20, session_states, "a session is disconnected, expired, or moved")
{
    ONLY_FOR("zookeeper", zookeepers);
    grid_shown_by("faults/test_zookeeper_sessions.c",
                  "a_holder_whose_session_was_ended_has_lost_it_for_good");
}

ROW(N21, expiry_unheard,
    "a session's end is never reported, or another one takes its place")
{
    ONLY_FOR("zookeeper", zookeepers);
    grid_shown_by(
        "faults/test_zookeeper_sessions.c",
        "who_is_cut_off_knows_by_its_own_clock_before_anybody_else_has_the_lock");
}

ROW(N22, negotiated, "the server negotiates another session time-out")
{
    ONLY_FOR("zookeeper", zookeepers);
    grid_shown_by("faults/test_zookeeper_limits.c",
                  "a_session_that_the_server_makes_shorter_is_as_short_as_that");
}

/* The lowest number that a new descriptor would get is the first one that is forbidden. */
static bool forbid_descriptors(struct rlimit *before)
{
    int next = dup(0);
    if (next >= 0)
        close(next);
    struct rlimit none = {.rlim_cur = (rlim_t)next};
    if (getrlimit(RLIMIT_NOFILE, before) != 0)
        return false;
    none.rlim_max = before->rlim_max;
    return setrlimit(RLIMIT_NOFILE, &none) == 0;
}

ROW(N23, no_descriptors, "no descriptors or connections are left")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_HOLD(client, lock, hold, "L", "lock.ttl_ms=1500");
    DLOCK_AUTO(dlock_client) refused = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    struct rlimit before;
    CHECK(forbid_descriptors(&before));
    dlock_err code = dlock_client_open(world_uri(), NULL, &refused, &err);
    int64_t renewals = api_stat(client, "renewals"), end = now_ms() + patience_ms();
    while (api_stat(client, "renewals") < renewals + 2 &&
           dlock_hold_check(hold) == DLOCK_OK && now_ms() < end)
        nap_ms(1);
    CHECK_EQ_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK(api_stat(client, "renewals") >= renewals + 2);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    if (code != DLOCK_OK) /* memory needs none */
        CHECK_ERR(code, DLOCK_EUNAVAIL, err);
    CHECK(code == DLOCK_OK || strlen(dlock_error_text(err)) > 10);
    CHECK_EQ_INT(world_try("L"), DLOCK_EBUSY);
    if (service_here()->lacks[CAN_SERVER] || service_here()->quorum)
        return; /* there is none, or one of them may refuse */
    CHECK_STR(redis_server_call(world_redis(), "CONFIG SET maxclients 1"), "OK");
    CHECK_ERR(dlock_client_open(world_uri(), NULL, &refused, &err), DLOCK_EUNAVAIL, err);
    CHECK_CONTAINS(dlock_error_backend(err), "max number of clients");
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
    CHECK_STR(redis_server_call(world_redis(), "CONFIG SET maxclients 1000"), "OK");
}
