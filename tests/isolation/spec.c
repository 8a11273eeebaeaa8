/* Reads schedules and unfolds mixes; see the header for what they look like. */
#include "spec.h"

#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---- */

static char *next_word(char **rest)
{
    return strtok_r(NULL, " \t\n", rest);
}

static bool copy(char *to, size_t size, const char *from)
{
    return from && (size_t)snprintf(to, size, "%s", from) < size;
}

static bool append(char *to, size_t size, const char *word)
{
    size_t used = strlen(to);
    return (size_t)snprintf(to + used, size - used, "%s%s", used ? " " : "", word) <
           size - used;
}

const spec_step *spec_find_step(const spec *s, const char *name)
{
    for (int i = 0; i < s->step_count; i++)
        if (strcmp(s->steps[i].name, name) == 0)
            return &s->steps[i];
    return NULL;
}

static spec_session *find_session(spec *s, const char *name)
{
    for (int i = 0; i < s->session_count; i++)
        if (strcmp(s->sessions[i].name, name) == 0)
            return &s->sessions[i];
    if (s->session_count == SPEC_SESSIONS)
        return NULL;
    spec_session *made = &s->sessions[s->session_count++];
    return copy(made->name, sizeof(made->name), name) ? made : NULL;
}

/* ---- lines ---- */

static bool read_session(spec *s, char *rest)
{
    char *name = next_word(&rest), *how = next_word(&rest), *what = next_word(&rest);
    spec_session *session = name ? find_session(s, name) : NULL;
    if (!session || !how) /* a client of its own */
        return session != NULL;
    if (!what)
        return false;
    session->by_proxy = strcmp(how, "by") == 0;
    return session->by_proxy || copy(session->of, sizeof(session->of), what);
}

static bool read_step(spec *s, char *rest)
{
    if (s->step_count == SPEC_STEPS)
        return false;
    spec_step *step = &s->steps[s->step_count++];
    char *name = next_word(&rest), *session = next_word(&rest), *verb = next_word(&rest);
    if (!copy(step->name, SPEC_WORD, name) || !copy(step->session, SPEC_WORD, session) ||
        !copy(step->verb, SPEC_WORD, verb))
        return false;
    for (char *word; (word = next_word(&rest));) {
        if (strcmp(word, "at") == 0)
            return copy(step->point, SPEC_WORD, next_word(&rest)) &&
                   find_session(s, session);
        if (!append(step->arg, sizeof(step->arg), word))
            return false;
    }
    return strcmp(session, "server") == 0 || find_session(s, session);
}

/* [BACKENDS :] TOKENS, and of a mix: [BACKENDS :] TOKENS : ANSWERS */
static bool read_order(spec *s, char *rest, const char *backend, bool mix)
{
    char *colon = strstr(rest, " : "), *last = colon ? strstr(colon + 1, " : ") : NULL;
    bool here = true;
    spec_order *order = &s->orders[s->order_count];
    if (s->order_count == SPEC_ORDERS || (mix && !colon))
        return false;
    *order = (spec_order){.mix = mix};
    if (mix && !last) {
        last = colon;
        colon = NULL;
    }
    if (last)
        *last = '\0';
    if (mix && !copy(order->allowed, sizeof(order->allowed), last + 3))
        return false;
    if (colon) {
        *colon = '\0';
        here = strstr(rest, backend) != NULL;
        rest = colon + 3;
    }
    for (char *word; (word = next_word(&rest)); order->count++)
        if (order->count == SPEC_TOKENS ||
            !copy(order->tokens[order->count], SPEC_WORD, word))
            return false;
    s->order_count += here;
    return order->count > 0;
}

static bool read_line(spec *s, char *line, const char *backend)
{
    char *rest = line, *keyword;
    line[strcspn(line, "#\n")] = '\0';
    keyword = strtok_r(line, " \t", &rest);
    if (!keyword)
        return true;
    if (strcmp(keyword, "long") == 0) {
        keyword = next_word(&rest);
        if (!getenv("DLK_SPECS_LONG"))
            return true;
    }
    if (!keyword)
        return false;
    if (strcmp(keyword, "settings") == 0)
        return copy(s->settings, sizeof(s->settings), rest);
    if (strcmp(keyword, "session") == 0)
        return read_session(s, rest);
    if (strcmp(keyword, "step") == 0)
        return read_step(s, rest);
    if (strcmp(keyword, "order") == 0 || strcmp(keyword, "mix") == 0)
        return read_order(s, rest, backend, keyword[0] == 'm');
    if (strcmp(keyword, "not") != 0)
        return false;
    char *where = next_word(&rest), *because = next_word(&rest);
    return where && because &&
           (strcmp(where, backend) != 0 ||
            copy(s->not_because, sizeof(s->not_because), rest + strspn(rest, " ")));
}

static bool read_all(spec *s, FILE *file, const char *backend)
{
    char line[1024], more[512];
    while (fgets(line, sizeof(line), file)) {
        char *end;
        while ((end = strstr(line, "\\\n")) && fgets(more, sizeof(more), file))
            if ((size_t)snprintf(end, sizeof(line) - (size_t)(end - line), " %s", more) >=
                sizeof(line) - (size_t)(end - line))
                return false;
        if (!read_line(s, line, backend)) {
            harness_note("%s: can't read the line of '%s'", s->name, line);
            return false;
        }
    }
    return true;
}

bool spec_read(spec *s, const char *name, const char *backend)
{
    char path[512];
    const char *dir = getenv("DLK_SPECS");
    *s = (spec){.name = name};
    snprintf(path, sizeof(path), "%s/%s.spec", dir ? dir : "specs", name);
    FILE *file = fopen(path, "re");
    bool fine = file && read_all(s, file, backend);
    if (file)
        fclose(file);
    return harness_check(__FILE__, __LINE__, fine, path);
}

/* ---- mixes ---- */

typedef struct group {
    const char *tokens[SPEC_TOKENS];
    int count, used;
} group;

typedef struct unfolding {
    const spec *s;
    group groups[SPEC_SESSIONS];
    int group_count, count;
    spec_order order;
    bool (*run)(const spec *s, const spec_order *order, void *arg);
    void *arg;
} unfolding;

static bool unfold(unfolding *u)
{
    bool left = false;
    for (int i = 0; i < u->group_count; i++) {
        group *g = &u->groups[i];
        if (g->used == g->count)
            continue;
        left = true;
        (void)copy(u->order.tokens[u->order.count++], SPEC_WORD, g->tokens[g->used++]);
        bool fine = unfold(u);
        g->used--;
        u->order.count--;
        if (!fine)
            return false;
    }
    if (left)
        return true;
    u->count++;
    return u->run(u->s, &u->order, u->arg);
}

static bool unfold_mix(unfolding *u, const spec_order *mix)
{
    memset(u->groups, 0, sizeof(u->groups));
    u->group_count = 1;
    u->order = *mix;
    u->order.count = 0;
    for (int i = 0; i < mix->count; i++) {
        group *g = &u->groups[u->group_count - 1];
        if (strcmp(mix->tokens[i], "|") == 0)
            u->group_count++;
        else
            g->tokens[g->count++] = mix->tokens[i];
    }
    return unfold(u);
}

bool spec_each_order(const spec *s,
                     bool (*run)(const spec *s, const spec_order *order, void *arg),
                     void *arg, int *ret_count)
{
    unfolding u = {.s = s, .run = run, .arg = arg};
    bool fine = true;
    for (int i = 0; fine && i < s->order_count; i++) {
        u.count += !s->orders[i].mix;
        fine =
            s->orders[i].mix ? unfold_mix(&u, &s->orders[i]) : run(s, &s->orders[i], arg);
    }
    *ret_count = u.count;
    return fine;
}
