/* Who comes before whom; see the header. */
#include "backends/zookeeper/rules.h"

#include "util/number.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool all_digits(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!isdigit((unsigned char)text[i]))
            return false;
    return true;
}

const char *dlk_zk_digits(const char *name)
{
    size_t size = strlen(name);
    if (size < DLK_ZK_DIGITS || !all_digits(name + size - DLK_ZK_DIGITS, DLK_ZK_DIGITS))
        return NULL;
    return name + size - DLK_ZK_DIGITS;
}

/* Does the part of the name before its digits end with the mark? */
static bool marked(const char *name, const char *digits, const char *mark)
{
    size_t before = (size_t)(digits - name), size = strlen(mark);
    return before >= size && memcmp(digits - size, mark, size) == 0;
}

/* A counter that has run over writes -2147483648: the sign belongs to the number. */
static bool marked_number(const char *name, const char *digits, const char *mark)
{
    return marked(name, digits, mark) ||
           (digits > name && digits[-1] == '-' && marked(name, digits - 1, mark));
}

/* Ours say so by the version of their UUID, which no generator of UUIDs makes. */
#define BRIDGE_AT    12
#define BRIDGE_DIGIT 'b'

static bool is_bridge(const char *name)
{
    for (size_t i = 0; i < 32; i++)
        if (!isxdigit((unsigned char)name[i]))
            return false;
    return name[32] == '_' && name[BRIDGE_AT] == BRIDGE_DIGIT;
}

dlk_zk_sort dlk_zk_sort_of(const char *name)
{
    static const struct {
        const char *mark;
        dlk_zk_sort sort;
    } marks[] = {
        {"lock-", DLK_SORT_LOCK},      {"__WRIT__", DLK_SORT_WRITE},
        {"__READ__", DLK_SORT_READ},   {"latch-", DLK_SORT_LATCH},
        {"lease-", DLK_SORT_LEASE},    {"__lock__", DLK_SORT_KLOCK},
        {"__rlock__", DLK_SORT_KREAD}, {"wait-", DLK_SORT_WAIT},
    };
    const char *digits = dlk_zk_digits(name);
    if (strcmp(name, "locks") == 0 || strcmp(name, "leases") == 0)
        return DLK_SORT_PART;
    for (size_t i = 0; digits && i < sizeof(marks) / sizeof(*marks); i++) {
        if (!marked_number(name, digits, marks[i].mark))
            continue;
        bool kazoo = marks[i].sort == DLK_SORT_KLOCK || marks[i].sort == DLK_SORT_KREAD;
        return kazoo && is_bridge(name) ? DLK_SORT_BRIDGE : marks[i].sort;
    }
    return DLK_SORT_OTHER;
}

/* What stands behind the last occurrence of the mark, or the whole. */
static const char *behind_mark(const char *name, const char *mark)
{
    const char *found = NULL;
    for (const char *at = name; (at = strstr(at, mark)); at++)
        found = at;
    return found ? found + strlen(mark) : name;
}

static const char *key_of(const dlk_zk_rule *rule, const char *name)
{
    const char *digits = dlk_zk_digits(name);
    if (rule->kazoo)
        return digits ? digits : name;
    switch (dlk_zk_sort_of(name)) {
    case DLK_SORT_KLOCK:
    case DLK_SORT_KREAD:
    case DLK_SORT_BRIDGE:
        return digits;
    case DLK_SORT_LOCK:
    case DLK_SORT_WRITE:
    case DLK_SORT_READ:
    case DLK_SORT_LATCH:
    case DLK_SORT_LEASE:
    case DLK_SORT_WAIT:
    case DLK_SORT_PART:
    case DLK_SORT_OTHER:
    case DLK_SORT_COUNT:
        break;
    }
    switch (rule->sort) {
    case DLK_SORT_LATCH:
        return behind_mark(name, "latch-");
    case DLK_SORT_WRITE:
    case DLK_SORT_READ:
        name = behind_mark(name, "__READ__");
        return behind_mark(name, "__WRIT__");
    case DLK_SORT_OTHER: /* a pattern's, which ends with the digits */
    case DLK_SORT_LEASE: /* whose order counts for nobody but who looks at them */
        return digits ? digits : name;
    case DLK_SORT_LOCK:
    case DLK_SORT_KLOCK:
    case DLK_SORT_KREAD:
    case DLK_SORT_BRIDGE:
    case DLK_SORT_WAIT:
    case DLK_SORT_PART:
    case DLK_SORT_COUNT:
        break;
    }
    return behind_mark(name, "lock-");
}

/* What a session's number or a UUID may look like, whoever wrote it. */
static bool is_variable(const dlk_zk_form *form, const char *text, size_t size)
{
    if (!form->session && !form->uuid)
        return size == 0;
    if (form->uuid && !form->session && size != 36 && size != 32)
        return false;
    for (size_t i = 0; i < size; i++)
        if (!isxdigit((unsigned char)text[i]) && text[i] != 'x' &&
            !(text[i] == '-' && (i == 0 || form->uuid)))
            return false;
    return size > 0;
}

bool dlk_zk_has_form(const dlk_zk_form *form, const char *name)
{
    const char *digits = dlk_zk_digits(name);
    size_t head = strlen(form->head), tail = strlen(form->tail);
    if (!digits || (size_t)(digits - name) < head + tail ||
        strncmp(name, form->head, head) != 0 ||
        memcmp(digits - tail, form->tail, tail) != 0)
        return false;
    return is_variable(form, name + head, (size_t)(digits - name) - head - tail);
}

static bool has_a_form(const dlk_zk_look *look, const char *name)
{
    return dlk_zk_has_form(look->forms[0], name) ||
           (look->forms[1] && dlk_zk_has_form(look->forms[1], name));
}

/* One that has run over has a sign before its digits, which are past the limit all the same. */
static bool near_the_end(const char *name)
{
    const char *digits = dlk_zk_digits(name);
    return digits &&
           dlk_number_or(digits, 0, INT64_MAX, INT64_MAX) >= DLK_ZK_SEQUENCE_LIMIT;
}

bool dlk_zk_contends(const dlk_zk_rule *rule, const char *child)
{
    dlk_zk_sort sort = dlk_zk_sort_of(child);
    return sort == rule->sort || (rule->behind & DLK_ZK_BIT(sort)) != 0;
}

bool dlk_zk_before(const dlk_zk_rule *rule, const char *a, const char *b)
{
    return strcmp(key_of(rule, a), key_of(rule, b)) < 0;
}

bool dlk_zk_same_series(const char *a, const char *b)
{
    const char *digits = dlk_zk_digits(a), *others = dlk_zk_digits(b);
    size_t size = digits ? (size_t)(digits - a) : 0;
    return digits && others && (size_t)(others - b) == size && memcmp(a, b, size) == 0;
}

/* A lease: how many there are says it all. */
static dlk_zk_verdict judge_count(dlk_zk_look *look, char *const *children, size_t count)
{
    int64_t there = 0;
    for (size_t i = 0; i < count; i++) {
        there += dlk_zk_same_series(children[i], look->own);
        if (dlk_zk_sort_of(children[i]) == DLK_SORT_LEASE)
            continue;
        look->foreign = children[i];
        if (look->strict) {
            look->ahead = children[i];
            return DLK_ZK_FOREIGN;
        }
    }
    if (there != look->take)
        return DLK_ZK_MISSING;
    return (int64_t)count <= look->permits ? DLK_ZK_FIRST : DLK_ZK_BEHIND;
}

/* What a child is to us. */
typedef enum relation { NOTHING, BEFORE_US, STRANGE } relation;

static relation relation_of(const dlk_zk_look *look, const char *child)
{
    const dlk_zk_rule *rule = look->rule;
    if (look->forms[0])
        return has_a_form(look, child) && dlk_zk_before(rule, child, look->own)
                   ? BEFORE_US
                   : NOTHING;
    uint32_t bit = DLK_ZK_BIT(dlk_zk_sort_of(child));
    if (!((rule->behind | rule->beside) & bit))
        return STRANGE;
    return (rule->behind & bit) && dlk_zk_before(rule, child, look->own) ? BEFORE_US
                                                                         : NOTHING;
}

/* Not strict: Curator counts every child whose key is smaller, whatever it is. */
static bool strange_before_us(const dlk_zk_look *look, const char *child)
{
    bool reads = look->rule->sort == DLK_SORT_READ;
    return !look->rule->kazoo && !reads && dlk_zk_before(look->rule, child, look->own);
}

/* One of the others. FIRST: as far as it is concerned, but for what look->ahead says. */
static dlk_zk_verdict meet(dlk_zk_look *look, const char *child)
{
    relation is = relation_of(look, child);
    look->others |= look->forms[0] ? has_a_form(look, child) : is != STRANGE;
    if (is == STRANGE) {
        look->foreign = child;
        if (look->strict)
            return DLK_ZK_FOREIGN;
        is = strange_before_us(look, child) ? BEFORE_US : NOTHING;
    } else if (near_the_end(child) && (!look->forms[0] || has_a_form(look, child))) {
        return DLK_ZK_LIMIT;
    }
    if (is == BEFORE_US &&
        (!look->ahead || dlk_zk_before(look->rule, look->ahead, child)))
        look->ahead = child;
    return DLK_ZK_FIRST;
}

dlk_zk_verdict dlk_zk_judge(dlk_zk_look *look, char *const *children, size_t count)
{
    bool there = false;
    look->ahead = look->foreign = NULL;
    look->others = false;
    if (look->rule->counts)
        return judge_count(look, children, count);
    for (size_t i = 0; i < count; i++) {
        const char *child = children[i];
        if (strcmp(child, look->own) == 0) {
            there = true;
            continue;
        }
        if (look->also_own && strcmp(child, look->also_own) == 0)
            continue;
        dlk_zk_verdict verdict = meet(look, child);
        if (verdict != DLK_ZK_FIRST) {
            look->ahead = child;
            return verdict;
        }
    }
    if (!there)
        return DLK_ZK_MISSING;
    if (near_the_end(look->own)) {
        look->ahead = look->own;
        return DLK_ZK_LIMIT;
    }
    return look->ahead ? DLK_ZK_BEHIND : DLK_ZK_FIRST;
}
