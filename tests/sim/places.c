/* What must be so after a while of clients whose grants are places in a line, on etcd and on ZooKeeper. */
#include "sim.h"

bool client_has_no_excuse(const client *c, int name)
{
    return client_is_well(c) && s.service->hears(c) && service_is_calm() &&
           is_calm(s.state_lost_at[name]);
}

/* Who inherits a signal together with others, or from one that died with whom it was to tell, hears of it when it
 * looks by itself: a watch is believed for five seconds. */
static int64_t time_to_hear(void)
{
    return kind_signals() ? SIM_POLL_MS * MS * 5 / 4 + 7 * SEC : 2 * SEC;
}

void check_place_heard(int name)
{
    holder all[MAX_HELD];
    const holder *unheard = NULL;
    int count = service_holders(name, all);
    for (int i = 0; i < count; i++)
        if (all[i].client >= 0 && client_has_no_excuse(&s.clients[all[i].client], name) &&
            client_waits_for(&s.clients[all[i].client], name, &all[i]))
            unheard = &all[i];
    if (!unheard)
        s.unheard_since[name] = 0;
    else if (!s.unheard_since[name])
        s.unheard_since[name] = s.now;
    else if (s.now - s.unheard_since[name] > time_to_hear())
        violated(name, "%c is client %d's, which waits and hasn't heard of it",
                 'a' + name, unheard->client);
}
