/* Requests and answers one by one: plans pick some of them and do what they are for. */
#include "proxy/inner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Which ---- */

bool proxy_matches(proxy_span command, const char *pattern)
{
    if (!pattern)
        return true;
    size_t size = strlen(pattern);
    if (size > 0 && pattern[size - 1] == '*')
        return command.size >= size - 1 &&
               strncasecmp(command.at, pattern, size - 1) == 0;
    return command.size == size && strncasecmp(command.at, pattern, size) == 0;
}

static bool has_word(const proxy_pair *pair, const char *request, size_t size,
                     const char *word)
{
    proxy_span one;
    for (int i = 1; (one = pair->link->framing->word(pair->state, request, size, i)).at;
         i++)
        if (one.size == strlen(word) && memcmp(one.at, word, one.size) == 0)
            return true;
    return false;
}

/* Its number has come. */
static bool counts_down(proxy_planned *planned)
{
    if (planned->left == 0 || --planned->left > 0)
        return false;
    if (planned->plan.every)
        planned->left = planned->plan.number;
    return true;
}

static void drop_done(proxy_link *link)
{
    for (proxy_planned **at = &link->plans; *at;) {
        proxy_planned *planned = *at;
        if (planned->left > 0) {
            at = &planned->next;
            continue;
        }
        *at = planned->next;
        free(planned->command);
        free(planned->word);
        free(planned);
    }
}

void proxy_planned_free(proxy_link *link)
{
    for (proxy_planned *planned = link->plans; planned; planned = planned->next)
        planned->left = 0;
    drop_done(link);
}

/* Of a longer name only the beginning is kept. */
static bool is_tally_of(const proxy_tally *tally, proxy_span command)
{
    size_t size = strlen(tally->command);
    return (command.size == size ||
            (command.size > size && size == sizeof(tally->command) - 1)) &&
           strncasecmp(tally->command, command.at, size) == 0;
}

static void name_tally(proxy_tally *tally, proxy_span command)
{
    for (size_t i = 0; i < command.size && i < sizeof(tally->command) - 1; i++)
        tally->command[i] =
            command.at[i] > ' ' && command.at[i] <= '~' ? command.at[i] : '?';
}

static void count(proxy_link *link, proxy_span command)
{
    link->stats.requests++;
    for (int i = 0; i < TALLIES; i++) {
        proxy_tally *tally = &link->tallies[i];
        bool is_new = tally->requests == 0;
        if (is_new)
            name_tally(tally, command);
        if (is_new || is_tally_of(tally, command)) {
            tally->requests++;
            return;
        }
    }
}

/* ---- What ---- */

static const char *const deed_texts[] = {
    [PROXY_CUT_BEFORE] = "not forwarded, cut",
    [PROXY_CUT_AFTER] = "forwarded, the client is cut off",
    [PROXY_CUT_REPLY] = "will be cut instead of its answer",
    [PROXY_DROP_REPLY] = "silence from its answer on",
    [PROXY_TEAR_REQUEST] = "torn, cut",
    [PROXY_TEAR_REPLY] = "its answer will be torn",
    [PROXY_DELAY_REQUEST] = "delayed",
    [PROXY_DELAY_REPLY] = "its answer will be delayed",
};

static bool mark_answer(proxy_pair *pair, int64_t answer, const proxy_plan *plan)
{
    proxy_mark *mark = malloc(sizeof(*mark));
    if (!mark)
        return false;
    *mark = (proxy_mark){.next = pair->marks,
                         .answer = answer,
                         .deed = plan->deed,
                         .delay_ms = plan->delay_ms};
    pair->marks = mark;
    return true;
}

/* What becomes of one request. */
typedef struct fate {
    int64_t answer; /* the number of its first one, -1 = there will be none */
    bool stays, cut_after, torn;
    int64_t delay_ms;
} fate;

static void do_deed(proxy_pair *pair, const proxy_plan *plan, fate *request)
{
    switch (plan->deed) {
    case PROXY_CUT_BEFORE:
        request->stays = true;
        break;
    case PROXY_CUT_AFTER:
        request->cut_after = true;
        break;
    case PROXY_TEAR_REQUEST:
        request->torn = true;
        break;
    case PROXY_DELAY_REQUEST:
        request->delay_ms += plan->delay_ms;
        break;
    case PROXY_CUT_REPLY:
    case PROXY_DROP_REPLY:
    case PROXY_TEAR_REPLY:
    case PROXY_DELAY_REPLY:
        if (request->answer >= 0 && !mark_answer(pair, request->answer, plan))
            request->stays = true; /* out of memory: something is lost all the same */
        break;
    }
}

static void ask_plans(proxy_pair *pair, const char *request, size_t size,
                      proxy_span command, fate *ret)
{
    proxy_link *link = pair->link;
    for (proxy_planned *planned = link->plans; planned; planned = planned->next) {
        if (!proxy_matches(command, planned->command) ||
            (planned->word && !has_word(pair, request, size, planned->word)) ||
            !counts_down(planned))
            continue;
        link->stats.deeds++;
        proxy_say(link->proxy, NULL, pair, "%.*s: %s", (int)command.size, command.at,
                  deed_texts[planned->plan.deed]);
        do_deed(pair, &planned->plan, ret);
    }
    drop_done(link);
}

void proxy_take_request(proxy_pair *pair, const char *request, size_t size)
{
    const proxy_framing *framing = pair->link->framing;
    if (framing->hear && !framing->hear(pair->state, request, size)) {
        proxy_flow_put(pair, UP, request, size, 0);
        return;
    }
    proxy_span command = framing->word(pair->state, request, size, 0);
    if (!command.at)
        command = (proxy_span){"?", 1};
    int answers = framing->answers ? framing->answers(pair->state, request, size) : 1;
    int64_t first = framing->stream ? framing->stream(request, size) : pair->asked;
    fate its = {.answer = answers > 0 ? first : -1};
    pair->asked += answers;
    count(pair->link, command);
    if (pair->link->proxy->trace)
        proxy_say(pair->link->proxy, NULL, pair, "asks %.*s (%zu bytes)",
                  (int)command.size, command.at, size);
    ask_plans(pair, request, size, command, &its);
    if (!its.stays)
        proxy_flow_put(pair, UP, request, its.torn ? size / 2 : size, its.delay_ms);
    if ((its.stays || its.torn || its.cut_after) && !pair->dead)
        proxy_pair_cut_client(pair);
}

/* ---- Answers ---- */

/* Takes the marks of this answer off; the worst of them counts, the delays add up. */
static bool take_marks(proxy_pair *pair, int64_t number, proxy_deed *ret_deed,
                       int64_t *ret_delay_ms)
{
    bool found = false;
    *ret_delay_ms = 0;
    for (proxy_mark **at = &pair->marks; *at;) {
        proxy_mark *mark = *at;
        if (mark->answer != number) {
            at = &mark->next;
            continue;
        }
        *at = mark->next;
        if (mark->deed == PROXY_DELAY_REPLY)
            *ret_delay_ms += mark->delay_ms;
        else
            *ret_deed = mark->deed;
        found = found || mark->deed != PROXY_DELAY_REPLY;
        free(mark);
    }
    return found;
}

void proxy_take_answer(proxy_pair *pair, const char *answer, size_t size)
{
    proxy_link *link = pair->link;
    proxy_deed deed = PROXY_DELAY_REPLY;
    int64_t delay_ms = 0;
    bool marked = false;
    if (link->proxy->trace)
        proxy_say(link->proxy, NULL, pair, "hears %.*s", size < 40 ? (int)size : 40,
                  answer);
    const proxy_framing *framing = link->framing;
    if (!framing->unasked || !framing->unasked(pair->state, answer, size)) {
        int64_t number = framing->stream ? framing->stream(answer, size) : pair->answered;
        marked = take_marks(pair, number, &deed, &delay_ms);
        pair->answered++;
        link->stats.answers++;
    }
    if (!marked) {
        proxy_flow_put(pair, DOWN, answer, size, delay_ms);
        return;
    }
    proxy_say(link->proxy, NULL, pair, "the answer of %zu bytes is %s", size,
              deed == PROXY_TEAR_REPLY ? "torn" : "lost");
    if (deed == PROXY_CUT_REPLY) {
        pair->flow[DOWN].tear = true; /* what came before it is heard */
    } else if (deed == PROXY_DROP_REPLY) {
        pair->flow[DOWN].mute = true;
        proxy_flow_put(pair, DOWN, answer, size, 0); /* counted as swallowed */
    } else {
        proxy_flow_put(pair, DOWN, answer, size / 2, delay_ms);
        pair->flow[DOWN].tear = !pair->dead;
    }
}
