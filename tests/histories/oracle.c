/* The fenced resource as a shared page, and its client; see the header. */
#include "histories/oracle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

typedef struct cell {
    /* robust: its holders get killed; held for a few instructions */
    pthread_mutex_t mutex;
    oracle_register copies[2];
    /* which of them counts: one store makes a change, or none of it */
    _Atomic uint32_t active;
} cell;

struct oracle_page {
    cell cells[ORACLE_REGISTERS];
};

oracle_answer oracle_judge(oracle_register *r, const oracle_visit *visit)
{
    oracle_answer answer = {.value = r->value, .sequence = r->accepted};
    if (visit->token < r->highest) {
        r->refused++;
        return answer;
    }
    if (visit->token == r->highest && visit->op != r->op)
        r->same_tokens++;
    r->highest = visit->token;
    r->op = visit->op;
    answer.admitted = 1;
    if (!visit->write)
        return answer;
    r->lost_updates += r->value != visit->seen;
    r->value = visit->seen + 1;
    answer.value = r->value;
    answer.sequence = ++r->accepted;
    return answer;
}

/* ---- The page ---- */

static void prepare(oracle_page *page)
{
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    for (int i = 0; i < ORACLE_REGISTERS; i++)
        pthread_mutex_init(&page->cells[i].mutex, &how);
    pthread_mutexattr_destroy(&how);
}

/* Who makes the file does so before anybody else is started. */
static oracle_page *map_page(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct stat file;
    if (fd < 0)
        return NULL;
    void *at = MAP_FAILED;
    if (fstat(fd, &file) == 0 &&
        (file.st_size > 0 || ftruncate(fd, sizeof(oracle_page)) == 0))
        at = mmap(NULL, sizeof(oracle_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return NULL;
    if (file.st_size == 0)
        prepare(at);
    return at;
}

static oracle_answer ask_page(oracle_page *page, const oracle_visit *visit)
{
    cell *at = &page->cells[visit->lock % ORACLE_REGISTERS];
    if (pthread_mutex_lock(&at->mutex) == EOWNERDEAD)
        pthread_mutex_consistent(&at->mutex);
    uint32_t active = atomic_load(&at->active);
    at->copies[!active] = at->copies[active];
    oracle_answer answer = oracle_judge(&at->copies[!active], visit);
    atomic_store(&at->active, !active);
    pthread_mutex_unlock(&at->mutex);
    return answer;
}

oracle_register oracle_look(const oracle *o, uint32_t lock)
{
    const cell *at = &o->page->cells[lock % ORACLE_REGISTERS];
    return at->copies[atomic_load(&at->active)];
}

/* ---- The server ---- */

static int dial(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return -1;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool ask_server(oracle *o, const oracle_visit *visit, oracle_answer *ret_answer)
{
    pthread_mutex_lock(&o->mutex);
    ssize_t got = -1;
    if (send(o->server, visit, sizeof(*visit), MSG_NOSIGNAL) == sizeof(*visit)) {
        do {
            got = recv(o->server, ret_answer, sizeof(*ret_answer), 0);
        } while (got < 0 && errno == EINTR);
    }
    pthread_mutex_unlock(&o->mutex);
    return got == sizeof(*ret_answer);
}

bool oracle_ask(oracle *o, oracle_side side, const oracle_visit *visit,
                oracle_answer *ret_answer)
{
    if (side == ORACLE_SERVER)
        return ask_server(o, visit, ret_answer);
    *ret_answer = ask_page(o->page, visit);
    return true;
}

bool oracle_open(oracle *o, const char *page, const char *socket)
{
    *o = (oracle){.server = -1};
    pthread_mutex_init(&o->mutex, NULL);
    o->page = map_page(page);
    if (!o->page)
        return false;
    if (socket)
        o->server = dial(socket);
    return !socket || o->server >= 0;
}

void oracle_close(oracle *o)
{
    if (o->page)
        munmap(o->page, sizeof(*o->page));
    if (o->server >= 0)
        close(o->server);
    pthread_mutex_destroy(&o->mutex);
}
