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

etcd_packet *etcd_packet_new(const client *c, etcd_says says)
{
    etcd_packet *p = etcd_need(calloc(1, sizeof(*p)));
    p->client = c->index;
    p->generation = c->generation;
    p->member = NO_LEADER;
    p->says = says;
    p->method = DLK_ETCD_METHODS;
    p->strike = FAULT_NONE;
    p->name = ALL_NAMES;
    dlk_list_init(&p->queue);
    dlk_list_append(&etcd_limbo, &p->all);
    return p;
}

etcd_packet *etcd_packet_back(const client *c, etcd_says says, wire *w, int32_t stream)
{
    etcd_packet *p = etcd_packet_new(c, says);
    p->wire = w;
    p->member = w->slot;
    p->stream = stream;
    return p;
}

void etcd_packet_free(etcd_packet *p)
{
    dlk_list_remove(&p->all);
    dlk_list_remove(&p->queue);
    event_cancel(&p->event);
    dlk_arena_free(&p->arena);
    dlk_buf_free(&p->effect.body);
    if (p->parts)
        etcd_parts_free(p->parts);
    free(p->parts);
    free(p);
}

bool etcd_packet_is_awaited(const etcd_packet *p)
{
    return !p->dropped && p->wire->state == WIRE_UP;
}

bool etcd_packet_is_lost(etcd_packet *p)
{
    if (p->wire->orphaned) /* the process that it came to is gone */
        return true;
    if (!etcd_packet_is_awaited(p) && !p->kept && !p->cut) {
        p->cut = true;
        p->lost |= chance(&s.clients[p->client].rand, 500);
    }
    return p->lost;
}

/* ---- what they are about ---- */

size_t etcd_packet_parts(const etcd_packet *p)
{
    return p->parts ? p->parts->count : 0;
}

/* The first of that kind that it does where its comparisons are true; NULL: none. */
static const DlkEtcd__RequestOp *first_op(const DlkEtcd__TxnRequest *txn,
                                          DlkEtcd__RequestOp__RequestCase what)
{
    for (size_t i = 0; i < txn->n_success; i++)
        if (txn->success[i]->request_case == what)
            return txn->success[i];
    return NULL;
}

static const DlkEtcd__RangeRequest *range_in(const DlkEtcd__TxnRequest *txn)
{
    const DlkEtcd__RequestOp *op =
        first_op(txn, DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE);
    return op ? op->request_range : NULL;
}

static const DlkEtcd__PutRequest *put_in(const DlkEtcd__TxnRequest *txn)
{
    const DlkEtcd__RequestOp *op =
        first_op(txn, DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_PUT);
    return op ? op->request_put : NULL;
}

static const DlkEtcd__DeleteRangeRequest *deletion_in(const DlkEtcd__TxnRequest *txn)
{
    const DlkEtcd__RequestOp *op =
        first_op(txn, DLK_ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE);
    return op ? op->request_delete_range : NULL;
}

static const char *verb_of(const DlkEtcd__TxnRequest *txn)
{
    if (deletion_in(txn))
        return "delete";
    const DlkEtcd__PutRequest *put = put_in(txn);
    if (put && put->ignore_value)
        return "export"; /* nobody is let in by its answer */
    return put ? "put" : "look";
}

const char *etcd_packet_verb(const etcd_packet *p)
{
    static const char *const verbs[DLK_ETCD_METHODS] = {
        [DLK_ETCD_GRANT] = "grant",          [DLK_ETCD_REVOKE] = "revoke",
        [DLK_ETCD_KEEP_ALIVE] = "keepalive", [DLK_ETCD_RANGE] = "range",
        [DLK_ETCD_WATCH] = "watch",
    };
    if (!p->parts)
        return verbs[p->method];
    return p->parts->nested ? "batch" : verb_of(p->parts->asks[0]);
}

dlk_etcd_bytes etcd_packet_looks_for(const etcd_packet *p, size_t part)
{
    const DlkEtcd__TxnRequest *txn = p->parts->asks[part];
    const char *verb = verb_of(txn);
    if (strcmp(verb, "put") == 0)
        return put_in(txn)->key;
    if (strcmp(verb, "look") == 0 && range_in(txn))
        return range_in(txn)->key;
    return (dlk_etcd_bytes){0};
}

static dlk_etcd_bytes key_of(const DlkEtcd__TxnRequest *txn)
{
    if (put_in(txn))
        return put_in(txn)->key;
    if (deletion_in(txn))
        return deletion_in(txn)->key;
    return range_in(txn) ? range_in(txn)->key : (dlk_etcd_bytes){0};
}

int etcd_packet_name(const etcd_packet *p)
{
    const DlkEtcd__WatchRequest *watch = (const void *)p->ask;
    if (p->parts && !p->parts->nested)
        return etcd_rules_name_of(key_of(p->parts->asks[0]));
    if (p->method == DLK_ETCD_WATCH &&
        watch->request_case == DLK_ETCD__WATCH_REQUEST__REQUEST_CREATE_REQUEST)
        return etcd_rules_name_of(watch->create_request->key);
    return ALL_NAMES;
}

/* ---- what came ---- */

/* A server makes the comparisons of all before it does anything: two that are about one name would not see each
 * other. */
static void look_for_twins(const etcd_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        for (size_t j = 0; j < i; j++)
            if (etcd_rules_name_of(key_of(parts->asks[i])) ==
                etcd_rules_name_of(key_of(parts->asks[j])))
                abort(); /* nobody may ask for both at once */
}

void etcd_packet_read(etcd_packet *p, const char *path, const void *message, size_t size)
{
    static const ProtobufCMessageDescriptor *const asks[DLK_ETCD_METHODS] = {
        [DLK_ETCD_GRANT] = &dlk_etcd__lease_grant_request__descriptor,
        [DLK_ETCD_REVOKE] = &dlk_etcd__lease_revoke_request__descriptor,
        [DLK_ETCD_KEEP_ALIVE] = &dlk_etcd__lease_keep_alive_request__descriptor,
        [DLK_ETCD_RANGE] = &dlk_etcd__range_request__descriptor,
        [DLK_ETCD_TXN] = &dlk_etcd__txn_request__descriptor,
        [DLK_ETCD_WATCH] = &dlk_etcd__watch_request__descriptor,
    };
    bool no_memory;
    for (int i = 0; i < DLK_ETCD_METHODS; i++)
        if (asks[i] && strcmp(dlk_etcd_rpcs[i].path, path) == 0)
            p->method = (dlk_etcd_method)i;
    if (p->method == DLK_ETCD_METHODS)
        abort(); /* nobody asks for anything else */
    p->ask =
        etcd_need(dlk_etcd_unpack(asks[p->method], message, size, &p->arena, &no_memory));
    if (p->method != DLK_ETCD_TXN)
        return;
    p->parts = etcd_need(calloc(1, sizeof(*p->parts)));
    etcd_parts_read(p->parts, (const void *)p->ask);
    look_for_twins(p->parts);
}

/* ---- faults by the way ---- */

/* What the client was about to be struck with hits one of its next requests. */
void etcd_packet_aim(etcd_packet *p)
{
    client *c = &s.clients[p->client];
    if (c->strike == FAULT_NONE || c->points_left-- > 0)
        return;
    p->strike = c->strike;
    p->at = c->strike_at;
    p->name = c->asking;
    p->where = (etcd_where)between(&c->rand, ON_WAY, ON_WAY_BACK);
    c->strike = FAULT_NONE;
}

void etcd_packet_strike(etcd_packet *p)
{
    client *c = &s.clients[p->client];
    fault what = p->strike;
    p->strike = FAULT_NONE;
    if (what != FAULT_NONE && c->generation == p->generation && !c->dead &&
        fault_apply(what, c, p->name))
        fault_count(what, p->at);
}

static void strike_later(event *e)
{
    etcd_packet *p = e->of; /* made for this alone */
    etcd_packet_strike(p);
    etcd_packet_free(p);
}

void etcd_packet_strike_on_way(etcd_packet *of, int64_t until)
{
    etcd_packet *p = etcd_packet_new(&s.clients[of->client], ETCD_SAYS_NOTHING);
    p->generation = of->generation;
    p->strike = of->strike;
    p->at = of->at;
    p->name = of->name;
    of->strike = FAULT_NONE;
    dlk_rand dice = {mix(s.config.seed, 3, ++s.sequence)};
    event_at(&p->event, s.now + (until - s.now) * between(&dice, 0, 100) / 100,
             strike_later, p);
}

void etcd_packet_break(const etcd_packet *of, dlk_http2_outcome outcome)
{
    client *c = &s.clients[of->client];
    if (chance(&c->rand, 500)) {
        net_break_wire(of->wire);
        return;
    }
    etcd_packet *p = etcd_packet_back(c, ETCD_SAYS_END, of->wire, of->stream);
    p->outcome = outcome;
    event_at(&p->event, s.now + between(&c->rand, 0, 2 * MS), etcd_deliver, p);
}
