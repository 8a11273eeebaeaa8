/* What a run is made of, as a line of text; and the shortest schedule that still fails. */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double seconds_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* can't fail */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What a run shall be about: a mode, a kind of lock of one, or any mode but those behind redis:,
 * which have rows of their own. */
static int mode_of(int which)
{
    if (which < MODE_COUNT)
        return which;
    return (int)kind_mode((enum kind)(which - MODE_COUNT));
}

static int kind_of(int which)
{
    return which < MODE_COUNT ? -1 : which - MODE_COUNT;
}

/* They take turns. */
static kind kind_in_turn(mode of, uint64_t seed)
{
    int first = 0, count = 0;
    for (int k = KIND_COUNT - 1; k >= 0; k--)
        if (kind_mode((enum kind)k) == of) {
            first = k;
            count++;
        }
    return (enum kind)(first + (int)(seed % (uint64_t)count));
}

/* Its own draw: older seeds stay what they were, or have another kind. */
static kind kind_of_table(int which, uint64_t seed)
{
    static const enum kind drawn[] = {KIND_MUTEX, KIND_MUTEX, KIND_TABLE_RW,
                                      KIND_TABLE_PERMITS};
    return kind_of(which) >= 0 ? (enum kind)kind_of(which)
                               : drawn[mix(seed, 1001, 0) % 4];
}

bool sim_hands_on;
static const kind can_be_imported[] = {KIND_HANDOVER, KIND_MUTEX,     KIND_STRING,
                                       KIND_FAIR,     KIND_TIMESTAMP, KIND_RUEIDIS};

config config_of(uint64_t seed, int which)
{
    static const enum mode turns[] = {MODE_REDIS, MODE_FILE, MODE_REDIS, MODE_MEM};
    dlk_rand rand = {mix(seed, 0, 0)};
    config c = {.seed = seed, .duration = 60 * SEC};
    c.mode = turns[between(&rand, 0, 3)];
    c.clients = (int)between(&rand, 2, MAX_CLIENTS);
    c.actors = (int)between(&rand, 1, MAX_ACTORS);
    c.names = (int)between(&rand, 1, MAX_NAMES);
    /* Most runs lack some kinds of faults: what one hides another shows. */
    for (int f = 0; f < FAULT_SINGLE_COUNT; f++)
        c.faults |= chance(&rand, 750) ? FAULT_BIT(f) : 0;
    c.kind = (enum kind)between(&rand, 0, KIND_REDIS_DRAWN - 1);
    for (int f = FAULT_SINGLE_COUNT; f < FAULT_COUNT; f++)
        c.faults |= chance(&rand, 750) ? FAULT_BIT(f) : 0;
    if (mode_of(which) >= 0)
        c.mode = (enum mode)mode_of(which);
    if (kind_of(which) >= 0)
        c.kind = (enum kind)kind_of(which);
    if (c.mode > MODE_REDIS && kind_of(which) < 0)
        c.kind = kind_in_turn(c.mode, seed);
    else if (c.mode == MODE_MEM || c.mode == MODE_FILE)
        c.kind = kind_of_table(which, seed);
    else if (!kind_is_there(c.kind))
        c.kind = KIND_HANDOVER;
    /* What one forgets may let two believe that they hold it: half of the runs are without. */
    if (c.mode == MODE_REDLOCK && seed % 4 < 2)
        c.faults &= ~(FAULT_BIT(FAULT_WIPE) | FAULT_BIT(FAULT_EVICT) |
                      FAULT_BIT(FAULT_FAILOVER) | FAULT_BIT(FAULT_SERVER_CLOCK));
    if (sim_hands_on) {
        c.mode = MODE_REDIS;
        c.kind = can_be_imported[seed % (sizeof(can_be_imported) / sizeof(kind))];
    }
    /* Its own draw: older seeds stay what they were. */
    c.hands_on = sim_hands_on ||
                 ((c.mode == MODE_REDIS || c.mode == MODE_MEMCACHED ||
                   c.mode == MODE_MEM || c.mode == MODE_FILE || c.mode == MODE_ETCD) &&
                  mix(seed, 1000, 0) % 3 == 0) ||
                 (c.mode == MODE_ZOOKEEPER && mix(seed, 1000, 0) % 2 == 0);
    return c;
}

/* ---- as a line ---- */

static void print_fault(FILE *to, fault what)
{
    for (const char *at = fault_infos[what].name; *at; at++)
        (void)fputc(*at == ' ' ? '_' : *at, to);
}

void config_print(FILE *to, const config *c)
{
    (void)fprintf(to, "%s", mode_names[c->mode]);
    if (c->mode >= MODE_REDIS || c->kind != KIND_MUTEX)
        (void)fprintf(to, " kind=%s", kinds[c->kind].name);
    (void)fprintf(to, " seed=%" PRIu64 " clients=%d actors=%d names=%d ns=%" PRId64,
                  c->seed, c->clients, c->actors, c->names, c->duration);
    (void)fprintf(to, " faults=0x%" PRIx64, c->faults);
    if (c->hands_on)
        (void)fprintf(to, " hands_on=1");
    if (c->chosen)
        (void)fprintf(to, " only=");
    for (size_t i = 0; c->chosen && i < c->only_count; i++) {
        (void)fprintf(to, "%s%u/%u:", i ? "," : "", c->only[i].who, c->only[i].nth);
        print_fault(to, c->only[i].what);
    }
}

static bool fault_named(const char *text, size_t size, fault *ret)
{
    for (int f = 0; f < FAULT_COUNT; f++) {
        const char *name = fault_infos[f].name;
        bool same = strlen(name) == size;
        for (size_t i = 0; same && i < size; i++)
            same = text[i] == (name[i] == ' ' ? '_' : name[i]);
        if (same) {
            *ret = (fault)f;
            return true;
        }
    }
    return false;
}

/* "1/23:request_lost,2/7:slow" */
static bool parse_only(const char *at, config *c, struct struck **ret)
{
    size_t room = strlen(at) / 5 + 1; /* no entry is shorter than "1/1:x," */
    struck *only = calloc(room, sizeof(*only));
    if (!only)
        abort();
    c->chosen = true;
    c->only = *ret = only;
    while (*at && *at != ' ' && *at != '\n' && c->only_count < room) {
        struck *one = &only[c->only_count++];
        char *end;
        one->who = (uint32_t)strtoul(at, &end, 10);
        if (*end != '/' || one->who > MAX_CLIENTS)
            return false;
        one->nth = (uint32_t)strtoul(end + 1, &end, 10);
        size_t size = *end == ':' ? strcspn(end + 1, ", \n") : 0;
        if (!fault_named(end + 1, size, &one->what))
            return false;
        at = end + 1 + size;
        at += *at == ',';
    }
    return true;
}

static bool number_after(const char *text, const char *key, uint64_t *ret)
{
    const char *at = strstr(text, key);
    if (at)
        *ret = strtoull(at + strlen(key), NULL, 0);
    return at != NULL;
}

/* "redis kind=fair seed=…"; without one it is the plain mutex. */
static bool parse_kind(const char *text, kind *ret)
{
    const char *at = strstr(text, " kind=");
    size_t size = at ? strcspn(at + 6, " ") : 0;
    *ret = KIND_MUTEX;
    for (int k = 0; at && k < KIND_COUNT; k++)
        if (strlen(kinds[k].name) == size && strncmp(at + 6, kinds[k].name, size) == 0) {
            *ret = (kind)k;
            return kind_is_there(*ret);
        }
    return !at;
}

static bool within(uint64_t value, uint64_t low, uint64_t high)
{
    return value >= low && value <= high;
}

bool config_parse(const char *text, config *ret, struct struck **ret_only)
{
    uint64_t seed, clients, actors, names, ns, faults, hands_on = 0;
    *ret_only = NULL;
    *ret = (config){.mode = MODE_COUNT};
    for (int m = 0; m < MODE_COUNT; m++)
        if (strncmp(text, mode_names[m], strlen(mode_names[m])) == 0)
            ret->mode = (enum mode)m;
    if (ret->mode == MODE_COUNT || !number_after(text, " seed=", &seed) ||
        !number_after(text, " clients=", &clients) ||
        !number_after(text, " actors=", &actors) ||
        !number_after(text, " names=", &names) || !number_after(text, " ns=", &ns) ||
        !number_after(text, " faults=", &faults) || !within(clients, 1, MAX_CLIENTS) ||
        !within(actors, 1, MAX_ACTORS) || !within(names, 1, MAX_NAMES))
        return false;
    if (!parse_kind(text, &ret->kind))
        return false;
    ret->hands_on = number_after(text, " hands_on=", &hands_on) && hands_on;
    ret->seed = seed;
    ret->clients = (int)clients;
    ret->actors = (int)actors;
    ret->names = (int)names;
    ret->duration = (int64_t)ns;
    ret->faults = faults;
    const char *only = strstr(text, " only=");
    return !only || parse_only(only + 6, ret, ret_only);
}

/* ---- shrinking ---- */

static double shrink_until;

static bool still_fails(const config *less)
{
    totals ignored;
    return seconds_now() < shrink_until && !run(less, &ignored);
}

/* What it drew becomes what it is given; nothing changes by that. */
static struck *keep_struck(config *failing)
{
    size_t count = failing->chosen ? failing->only_count : s.struck_count;
    struck *only = malloc((count + 1) * sizeof(*only));
    if (!only)
        abort();
    if (count)
        memcpy(only, failing->chosen ? failing->only : s.struck, count * sizeof(*only));
    failing->chosen = true;
    failing->only = only;
    failing->only_count = count;
    return only;
}

/* Without the faults from..from+size, if it fails without them too. */
static bool remove_some(config *failing, struck *only, size_t from, size_t size)
{
    size_t count = failing->only_count;
    struck *less = malloc(count * sizeof(*less));
    if (!less)
        abort();
    memcpy(less, only, from * sizeof(*less));
    memcpy(less + from, only + from + size, (count - from - size) * sizeof(*less));
    config tried = *failing;
    tried.only = less;
    tried.only_count = count - size;
    bool fails = still_fails(&tried);
    if (fails) {
        memcpy(only, less, tried.only_count * sizeof(*less));
        failing->only_count = tried.only_count;
    }
    free(less);
    return fails;
}

/* Delta debugging: halves, quarters, … and single ones until none can be spared. */
static bool fewer_faults(config *failing, struck *only)
{
    bool better = false, again = true;
    for (size_t size = failing->only_count; size > 0 && again;) {
        bool removed = false;
        for (size_t from = 0; from < failing->only_count;) {
            size_t some =
                failing->only_count - from < size ? failing->only_count - from : size;
            if (remove_some(failing, only, from, some))
                removed = better = true;
            else
                from += some;
        }
        again = seconds_now() < shrink_until && (size > 1 || removed);
        size = size > 1 ? (size + 1) / 2 : removed ? 1 : 0;
    }
    return better;
}

static bool try_less(config *failing, config less)
{
    if (!still_fails(&less))
        return false;
    *failing = less;
    return true;
}

static bool smaller(config *failing)
{
    bool better = false;
    config less = *failing;
    if (--less.clients >= 2)
        better |= try_less(failing, less);
    less = *failing;
    if (--less.actors >= 1)
        better |= try_less(failing, less);
    less = *failing;
    if (--less.names >= 1)
        better |= try_less(failing, less);
    less = *failing;
    less.duration = less.duration * 3 / 4;
    if (less.duration > 0)
        better |= try_less(failing, less);
    return better;
}

/* Another seed of the same faults, or none: the first that fails with less. */
static bool end_sooner(config *failing)
{
    totals ignored;
    if (run(failing, &ignored) || s.now - SEC >= failing->duration)
        return false;
    config less = *failing;
    less.duration = s.now - SEC;
    return try_less(failing, less);
}

config shrink(config failing, double seconds, struct struck **ret_only)
{
    totals ignored;
    shrink_until = seconds_now() + seconds;
    (void)run(&failing, &ignored); /* as we know it fails; for what struck it */
    struck *only = keep_struck(&failing);
    *ret_only = only;
    for (bool better = true; better && seconds_now() < shrink_until;) {
        better = end_sooner(&failing);
        better |= fewer_faults(&failing, only);
        better |= smaller(&failing);
    }
    return failing;
}
