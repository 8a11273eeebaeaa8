/* The nodes: each a model of Redis that runs the scripts of libdlock/backends/redis, on a time of day
 * of its own; and who holds what, by what most of them say. */
#include "redlock/model.h"

#include <stdlib.h>

static const char *const names[MAX_NAMES] = {"a", "b", "c"};

/* ---- their life ---- */

static int64_t tell_nobody(void *world, const dlk_arg *channel, const dlk_arg *text)
{
    (void)world, (void)channel, (void)text;
    return 0;
}

static int64_t nobody_listens(void *world, const dlk_arg *channel)
{
    (void)world, (void)channel;
    return 0;
}

void redlock_begin(void)
{
    dlk_rand dice = {mix(s.config.seed, 1001, 0)};
    s.node_count = chance(&dice, 400) ? 3 : SIM_NODES;
    for (int i = 0; i < s.node_count; i++) {
        server *at = &s.nodes[i];
        at->rate = 1.0 + (double)between(&dice, -4000, 4000) / 1e6;
        model_init(&at->model);
        at->model.publish = tell_nobody;
        at->model.listeners = nobody_listens;
    }
    redlock_rules_begin();
}

void redlock_end(void)
{
    for (int i = 0; i < s.node_count; i++) {
        model_keys_free(&s.nodes[i].snapshot);
        model_free(&s.nodes[i].model);
    }
}

static void set_clock(server *at)
{
    int64_t time = (int64_t)((double)s.now * at->rate) + at->wall;
    at->model.now_us = INT64_C(1700000000000000) + time / 1000;
}

static model *model_at(int node)
{
    set_clock(&s.nodes[node]);
    return &s.nodes[node].model;
}

/* ---- requests ---- */

/* What one node's answer says; the batch of a renewal says it of many at once. */
static dlk_reply judge(dlk_verb verb, const dlk_buf *answer)
{
    const char *text = dlk_buf_head(answer);
    bool nil = text[0] == '$' && text[1] == '-';
    if (text[0] == '-')
        return DLK_REFUSED;
    if (verb == DLK_ACQUIRE)
        return text[0] == ':' || nil ? DLK_HELD : DLK_YES;
    return text[0] == ':' && strtoll(text + 1, NULL, 10) <= 0 ? DLK_NOT_OURS : DLK_YES;
}

void redlock_apply(message *m, dlk_buf *answer)
{
    dlk_arg args[NET_ARGS];
    size_t count;
    (void)net_parse(dlk_buf_head(&m->bytes), dlk_buf_size(&m->bytes), args, &count);
    set_clock(m->wire->server);
    model_run(&m->wire->server->model, args, count, answer);
    if (!m->verb)
        return;
    m->reply = judge(m->verb, answer);
    tell(SERVER, m->name, "node %d: client %d's %s #%llu%s: %s", m->wire->slot, m->client,
         verb_name(m->verb), (unsigned long long)m->number, m->copy ? " (again)" : "",
         reply_name(m->reply));
}

/* ---- who holds what ---- */

/* That it is looked at changes nothing there. */
static const model_key *look(int node, int name)
{
    model *m = model_at(node);
    m->looked_at = true;
    const model_key *key = model_find_text(m, names[name]);
    m->looked_at = false;
    return key && key->type == MODEL_STRING ? key : NULL;
}

bool redlock_key_at(int node, int name, holder *ret)
{
    const model_key *key = look(node, name);
    return key && owner_named(&key->items[0].name, ret);
}

bool redlock_delete(int node, int name)
{
    const dlk_arg key = dlk_arg_text(names[name]);
    return model_delete(model_at(node), &key);
}

static int nodes_with(int name, const dlk_arg *owner)
{
    int count = 0;
    for (int i = 0; i < s.node_count; i++) {
        const model_key *key = look(i, name);
        count += key && model_same(&key->items[0].name, owner);
    }
    return count;
}

static bool majority_holder(int name, holder *ret)
{
    for (int i = 0; i <= s.node_count / 2; i++) {
        const model_key *key = look(i, name);
        if (!key || nodes_with(name, &key->items[0].name) <= s.node_count / 2 ||
            !owner_named(&key->items[0].name, ret))
            continue;
        if (ret->client >= 0)
            ret->number = redlock_number(&s.clients[ret->client], ret->number);
        return true;
    }
    return false;
}

/* The key lies there for one who can't give it back just now: it may last as long as its lease. */
static bool is_stuck(int node, int name)
{
    holder by;
    return redlock_key_at(node, name, &by) &&
           (by.client < 0 || !client_is_well(&s.clients[by.client]) ||
            s.now < s.orphans_until[name]);
}

/* Nobody can have it while what is stuck leaves no majority to anybody. */
int redlock_holders(int name, holder ret[MAX_HELD])
{
    int stuck = 0;
    if (majority_holder(name, &ret[0]))
        return 1;
    ret[0] = (holder){NOBODY, 0, 0};
    for (int i = 0; i < s.node_count; i++)
        stuck += is_stuck(i, name);
    return stuck > s.node_count / 2;
}
