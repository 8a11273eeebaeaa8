/*
 * Who holds what, read from the leader's nodes by the rules of the recipes (Curator's and kazoo's
 * sources) and not by the library's; and promises about these nodes: one for each who wants the lock, none
 * that nobody knows of, and whoever comes first is told.
 */
#include "zookeeper/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 10

/* Where those stand who have the lock or come next, and how their names say so. */
typedef struct recipe {
    const char *parent; /* of "/a", "/b", …; NULL: all names share "/line" */
    const char *write, *read;
    bool begins; /* the mark is at the name's beginning, else before the digits */
    bool plain;  /* the path itself is the node */
} recipe;

static const recipe recipes[KIND_COUNT] = {
    [KIND_CURATOR] = {"", "lock-", NULL, false, false},
    [KIND_CURATOR_RW] = {"", "__WRIT__", "__READ__", false, false},
    [KIND_CURATOR_PERMITS] = {"/leases", "lease-", NULL, false, false},
    [KIND_CURATOR_SINGLE] = {"/leases", "lease-", NULL, false, false},
    [KIND_LATCH] = {"", "latch-", NULL, false, false},
    [KIND_SELECTOR] = {"", "lock-", NULL, false, false},
    [KIND_KAZOO] = {"", "__lock__", NULL, false, false},
    [KIND_KAZOO_RW] = {"", "__lock__", "__rlock__", false, false},
    [KIND_KAZOO_ELECTION] = {"", "__lock__", NULL, false, false},
    [KIND_BRIDGE] = {"", "lock-", NULL, false, false},
    [KIND_BRIDGE_ELECTION] = {"", "lock-", NULL, false, false},
    [KIND_EXCLUSIVE] = {"", NULL, NULL, false, true},
    [KIND_EXCLUSIVE_ELECTION] = {"", NULL, NULL, false, true},
    [KIND_PATTERN] = {NULL, "?-", NULL, true, false},
    [KIND_PATTERN_RW] = {"", "W-", "R-", true, false},
    [KIND_PATTERN_ELECTION] = {"", "n-", NULL, true, false},
    [KIND_ZK_KEPT] = {"", "lock-", NULL, false, false},
    [KIND_ZK_KEPT_BRIDGE] = {"", "lock-", NULL, false, false},
    [KIND_ZK_CONDITION] = {"", "wait-", NULL, false, false},
};

/* One who stands there. */
typedef struct contender {
    const zk_node *node;
    long long place;
    int32_t take; /* leases of one holder's, which were made at once, are one contender */
    bool reads;
} contender;

static int64_t last[MAX_NAMES]
                   [MAX_HELD]; /* tokens of those who held it at the last look */
static int last_count[MAX_NAMES];

void zk_rules_begin(void)
{
    memset(last_count, 0, sizeof(last_count));
    tallies_begin();
}

/* ---- names ---- */

/* A path from its lock's name on: those of conditions lie apart. */
static const char *named(const char *path)
{
    static const char before[] = "/dlock-conditions";
    size_t size = sizeof(before) - 1;
    return kind_signals() && strncmp(path, before, size) == 0 ? path + size : path;
}

int zk_rules_name_of(const char *all)
{
    const char *path = named(all);
    if (path[0] == '\0')
        return ALL_NAMES;
    bool shared = strncmp(path, "/line/", 6) == 0;
    int name = (shared ? path[6] : path[1]) - 'a';
    bool whole =
        shared || path[1] == '\0' || path[2] == '\0' || path[2] == '/' || path[2] == '-';
    return whole && name >= 0 && name < s.config.names ? name : ALL_NAMES;
}

static const char *base_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

static const char *digits_of(const char *path)
{
    size_t size = strlen(path);
    return size > DIGITS ? path + size - DIGITS : NULL;
}

static bool has_mark(const recipe *r, const char *base, const char *mark)
{
    const char *digits = digits_of(base);
    size_t size = mark ? strlen(mark) : 0;
    if (!mark || !digits || (size_t)(digits - base) < size)
        return false;
    if (!r->parent) /* the mark is the lock's name, which has been looked at */
        return base[1] == '-';
    return memcmp(r->begins ? base : digits - size, mark, size) == 0;
}

static bool is_child(const zk_node *node, const char *parent)
{
    const char *path = named(node->path);
    size_t size = strlen(parent);
    return strncmp(path, parent, size) == 0 && path[size] == '/' &&
           !strchr(path + size + 1, '/');
}

static bool stands_in_line(const zk_node *node, int name, contender *ret)
{
    const recipe *r = &recipes[s.config.kind];
    char parent[16];
    (void)snprintf(parent, sizeof(parent), r->parent ? "/%c%s" : "/line", 'a' + name,
                   r->parent ? r->parent : ""); /* fits */
    if (!node->owner || zk_rules_name_of(node->path) != name ||
        (node->side && node->token == 0))
        return false;
    *ret = (contender){.node = node, .take = 1};
    if (r->plain)
        return strcmp(node->path, parent) == 0;
    const char *base = base_of(node->path);
    ret->reads = has_mark(r, base, r->read);
    if (!is_child(node, parent) || !(ret->reads || has_mark(r, base, r->write)))
        return false;
    ret->place = strtoll(digits_of(base), NULL, 10);
    return true;
}

/* ---- who has it ---- */

/* By place; of a downgrade's two the writer is first, and stands for both. */
static int by_place(const void *a, const void *b)
{
    const contender *x = a, *y = b;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return (int)x->reads - (int)y->reads;
}

static bool is_one_holders(const zk_node *a, const zk_node *b)
{
    return a->number && a->number == b->number && a->owner == b->owner;
}

static int line_of(int name, contender ret[MAX_HELD])
{
    int count = 0, kept = 0;
    DLK_LIST_FOR (it, &zk_leader_tree()->nodes)
        if (count < MAX_HELD &&
            stands_in_line(DLK_LIST_ITEM(it, zk_node, link), name, &ret[count]))
            count++;
    qsort(ret, (size_t)count, sizeof(*ret), by_place);
    for (int i = 0; i < count; i++)
        if (kept > 0 && kind_counts() && is_one_holders(ret[i].node, ret[kept - 1].node))
            ret[kept - 1].take++;
        else if (kept == 0 || ret[i].place != ret[kept - 1].place)
            ret[kept++] = ret[i];
    return kept;
}

/* Who has lost one of several leases has none, though the others are there still, and count. */
static int count_permits(contender *line, int count)
{
    int holders = 0, taken = 0;
    for (int i = 0; i < count && (taken += line[i].take) <= kind_permits(); i++)
        if (line[i].take == line[i].node->series)
            line[holders++] = line[i];
    return holders;
}

static int standers_of(const contender *line, int count, stander ret[MAX_HELD])
{
    for (int i = 0; i < count; i++) {
        const zk_session *session = zk_session_find(line[i].node->owner);
        ret[i] = (stander){line[i].place, session->client, session->generation,
                           line[i].node->number};
    }
    return count;
}

/* The signals of a condition, as text. */
static const char *tally_of(int name)
{
    char path[40];
    (void)snprintf(path, sizeof(path), "/dlock-conditions/%c", 'a' + name); /* fits */
    const zk_node *folder = zk_tree_find(zk_leader_tree(), path);
    return folder ? folder->data : "";
}

/* The first of them are the holders then. */
static int count_holders(int name, contender *line, int count)
{
    int holders = 0;
    stander who[MAX_HELD];
    if (kind_signals())
        return tally_signalled(tally_of(name), who, standers_of(line, count, who));
    if (kind_counts())
        return count_permits(line, count);
    if (count == 0 || !line[0].reads)
        return count > 0;
    while (holders < count && line[holders].reads)
        holders++;
    return holders;
}

static holder holder_of(const zk_node *node)
{
    return (holder){zk_wires_client(node->owner), node->number, node->token};
}

int zk_holders(int name, holder ret[MAX_HELD])
{
    contender line[MAX_HELD];
    int count = count_holders(name, line, line_of(name, line));
    for (int i = 0; i < count; i++)
        ret[i] = holder_of(line[i].node);
    return count;
}

/* ---- what changes ---- */

/* Permits have no tokens; and of several leases an operator may delete the first. */
static int64_t mark_of(const contender *it)
{
    return kind_counts() && it->node->number
               ? (int64_t)((uint64_t)it->node->owner << 32 ^ it->node->number)
               : it->node->token;
}

static bool held_before(int name, int64_t token)
{
    for (int i = 0; i < last_count[name]; i++)
        if (last[name][i] == token)
            return true;
    return false;
}

/* Whoever has stood in the line since before an import has no token yet when it comes first: that is the number
 * of what it writes then. */
static bool counts_by_folder(void)
{
    return s.config.kind == KIND_CURATOR || s.config.kind == KIND_KAZOO ||
           s.config.kind == KIND_BRIDGE || kind_keeps();
}

static bool is_to_write(const zk_node *node)
{
    const zk_node *folder = zk_tree_parent(zk_leader_tree(), node->path);
    return counts_by_folder() && folder && folder->mzxid > node->token;
}

void zk_rules_written(const zk_node *folder)
{
    contender line[MAX_HELD];
    int name = zk_rules_name_of(folder->path);
    if (!counts_by_folder() || name == ALL_NAMES || line_of(name, line) == 0)
        return;
    zk_node *first = zk_tree_find(zk_leader_tree(), line[0].node->path);
    if (zk_tree_is_child(first, folder->path) && first->token < folder->mzxid)
        first->token = folder->mzxid;
}

static void tell_given(int name, const contender *to)
{
    holder h = holder_of(to->node);
    const zk_session *session = zk_session_find(to->node->owner);
    const wish it = {.client = h.client,
                     .sender = session->client * 1000 + session->generation,
                     .number = h.number,
                     .shared = to->reads,
                     .take = to->take};
    tell(SERVER, name, "%c goes to #%llu of client %d%s", 'a' + name,
         (unsigned long long)h.number, session->client,
         h.client == NOBODY ? ", of a session that it has given up" : "");
    check_given(name, &it, kind_counts() || is_to_write(to->node) ? 0 : h.token);
}

static void look_at(int name)
{
    contender line[MAX_HELD];
    int count = count_holders(name, line, line_of(name, line));
    for (int i = 0; i < count; i++)
        if (!held_before(name, mark_of(&line[i])))
            tell_given(name, &line[i]);
    last_count[name] = count;
    for (int i = 0; i < count; i++)
        last[name][i] = mark_of(&line[i]);
}

static void look_at_signals(int name, int by)
{
    contender line[MAX_HELD];
    stander who[MAX_HELD];
    int count = standers_of(line, line_of(name, line), who);
    tally_seen(name, by, who, count, tally_of(name));
}

void zk_rules_look(int by)
{
    for (int n = 0; n < s.config.names; n++) {
        if (kind_signals())
            look_at_signals(n, by);
        look_at(n);
    }
}

/* ---- one node for each ---- */

static bool is_beside(const char *a, const char *b)
{
    const char *ends[] = {strrchr(a, '/'), strrchr(b, '/')};
    return ends[0] - a == ends[1] - b && memcmp(a, b, (size_t)(ends[0] - a)) == 0;
}

/* A bridge has one of each kind. */
static bool is_alike(const char *a, const char *b)
{
    return is_beside(a, b) && !strstr(a, "__lock__") == !strstr(b, "__lock__");
}

/* Several leases that were taken at once. */
static bool is_series(const char *a, const char *b)
{
    size_t size = strlen(a);
    return kind_counts() && size == strlen(b) && size > DIGITS &&
           memcmp(a, b, size - DIGITS) == 0;
}

/* Made by who gives up writing: it stands where the write node stands, and has its token. Without
 * that, which an operator has deleted, it means nothing, and goes soon. */
static bool is_side_of(const zk_node *node, const zk_node *other)
{
    const char *a = digits_of(node->path), *b = digits_of(other->path);
    return other != node && other->owner == node->owner &&
           is_beside(node->path, other->path) && a && b && strcmp(a, b) == 0;
}

static void mark_side(zk_node *node)
{
    node->token = 0;
    DLK_LIST_FOR (it, &zk_leader_tree()->nodes) {
        const zk_node *other = DLK_LIST_ITEM(it, zk_node, link);
        if (!is_side_of(node, other))
            continue;
        node->number = other->number;
        node->token = other->token;
    }
}

void zk_rules_made(zk_node *node, bool numbered)
{
    unsigned index, generation;
    unsigned long long number = 0;
    int name = zk_rules_name_of(node->path);
    node->token = node->czxid;
    if (!node->owner || name == ALL_NAMES)
        return;
    node->side = kind_has_sides() && !numbered;
    if (node->side)
        mark_side(node);
    else if (sscanf(node->data, "%8x-0000-4000-8000-%12x:%llu", &index, &generation,
                    &number) == 3)
        node->number = number;
    DLK_LIST_FOR (it, &zk_leader_tree()->nodes) {
        const zk_node *other = DLK_LIST_ITEM(it, zk_node, link);
        if (other != node && node->number && !node->side && !other->side &&
            other->number == node->number && other->owner == node->owner &&
            is_alike(other->path, node->path) && !is_series(other->path, node->path))
            violated(name, "client %d has two nodes for its #%llu", (int)index, number);
    }
}

/* Of two steps the first is given back when the second is done. */
static bool is_passing(const char *path)
{
    return strstr(path, "/locks/") || strstr(path, "-dlock/");
}

/* Of several leases some have been deleted by somebody. */
static bool is_incomplete(const zk_node *node)
{
    int32_t there = 0;
    DLK_LIST_FOR (it, &zk_leader_tree()->nodes)
        there += is_series(DLK_LIST_ITEM(it, zk_node, link)->path, node->path);
    return kind_counts() && there < node->series;
}

/* Whoever waits keeps his place. */
void zk_rules_deleted(const zk_node *node, int64_t by)
{
    int name = zk_rules_name_of(node->path), index = zk_wires_client(by);
    if (by != node->owner || index == NOBODY || name == ALL_NAMES || !node->number ||
        node->side || is_passing(node->path))
        return;
    const client *c = &s.clients[index];
    const dlk_grant *trying = c->names[name] ? c->names[name]->trying : NULL;
    if (trying && trying->number == node->number && !is_incomplete(node))
        violated(name, "client %d waits for %c, and deletes its own node", index,
                 'a' + name);
}

/* ---- what must be so after a while ---- */

static bool is_known(const client *c, int name, const zk_node *node)
{
    contender as;
    const holder h = holder_of(node);
    if (h.number || stands_in_line(node, name, &as))
        return client_knows(c, name, &h);
    return c->names[name]->grants.first != NULL;
}

static void check_orphans(int name)
{
    const zk_node *orphan = NULL;
    DLK_LIST_FOR (it, &zk_leader_tree()->nodes) {
        const zk_node *node = DLK_LIST_ITEM(it, zk_node, link);
        int index = node->owner ? zk_wires_client(node->owner) : NOBODY;
        if (index == NOBODY || zk_rules_name_of(node->path) != name)
            continue;
        if (client_has_no_excuse(&s.clients[index], name) &&
            !is_known(&s.clients[index], name, node))
            orphan = node;
    }
    if (!orphan || s.now < s.orphans_until[name]) /* it may be a ticket's */
        s.orphan_since[name] = 0;
    else if (!s.orphan_since[name])
        s.orphan_since[name] = s.now;
    else if (s.now - s.orphan_since[name] > 4 * SEC)
        violated(name, "the node %s of client %d stands for nothing that it knows of",
                 orphan->path, zk_wires_client(orphan->owner));
}

bool zk_attends(int name)
{
    DLK_LIST_FOR (it, &zk_leader_tree()->nodes) {
        const zk_node *node = DLK_LIST_ITEM(it, zk_node, link);
        if (!node->owner || zk_rules_name_of(node->path) != name)
            continue;
        int index = zk_wires_client(node->owner);
        if (index == NOBODY || !client_has_no_excuse(&s.clients[index], name))
            return false;
    }
    return true;
}

void zk_watchdog(int name)
{
    check_orphans(name);
    check_place_heard(name);
}

void zk_check_rest(void)
{
    DLK_LIST_FOR (it, &zk_leader_tree()->nodes) {
        const zk_node *node = DLK_LIST_ITEM(it, zk_node, link);
        if (node->owner)
            violated(ALL_NAMES, "the node %s is left behind", node->path);
    }
}
