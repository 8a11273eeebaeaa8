/* The fenced resource: registers that keep the largest token they have seen and refuse what comes
 * with a smaller one. Twice: as a page that processes share, and as a server (oracle_server.c). It
 * is the judge of a run: a lost update or two grants with one token are counted here, whatever the
 * clients believe.
 *
 * As tests/faults/resource.h, for processes that aren't forks of the test. */
#ifndef TESTS_HISTORIES_ORACLE_H
#define TESTS_HISTORIES_ORACLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define ORACLE_REGISTERS 4096

/* What is known of one register. */
typedef struct oracle_register {
    int64_t highest; /* token */
    uint64_t op;     /* whose token that is */
    int64_t value;
    int64_t accepted, refused;
    int64_t lost_updates; /* writes that overwrote what their writer hadn't seen */
    int64_t same_tokens;  /* two acquires that came with one token */
} oracle_register;

typedef struct oracle_page oracle_page;

typedef struct oracle {
    oracle_page *page;
    int server;            /* a connected socket, -1 = none */
    pthread_mutex_t mutex; /* guards the conversation with the server */
} oracle;

typedef enum oracle_side { ORACLE_PAGE = 0, ORACLE_SERVER = 1 } oracle_side;

/* One visit: a look when `write` is false. */
typedef struct oracle_visit {
    uint32_t lock;
    uint32_t write;
    int64_t token;
    uint64_t op;
    int64_t seen; /* a write makes `seen` + 1 of it */
} oracle_visit;

typedef struct oracle_answer {
    int64_t admitted;
    int64_t value;    /* what is there, after a write */
    int64_t sequence; /* how many writes were accepted */
} oracle_answer;

/* The rules; used by the page and by the server. */
oracle_answer oracle_judge(oracle_register *r, const oracle_visit *visit);

/* A file for the page, made by the first; and the server's socket, or NULL. */
bool oracle_open(oracle *o, const char *page, const char *socket);
void oracle_close(oracle *o);

/* False: the server isn't there any more, which only the end of a run explains. */
bool oracle_ask(oracle *o, oracle_side side, const oracle_visit *visit,
                oracle_answer *ret_answer);

/* A register of the page, for whoever sums up. */
oracle_register oracle_look(const oracle *o, uint32_t lock);

#endif
