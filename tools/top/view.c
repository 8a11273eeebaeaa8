/*
 * What dlock top shows of its rows: which, in which order, and what is reckoned at that moment. See
 * model.h.
 */
#include "top/model.h"

#include <stdlib.h>
#include <string.h>

/* By the service's date, when it can be as long ago as we have seen. */
static int64_t age(const top_model *model, int64_t since, int64_t from, int64_t now,
                   bool *at_least)
{
    int64_t seen = now - from;
    int64_t by_date = since >= 0 ? model->date + now + model->clock_off - since : -1;
    *at_least = by_date < seen;
    return by_date > seen ? by_date : seen;
}

/* Below half of what there was: renewals, at a third of the lease, have been missed. */
static bool is_late(const top_row *row, int64_t now)
{
    return row->held && row->left_ms >= 0 &&
           row->left_ms - (now - row->looked) < row->whole_ms / 2;
}

static void reckon(top_model *model, top_row *row, int64_t now)
{
    row->held_ms = row->waited_ms = -1;
    row->late = is_late(row, now);
    if (row->held && row->seen_to_come) {
        row->held_ms = now - row->held_from;
        row->held_at_least = false;
    } else if (row->held) {
        row->held_ms = age(model, row->since, row->held_from, now, &row->held_at_least);
    }
    if (row->waited_from >= 0 && row->waited_exactly) {
        row->waited_ms = now - row->waited_from;
        row->waited_at_least = false;
    } else if (row->waited_from >= 0)
        row->waited_ms =
            age(model, row->first_since, row->waited_from, now, &row->waited_at_least);
    model->held += row->held;
    model->waiting += row->waiters > 0 ? row->waiters : 0;
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

typedef int comparison(const top_row *a, const top_row *b);

static int by_name(const top_row *a, const top_row *b)
{
    return strcmp(a->name, b->name);
}

static int by_wait(const top_row *a, const top_row *b)
{
    int order = compare(b->waited_ms, a->waited_ms);
    return order != 0 ? order : compare(b->waiters, a->waiters);
}

static int by_held(const top_row *a, const top_row *b)
{
    return compare(b->held_ms, a->held_ms);
}

/* No lease at all is the longest. */
static int by_left(const top_row *a, const top_row *b)
{
    return compare(a->left_ms < 0 ? INT64_MAX : a->left_ms,
                   b->left_ms < 0 ? INT64_MAX : b->left_ms);
}

static int by_who(const top_row *a, const top_row *b)
{
    if (a->who == NULL || b->who == NULL)
        return (a->who == NULL) - (b->who == NULL);
    return strcmp(a->who, b->who);
}

/* Who waits hurts most, then whose lease isn't renewed, then who has held for the longest. */
static int by_hurt(const top_row *a, const top_row *b)
{
    int order = by_wait(a, b);
    if (order == 0)
        order = compare(b->late, a->late);
    return order != 0 ? order : by_held(a, b);
}

static const struct {
    const char *name;
    comparison *compare;
} orders[] = {
    [TOP_BY_HURT] = {"what hurts", by_hurt}, [TOP_BY_NAME] = {"name", by_name},
    [TOP_BY_WAIT] = {"wait", by_wait},       [TOP_BY_LEFT] = {"lease left", by_left},
    [TOP_BY_HELD] = {"held for", by_held},   [TOP_BY_WHO] = {"holder", by_who},
};

const char *top_order_name(top_order order)
{
    return orders[order].name;
}

static int in_order(const void *a, const void *b, void *with)
{
    const top_row *one = *(top_row *const *)a, *other = *(top_row *const *)b;
    top_order order = ((const top_model *)with)->order;
    int result = orders[order].compare(one, other);
    return result != 0 ? result : by_name(one, other);
}

static bool has_part(const char *text, const char *part)
{
    return text != NULL && strcasestr(text, part) != NULL;
}

static bool passes(const top_model *model, const top_row *row)
{
    return model->filter == NULL || has_part(row->name, model->filter) ||
           has_part(row->who, model->filter);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Who is the same process has the same name, or the same client in front of its owner's number. */
static bool count_clients(top_model *model)
{
    const char **who = calloc(model->count > 0 ? model->count : 1, sizeof(*who));
    if (who == NULL)
        return false;
    size_t count = 0;
    for (size_t i = 0; i < model->count; i++) {
        if (model->rows[i]->held && model->rows[i]->who != NULL)
            who[count++] = model->rows[i]->who;
    }
    qsort(who, count, sizeof *who, by_text);
    model->clients = 0;
    for (size_t i = 0; i < count; i++)
        model->clients += i == 0 || strcmp(who[i], who[i - 1]) != 0;
    free(who);
    return true;
}

bool top_model_view(top_model *model, int64_t now)
{
    size_t size = (model->count > 0 ? model->count : 1) * sizeof(*model->view);
    top_row **view = realloc(model->view, size);
    if (view == NULL)
        return false;
    model->view = view;
    model->shown = 0;
    model->held = model->waiting = 0;
    for (size_t i = 0; i < model->count; i++) {
        reckon(model, model->rows[i], now);
        if (passes(model, model->rows[i]))
            view[model->shown++] = model->rows[i];
    }
    qsort_r(view, model->shown, sizeof *view, in_order, model);
    return count_clients(model);
}

static int by_asked(const void *a, const void *b)
{
    return compare((*(top_row *const *)a)->asked, (*(top_row *const *)b)->asked);
}

size_t top_model_due(top_model *model, size_t first, size_t screen, top_row **ret,
                     size_t most)
{
    size_t count = 0;
    for (size_t i = first; i < model->shown && i - first < screen && count < most; i++)
        ret[count++] = model->view[i];
    if (count == most || model->count == 0)
        return count;
    top_row **all = malloc(model->count * sizeof(*all));
    if (all == NULL)
        return count; /* the screen's are what matters */
    memcpy(all, model->rows, model->count * sizeof(*all));
    qsort(all, model->count, sizeof(*all), by_asked);
    size_t on_screen = count;
    for (size_t i = 0; i < model->count && count < most; i++) {
        bool there = false;
        for (size_t j = 0; j < on_screen && !there; j++)
            there = ret[j] == all[i];
        if (!there)
            ret[count++] = all[i];
    }
    free(all);
    return count;
}

size_t top_model_news(top_model *model, size_t first, size_t screen, top_row **ret,
                      size_t most, int64_t now)
{
    enum { GOOD_MS = 10000 };
    size_t count = 0;
    for (size_t i = first; i < model->shown && i - first < screen && count < most; i++) {
        top_row *row = model->view[i];
        bool is_new = row->asked < 0 || (row->held && row->token < 0);
        if (is_new ? now - row->asked >= 1000 || row->asked < 0
                   : now - row->asked >= GOOD_MS)
            ret[count++] = row;
    }
    return count;
}
