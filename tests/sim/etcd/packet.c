/* What is on its way between the clients and the members, and what strikes it there. */
#include "etcd/model.h"

#include <stdlib.h>
#include <string.h>

dlk_list etcd_limbo;

int64_t etcd_delay(client *c)
{
    if (chance(&c->rand, 20))
        return between(&c->rand, 1 * MS, 200 * MS);
    return between(&c->rand, 50 * 1000, 2 * MS);
}

/* ---- their life ---- */

etcd_packet *etcd_packet_new(const client *c, const char *path, const char *body)
{
    etcd_packet *p = etcd_need(calloc(1, sizeof(*p)));
    *p = (etcd_packet){.client = c->index,
                       .generation = c->generation,
                       .path = path,
                       .strike = FAULT_NONE,
                       .name = ALL_NAMES};
    p->ask = etcd_need(json_loads(body, 0, NULL));
    dlk_list_append(&etcd_limbo, &p->all);
    return p;
}

void etcd_packet_free(etcd_packet *p)
{
    dlk_list_remove(&p->all);
    event_cancel(&p->event);
    event_cancel(&p->end);
    json_decref(p->ask);
    json_decref(p->effect.json);
    etcd_span_free(&p->span);
    free(p);
}

void etcd_packet_settle(etcd_packet *p)
{
    if (!p->call && !p->event.timer.place && !p->busy)
        etcd_packet_free(p);
}

static void run_failed(event *e)
{
    etcd_packet *p = e->of;
    if (p->call && client_put_off(&s.clients[p->client], e))
        return;
    if (p->call)
        etcd_give(p, p->code);
    etcd_packet_settle(p);
}

void etcd_packet_fail(etcd_packet *p, CURLcode code)
{
    if (!p->call)
        return;
    client *c = &s.clients[p->client];
    p->code = code;
    p->armed = false;
    event_at(&p->end, s.now + between(&c->rand, 0, 2 * MS), run_failed, p);
}

void etcd_packet_abandon(etcd_packet *p)
{
    p->armed = false;
    p->dead = true;
    p->lost |= p->watch || chance(&s.clients[p->client].rand, 500);
}

/* ---- what they are about ---- */

static const json_t *first_op(const etcd_packet *p, const char *what)
{
    const json_t *ops = json_object_get(p->ask, "success");
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *op = json_object_get(json_array_get(ops, i), what);
        if (op)
            return op;
    }
    return NULL;
}

const char *etcd_packet_verb(const etcd_packet *p)
{
    if (p->watch)
        return "watch";
    if (strcmp(p->path, "/v3/kv/txn") != 0)
        return strrchr(p->path, '/') + 1;
    if (first_op(p, "request_delete_range"))
        return "delete";
    const json_t *put = first_op(p, "request_put");
    if (dlk_json_true(put, "ignore_value"))
        return "export"; /* nobody is let in by its answer */
    return put ? "put" : "look";
}

const char *etcd_packet_looks_for(const etcd_packet *p)
{
    const char *verb = etcd_packet_verb(p);
    if (strcmp(p->path, "/v3/kv/txn") != 0)
        return NULL;
    if (strcmp(verb, "put") == 0)
        return dlk_json_text(first_op(p, "request_put"), "key");
    return strcmp(verb, "look") == 0 ? dlk_json_text(first_op(p, "request_range"), "key")
                                     : NULL;
}

int etcd_packet_name(const etcd_packet *p)
{
    const json_t *at = p->ask;
    etcd_span span;
    if (p->watch)
        at = json_object_get(p->ask, "create_request");
    else if (strcmp(p->path, "/v3/kv/txn") == 0 && !(at = first_op(p, "request_put")) &&
             !(at = first_op(p, "request_delete_range")))
        at = first_op(p, "request_range");
    (void)etcd_span_read(at, &span);
    int name = etcd_rules_name_of(&span.from);
    etcd_span_free(&span);
    return name;
}

/* ---- faults by the way ---- */

/* What the client was about to be struck with hits one of its next requests. */
void etcd_packet_aim(etcd_packet *p)
{
    client *c = &s.clients[p->client];
    if (c->strike == FAULT_NONE || p->watch || c->points_left-- > 0)
        return;
    p->strike = c->strike;
    p->at = c->strike_at;
    p->name = c->asking;
    p->where = (etcd_where)between(&c->rand, ON_WAY, ON_WAY_BACK);
    c->strike = FAULT_NONE;
}

static void strike(const etcd_packet *p, fault what)
{
    client *c = &s.clients[p->client];
    if (c->generation == p->generation && !c->dead && fault_apply(what, c, p->name))
        fault_count(what, p->at);
}

void etcd_packet_strike(etcd_packet *p)
{
    fault what = p->strike;
    p->strike = FAULT_NONE;
    p->busy = true; /* it may be its client's end */
    if (what != FAULT_NONE)
        strike(p, what);
    p->busy = false;
}

static void strike_later(event *e)
{
    etcd_packet *p = e->of; /* made for this alone */
    etcd_packet_strike(p);
    etcd_packet_free(p);
}

void etcd_packet_strike_on_way(etcd_packet *of, int64_t until)
{
    etcd_packet *p = etcd_packet_new(&s.clients[of->client], of->path, "{}");
    p->generation = of->generation;
    p->strike = of->strike;
    p->at = of->at;
    p->name = of->name;
    p->member = NO_LEADER; /* it is no part of the traffic */
    of->strike = FAULT_NONE;
    dlk_rand dice = {mix(s.config.seed, 3, ++s.sequence)};
    event_at(&p->event, s.now + (until - s.now) * between(&dice, 0, 100) / 100,
             strike_later, p);
}
