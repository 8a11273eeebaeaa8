/* Sums on the text of an item; see the header. */
#include "backends/memcached/record.h"

#include "util/digits.h"
#include "util/number.h"

#include <string.h>

#define SHOWN_MAX 128 /* of a foreign value that is shown as an owner */

static const char *const form_names[] = {
    [DLK_MC_MUTEX] = "mutex",
    [DLK_MC_ELECTION] = "election",
    [DLK_MC_READ_WRITE] = "write",
    [DLK_MC_SEMAPHORE] = "semaphore",
};

dlk_mc_form dlk_mc_form_of(dlock_kind kind)
{
    switch (kind) {
    case DLOCK_READ:
    case DLOCK_WRITE:
        return DLK_MC_READ_WRITE;
    case DLOCK_SEMAPHORE:
        return DLK_MC_SEMAPHORE;
    case DLOCK_ELECTION:
        return DLK_MC_ELECTION;
    case DLOCK_MUTEX:
        break;
    }
    return DLK_MC_MUTEX;
}

const char *dlk_mc_form_name(dlk_mc_form form)
{
    return form_names[form];
}

/* ---- taking apart ---- */

static dlk_mc_text take_until(dlk_mc_text *rest, char end)
{
    const char *at = rest->size ? memchr(rest->data, end, rest->size) : NULL;
    size_t size = at ? (size_t)(at - rest->data) : rest->size;
    dlk_mc_text head = {rest->data, size};
    size_t eaten = at ? size + 1 : size;
    rest->data += eaten;
    rest->size -= eaten;
    return head;
}

static dlk_mc_text text_of(const char *word)
{
    return (dlk_mc_text){word, strlen(word)};
}

static bool is(dlk_mc_text text, const char *word)
{
    return dlk_mc_same(text, text_of(word));
}

static bool number_of(dlk_mc_text digits, int64_t *ret)
{
    const dlk_mc_reply reply = {.text = digits.data, .size = digits.size};
    return dlk_mc_number(&reply, ret);
}

/* "<owner> <word> <token> <about>" with this word. */
static bool is_sole(dlk_mc_text value, const char *word, dlk_mc_holder *ret)
{
    dlk_mc_text owner = take_until(&value, ' ');
    if (owner.size == 0 || !is(take_until(&value, ' '), word))
        return false;
    *ret = (dlk_mc_holder){.owner = owner, .take = 1};
    if (!number_of(take_until(&value, ' '), &ret->token))
        return false;
    ret->about = value;
    return true;
}

static dlk_mc_form form_of_sole(dlk_mc_text value, dlk_mc_holder *ret)
{
    if (is_sole(value, form_names[DLK_MC_MUTEX], ret))
        return DLK_MC_MUTEX;
    return is_sole(value, form_names[DLK_MC_ELECTION], ret) ? DLK_MC_ELECTION
                                                            : DLK_MC_FOREIGN;
}

dlk_mc_record dlk_mc_record_of(dlk_mc_text value)
{
    dlk_mc_record record = {.form = DLK_MC_FOREIGN, .rest = value};
    dlk_mc_holder sole;
    dlk_mc_text rest = value, head = take_until(&rest, '\n'), word = head;
    if (is(head, "read/write")) {
        record = (dlk_mc_record){.form = DLK_MC_READ_WRITE, .rest = rest};
    } else if (is(take_until(&word, ' '), form_names[DLK_MC_SEMAPHORE]) &&
               number_of(word, &record.permits)) {
        record.form = DLK_MC_SEMAPHORE;
        record.rest = rest;
    } else {
        record.permits = 0;
        record.form = form_of_sole(value, &sole);
    }
    return record;
}

static bool take_line(dlk_mc_text line, dlk_mc_holder *ret)
{
    *ret = (dlk_mc_holder){.owner = take_until(&line, ' ')};
    dlk_mc_text side = take_until(&line, ' ');
    ret->shared = is(side, "r");
    if (ret->owner.size == 0 || (!ret->shared && !is(side, "w")) ||
        !number_of(take_until(&line, ' '), &ret->take) ||
        !number_of(take_until(&line, ' '), &ret->until) ||
        !number_of(take_until(&line, ' '), &ret->token) || ret->take > INT32_MAX ||
        ret->until == 0)
        return false;
    ret->about = line;
    return true;
}

static bool is_word(dlk_mc_text value)
{
    if (value.size == 0 || value.size > SHOWN_MAX)
        return false;
    for (size_t i = 0; i < value.size; i++)
        if (value.data[i] <= ' ' || value.data[i] > '~')
            return false;
    return true;
}

bool dlk_mc_next_holder(dlk_mc_record *record, dlk_mc_holder *ret)
{
    dlk_mc_text value = record->rest;
    if (record->form == DLK_MC_READ_WRITE || record->form == DLK_MC_SEMAPHORE) {
        while (record->rest.size > 0)
            if (take_line(take_until(&record->rest, '\n'), ret))
                return true;
        return false;
    }
    record->rest = (dlk_mc_text){"", 0};
    if (record->form == DLK_MC_FOREIGN) {
        *ret = (dlk_mc_holder){.owner = value, .take = 1};
        return is_word(value);
    }
    return value.size > 0 && form_of_sole(value, ret) != DLK_MC_FOREIGN;
}

/* ---- one holder ---- */

dlk_mc_holder dlk_mc_sole_holder(dlk_mc_text value)
{
    dlk_mc_holder holder;
    if (form_of_sole(value, &holder) != DLK_MC_FOREIGN)
        return holder;
    return (dlk_mc_holder){.owner = {"", 0}};
}

static char *put(char *to, dlk_mc_text text)
{
    if (text.size > 0)
        memcpy(to, text.data, text.size);
    return to + text.size;
}

/* Behind a space; none is negative. */
static char *put_word(char *to, const char *word)
{
    *to++ = ' ';
    return put(to, text_of(word));
}

static char *put_number(char *to, int64_t number)
{
    *to++ = ' ';
    return dlk_digits_put(to, (uint64_t)number);
}

/* What people are told must not end its line. */
static char *put_about(char *to, dlk_mc_text about)
{
    char *end = put(to, about);
    for (; to < end; to++)
        if (*to == '\n' || *to == '\r')
            *to = ' ';
    return end;
}

bool dlk_mc_put_sole(dlk_buf *out, dlk_mc_form form, const dlk_mc_holder *holder)
{
    size_t words = strlen(form_names[form]) + DLK_DIGITS_MAX + 3;
    char *from = dlk_buf_room(out, holder->owner.size + words + holder->about.size);
    if (!from)
        return false;
    char *to = put_word(put(from, holder->owner), form_names[form]);
    to = put_number(to, holder->token);
    *to++ = ' ';
    to = put_about(to, holder->about);
    dlk_buf_added(out, (size_t)(to - from));
    return true;
}

/* ---- lines ---- */

static bool put_head(dlk_buf *out, dlk_mc_form form, int64_t permits)
{
    if (form == DLK_MC_READ_WRITE)
        return dlk_buf_append(out, "read/write\n", strlen("read/write\n"));
    char head[sizeof("semaphore ") + DLK_DIGITS_MAX];
    char *end = put(head, text_of(form_names[DLK_MC_SEMAPHORE]));
    end = put_number(end, permits);
    *end++ = '\n';
    return dlk_buf_append(out, head, (size_t)(end - head));
}

static bool put_line(dlk_buf *out, const dlk_mc_holder *holder)
{
    size_t words = strlen(" w") + (size_t)3 * (1 + DLK_DIGITS_MAX) + strlen(" \n");
    char *from = dlk_buf_room(out, holder->owner.size + words + holder->about.size);
    if (!from)
        return false;
    char *to = put_word(put(from, holder->owner), holder->shared ? "r" : "w");
    to = put_number(put_number(put_number(to, holder->take), holder->until),
                    holder->token);
    *to++ = ' ';
    to = put_about(to, holder->about);
    *to++ = '\n';
    dlk_buf_added(out, (size_t)(to - from));
    return true;
}

/* Whom a wish is about: ourselves, or who is named. */
static bool is_meant(const dlk_mc_wish *wish, const dlk_mc_holder *holder)
{
    if (wish->verb == DLK_BREAK)
        return !wish->text || is(holder->owner, wish->text);
    return dlk_mc_same(holder->owner, wish->owner);
}

static bool anybody_else(const dlk_mc_wish *wish, dlk_mc_record record)
{
    dlk_mc_holder holder;
    while (dlk_mc_next_holder(&record, &holder))
        if (holder.until > wish->now && !is_meant(wish, &holder))
            return true;
    return false;
}

/* The others, who stay, and what they have. */
typedef struct others {
    int64_t count, taken, first, last;
    bool writer, fine;
} others;

/* Copies those that stay into `out`. */
static others keep_others(const dlk_mc_wish *wish, dlk_mc_record record, dlk_buf *out,
                          dlk_mc_holder *ret_own, bool *ret_found, bool *ret_giver)
{
    others kept = {.fine = put_head(out, wish->form, record.permits)};
    dlk_mc_holder holder;
    *ret_found = *ret_giver = false;
    while (kept.fine && dlk_mc_next_holder(&record, &holder)) {
        if (holder.until <= wish->now)
            continue;
        if (holder.token == 0)
            holder.token = wish->seen;
        if (is_meant(wish, &holder)) {
            *ret_own = holder;
            *ret_found = true;
            continue;
        }
        if (wish->verb == DLK_IMPORT && is(holder.owner, wish->text)) {
            *ret_giver = true;
            continue;
        }
        kept.count++;
        kept.taken = dlk_number_sum(kept.taken, holder.take);
        kept.writer |= !holder.shared;
        if (kept.first == 0 || holder.until < kept.first)
            kept.first = holder.until;
        if (holder.until > kept.last)
            kept.last = holder.until;
        kept.fine = put_line(out, &holder);
    }
    return kept;
}

static bool in_the_way(const dlk_mc_wish *wish, const others *kept, int64_t permits)
{
    if (wish->form == DLK_MC_SEMAPHORE)
        return dlk_number_sum(kept->taken, wish->take) > permits;
    return wish->shared ? kept->writer : kept->count > 0;
}

static dlk_mc_plan answer(dlk_reply reply)
{
    return (dlk_mc_plan){.reply = reply, .wait_ms = -1};
}

static dlk_mc_plan refuse(dlock_err code, const char *why)
{
    return (dlk_mc_plan){.reply = DLK_REFUSED, .code = code, .why = why};
}

/* We hold it from now on, or again. */
static dlk_mc_plan plan_hold(const dlk_mc_wish *wish, const others *kept,
                             const dlk_mc_holder *own, dlk_buf *out)
{
    dlk_mc_holder holder = {.owner = wish->owner,
                            .about = wish->about,
                            .shared = wish->shared,
                            .take = wish->take,
                            .until = wish->until};
    if (wish->form == DLK_MC_SEMAPHORE)
        holder.shared = true;
    if (own && own->until > holder.until) /* a lease is never made shorter */
        holder.until = own->until;
    if (own && wish->verb == DLK_RENEW) {
        holder.token = own->token;
        holder.about = own->about; /* since when stays */
    }
    if (!put_line(out, &holder))
        return refuse(DLOCK_ENOMEM, "memcached: out of memory");
    if (dlk_buf_size(out) > DLK_MC_RECORD_MAX)
        return refuse(DLOCK_EOVERFLOW, "memcached: one item can't name more holders");
    return (dlk_mc_plan){.reply = DLK_PENDING,
                         .last = holder.until > kept->last ? holder.until : kept->last};
}

static dlk_mc_plan plan_without(const others *kept)
{
    return (dlk_mc_plan){
        .reply = DLK_PENDING, .empty = kept->count == 0, .last = kept->last};
}

static const char *conflict_of(dlk_mc_form form)
{
    switch (form) {
    case DLK_MC_MUTEX:
        return "memcached: a mutex of this name is held";
    case DLK_MC_ELECTION:
        return "memcached: an election of this name has a leader";
    case DLK_MC_READ_WRITE:
        return "memcached: a read/write lock of this name is held";
    case DLK_MC_SEMAPHORE:
        return "memcached: permits of a semaphore of this name are taken";
    case DLK_MC_FOREIGN:
        break;
    }
    return "memcached: the item isn't a lock";
}

/* Whatever others have written there: seconds of any size. */
static dlk_mc_plan held(const dlk_mc_wish *wish, const others *kept)
{
    int64_t left = kept->first ? dlk_number_difference(kept->first, wish->now) : -1;
    return (dlk_mc_plan){.reply = DLK_HELD, .wait_ms = dlk_span_of_seconds(left)};
}

static dlk_mc_plan plan_acquire(const dlk_mc_wish *wish, int64_t permits,
                                const others *kept, const dlk_mc_holder *own,
                                dlk_buf *out)
{
    if (wish->form == DLK_MC_SEMAPHORE) {
        if (permits == 0)
            return refuse(DLOCK_ECONFLICT,
                          "memcached: nobody holds a permit just now, and only holders "
                          "know how many there are: set lock.permits");
        if (wish->permits != 0 && wish->permits != permits)
            return refuse(DLOCK_ECONFLICT,
                          "memcached: others use this semaphore with another number of "
                          "permits (lock.permits)");
        if (wish->take > permits)
            return refuse(DLOCK_EINVAL, "memcached: lock.take is more than there are");
    }
    if (in_the_way(wish, kept, permits))
        return held(wish, kept);
    return plan_hold(wish, kept, own, out);
}

/* Another form is there. */
static dlk_mc_plan plan_beside(const dlk_mc_wish *wish, dlk_mc_form form)
{
    if (wish->verb == DLK_BREAK && !wish->text)
        return (dlk_mc_plan){.reply = DLK_PENDING, .empty = true};
    if (wish->verb != DLK_ACQUIRE)
        return answer(DLK_NOT_OURS);
    return form == DLK_MC_FOREIGN ? answer(DLK_HELD)
                                  : refuse(DLOCK_ECONFLICT, conflict_of(form));
}

dlk_mc_plan dlk_mc_record_plan(const dlk_mc_wish *wish, const dlk_mc_text *value,
                               dlk_buf *out)
{
    dlk_mc_record record = {
        .form = wish->form, .permits = wish->permits, .rest = {"", 0}};
    dlk_mc_holder own = {0};
    bool found, giver;
    if (value)
        record = dlk_mc_record_of(*value);
    if (record.form != wish->form)
        return plan_beside(wish, record.form);
    if (wish->verb == DLK_ACQUIRE && !anybody_else(wish, record))
        record.permits = wish->permits; /* who comes first says how many there are */
    others kept = keep_others(wish, record, out, &own, &found, &giver);
    if (!kept.fine)
        return refuse(DLOCK_ENOMEM, "memcached: out of memory");
    switch (wish->verb) {
    case DLK_ACQUIRE:
        return plan_acquire(wish, record.permits, &kept, found ? &own : NULL, out);
    case DLK_RENEW:
        return found ? plan_hold(wish, &kept, &own, out) : answer(DLK_NOT_OURS);
    case DLK_IMPORT:
        return found || giver ? plan_hold(wish, &kept, found ? &own : NULL, out)
                              : answer(DLK_NOT_OURS);
    case DLK_VERIFY:
        return answer(found ? DLK_YES : DLK_NOT_OURS);
    case DLK_RELEASE:
    case DLK_BREAK:
        return found ? plan_without(&kept) : answer(DLK_NOT_OURS);
    case DLK_REVOKE:
    case DLK_INSPECT:
    case DLK_SIGNAL:
    case DLK_LIST:
    case DLK_DOCTOR:
        break;
    }
    return refuse(DLOCK_ENOTSUP, "memcached: nothing that a record is asked for");
}
