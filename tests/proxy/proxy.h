/* A TCP proxy between clients and servers which delays, loses, tears and cuts what the test wants
 * lost. It knows where a request begins and ends, so it can pick out one of them or its answer.
 * README.md beside this file tells what each fault does; the line protocol has the same names.
 *
 * One thread per proxy moves the bytes of all its links. Any thread may call what stands here.
 * What a function has set is in force for every byte that arrives after it has returned. */
#ifndef TESTS_PROXY_H
#define TESTS_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct proxy proxy;
typedef struct proxy_link proxy_link;

/* NULL when a thread or memory is missing. @p seed: of the jitter. */
proxy *proxy_new(uint64_t seed);
/* Cuts all connections and forgets all links. NULL is fine. */
void proxy_free(proxy *p);
void proxy_seed(proxy *p, uint64_t seed);

/* ---- Links: a port of ours before one server ---- */

/* @p name: a word, or NULL for the next free number. @p port: on 127.0.0.1, 0 = any. @p target:
 * PORT, ADDRESS:PORT, [ADDRESS6]:PORT or the /path of a Unix socket; nobody needs to listen there
 * yet. @p framing: of framing.h, or "raw" for bytes without meaning. NULL: *ret_why says why. */
proxy_link *proxy_listen(proxy *p, const char *name, int port, const char *target,
                         const char *framing, const char **ret_why);
proxy_link *proxy_find(proxy *p, const char *name);
/* They live as long as the proxy. */
int proxy_port(const proxy_link *link);
const char *proxy_name(const proxy_link *link);

/* ---- Faults that last until proxy_pass ---- */

/* Up: from the client to the server. */
typedef enum proxy_way {
    PROXY_NOWHERE = 0,
    PROXY_UP = 1,
    PROXY_DOWN = 2,
    PROXY_BOTH = 3
} proxy_way;

/* Ends all that is listed here, and what is still kept arrives. Plans stay. */
void proxy_pass(proxy_link *link);
/* Swallows what goes that way, on connections old and new, which stay open. Connections that lost
 * something so are cut when the hole is gone. PROXY_NOWHERE: no hole. */
void proxy_hole(proxy_link *link, proxy_way way);
/* The connections that exist stand still, new ones pass. What they say is kept, also from clients
 * that hang up meanwhile. */
void proxy_stall(proxy_link *link);
/* Requests pass, answers are kept. */
void proxy_late(proxy_link *link);
/* Each byte comes @p ms ± @p jitter_ms later, in order. */
void proxy_latency(proxy_link *link, proxy_way way, int64_t ms, int64_t jitter_ms);
/* At most @p size bytes at a time, @p delay_us between them; 0 = no slices. */
void proxy_slice(proxy_link *link, proxy_way way, size_t size, int64_t delay_us);
/* For each connection and way; 0 = no limit. */
void proxy_bandwidth(proxy_link *link, proxy_way way, int64_t bytes_per_s);
/* New connections are refused; those that exist go on. */
void proxy_refuse(proxy_link *link);
/* New connections are not accepted: the first fill the backlog, the others' SYNs are lost. */
void proxy_ignore(proxy_link *link);

/* ---- Faults of the moment ---- */

/* Ends every connection with a RST to the client. */
void proxy_reset(proxy_link *link);
/* What exists hears nothing any more, either way, for good, and isn't told; new ones pass. */
void proxy_half_open(proxy_link *link);
/* One end sees the other hang up (a FIN) while what it says itself still arrives. UP: the server
 * sees it. */
void proxy_half_close(proxy_link *link, proxy_way way);

/* ---- Faults of one request ---- */

typedef enum proxy_deed {
    PROXY_CUT_BEFORE, /* not forwarded, and the connection is cut */
    PROXY_CUT_AFTER,  /* forwarded, and the client is cut off at once */
    PROXY_CUT_REPLY,  /* done by the server, then cut instead of the answer */
    PROXY_DROP_REPLY, /* done by the server, and nothing is ever heard on that connection */
    PROXY_TEAR_REQUEST,  /* the first half is forwarded, then the connection is cut */
    PROXY_TEAR_REPLY,    /* half of the answer, then cut */
    PROXY_DELAY_REQUEST, /* it, and what follows on that connection, comes later */
    PROXY_DELAY_REPLY,
} proxy_deed;

typedef struct proxy_plan {
    proxy_deed deed;
    int number;          /* hits the number-th matching request from now on, from 1 */
    bool every;          /* and then each number-th again */
    const char *command; /* its first word, in any case; a * at the end; NULL = any */
    const char *word;    /* one of its other words; NULL = any */
    int64_t delay_ms;    /* of the delays */
} proxy_plan;

/* Several plans count side by side. False: no framing, or number < 1, or no memory. */
bool proxy_add_plan(proxy_link *link, proxy_plan plan);
void proxy_forget_plans(proxy_link *link);

/* ---- What was seen and done ---- */

typedef struct proxy_stats {
    int64_t accepted, open, refused; /* refused: the server wasn't there */
    int64_t requests, answers;    /* whole ones; answers without what is told unasked */
    int64_t bytes_up, bytes_down; /* handed on */
    int64_t deeds;                /* of plans */
    int64_t swallowed;            /* bytes lost in holes and silence */
} proxy_stats;

proxy_stats proxy_get_stats(proxy_link *link);
/* Requests whose command matches, as in a plan. */
int64_t proxy_requests(proxy_link *link, const char *command);

/* What it did, with times of the boot clock (libdlock's): connections, faults, deeds. The last
 * 4,096 lines are always kept; @p path also gets each line as it happens. NULL: no file any more.
 * False: errno says why. */
bool proxy_log_to(proxy *p, const char *path);
/* Also each request and answer. */
void proxy_trace(proxy *p, bool on);
/* A line of the caller's own in the log, among the others. */
void proxy_note(proxy *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The last @p lines of it, each behind "# ": commentary in TAP. */
void proxy_print_log(proxy *p, FILE *out, int lines);

/* ---- The line protocol ---- */

#define PROXY_ANSWER_MAX 4096

/* Does what one line says; @p answer begins with "ok" or "error". False after "quit". */
bool proxy_obey(proxy *p, const char *line, char answer[PROXY_ANSWER_MAX]);

#endif
