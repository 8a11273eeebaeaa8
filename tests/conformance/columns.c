/* The columns: a backend, a kind of lock, a layout and a binding that exist together. grid.c looks
 * whether the library has more than stand here. */
#include "grid.h"

const column columns[] = {
    {"mem", "mutex", "table", "C"},
    {"file", "mutex", "table", "C"},
    {"redis", "mutex", "redisson", "C"},
    {"redis", "mutex", "string", "C"},
    {"redis", "mutex", "timestamp", "C"},
    {"redis", "mutex", "rueidis", "C"},
    {"redis", "fair", "redisson", "C"},
    {"redis", "write", "redisson", "C"},
    {"redis", "semaphore", "redisson", "C"},
    {"redis", "plain semaphore", "redisson", "C"},
    {"mem", "write", "table", "C"},
    {"file", "write", "table", "C"},
    {"mem", "semaphore", "table", "C"},
    {"file", "semaphore", "table", "C"},
    {"mem", "election", "table", "C"},
    {"file", "election", "table", "C"},
    {"redis", "election", "redisson", "C"},
    {"redis+sentinel", "mutex", "redisson", "C"},
    {"redis+cluster", "mutex", "redisson", "C"},
    {"redlock", "mutex", "string", "C"},
    {"memcached", "mutex", "item", "C"},
    {"memcached", "write", "item", "C"},
    {"memcached", "semaphore", "item", "C"},
    {"memcached", "election", "item", "C"},
    {"memlock", "mutex", "item", "C"},
    {"zookeeper", "mutex", "curator", "C"},
    {"zookeeper", "write", "curator", "C"},
    {"zookeeper", "semaphore", "curator", "C"},
    {"zookeeper", "election", "curator", "C"},
    {"etcd", "mutex", "concurrency", "C"},
    {"etcd", "write", "concurrency", "C"},
    {"etcd", "semaphore", "concurrency", "C"},
    {"etcd", "election", "concurrency", "C"},
    {"postgres", "mutex", "table", "C"},
    {"postgres", "write", "table", "C"},
    {"postgres", "semaphore", "table", "C"},
    {"postgres", "election", "table", "C"},
    /* mem: is a table of one process, and the command is one process and one holder. */
    {"file", "mutex", "table", "dlock"},
    {"redis", "mutex", "redisson", "dlock"},
    {"redis", "mutex", "string", "dlock"},
};
const size_t column_count = sizeof(columns) / sizeof(*columns);
const service *const service_own = NULL;

static const char no_reentry[] =
    "each acquire is an owner of its own here, so nobody re-enters";
static const char no_order_of_several[] =
    "each node numbers its stores for itself: no token";
static const char no_replica_of_one[] =
    "a node of a cluster follows no other by REPLICAOF; one that is replaced is N18";
static const char one_slot[] =
    "names with braces that make no hash tag are refused there: "
    "tests/backends/redis/test_cluster.c";
static const char no_tokens[] = "permits have no tokens, so nothing to fence with";
static const char no_names[] =
    "the server knows permits, not owners: tests/backends/redis/test_semaphore.c";
static const char no_counter[] = "permits have no tokens, so no counter of them";
static const char it_counts[] =
    "the key of the name is the number of free permits, which isn't lost with a lease";
static const char shared_names[] =
    "Redisson gives the semaphores a and {a} the same key of taken permits";
static const char no_leases[] =
    "Redisson's RSemaphore has no leases: what its holder doesn't give back stays away";
static const char majority[] = "held are most of three keys, and the row looks at one";

/* Of ZooKeeper's. */
static const char sessions_lease[] =
    "the lease is the session's: one lock's isn't made longer";
static const char nobody_knows[] =
    "what is left of a session only its own client knows: inspect doesn't say it";
static const char two_nodes[] =
    "a lease has two nodes, in the line and among the leases: six requests a hand-over";
static const char its_silence[] =
    "the C client notices that it hears nothing after two thirds of the session, which "
    "leaves "
    "no time to renew again; cuts that it is told of: A12, N2";
static const char no_single_answer[] =
    "a lease is asked for when the line's node is there: no single answer gives it";
static const char no_size[] =
    "the size of a semaphore isn't kept there: each says its own";
static const char its_own_words[] =
    "the C client tells nobody that it was refused: opening takes client.connect_ms";
static const char its_own_names[] = "host names are looked up by the C client";
static const char another_one[] = "an ensemble that comes back with nothing is another "
                                  "one: it counts its transactions, "
                                  "and so the tokens, from the beginning";
static const char own_descriptors[] =
    "the server has no limit to set for it: it is set by its configuration";

/* Of etcd's. */
static const char clients_lease[] =
    "the lease is the client's: one lock's isn't made longer";
static const char lease_of_another[] =
    "what is left of a lease, and a mutex' token, only "
    "its own client says: inspect doesn't";
static const char its_proposal[] =
    "an election's key says its published id and no owner: inspect names the key";
static const char another_cluster[] = "a cluster that comes back with nothing is another "
                                      "one: it counts its revisions, and so "
                                      "the tokens, from the beginning";
static const char not_the_answers[] = "no answer begins a lease, that is the client's, "
                                      "and counts from when its renewal was sent";
static const char its_own_limits[] = "etcd has no limit of connections to set";

/* Of PostgreSQL's. */
static const char never_empty[] =
    "what it has confirmed is on its disk: killed and back with it is N9 and the others";
static const char its_own_limit[] = "max_connections is set by its configuration";

/* Of memcached's. */
static const char two_round_trips[] =
    "it is taken with the second of two round trips, which who stands still doesn't make";
static const char no_list[] = "it can't list its items";
static const char longest_lease[] =
    "the longest lease is two seconds shorter there, as the server's clock may lag: "
    "tests/backends/memcached/test_locks.c";

const exception exceptions[] = {
    {"redis+cluster", NULL, NULL, "N11", no_replica_of_one},
    {"redis+cluster", NULL, NULL, "C11", one_slot},
    {"memlock", NULL, NULL, "T2 T6 F2", no_order_of_several},
    {NULL, NULL, "item", "P29", no_list},
    {NULL, NULL, "item", "T12", longest_lease},
    {NULL, NULL, "item", "N23", own_descriptors},
    {NULL, "write", "item", "T3", two_round_trips},
    {NULL, "semaphore", "item", "T3", two_round_trips},
    {"postgres", NULL, NULL, "N8", never_empty},
    {"postgres", NULL, NULL, "N23", its_own_limit},
    {NULL, NULL, "concurrency", "P12 P13", clients_lease},
    {NULL, NULL, "concurrency", "T3", not_the_answers},
    {NULL, NULL, "concurrency", "P29", lease_of_another},
    {NULL, "election", "concurrency", "P30 P37", its_proposal},
    {NULL, NULL, "concurrency", "P33", no_size},
    {NULL, NULL, "concurrency", "N8", another_cluster},
    {NULL, NULL, "concurrency", "N23", its_own_limits},
    {NULL, NULL, "curator", "P12 P13", sessions_lease},
    {NULL, NULL, "curator", "P29", nobody_knows},
    {NULL, NULL, "curator", "P33", no_size},
    {NULL, "semaphore", "curator", "T3", no_single_answer},
    {NULL, NULL, "curator", "T9", its_silence},
    {NULL, "semaphore", "curator", "W8", two_nodes},
    {NULL, NULL, "curator", "N1", its_own_words},
    {NULL, NULL, "curator", "N7", its_own_names},
    {NULL, NULL, "curator", "N8", another_one},
    {NULL, NULL, "curator", "N23", own_descriptors},
    {NULL, "election", NULL, "P3 P6 P7 P14 P15", no_reentry},
    {NULL, "semaphore", NULL, "P3 P6 P7 P14 P15", no_reentry},
    {NULL, "semaphore", NULL, "T2 T6 F2", no_tokens},
    {NULL, "semaphore", "!table", "P29 A1", no_names},
    {NULL, "semaphore", "redisson", "P37", no_names},
    {NULL, "semaphore", NULL, "A8 C10", no_counter},
    {NULL, "semaphore", "!table", "T7 N14 W2", it_counts},
    {NULL, "semaphore", "redisson", "C11", shared_names},
    {NULL, "plain semaphore", NULL, "P3 P6 P7 P14 P15", no_reentry},
    {NULL, "plain semaphore", NULL, "T2 T6 F2", no_tokens},
    {NULL, "plain semaphore", NULL, "P13 P17 P20 P29 P30 P32 P37 A1 T9 T10 T11 F1",
     no_names},
    {NULL, "plain semaphore", NULL, "A8 C10", no_counter},
    {NULL, "plain semaphore", NULL, "T7 N14 W2", it_counts},
    {NULL, "plain semaphore", NULL,
     "P10 A7 A11 T1 T3 T4 T8 N1 N2 N3 N4 N5 N6 N9 W4 W7 C4 C8", no_leases},
    {NULL, "fair", NULL, "A11",
     "who stands still in the line of a fair lock keeps its place until that lapses"},
    {NULL, NULL, "rueidis", "T7 N14", majority},
    {NULL, NULL, "rueidis", "P29",
     "the names of its keys don't say which are locks: no list"},
};
const size_t exception_count = sizeof(exceptions) / sizeof(*exceptions);
