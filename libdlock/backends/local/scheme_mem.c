/* mem: and mem:NAME, tables of this process. They live as long as a client has them open. */
#include "backends/local/inner.h"

#include "backends/local/local.h"
#include "backends/local/memory.h"
#include "util/thread.h"

#include <stdlib.h>
#include <string.h>

struct dlk_home {
    dlk_list link;
    char *name;
    int users;
    uint32_t generation; /* of forks: a parent's table is none of the child's */
    dlk_table table;
};

/* Guards the list and what is counted below it. Taken around every fork, so that the child finds
 * it free and whole. */
static pthread_mutex_t homes_mutex = PTHREAD_MUTEX_INITIALIZER;
static dlk_list homes = {&homes, &homes};
static int64_t last_token; /* of tables that are gone: a new one goes on from here */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool fork_is_watched;

static void lock_homes(void)
{
    (void)pthread_mutex_lock(&homes_mutex); /* a plain one, never taken twice */
}

static void unlock_homes(void)
{
    (void)pthread_mutex_unlock(&homes_mutex); /* ours */
}

static void watch_forks(void)
{
    fork_is_watched = dlk_fork_watch(lock_homes, unlock_homes, unlock_homes);
}

static dlk_home *find_home(const char *name)
{
    DLK_LIST_FOR (it, &homes) {
        dlk_home *home = DLK_LIST_ITEM(it, dlk_home, link);
        if (home->generation == atomic_load(&dlk_fork_generation) &&
            strcmp(home->name, name) == 0)
            return home;
    }
    return NULL;
}

static dlock_err make_home(const char *name, dlk_home **ret, dlock_error **err)
{
    dlk_home *home = calloc(1, sizeof(*home));
    char *copy = strdup(name);
    dlock_err rc =
        home && copy ? dlk_memory_open(&home->table, err) : dlk_error_nomem(err);
    if (rc != DLOCK_OK) {
        free(copy);
        free(home);
        return rc;
    }
    home->name = copy;
    home->generation = atomic_load(&dlk_fork_generation);
    if (atomic_load(&home->table.head->last_token) < last_token)
        atomic_store(&home->table.head->last_token, last_token);
    dlk_list_append(&homes, &home->link);
    *ret = home;
    return DLOCK_OK;
}

static dlock_err join_home(const char *name, dlk_home **ret, dlock_error **err)
{
    (void)pthread_once(&once, watch_forks); /* fails for a bad argument only */
    if (!fork_is_watched)
        return dlk_error_nomem(err);
    lock_homes();
    *ret = find_home(name);
    dlock_err rc = *ret ? DLOCK_OK : make_home(name, ret, err);
    if (rc == DLOCK_OK)
        (*ret)->users++;
    unlock_homes();
    return rc;
}

static void leave_home(dlk_local *local)
{
    dlk_home *home = local->home;
    lock_homes();
    bool last = --home->users == 0;
    if (last) {
        int64_t token = atomic_load(&home->table.head->last_token);
        last_token = token > last_token ? token : last_token;
        dlk_list_remove(&home->link);
    }
    unlock_homes();
    if (!last)
        return;
    dlk_memory_close(&home->table);
    free(home->name);
    free(home);
}

static dlock_err open_mem(dlk_host *host, const dlk_uri *uri,
                          const dlk_settings *settings, dlk_backend **ret,
                          dlock_error **err)
{
    (void)settings; /* nothing can be set for it */
    if (uri->host_count > 0)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "mem: is within this process and has no host; "
                             "another table is mem:NAME");
    dlk_local *local = dlk_local_new(&dlk_mem_backend, host);
    if (!local)
        return dlk_error_nomem(err);
    dlock_err rc = join_home(uri->path, &local->home, err);
    if (rc != DLOCK_OK) {
        free(local);
        return rc;
    }
    local->table = &local->home->table;
    local->leave = leave_home;
    *ret = &local->base;
    return DLOCK_OK;
}

static const char *const mem_schemes[] = {"mem", NULL};

const dlk_backend_type dlk_mem_backend = {
    .name = "local",
    .schemes = mem_schemes,
    .traits = DLK_LOCAL_TRAITS,
    .open = open_mem,
    DLK_LOCAL_OPS,
};
