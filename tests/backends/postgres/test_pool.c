/* Through PgBouncer, in transaction pooling: all of it, by asking again. */
#include "api/world.h"
#include "harness/postgres_server.h"
#include "harness/server.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    pid_t pid;
    int port;
    char dir[64];
} pool;

/* As root it refuses to run. */
static void become(const void *server)
{
    char conf[96];
    (void)server;
    const struct passwd *one = geteuid() == 0 ? getpwnam("nobody") : NULL;
    if (one && (setgid(one->pw_gid) != 0 || setuid(one->pw_uid) != 0))
        _exit(126);
    if (!freopen("/dev/null", "w", stderr) || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        _exit(126);
    snprintf(conf, sizeof(conf), "%s/conf", pool.dir);
    execlp("/usr/sbin/pgbouncer", "pgbouncer", conf, NULL);
}

static dlock_client *through_pool(const char *settings)
{
    DLOCK_AUTO(dlock_conf) conf = api_conf(settings);
    dlock_client *client = NULL;
    char uri[128];
    snprintf(uri, sizeof(uri), "postgres://postgres@127.0.0.1:%d/postgres", pool.port);
    (void)dlock_client_open(uri, conf, &client, NULL); /* NULL is seen */
    return client;
}

static bool is_up(void *server)
{
    (void)server;
    DLOCK_AUTO(dlock_client) client = through_pool("client.connect_ms=1000");
    return client != NULL;
}

static const server_kind kind = {"PgBouncer", become, is_up};

static bool start(void)
{
    char path[96];
    strcpy(pool.dir, "/tmp/dlock-pool-XXXXXX");
    if (!harness_mkdtemp(pool.dir) || chmod(pool.dir, 0755) != 0)
        return false;
    pool.port = server_free_port(0);
    snprintf(path, sizeof(path), "%s/conf", pool.dir);
    FILE *conf = fopen(path, "we");
    if (!conf)
        return false;
    fprintf(
        conf,
        "[databases]\npostgres = host=127.0.0.1 port=%d dbname=postgres user=postgres\n"
        "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\n"
        "auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n",
        world_postgres()->port, pool.port);
    return fclose(conf) == 0 && server_start(&kind, &pool.pid, &pool);
}

static void stop(void)
{
    char path[96];
    server_kill(&pool.pid);
    server_let_go(pool.port);
    snprintf(path, sizeof(path), "%s/conf", pool.dir);
    (void)unlink(path);
    (void)rmdir(pool.dir);
}

TEST(clients_of_a_pool_wait_in_line_and_are_served_in_turn)
{
    BEGIN();
    if (!server_is_installed("/usr/sbin/pgbouncer"))
        return;
    CHECK(start());
    if (!harness_failed()) {
        DLOCK_AUTO(dlock_client) holder = through_pool(NULL);
        DLOCK_AUTO(dlock_client) first = through_pool("client.name=first");
        DLOCK_AUTO(dlock_client) second = through_pool("client.name=second");
        DLOCK_AUTO(dlock_lock) held = api_lock(holder, DLOCK_MUTEX, __func__, NULL);
        DLOCK_AUTO(dlock_lock) one = api_lock(first, DLOCK_MUTEX, __func__, NULL);
        DLOCK_AUTO(dlock_lock) two = api_lock(second, DLOCK_MUTEX, __func__, NULL);
        DLOCK_AUTO(dlock_hold) hold = world_take(held);
        DLOCK_AUTO(dlock_op) before = dlock_lock_acquire_start(one, DLOCK_FOREVER);
        AWAIT(strcmp(api_seen(held, "waiting.0.client"), "first") == 0);
        DLOCK_AUTO(dlock_op) behind = dlock_lock_acquire_start(two, DLOCK_FOREVER);
        AWAIT(strcmp(api_seen(held, "waiting.1.client"), "second") == 0);
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        ENDS(before, DLOCK_OK);
        CHECK_STR(api_seen(held, "holders.0.client"), "first");
        DLOCK_AUTO(dlock_hold) next = dlock_op_take_hold(before);
        CHECK_OK(dlock_hold_release(next, NULL), NULL);
        ENDS(behind, DLOCK_OK);
        /* Nothing of ours stays on the connections that others will have. */
        CHECK_STR(
            postgres_server_ask(world_postgres(),
                                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE "
                                "'LISTEN%%'"),
            "0");
    }
    stop();
}

/* A session of a pool is another client's next. */
TEST(advisory_locks_through_a_pool_are_refused)
{
    BEGIN();
    if (!server_is_installed("/usr/sbin/pgbouncer"))
        return;
    CHECK(start());
    if (!harness_failed()) {
        DLOCK_AUTO(dlock_conf) conf = api_conf("postgres.layout=advisory");
        DLOCK_AUTO(dlock_error) err = NULL;
        dlock_client *client = NULL;
        char uri[128];
        snprintf(uri, sizeof(uri), "postgres://postgres@127.0.0.1:%d/postgres",
                 pool.port);
        CHECK_ERR(dlock_client_open(uri, conf, &client, &err), DLOCK_ENOTSUP, err);
        CHECK(err && strstr(dlock_error_text(err), "a pool of connections"));
    }
    stop();
}
