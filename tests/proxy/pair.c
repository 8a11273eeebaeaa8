/* A connection's two ends, and how they end. */
#include "proxy/inner.h"

#include <stdlib.h>
#include <unistd.h>

static void close_end(proxy_pair *pair, int end)
{
    if (pair->fd[end] >= 0)
        close(pair->fd[end]);
    pair->fd[end] = -1;
}

static void reset_client(proxy_pair *pair)
{
    struct linger at_once = {.l_onoff = 1};
    if (pair->fd[CLIENT] >= 0)
        (void)setsockopt(pair->fd[CLIENT], SOL_SOCKET, SO_LINGER, &at_once,
                         sizeof(at_once)); /* else it sees a FIN */
    close_end(pair, CLIENT);
}

static void die(proxy_pair *pair)
{
    close_end(pair, CLIENT);
    close_end(pair, SERVER);
    if (!pair->dead)
        pair->link->stats.open--;
    pair->dead = true;
}

void proxy_pair_cut(proxy_pair *pair)
{
    reset_client(pair);
    die(pair);
}

void proxy_pair_close(proxy_pair *pair)
{
    if (!pair->dead)
        proxy_say(pair->link->proxy, NULL, pair, "over");
    die(pair);
}

void proxy_pair_forget(proxy_pair *pair, int end)
{
    close_end(pair, end);
    if (pair->fd[1 - end] < 0)
        die(pair);
}

void proxy_pair_cut_client(proxy_pair *pair)
{
    reset_client(pair);
    proxy_flow *up = &pair->flow[UP], *down = &pair->flow[DOWN];
    up->ended = up->finish = true;
    down->mute = down->told = true;
    down->tear = false; /* done: it is read on, so that the server's end is noticed */
    proxy_flow_drop(down);
}

void proxy_pair_free(proxy_pair *pair)
{
    for (int way = UP; way <= DOWN; way++) {
        proxy_flow_drop(&pair->flow[way]);
        free(pair->flow[way].begun);
    }
    while (pair->marks) {
        proxy_mark *mark = pair->marks;
        pair->marks = mark->next;
        free(mark);
    }
    if (pair->link->framing && pair->link->framing->forget)
        pair->link->framing->forget(pair->state);
    free(pair);
}
