/* What too few answers come to, in words: each node's state. */
#include "backends/redlock/inner.h"

#include <stdio.h>
#include <string.h>

/* As long as a line of text may be that is still read. */
#define STATES_MAX 2048

static void add(char *text, size_t *used, const char *peer, const char *state)
{
    int put = snprintf(text + *used, STATES_MAX - *used, "%s%s: %s", *used ? "; " : "",
                       peer, state);
    if (put > 0 && (size_t)put < STATES_MAX - *used)
        *used += (size_t)put;
    else
        text[*used] = '\0'; /* the others are named */
}

static const char *yes_of(dlk_verb verb)
{
    if (verb == DLK_ACQUIRE)
        return "granted";
    if (verb == DLK_RENEW)
        return "renewed";
    return verb == DLK_RELEASE || verb == DLK_BREAK ? "given back" : "answered";
}

static const char *state_of(const dlk_redlock_round *round, int index)
{
    const dlk_redlock_node *node = &round->redlock->nodes[index];
    const dlk_ask *ask = &round->asks[index];
    dlk_nodes bit = dlk_node_bit(index);
    if (round->pending & bit)
        return "no answer yet";
    if (round->yes & bit)
        return yes_of(round->verb);
    if (round->no & bit)
        return round->verb == DLK_ACQUIRE ? "held by another" : "not ours";
    if (ask->error)
        return ask->error->text;
    if (node->why_down)
        return node->why_down->text;
    return node->up || node->down ? "no answer" : "not connected yet";
}

dlock_error *dlk_round_error(const dlk_redlock_round *round, dlk_nodes fine,
                             const char *what)
{
    const dlk_redlock *redlock = round->redlock;
    char states[STATES_MAX] = "";
    size_t used = 0;
    for (int i = 0; i < redlock->count; i++)
        add(states, &used, redlock->nodes[i].peer, state_of(round, i));
    return dlk_error_make(DLOCK_EQUORUM, "%s: %d of %d nodes %s, %d are needed (%s)",
                          dlk_redlock_name(redlock), dlk_nodes_count(fine),
                          redlock->count, what, redlock->quorum, states);
}

/* What trying again doesn't mend, when that is so of too many nodes. */
static const dlock_error *final_reason(const dlk_redlock *redlock)
{
    const dlock_error *first = NULL;
    int count = 0;
    for (int i = 0; i < redlock->count; i++) {
        const dlock_error *why = redlock->nodes[i].why_down;
        if (!why || why->code == DLOCK_EUNAVAIL)
            continue;
        first = first ? first : why;
        count++;
    }
    return count > redlock->count - redlock->quorum ? first : NULL;
}

dlock_error *dlk_redlock_down_error(const dlk_redlock *redlock)
{
    const dlock_error *final = final_reason(redlock);
    char states[STATES_MAX] = "";
    size_t used = 0;
    if (final)
        return dlk_error_copy(final);
    for (int i = 0; i < redlock->count; i++) {
        const dlk_redlock_node *node = &redlock->nodes[i];
        add(states, &used, node->peer,
            node->up         ? "up"
            : node->why_down ? node->why_down->text
            : node->down     ? "away"
                             : "not connected yet");
    }
    return dlk_error_make(DLOCK_EQUORUM,
                          "%s: %d of %d nodes can't be used, %d are needed (%s)",
                          dlk_redlock_name(redlock), dlk_redlock_count_down(redlock),
                          redlock->count, redlock->quorum, states);
}
