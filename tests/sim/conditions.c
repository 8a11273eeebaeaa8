/* Promises about the conditions on Redis: no signal is lost or doubled, and the line keeps its order; read from
 * the keys before and after each request, and not from the library. */
#include "net.h"

#include "backends/redis/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 256

typedef struct owner {
    char name[64];
    char token[24]; /* of who is signalled; of others "" */
} owner;

/* Who waits, in the order of the line, and who is signalled. */
typedef struct view {
    owner waits[MOST], signalled[MOST];
    size_t wait_count, signalled_count;
} view;

static view before, after;
static int64_t overdue_since[MAX_NAMES], unheard_since[MAX_NAMES]; /* 0: it isn't so */

void conditions_begin(void)
{
    memset(overdue_since, 0, sizeof(overdue_since));
    memset(unheard_since, 0, sizeof(unheard_since));
}

/* ---- what lies there ---- */

static void put_owner(owner *to, const dlk_arg *name, const char *token)
{
    *to = (owner){{0}, {0}};
    (void)snprintf(to->name, sizeof(to->name), "%.*s", (int)name->size, name->data);
    (void)snprintf(to->token, sizeof(to->token), "%s", token);
}

static const char begins[] = "signal ";

static bool is_signalled(const model_item *item)
{
    return item->value.size > sizeof(begins) - 1 &&
           memcmp(item->value.data, begins, sizeof(begins) - 1) == 0;
}

static void look(int name, view *ret)
{
    model *m = server_model();
    m->looked_at = true;
    const dlk_key *key = server_key(name);
    const dlk_arg text = {key->name, key->size};
    ret->wait_count = ret->signalled_count = 0;
    const model_key *hash = model_find(m, &text);
    for (size_t i = 0; hash && hash->type == MODEL_HASH && i < hash->count; i++)
        if (is_signalled(&hash->items[i]) && ret->signalled_count < MOST)
            put_owner(&ret->signalled[ret->signalled_count++], &hash->items[i].name,
                      hash->items[i].value.data + sizeof(begins) - 1);
    const model_key *line = model_find_text(m, server_derived(name, 0));
    for (size_t i = 0; line && i < line->count && ret->wait_count < MOST; i++)
        put_owner(&ret->waits[ret->wait_count++], &line->items[i].name, "");
    m->looked_at = false;
}

static const owner *find(const owner *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

/* Whose client waits there by this very number, and nothing excuses that it should have been passed over. */
static const client *attends(int name, const owner *one)
{
    holder by;
    const dlk_arg text = dlk_arg_text(one->name);
    if (!owner_named(&text, &by) || by.client < 0)
        return NULL;
    const client *c = &s.clients[by.client];
    const dlk_grant *trying = c->names[name] ? c->names[name]->trying : NULL;
    return trying && trying->number == by.number && client_is_well(c) && redis_hears(c) &&
                   is_calm(s.state_lost_at[name]) && is_calm(s.failed_over_at) &&
                   service_is_calm()
               ? c
               : NULL;
}

/* ---- after each request ---- */

void conditions_before(int name)
{
    look(name, &before);
}

/* Those who wait, but for who asks: that one may come, leave, or stand behind the others now. */
static size_t others(const view *of, const char *me, const char *ret[MOST])
{
    size_t count = 0;
    for (size_t i = 0; i < of->wait_count; i++)
        if (strcmp(of->waits[i].name, me) != 0)
            ret[count++] = of->waits[i].name;
    return count;
}

/* Nobody leaves before those who came earlier, and whoever comes is the last. */
static void check_order(const message *m, const char *me)
{
    static const char *earlier[MOST], *now[MOST];
    size_t were = others(&before, me, earlier), are = others(&after, me, now);
    bool kept = are <= were;
    for (size_t i = 0; kept && i < are; i++)
        kept = strcmp(now[i], earlier[were - are + i]) == 0;
    const owner *mine = find(after.waits, after.wait_count, me);
    if (mine && !find(before.waits, before.wait_count, me))
        kept &= mine == &after.waits[after.wait_count - 1];
    if (!kept)
        violated(m->name, "the line of %c isn't in its order", 'a' + m->name);
}

/* … and it has no request under way, which may be taking its time. */
static bool is_there(int name, const owner *one)
{
    const client *c = attends(name, one);
    return c && s.service->idle(c);
}

/* Whoever leaves the line is signalled, or excused. */
static void check_passed_over(const message *m, const char *me)
{
    for (size_t i = 0; i < before.wait_count; i++) {
        const owner *one = &before.waits[i];
        if (strcmp(one->name, me) != 0 &&
            !find(after.waits, after.wait_count, one->name) &&
            !find(after.signalled, after.signalled_count, one->name) &&
            is_there(m->name, one))
            violated(m->name, "%s is passed over in the line of %c, and is well",
                     one->name, 'a' + m->name);
    }
    for (size_t i = 0; i < before.signalled_count; i++) {
        const owner *one = &before.signalled[i];
        if (strcmp(one->name, me) != 0 &&
            !find(after.signalled, after.signalled_count, one->name) &&
            is_there(m->name, one))
            violated(m->name, "%s, which is well, loses its signal of %c", one->name,
                     'a' + m->name);
    }
}

/* A signal is there until it is used, or nobody is left to whom it could go; who asks may have come behind it. */
static void check_sum(const message *m, const char *me, size_t more, size_t used)
{
    static const char *waits[MOST];
    size_t there = before.signalled_count + more;
    if (after.signalled_count > there)
        violated(m->name, "%zu are signalled at %c, of %zu signals",
                 after.signalled_count, 'a' + m->name, there);
    if (after.signalled_count + used < there && others(&after, me, waits) > 0)
        violated(m->name, "a signal of %c is lost, and %s waits", 'a' + m->name,
                 waits[0]);
}

/* Its place was signalled, and the release says by its token that this signal was used. */
static size_t uses(const message *m, const char *me, const dlk_arg *token)
{
    const owner *mine = find(before.signalled, before.signalled_count, me);
    return m->verb == DLK_RELEASE && mine && strlen(mine->token) == token->size &&
           memcmp(mine->token, token->data, token->size) == 0;
}

/* @p args: of a script with three keys, then the channel, the owner, the lease and its own three. */
enum { OWNER = 7, OWN_SECOND = 10, LEAST = 11 };

void conditions_after(const message *m, const dlk_arg *args, size_t count,
                      const dlk_buf *answer)
{
    char me[64] = "";
    const char *text = dlk_buf_head(answer);
    bool refused = text[0] == '-';
    look(m->name, &after);
    if (count < LEAST || m->verb == DLK_RENEW || m->verb == DLK_VERIFY || refused)
        return;
    (void)snprintf(me, sizeof(me), "%.*s", (int)args[OWNER].size, args[OWNER].data);
    size_t more = m->verb == DLK_SIGNAL ? (size_t)strtoull(text + 1, NULL, 10) : 0;
    check_order(m, me);
    check_passed_over(m, me);
    check_sum(m, me, more, uses(m, me, &args[OWN_SECOND]));
    if (m->verb == DLK_ACQUIRE && m->reply == DLK_YES &&
        !find(after.signalled, after.signalled_count, me))
        violated(m->name, "%s is told that it is signalled at %c, and isn't", me,
                 'a' + m->name);
}

/* ---- in time ---- */

static void since(int64_t *at, bool so)
{
    *at = !so ? 0 : *at ? *at : s.now;
}

/* Is there one whose signal should have gone on by now? */
static bool is_overdue(int name)
{
    model *m = server_model();
    m->looked_at = true;
    const model_key *set = model_find_text(m, server_derived(name, 1));
    bool overdue = set && set->items[0].score < (double)model_now_ms(m);
    m->looked_at = false;
    return overdue;
}

void conditions_watch(int name)
{
    static view now;
    const client *waits = NULL, *unheard = NULL;
    look(name, &now);
    for (size_t i = 0; i < now.wait_count && !waits; i++)
        waits = attends(name, &now.waits[i]);
    for (size_t i = 0; i < now.signalled_count && !unheard; i++)
        unheard = attends(name, &now.signalled[i]);
    since(&overdue_since[name], waits && is_overdue(name));
    since(&unheard_since[name], unheard != NULL);
    /* Who should have looked may have died: the next poll does. */
    int64_t look_ns = SIM_POLL_MS * MS * 5 / 4 + SEC;
    if (overdue_since[name] && s.now - overdue_since[name] > look_ns)
        violated(name, "a signal of %c is over, and client %d waits for it", 'a' + name,
                 waits->index);
    if (unheard_since[name] && s.now - unheard_since[name] > look_ns)
        violated(name, "client %d waits, is signalled at %c and hasn't heard of it",
                 unheard->index, 'a' + name);
}
