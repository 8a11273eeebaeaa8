/* Our side of the interop tests: takes locks with libdlock, as told line by line. What the lines
 * are stands in peers.py.
 *
 *     interop-ours PORT TTL_MS [SETTINGS]
 *     interop-ours HOSTS TTL_MS [SETTINGS]
 *
 * The first is Redis; the settings are those of the client that is told of releases, and spin locks
 * have one that asks. The second, ports with a colon before them, is ZooKeeper, or whatever URI it
 * begins; there each slot has a client of its own, and with it a session, but on Redis.
 * Each slot is a thread, which does what it is told in that order; the first thread reads. */
#include "interop/ours.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SLOTS = 32, MAX_LINES = 16 };

typedef struct slot {
    contender contender;
    char name[32];
    pthread_mutex_t mutex; /* guards lines, first and count */
    pthread_cond_t come;
    char *lines[MAX_LINES]; /* a ring */
    int first, count;
} slot;

static slot slots[MAX_SLOTS];
static int slot_count;
static ours_clients clients;
static char **arguments;

static void die(const char *what)
{
    (void)fprintf(stderr, "interop-ours: %s\n", what);
    exit(70);
}

static char *next_line(slot *from)
{
    (void)pthread_mutex_lock(&from->mutex);
    while (from->count == 0)
        (void)pthread_cond_wait(&from->come, &from->mutex);
    char *line = from->lines[from->first];
    from->first = (from->first + 1) % MAX_LINES;
    from->count--;
    (void)pthread_mutex_unlock(&from->mutex);
    return line;
}

static void *run(void *argument)
{
    slot *me = argument;
    char answer[OURS_MAX_ANSWER] = "";
    while (1) {
        char *line = next_line(me);
        contender_obey(&me->contender, line, answer);
        free(line);
        (void)printf("%s %s\n", me->name, answer);
    }
    return NULL;
}

static bool own_clients(void)
{
    return strchr(arguments[1], ':') != NULL;
}

static dlock_client *open_uri(const char *uri)
{
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    if (dlock_client_open(uri, NULL, &client, &err) != DLOCK_OK)
        die(dlock_error_text(err));
    return client;
}

static const char *settings(void)
{
    return arguments[3] != NULL ? arguments[3] : "";
}

static const ours_clients *clients_of_its_own(void)
{
    char uri[512];
    ours_clients *own = calloc(1, sizeof *own);
    const char *scheme = strstr(arguments[1], "://") != NULL ? "" : "zookeeper://";
    (void)snprintf(uri, sizeof uri, "%s%s?lock.ttl_ms=%s%s%s", scheme, arguments[1],
                   arguments[2], *settings() != '\0' ? "&" : "", settings());
    if (own == NULL)
        die("no memory");
    own->told = open_uri(uri);
    if (strncmp(uri, "redis", strlen("redis")) == 0)
        own->ttl_ms = atoll(arguments[2]);
    return own;
}

static slot *slot_of(const char *name)
{
    for (int i = 0; i < slot_count; i++)
        if (strcmp(slots[i].name, name) == 0)
            return &slots[i];
    if (slot_count == MAX_SLOTS || strlen(name) >= sizeof slots[0].name)
        die("too many slots, or a name too long");
    slot *me = &slots[slot_count++];
    pthread_t thread;
    memcpy(me->name, name, strlen(name) + 1);
    (void)pthread_mutex_init(&me->mutex, NULL);
    (void)pthread_cond_init(&me->come, NULL);
    contender_init(&me->contender, me->name,
                   own_clients() ? clients_of_its_own() : &clients);
    if (pthread_create(&thread, NULL, run, me) != 0)
        die("no thread");
    (void)pthread_detach(thread);
    return me;
}

static void tell(slot *to, const char *line)
{
    if (strcmp(line, "cancel") == 0) {
        contender_cancel(&to->contender);
        return;
    }
    (void)pthread_mutex_lock(&to->mutex);
    if (to->count == MAX_LINES)
        die("told too much at once");
    to->lines[(to->first + to->count++) % MAX_LINES] = strdup(line);
    (void)pthread_cond_signal(&to->come);
    (void)pthread_mutex_unlock(&to->mutex);
}

/* Several ports are a Redlock's nodes. */
static dlock_client *open_client(const char *how, const char *more)
{
    char uri[512], ports[256], *save = NULL;
    bool several = strchr(arguments[1], ',') != NULL;
    size_t used =
        (size_t)snprintf(uri, sizeof uri, "%s://", several ? "redlock" : "redis");
    (void)snprintf(ports, sizeof ports, "%s", arguments[1]);
    for (char *port = strtok_r(ports, ",", &save); port != NULL;
         port = strtok_r(NULL, ",", &save))
        used += (size_t)snprintf(uri + used, sizeof uri - used, "%s127.0.0.1:%s",
                                 port == ports ? "" : ",", port);
    (void)snprintf(uri + used, sizeof uri - used, "?redis.wait=%s%s%s", how,
                   *more != '\0' ? "&" : "", more);
    return open_uri(uri);
}

static void open_clients(void)
{
    clients.ttl_ms = atoll(arguments[2]);
    clients.told = open_client("pubsub", settings());
    clients.polling = open_client("poll", "");
}

int main(int argc, char **argv)
{
    char line[1024];
    if (argc < 3)
        die("usage: interop-ours PORT,…|HOSTS TTL_MS [SETTINGS]");
    (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    arguments = argv;
    if (!own_clients())
        open_clients();
    (void)puts("ready ok");
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *rest = strchr(line, ' ');
        if (rest == NULL)
            continue;
        *rest = '\0';
        tell(slot_of(line), rest + 1);
    }
    _exit(0); /* as who dies: nothing is released */
}
