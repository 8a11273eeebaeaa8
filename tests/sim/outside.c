/* The table seen from outside: who waits in which order as the answers told it, to whom the locks
 * go, and what an operator does with it. */
#include "sim.h"

#include "util/error.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static client *client_of(uint64_t owner)
{
    for (int i = 0; i < s.config.clients; i++)
        if (s.clients[i].process.local && s.clients[i].process.local->owner == owner)
            return &s.clients[i];
    return NULL;
}

/* The row of a name, or NULL. Looked for without the chains, which may be torn. */
static dlk_row *row_of(int name)
{
    const dlk_table *view = &s.table.view;
    for (uint32_t ref = 1; ref <= view->head->row_high && ref <= view->row_count; ref++) {
        dlk_row *row = dlk_row_at(view, ref);
        if ((row->title & 0xffff) == 1 && *dlk_row_name(view, ref) == 'a' + name)
            return row;
    }
    return NULL;
}

/* ---- the lines ---- */

void line_forget(const client *c)
{
    for (int n = 0; n < s.config.names; n++) {
        int kept = 0;
        for (int i = 0; i < s.table.line_size[n]; i++)
            if (s.table.line[n][i].client != c->index)
                s.table.line[n][kept++] = s.table.line[n][i];
        s.table.line_size[n] = kept;
    }
}

waiting *line_find(int name, int who, uint64_t number)
{
    for (int i = 0; i < s.table.line_size[name]; i++) {
        waiting *w = &s.table.line[name][i];
        if (w->client == who && w->number == number)
            return w;
    }
    return NULL;
}

void line_stay(const client *c, int name, uint64_t number)
{
    /* What was given to it between the answer and here isn't waited for any more. */
    if (line_find(name, c->index, number) || c->given[name] > c->placed[name])
        return;
    assert(s.table.line_size[name] < MAX_LINE);
    s.table.line[name][s.table.line_size[name]++] =
        (waiting){c->index, number, false, c->place_began[name], ++s.table.turns};
}

void line_leave(int name, int who, uint64_t number)
{
    waiting *w = line_find(name, who, number);
    waiting *end = &s.table.line[name][s.table.line_size[name]];
    if (!w)
        return;
    memmove(w, w + 1, (size_t)(end - w - 1) * sizeof(*w));
    s.table.line_size[name]--;
}

/* ---- to whom a lock goes ---- */

typedef struct gift {
    uint64_t owner, number;
    int64_t token;
    bool shared;
    int32_t take;
} gift;

/* First come, first served: whoever had been told to wait goes before whoever asked after that. */
static void check_order(int name, const client *c, uint64_t number)
{
    const waiting *mine = line_find(name, c->index, number);
    uint64_t began =
        c->placed[name] > c->given[name] ? c->place_began[name] : c->began[name];
    for (int i = 0; i < s.table.line_size[name]; i++) {
        const waiting *other = &s.table.line[name][i];
        if (other != mine && !other->leaving && other->told < began)
            violated(
                name,
                "%c goes to #%llu of client %d, though #%llu of client %d is before it",
                'a' + name, (unsigned long long)number, c->index,
                (unsigned long long)other->number, other->client);
    }
}

static void give(int name, const gift *it)
{
    client *c = client_of(it->owner);
    bool lives = c && !c->dead;
    tell(SERVER, name, "%c goes to #%llu of %s %d", 'a' + name,
         (unsigned long long)it->number, lives ? "client" : "a dead client",
         c ? c->index : NOBODY);
    /* An import comes by no line, and says nothing of who stands in it. */
    bool imported = lives && c->imports == it->number && c->asking == name;
    if (lives && !imported)
        check_order(name, c, it->number);
    const wish wanted = {.client = lives ? c->index : NOBODY,
                         .sender = (int)it->owner,
                         .number = it->number,
                         .shared = it->shared,
                         .take = it->take};
    check_given(name, &wanted, it->token);
    if (!lives || imported)
        return;
    line_leave(name, c->index, it->number);
    c->given[name] = ++s.table.turns;
}

/* Those who have it alone: the row's record says so. */
static void look_at_record(int name, const dlk_row *row)
{
    const dlk_record record = dlk_row_record(row);
    dlk_record *last = &s.table.last[name];
    bool same = record.owner == last->owner && record.number == last->number &&
                record.token == last->token;
    *last = record;
    if (!same && record.owner == DLK_OWNER_EXPORTED) /* the same grant */
        tell(SERVER, name, "%c is exported", 'a' + name);
    else if (!same && record.owner != 0)
        give(name, &(gift){record.owner, record.number, record.token, .take = 1});
}

static bool is_share(const dlk_line_place *place)
{
    return place->token != 0 && dlk_is_pooled(dlk_line_place_kind(place));
}

/* A writer takes all there are. */
static bool is_shared(const dlk_line_place *place)
{
    return dlk_line_place_kind(place) == DLOCK_WRITE && place->take == 1;
}

/* The row's places, one after the other, in no order: the line's links may be torn. */
static const dlk_line_place *next_place(const dlk_row *row, uint32_t *ref)
{
    const dlk_table *view = &s.table.view;
    while (row && *ref < view->head->place_high) {
        const dlk_line_place *place = dlk_line_place_at(view, ++*ref);
        if (place->word != 0 &&
            dlk_line_place_row(place) == (uint32_t)(row - view->rows) + 1)
            return place;
    }
    return NULL;
}

/* Those who share: each has a place, which says so. */
static void look_at_shares(int name, const dlk_row *row)
{
    uint32_t ref = 0;
    assert(s.table.view.place_count <= MAX_SHARES);
    for (const dlk_line_place *place; (place = next_place(row, &ref));) {
        uint64_t *seen = &s.table.shares[ref - 1];
        if (!is_share(place) || place->word == *seen)
            continue;
        *seen = place->word;
        give(name,
             &(gift){place->owner, place->number, place->token, is_shared(place),
                     dlk_line_place_kind(place) == DLOCK_WRITE ? 1
                                                               : (int32_t)place->take});
    }
}

void table_look(void)
{
    for (int n = 0; n < s.config.names; n++) {
        const dlk_row *row = row_of(n);
        if (!row)
            continue;
        look_at_record(n, row);
        look_at_shares(n, row);
    }
}

/* ---- who has it ---- */

static bool is_over(uint64_t owner, int64_t until)
{
    const client *c = client_of(owner);
    return !c || c->dead || until <= sim_time();
}

static void add_holder(uint64_t owner, uint64_t number, int64_t until, holder *ret,
                       int *count)
{
    if (!is_over(owner, until) && *count < MAX_HELD)
        ret[(*count)++] = (holder){client_of(owner)->index, number, 0};
}

int table_holders(int name, holder ret[MAX_HELD])
{
    int count = 0;
    uint32_t ref = 0;
    const dlk_row *row = row_of(name);
    const dlk_record *record = &s.table.last[name];
    if (record->owner != 0)
        add_holder(record->owner, record->number, record->until, ret, &count);
    for (const dlk_line_place *place; (place = next_place(row, &ref));)
        if (is_share(place))
            add_holder(place->owner, place->number, place->until, ret, &count);
    return count;
}

bool table_has_remains(int name)
{
    uint32_t ref = 0;
    const dlk_row *row = row_of(name);
    const dlk_record *record = &s.table.last[name];
    if (record->owner != 0 && is_over(record->owner, record->until))
        return true;
    for (const dlk_line_place *place; (place = next_place(row, &ref));)
        if (is_share(place) && is_over(place->owner, place->until))
            return true;
    return false;
}

int table_next_fits(int name)
{
    const dlk_line_place *next = NULL;
    const dlk_row *row = row_of(name);
    uint64_t taken = 0;
    uint32_t ref = 0;
    for (const dlk_line_place *place; (place = next_place(row, &ref));) {
        const client *c = client_of(place->owner);
        if (is_share(place))
            taken += is_over(place->owner, place->until) ? 0 : place->take;
        else if (dlk_is_pooled(dlk_line_place_kind(place)) && c && !c->dead &&
                 (!next || place->word < next->word))
            next = place;
    }
    const dlk_pool *pool =
        next ? dlk_pool_at(&s.table.view, dlk_line_place_row(next)) : NULL;
    return pool && taken + next->take <= pool->size ? client_of(next->owner)->index
                                                    : NOBODY;
}

/* ---- the operator ---- */

static void enter_as_operator(client **before)
{
    *before = s.running;
    s.running = NULL;
}

bool table_break(int name)
{
    client *before;
    dlk_key key = {.name = (const char *const[]){"a", "b", "c"}[name],
                   .size = 1,
                   .kind = kinds[s.config.kind].kind};
    dlk_ask ask = {.verb = DLK_BREAK, .key = &key};
    dlk_backend *base = &s.operator.local->base;
    holder all[MAX_HELD];
    if (table_holders(name, all) == 0 && !table_has_remains(name))
        return false;
    enter_as_operator(&before);
    if (dlk_local_key_open(base, &key, NULL) != DLOCK_OK)
        abort();
    state_lost(name, 0);
    (void)dlk_local_tick(base, sim_time());
    dlk_local_ask(base, &ask, sim_time());
    dlk_local_key_close(base, &key);
    dlk_error_clear(&ask.error);
    s.running = before;
    if (ask.reply == DLK_YES)
        tell(SERVER, name, "an operator breaks %c", 'a' + name);
    return ask.reply == DLK_YES;
}

/* What counts in a table, in the order of the lines. */
typedef struct meaning {
    dlk_record record[MAX_NAMES];
    struct {
        uint64_t word;
        int64_t token;
        uint32_t take;
    } line[MAX_NAMES][MAX_LINE * 2];
    int size[MAX_NAMES];
} meaning;

static void read_meaning(meaning *ret)
{
    const dlk_table *view = &s.table.view;
    memset(ret, 0, sizeof(*ret));
    for (int n = 0; n < s.config.names; n++) {
        const dlk_row *row = row_of(n);
        if (!row)
            continue;
        ret->record[n] = dlk_row_record(row);
        const dlk_line_place *place = dlk_line_place_at(view, row->first);
        while (place && ret->size[n] < MAX_LINE * 2) {
            if (dlk_member_of(view, place->owner)) {
                int at = ret->size[n]++;
                ret->line[n][at].word = place->word;
                ret->line[n][at].token = place->token;
                ret->line[n][at].take = place->take;
            }
            place = dlk_line_place_at(view, place->next);
        }
    }
}

static void settle_all(dlk_section *section)
{
    const dlk_table *view = &s.table.view;
    for (uint32_t ref = 1; ref <= view->head->row_high; ref++)
        dlk_table_settle(section, ref, sim_time());
}

/* A rebuild makes of a whole table the same table. */
bool table_rebuild(void)
{
    static meaning before, after;
    client *running;
    dlk_section section;
    enter_as_operator(&running);
    bool entered = dlk_table_enter(&s.operator.view, &section, 0) == DLK_ENTERED;
    if (entered) {
        settle_all(&section);
        read_meaning(&before);
        dlk_table_rebuild(&section, sim_time());
        read_meaning(&after);
        section.ring_granted = false; /* a look must not wake who was forgotten */
        dlk_table_leave(&section);
        s.table.recovered = false;
        if (section.damaged)
            violated(ALL_NAMES, "the table is damaged");
        else if (memcmp(&before, &after, sizeof(before)) != 0)
            violated(ALL_NAMES, "a rebuild has changed the table");
    }
    s.running = running;
    return entered;
}

/* The place of a grant that ran out unseen stays until the lock is wanted again; a place in the
 * line would keep somebody waiting then. */
void table_check_rest(void)
{
    const dlk_table *view = &s.table.view;
    for (uint32_t ref = 1; ref <= view->head->place_high; ref++) {
        const dlk_line_place *place = dlk_line_place_at(view, ref);
        if (place->word != 0 && place->token == 0 && dlk_member_of(view, place->owner))
            violated(ALL_NAMES, "place %u is still taken, for #%llu", ref,
                     (unsigned long long)place->number);
    }
}
