/* The inside of the proxy. Everything here is guarded by the proxy's mutex and mostly done on its
 * thread, between two polls. Other threads change settings and cut connections, but only the
 * thread frees a pair, because it may be polling its descriptors.
 *
 * A pair is one connection of a client and ours to the server behind it. Its two flows are alike:
 * what is read is taken apart into messages, plans look at those, and what shall be forwarded
 * lies in a queue, each chunk with the time when it is due. */
#ifndef TESTS_PROXY_INNER_H
#define TESTS_PROXY_INNER_H

#include "proxy/framing.h"
#include "proxy/proxy.h"

#include <pthread.h>
#include <stdarg.h>
#include <sys/socket.h>

#define PROXY_NS_PER_MS INT64_C(1000000)
#define PROXY_NEVER     INT64_MAX

/* Ends of a pair, and the flows that begin there. */
enum { CLIENT, SERVER };
enum { UP, DOWN };

/* ---- The log ---- */

enum { JOURNAL_LINES = 4096, JOURNAL_SIZE = 160 };

typedef struct proxy_journal {
    char (*lines)[JOURNAL_SIZE];
    int64_t written; /* the last JOURNAL_LINES of them are kept */
    FILE *out;
} proxy_journal;

bool proxy_journal_init(proxy_journal *journal);
void proxy_journal_clear(proxy_journal *journal);
void proxy_journal_add(proxy_journal *journal, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
void proxy_journal_print(const proxy_journal *journal, FILE *out, const char *before,
                         int lines);

/* ---- Connections ---- */

typedef struct proxy_chunk {
    struct proxy_chunk *next;
    int64_t due;
    size_t size, sent;
    char bytes[];
} proxy_chunk;

typedef struct proxy_flow {
    char *begun; /* of a message that isn't whole */
    size_t begun_size, begun_room;
    proxy_chunk *first, **end;
    size_t kept; /* bytes in the chunks */
    int64_t pause_until;
    bool ended;   /* nothing can be read any more */
    bool finish;  /* the receiver shall be told, behind what is kept */
    bool told;    /* and has been */
    bool mute;    /* what is read from now on is swallowed */
    bool tear;    /* the client is cut off behind what is kept */
    bool blocked; /* the receiver's socket is full */
} proxy_flow;

/* What a plan wants done with an answer that is to come. */
typedef struct proxy_mark {
    struct proxy_mark *next;
    int64_t answer; /* its number on this connection, or its stream */
    proxy_deed deed;
    int64_t delay_ms;
} proxy_mark;

typedef struct proxy_pair {
    struct proxy_pair *next;
    proxy_link *link;
    int64_t number;
    int fd[2]; /* -1 = closed */
    proxy_flow flow[2];
    void *state;             /* of the framing */
    int64_t asked, answered; /* answers that are expected, that came */
    proxy_mark *marks;
    int polled[2]; /* the ends' places among the polled, -1 = not */
    bool connecting, raw, stalled, dead;
    bool swallowed; /* there is a gap in what was said */
    bool orphan;    /* half-open: neither end learns anything of the other */
} proxy_pair;

/* ---- Links ---- */

typedef struct proxy_planned {
    struct proxy_planned *next;
    proxy_plan plan;
    char *command, *word;
    int left;
} proxy_planned;

typedef struct proxy_tally {
    char command[16];
    int64_t requests;
} proxy_tally;

enum { TALLIES = 64 };

typedef struct proxy_toxics {
    int64_t latency_ms, jitter_ms, slice_us, bandwidth;
    size_t slice;
    bool hole;
} proxy_toxics;

struct proxy_link {
    struct proxy_link *next;
    proxy *proxy;
    char name[32], target[128];
    const proxy_framing *framing; /* NULL = raw */
    struct sockaddr_storage address;
    socklen_t address_size;
    int port;
    int seat;            /* keeps the port ours while nobody listens */
    int listener;        /* -1 = connections are refused */
    int64_t tired_until; /* no descriptors were left: accepts again then */
    int polled;          /* its place, -1 = not */
    bool ignores, late;
    proxy_toxics toxics[2];
    proxy_planned *plans;
    proxy_tally tallies[TALLIES];
    proxy_stats stats;
};

struct proxy {
    pthread_mutex_t mutex;
    pthread_t thread;
    int wake;
    bool ending, trace;
    uint64_t random;
    proxy_link *links, **last_link;
    int link_count;
    proxy_pair *pairs;
    int64_t now; /* when the thread woke, or somebody called */
    proxy_journal journal;
};

int64_t proxy_clock(void);
/* A line of the log, about a link or, if that is NULL, about a pair. */
void proxy_say(proxy *p, const proxy_link *link, const proxy_pair *pair,
               const char *format, ...) __attribute__((format(printf, 4, 5)));

/* proxy.c: what other threads do stands between these two. */
void proxy_enter(proxy *p);
void proxy_leave(proxy *p);

/* link.c */
void proxy_link_free(proxy_link *link);
/* The last lines of the log, as they are. */
void proxy_dump(proxy *p, FILE *out, int lines);
void proxy_get_tallies(proxy_link *link, proxy_tally to[TALLIES]);

/* listen.c */
const char *proxy_link_open(proxy_link *link, int port);
bool proxy_link_listen(proxy_link *link);
void proxy_link_deafen(proxy_link *link);
/* Accepts who waits. */
void proxy_link_accept(proxy_link *link);
/* Whether the connection to the server is there; the pair is dead if it won't be. */
void proxy_pair_connected(proxy_pair *pair);

/* flow.c */
/* Bytes for the other end, @p delay_ms later than the link would have it. */
void proxy_flow_put(proxy_pair *pair, int way, const char *bytes, size_t size,
                    int64_t delay_ms);
/* Hands on what is due. */
void proxy_flow_send(proxy_pair *pair, int way);
void proxy_flow_drop(proxy_flow *flow);
/* When proxy_flow_send has to be called again. */
int64_t proxy_flow_due(const proxy_pair *pair, int way);
/* Reads, takes apart, hands on. */
void proxy_flow_read(proxy_pair *pair, int way);
bool proxy_flow_wants(const proxy_pair *pair, int way);
bool proxy_flow_held(const proxy_pair *pair, int way);

/* pair.c */
/* Both ends at once; the client sees a RST. */
void proxy_pair_cut(proxy_pair *pair);
/* One end, and the other isn't told. */
void proxy_pair_forget(proxy_pair *pair, int end);
/* The client only; what it said before still goes to the server, which then sees it hang up. Were
 * our socket closed at once, Redis would fail to answer and forget what it hadn't read yet. */
void proxy_pair_cut_client(proxy_pair *pair);
/* Both have said all they had to say. */
void proxy_pair_close(proxy_pair *pair);
void proxy_pair_free(proxy_pair *pair);

/* plan.c */
void proxy_take_request(proxy_pair *pair, const char *request, size_t size);
void proxy_take_answer(proxy_pair *pair, const char *answer, size_t size);
bool proxy_matches(proxy_span command, const char *pattern);
void proxy_planned_free(proxy_link *link);

#endif
