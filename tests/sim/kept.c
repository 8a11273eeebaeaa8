/* Kept locks, beside what is checked of all: owners of one client, their tokens, and that who asks for a lock
 * which is only kept gets it. */
#include "sim.h"

/* Owners of one client that have a grant one after the other are told apart by nothing but their tokens. */
void kept_told(const actor *me)
{
    const client *c = me->client;
    int64_t token = me->hold->token;
    for (int k = 0; k < s.config.actors; k++) {
        const actor *other = &c->actors[k];
        if (other != me && other->hold && other->hold->grant == me->hold->grant &&
            !atomic_load(&other->hold->released))
            violated(me->name, "client %d gives %c to two owners", c->index,
                     'a' + me->name);
    }
    if (token && dlk_number_keeps(me->hold->grant->number) &&
        sim_traits()->no_keep_tokens)
        violated(me->name, "client %d has %c with a token, which the next may have, too",
                 c->index, 'a' + me->name);
    if (!token)
        return;
    if (token <= s.told_token[me->name] && !tokens_may_repeat())
        violated(me->name, "client %d has %c with the token %lld after %lld", c->index,
                 'a' + me->name, (long long)token, (long long)s.told_token[me->name]);
    if (token > s.told_token[me->name])
        s.told_token[me->name] = token;
}

/* A client that has nothing to do with it, and hears, keeps it though another wants it, and that one has
 * asked. */
static bool is_kept_from_others(int name)
{
    bool kept = false, wanted = false;
    for (int i = 0; i < s.config.clients; i++) {
        const client *c = &s.clients[i];
        bool well = client_is_well(c) && s.service->hears(c) && s.service->idle(c);
        const dlk_grant *trying = well ? c->names[name]->trying : NULL;
        wanted |= trying && trying->standing == DLK_STANDS_BEHIND && waits_long(c, name);
        if (well)
            DLK_CHAIN_FOR (it, &c->names[name]->grants)
                kept |= dlk_grant_is_kept(DLK_LIST_ITEM(it, dlk_grant, link));
    }
    return kept && wanted;
}

/* Whoever is asked for a lock that it only keeps gives it back. */
void kept_watch(int name)
{
    if (!service_is_calm() || !is_kept_from_others(name))
        s.kept_from_others[name] = 0;
    else if (s.kept_from_others[name] == 0)
        s.kept_from_others[name] = s.now;
    else if (s.now - s.kept_from_others[name] > SEC)
        violated(name, "%c is kept for %.1f s, though another has asked for it",
                 'a' + name, (double)(s.now - s.kept_from_others[name]) / (double)SEC);
}
