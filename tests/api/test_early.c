/* What is asked before the process has opened any client: nothing may count on one. */
#include "harness/fork.h"
#include "harness/harness.h"

#include <dlock/dlock.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOKERS = 3, FORKS = 300, PATIENCE_S = 20, THOUSANDS = 4000 };

static atomic_bool enough;

static void *look(void *unused)
{
    while (!atomic_load(&enough)) {
        char *text = NULL;
        (void)dlock_client_metrics(NULL, &text, NULL);
        dlock_text_free(text);
    }
    return unused;
}

static bool child_can_open(const dlock_conf *lazy)
{
    pid_t pid = fork();
    if (pid == 0) {
        dlock_client *client = NULL;
        (void)alarm(
            PATIENCE_S); /* ends it, where a mutex is held by a thread that isn't here */
        _exit(dlock_client_open("mem:", lazy, &client, NULL) == DLOCK_OK ? 0 : 1);
    }
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* It has to come first: afterwards a client was opened. */
TEST(a_fork_amid_a_look_at_no_clients_leaves_a_child_that_can_open_one)
{
    if (ADDRESS_SANITIZER)
        LEAVE_OUT("the threads are in AddressSanitizer's allocator: see harness/fork.h");
    pthread_t threads[LOOKERS];
    bool well = true;
    DLOCK_AUTO(dlock_conf) lazy = dlock_conf_new(); /* the child starts no thread */
    CHECK_OK(dlock_conf_set(lazy, "client.lazy", "true", NULL), NULL);
    for (int i = 0; i < LOOKERS; i++)
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, look, NULL), 0);
    for (int i = 0; i < FORKS && well; i++)
        well = child_can_open(lazy);
    atomic_store(&enough, true);
    for (int i = 0; i < LOOKERS; i++)
        pthread_join(threads[i], NULL);
    CHECK(well);
}

/* Each that was compared with all others for every number that is taken would be at it for minutes. */
TEST(thousands_of_clients_of_one_name_are_soon_open)
{
    static dlock_client *clients[THOUSANDS];
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    CHECK_OK(dlock_conf_set(conf, "client.name", "many", NULL), NULL);
    CHECK_OK(dlock_conf_set(conf, "client.lazy", "true", NULL), NULL);
    dlock_err code = DLOCK_OK;
    for (int i = 0; i < THOUSANDS && code == DLOCK_OK; i++)
        code = dlock_client_open("mem:", conf, &clients[i], NULL);
    CHECK_EQ_INT(code, DLOCK_OK);
    char *text = NULL, name[64];
    CHECK_EQ_INT(dlock_client_metrics(clients[THOUSANDS - 1], &text, NULL), DLOCK_OK);
    (void)snprintf(name, sizeof name, "{client=\"many#%d\",", THOUSANDS);
    CHECK_CONTAINS(text, name);
    dlock_text_free(text);
    for (int i = 0; i < THOUSANDS; i++)
        dlock_client_free(clients[i]);
}

TEST(a_page_of_no_clients_has_an_end)
{
    char *text = NULL;
    CHECK_EQ_INT(dlock_client_metrics(NULL, &text, NULL), DLOCK_OK);
    CHECK(text != NULL && strlen(text) > 6);
    CHECK(strcmp(text + strlen(text) - 6, "# EOF\n") == 0);
    CHECK(strstr(text, "} ") == NULL); /* no sample */
    dlock_text_free(text);
}
