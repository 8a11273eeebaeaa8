/* The wires between the clients of Redis, memcached or etcd and the server: each request and each answer
 * takes a while, and some never come. Redis' messages have a connection of their own, so they may
 * overtake answers or fall behind them. */
#include "net.h"

#include "backends/redis/keys.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

static int64_t delay(client *c)
{
    if (chance(&c->rand, 20))
        return between(&c->rand, 1 * MS, 400 * MS);
    return between(&c->rand, 50 * 1000, 2 * MS);
}

static message *new_message(const client *c, wire *w)
{
    message *m = calloc(1, sizeof(*m));
    if (!m)
        abort();
    m->wire = w;
    m->client = c->index;
    m->generation = c->generation;
    m->name = ALL_NAMES;
    m->at = STEP_IDLE;
    m->strike = FAULT_NONE;
    m->sent_at = s.now;
    dlk_list_append(&s.limbo, &m->link);
    return m;
}

static void drop(message *m)
{
    dlk_list_remove(&m->link);
    event_cancel(&m->event);
    dlk_buf_free(&m->bytes);
    free(m);
}

static client *alive(const message *m)
{
    client *c = &s.clients[m->client];
    return c->generation == m->generation && !c->dead ? c : NULL;
}

static void put(dlk_buf *to, const void *data, size_t size)
{
    if (!dlk_buf_append(to, data, size))
        abort();
}

/* The message that was sent on the same connection before this one and is on the same way yet:
 * nothing overtakes there, whatever delays it. */
static const message *ahead_of(const message *m)
{
    DLK_LIST_FOR (it, &s.limbo) {
        const message *other = DLK_LIST_ITEM(it, message, link);
        if (other == m)
            return NULL;
        if (other->wire == m->wire && other->event.run == m->event.run && !other->copy)
            return other;
    }
    return NULL;
}

static bool stays_behind(message *m)
{
    const message *first = m->copy ? NULL : ahead_of(m);
    if (first)
        event_at(&m->event, first->event.at + 1, m->event.run, m);
    return first != NULL;
}

/* ---- wires ---- */

wire *net_wire(int fd)
{
    for (int i = 0; fd >= 0 && i < s.config.clients; i++)
        for (int k = 0; k < SIM_NODES; k++) {
            wire *w = s.clients[i].wires[k];
            if (w && w->fd == fd)
                return w;
        }
    return NULL;
}

/* Answered by the kernel of the server's machine, whether the server itself runs or not. */
static void run_dial(event *e)
{
    wire *w = e->of;
    client *c = w->owner;
    if (w->state != WIRE_DIALLING)
        return;
    if (s.now < c->unreachable_until) {
        event *again = event_new();
        event_at(again, s.now + between(&c->rand, 10 * MS, 300 * MS), run_dial, w);
        return;
    }
    w->state = s.now < w->server->down_until ? WIRE_REFUSED : WIRE_UP;
    w->up_since = s.now;
    s.service->wake(c);
}

wire *net_dial(client *c, int slot)
{
    wire *w = calloc(1, sizeof(*w));
    if (!w)
        abort();
    *w = (wire){.fd = 1000 + ++s.fds,
                .owner = c,
                .generation = c->generation,
                .slot = slot,
                .server = s.node_count ? &s.nodes[slot] : &s.server,
                .state = WIRE_DIALLING};
    dlk_list_append(&s.wires, &w->all);
    c->wires[slot] = w;
    event_at(event_new(), s.now + between(&c->rand, 100 * 1000, 2 * MS), run_dial, w);
    return w;
}

static void forget_channels(wire *w)
{
    for (size_t i = 0; i < w->channel_count; i++)
        free(w->channels[i]);
    free(w->channels);
    w->channels = NULL;
    w->channel_count = w->channel_room = 0;
}

static void free_wire(wire *w)
{
    forget_channels(w);
    dlk_list_remove(&w->all);
    dlk_buf_free(&w->inbox);
    dlk_buf_free(&w->outbox);
    free(w);
}

void net_free(void)
{
    while (!dlk_list_empty(&s.limbo))
        drop(DLK_LIST_ITEM(dlk_list_first(&s.limbo), message, link));
    while (!dlk_list_empty(&s.wires))
        free_wire(DLK_LIST_ITEM(dlk_list_first(&s.wires), wire, all));
}

static void arrive(event *e);

/* So late may a request arrive whose connection is broken: what a Redlock has given back it gives back
 * for longer. */
static int64_t latest_delay(void)
{
    return (s.config.mode == MODE_REDLOCK ? 1500 : 900) * MS;
}

/* What a broken connection still carries to the server arrives soon after, or never would. */
static void hurry(const wire *w)
{
    int64_t thaws = w->server->frozen_until;
    int64_t latest = (s.now > thaws ? s.now : thaws) + latest_delay();
    DLK_LIST_FOR (it, &s.limbo) {
        message *m = DLK_LIST_ITEM(it, message, link);
        if (m->wire == w && m->event.run == arrive && m->event.timer.place &&
            m->event.at > latest)
            event_at(&m->event, latest, arrive, m);
    }
}

void net_close(wire *w)
{
    if (w->state == WIRE_CLOSED)
        return;
    if (w->state == WIRE_UP)
        w->heard_until =
            s.now; /* the server is told, or will notice it as with a cut one */
    w->state = WIRE_CLOSED;
    hurry(w);
}

static void cut_wire(wire *w)
{
    if (!w || w->state == WIRE_CLOSED || w->state == WIRE_CUT)
        return;
    client *c = w->owner;
    if (w->state == WIRE_UP && chance(&c->rand, 500)) /* the server doesn't know yet */
        w->heard_until = s.now + between(&c->rand, 1 * MS, 3 * SEC);
    w->state = w->state == WIRE_UP ? WIRE_CUT : WIRE_REFUSED;
    hurry(w);
    s.service->wake(c);
}

static bool is_up(const wire *w)
{
    return w && w->state == WIRE_UP;
}

static bool any_is_up(const client *c)
{
    bool any = false;
    for (int i = 0; i < s.node_count; i++)
        any |= is_up(c->wires[i]);
    return any;
}

void net_cut(client *c, const char *why)
{
    if (c->dead || !(s.node_count ? any_is_up(c) : is_up(c->wires[WIRE_COMMANDS])))
        return;
    tell(c->index, ALL_NAMES, "cut: %s", why);
    for (int i = 0; i < SIM_NODES; i++)
        cut_wire(c->wires[i]);
}

void net_cut_wire(wire *w, const char *why)
{
    if (!is_up(w) || w->owner->dead)
        return;
    tell(w->owner->index, ALL_NAMES, "cut from node %d: %s", w->slot, why);
    cut_wire(w);
}

/* Only the subscriber's connection breaks; it comes back by itself. */
void net_cut_news(client *c)
{
    if (s.node_count || c->dead || !is_up(c->wires[WIRE_MESSAGES]))
        return;
    tell(c->index, ALL_NAMES, "its subscriptions are cut");
    client_upset(c, s.now + 300 * MS);
    cut_wire(c->wires[WIRE_MESSAGES]);
}

void net_silence_wire(wire *w, bool both_ways)
{
    if (!is_up(w))
        return;
    w->deaf = true;
    w->silent |= both_ways;
}

void net_silence(client *c, bool both_ways)
{
    for (int i = 0; i < SIM_NODES; i++)
        net_silence_wire(c->wires[i], both_ways);
}

static bool quiet(const wire *w)
{
    return w && w->state == WIRE_UP && (w->silent || w->deaf);
}

bool net_is_quiet(const client *c)
{
    for (int i = 0; i < SIM_NODES; i++)
        if (quiet(c->wires[i]))
            return true;
    return false;
}

void net_orphan(void)
{
    DLK_LIST_FOR (it, &s.wires) {
        wire *w = DLK_LIST_ITEM(it, wire, all);
        w->orphaned |= w->state != WIRE_DIALLING;
    }
}

/* The kernel closes what the process had. */
void net_died(client *c)
{
    for (int i = 0; i < SIM_NODES; i++)
        if (c->wires[i])
            net_close(c->wires[i]);
}

/* Both notice a while later that the connection is gone. */
static void cut_later(event *e)
{
    wire *w = e->of;
    if (w->state != WIRE_UP || w->owner->generation != w->generation)
        return;
    if (s.node_count)
        net_cut_wire(w, "the connection broke");
    else
        net_cut(w->owner, "the connection broke");
}

/* Answers come in order: where one is lost, so is what would come behind it. */
void net_break_wire(wire *w)
{
    w->deaf = true;
    event_at(event_new(), s.now + between(&w->owner->rand, 0, 3 * MS), cut_later, w);
}

/* ---- faults that come by the way ---- */

static void strike_here(message *m)
{
    client *c = alive(m);
    fault what = m->strike;
    m->strike = FAULT_NONE;
    if (what != FAULT_NONE && c && fault_apply(what, c, m->name))
        fault_count(what, m->at);
}

static void strike_later(event *e)
{
    message *m = e->of; /* a loose one made for this */
    strike_here(m);
    drop(m);
}

/* Somewhere between now and then. */
static void strike_on_way(const client *c, fault what, const message *of, int64_t until)
{
    message *m = new_message(c, NULL);
    m->strike = what;
    m->at = of->at;
    m->name = of->name;
    dlk_rand dice = {mix(s.config.seed, 3, ++s.sequence)};
    event_at(&m->event, s.now + (until - s.now) * between(&dice, 0, 100) / 100,
             strike_later, m);
}

/* ---- the answer ---- */

/* It waits in the socket's buffer until its reader comes. */
static void arrive_back(event *e)
{
    message *m = e->of;
    client *c = alive(m);
    if (stays_behind(m))
        return;
    wire *w = m->wire;
    if (c && w->state == WIRE_UP && !w->silent && !w->deaf) {
        put(&w->inbox, dlk_buf_head(&m->bytes), dlk_buf_size(&m->bytes));
        s.service->wake(c);
    }
    drop(m);
}

static void send_back(client *c, message *m, int64_t at)
{
    if (m->strike == FAULT_SLOW) {
        at += between(&c->rand, 100 * MS, 4 * SEC);
        client_upset(c, at);
        fault_count(FAULT_SLOW, m->at);
        m->strike = FAULT_NONE;
    }
    if (at <= m->wire->reply_front)
        at = m->wire->reply_front + 1;
    m->wire->reply_front = at;
    if (m->strike != FAULT_NONE)
        strike_on_way(c, m->strike, m, at);
    m->strike = FAULT_NONE;
    event_at(&m->event, at, arrive_back, m);
}

/* ---- subscriptions, as the server has them ---- */

static bool is_heard(const wire *w)
{
    return w->state == WIRE_UP || s.now < w->heard_until;
}

static size_t channel_at(const wire *w, const dlk_arg *channel)
{
    size_t i = 0;
    while (i < w->channel_count && (strlen(w->channels[i]) != channel->size ||
                                    memcmp(w->channels[i], channel->data, channel->size)))
        i++;
    return i;
}

static void subscribe(wire *w, const dlk_arg *channel, bool on)
{
    size_t at = channel_at(w, channel);
    if (on && at == w->channel_count) {
        if (w->channel_count == w->channel_room) {
            w->channel_room = w->channel_room ? w->channel_room * 2 : 8;
            w->channels = realloc(w->channels, w->channel_room * sizeof(*w->channels));
            if (!w->channels)
                abort();
        }
        w->channels[w->channel_count++] = strndup(channel->data, channel->size);
    } else if (!on && at < w->channel_count) {
        free(w->channels[at]);
        w->channels[at] = w->channels[--w->channel_count];
    }
}

static void answer_subscription(message *m, const dlk_arg *args, dlk_buf *answer)
{
    bool on = model_is(&args[0], "SUBSCRIBE");
    if (m->wire->state == WIRE_UP) /* else nobody is there to be told */
        subscribe(m->wire, &args[1], on);
    model_answer_array(answer, 3);
    model_answer_text(answer, on ? "subscribe" : "unsubscribe");
    model_answer_bulk(answer, &args[1]);
    model_answer_integer(answer, (int64_t)m->wire->channel_count);
}

static int64_t news_delay(client *c)
{
    int64_t usual = delay(c);
    if (s.now >= c->news_odd_until)
        return usual;
    return c->news_late ? between(&c->rand, 10 * MS, 2 * SEC)
                        : between(&c->rand, 1, 1000);
}

static void send_news(wire *w, const dlk_arg *channel, const dlk_arg *text)
{
    client *c = w->owner;
    if (w->state != WIRE_UP || c->generation != w->generation || c->dead ||
        s.now < c->news_lost_until)
        return;
    message *m = new_message(c, w);
    model_answer_array(&m->bytes, 3);
    model_answer_text(&m->bytes, "message");
    model_answer_bulk(&m->bytes, channel);
    model_answer_bulk(&m->bytes, text);
    send_back(c, m, s.now + news_delay(c));
}

int64_t net_listeners(void *world, const dlk_arg *channel)
{
    int64_t count = 0;
    (void)world;
    DLK_LIST_FOR (it, &s.wires) {
        const wire *w = DLK_LIST_ITEM(it, wire, all);
        count += is_heard(w) && channel_at(w, channel) < w->channel_count;
    }
    return count;
}

int64_t net_publish(void *world, const dlk_arg *channel, const dlk_arg *text)
{
    lines_told(channel, text);
    DLK_LIST_FOR (it, &s.wires) {
        wire *w = DLK_LIST_ITEM(it, wire, all);
        if (channel_at(w, channel) < w->channel_count)
            send_news(w, channel, text);
    }
    return net_listeners(world, channel);
}

/* A message about a lock that nobody has released. */
bool net_spurious(client *c, int name)
{
    wire *w = c->wires[WIRE_MESSAGES];
    if (s.node_count || !is_up(w) || w->channel_count == 0)
        return false;
    const dlk_arg channel = dlk_arg_text(w->channels[(size_t)name % w->channel_count]);
    const dlk_arg text = dlk_arg_text("0");
    send_news(w, &channel, &text);
    return true;
}

/* ---- the request ---- */

size_t net_parse(const char *data, size_t size, dlk_arg args[NET_ARGS], size_t *ret_count)
{
    const char *at = data, *end = data + size;
    size_t count = 0, left = 1;
    bool first = true;
    while (left > 0) {
        if (at == end)
            return 0;
        const char *line = memchr(at, '\n', (size_t)(end - at));
        if (!line)
            return 0;
        size_t number = strtoul(at + 1, NULL, 10);
        at = line + 1;
        if (first) {
            left = number;
            first = false;
            continue;
        }
        if ((size_t)(end - at) < number + 2)
            return 0;
        if (count == NET_ARGS)
            abort();
        args[count++] = (dlk_arg){at, number};
        at += number + 2;
        left--;
    }
    *ret_count = count;
    return (size_t)(at - data);
}

/* When a server that stands still will read this: connections in any order, each in its own. */
static int64_t thaw(const message *m)
{
    uint64_t lot =
        mix(s.config.seed ^ (uint64_t)m->wire->server->frozen_until,
            (uint64_t)(m->client * 1000 + m->generation), (uint64_t)m->wire->fd);
    /* Each a little later than the one before, so that nothing on one connection overtakes. */
    server *at = m->wire->server;
    return at->frozen_until + (int64_t)(lot % (uint64_t)MS) + ++at->thaws;
}

/* One after the other, and each takes a while. False: it is its turn. */
static bool stand_in_queue(message *m)
{
    server *at = m->wire->server;
    int64_t turn = s.now > at->busy_until ? s.now : at->busy_until;
    at->busy_until = turn + 5000;
    if (turn == s.now)
        return false;
    m->queued = true;
    event_at(&m->event, turn, arrive, m);
    return true;
}

static bool is_for_messages(const wire *w)
{
    return s.node_count == 0 && w->slot == WIRE_MESSAGES;
}

static void carry_out(message *m)
{
    dlk_arg args[NET_ARGS];
    size_t count;
    dlk_buf answer = {0};
    if (s.config.mode == MODE_MEMCACHED)
        mc_apply(m, &answer);
    else if (net_parse(dlk_buf_head(&m->bytes), dlk_buf_size(&m->bytes), args, &count) ==
             0)
        abort();
    else if (is_for_messages(m->wire) && !model_is(&args[0], "CLIENT"))
        answer_subscription(m, args, &answer);
    else if (s.now < m->wire->server->refuses_until)
        model_answer_error(&answer, "LOADING Redis is loading the dataset in memory");
    else if (s.node_count)
        redlock_apply(m, &answer);
    else
        server_apply(m, &answer);
    dlk_buf_free(&m->bytes);
    m->bytes = answer;
}

static void arrive(event *e)
{
    message *m = e->of;
    if (stays_behind(m))
        return;
    if (m->strike_before && !m->queued)
        strike_here(m);
    if (m->wire->orphaned) {
        drop(m);
        return;
    }
    if (s.now < m->wire->server->frozen_until) {
        m->queued = false;
        event_at(&m->event, thaw(m), arrive, m);
        return;
    }
    if (!m->queued && stand_in_queue(m))
        return;
    bool refused = s.now < m->wire->server->refuses_until;
    carry_out(m);
    if (m->verb && !m->copy && !refused && s.config.mode == MODE_REDIS)
        s.totals.decided[m->at]++;
    /* A request that is read long after its time-out (the server stood still) may lock for nobody:
     * its client reckons that it has reached the server by then, or never will. */
    if (m->verb && s.now - m->sent_at > 3 * SEC &&
        s.orphans_until[m->name] < s.now + 40 * SEC)
        s.orphans_until[m->name] = s.now + 40 * SEC;
    client *c = alive(m);
    const wire *w = m->wire;
    if (!c || w->state != WIRE_UP || m->reply_lost || m->copy || w->silent || w->deaf) {
        if (m->strike != FAULT_SLOW)
            strike_here(m);
        drop(m);
        return;
    }
    send_back(c, m, s.now + delay(c));
}

static void send_to(message *m, int64_t when)
{
    if (when <= m->wire->request_front)
        when = m->wire->request_front + 1;
    m->wire->request_front = when;
    event_at(&m->event, when, arrive, m);
}

/* The same request once more, a little later; the answers to both are lost. */
static void duplicate(client *c, message *m, int64_t when)
{
    message *again = new_message(c, m->wire);
    message copy = *m;
    copy.link = again->link;
    copy.event = again->event;
    copy.bytes = (dlk_buf){0};
    *again = copy;
    put(&again->bytes, dlk_buf_head(&m->bytes), dlk_buf_size(&m->bytes));
    again->copy = true;
    event_at(&again->event, when + between(&c->rand, 1, 500 * MS), arrive, again);
    m->reply_lost = true;
    net_break_wire(m->wire);
}

/* What strikes this one message alone. False: it never arrives. */
static bool strike_message(client *c, message *m, fault what, int64_t *when)
{
    if (what == FAULT_SLOW && chance(&c->rand, 500)) {
        m->strike = FAULT_SLOW; /* on its way back */
        return true;
    }
    fault_count(what, m->at);
    tell(c->index, m->name, "its %s is struck: %s", verb_name(m->verb),
         fault_infos[what].name);
    switch ((int)what) {
    case FAULT_DROP_REQUEST:
        m->wire->silent = true; /* nor does anything behind it arrive */
        net_break_wire(m->wire);
        return false;
    case FAULT_SLOW:
        *when += between(&c->rand, 100 * MS, 4 * SEC);
        client_upset(c, *when);
        return true;
    case FAULT_DUPLICATE:
        actors_hurry(c, m->name);
        duplicate(c, m, *when);
        return true;
    case FAULT_LATE_REQUEST:
        actors_hurry(c, m->name);
        *when += between(&c->rand, 1 * MS, latest_delay());
        break;
    default: /* FAULT_DROP_REPLY */
        break;
    }
    m->reply_lost = true;
    net_break_wire(m->wire);
    return true;
}

static const dlk_list *flight_of(const client *c, const wire *w)
{
    if (s.config.mode == MODE_REDLOCK)
        return redlock_flight(c, w->slot);
    return s.config.mode == MODE_REDIS ? &redis_of(c)->flight.asks : mc_flight(c);
}

static const dlk_ask *ask_of(const client *c, const wire *w)
{
    if (is_for_messages(w))
        return NULL;
    DLK_LIST_FOR (it, flight_of(c, w)) {
        const dlk_ask *ask = DLK_LIST_ITEM(it, dlk_ask, link);
        if ((int64_t)ask->sequence == w->position)
            return ask;
    }
    return NULL;
}

static void set_ask(message *m, const client *c, const dlk_ask *ask)
{
    m->verb = ask->verb;
    m->number = ask->number;
    m->next = ask->next;
    m->take = ask->take;
    m->shared = ask->shared;
    m->once = ask->once;
    m->ttl_ms = ask->ttl_ms;
    m->name = ask->key->name[0] - 'a';
    m->at = s.config.mode == MODE_REDLOCK ? redlock_step_of(c, ask) : step_of(ask);
}

static void request(client *c, wire *w, const char *data, size_t size)
{
    message *m = new_message(c, w);
    put(&m->bytes, data, size);
    const dlk_ask *ask = ask_of(c, w);
    fault what = FAULT_NONE;
    if (ask) {
        set_ask(m, c, ask);
        what = fault_draw(c, m->at);
    }
    if (w->silent) {
        drop(m);
        return;
    }
    int64_t when = s.now + delay(c);
    if (fault_is_of_wire(what)) {
        if (!strike_message(c, m, what, &when)) {
            drop(m);
            return;
        }
        what = FAULT_NONE;
    }
    send_to(m, when);
    if (what == FAULT_NONE)
        return;
    int64_t where = between(&c->rand, 0, 3);
    m->strike_before = where == 1;
    if (where == 0)
        strike_on_way(c, what, m, when);
    else
        m->strike = what; /* at the server, or on the way back */
}

/* Of the first command; 0 when it isn't whole yet. */
static size_t size_of_command(const dlk_buf *in)
{
    dlk_arg args[NET_ARGS];
    size_t count;
    if (s.config.mode == MODE_MEMCACHED)
        return mc_command_size(dlk_buf_head(in), dlk_buf_size(in));
    return net_parse(dlk_buf_head(in), dlk_buf_size(in), args, &count);
}

void net_send(wire *w, const char *data, size_t size)
{
    client *c = w->owner;
    size_t whole;
    if (w->state != WIRE_UP || c->dead)
        return;
    if (s.service->sent) {
        s.service->sent(w, size);
        return;
    }
    put(&w->outbox, data, size);
    while ((whole = size_of_command(&w->outbox)) > 0) {
        w->position += (int64_t)whole;
        request(c, w, dlk_buf_head(&w->outbox), whole);
        dlk_buf_eat(&w->outbox, whole);
    }
}
