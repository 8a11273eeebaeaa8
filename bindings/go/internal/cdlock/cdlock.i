/*
 * The Go layer nobody edits: every handle is a number of a Go type of its own, so that nothing is
 * allocated for it and C never sees a Go pointer that it could keep.
 *
 * ../../generate runs SWIG on this file; the result is committed, because `go get` runs no
 * generator, and a test runs it again and compares.
 */
%module cdlock

%define HANDLE(T, GoT)
%insert(go_wrapper) %{
type GoT uintptr
%}
%typemap(gotype) T *, const T * "GoT"
%typemap(imtype) T *, const T * "uintptr"
%typemap(goin) T *, const T * "$result = uintptr($input)"
%typemap(goout) T *, const T * "$result = GoT($input)"
%typemap(gotype) T ** "*GoT"
%typemap(in) T *, const T *, T ** "$1 = ($1_ltype)$input;"
%typemap(out) T *, const T * "$result = (T *)$1;"
%enddef

HANDLE(dlock_conf, Conf)
HANDLE(dlock_client, Client)
HANDLE(dlock_lock, Lock)
HANDLE(dlock_hold, Hold)
HANDLE(dlock_cond, Cond)
HANDLE(dlock_op, Op)
HANDLE(dlock_event, Event)
HANDLE(dlock_info, Info)
HANDLE(dlock_error, Error)

/* The locks of a multi-lock: the first element of a slice, and its length. */
%typemap(gotype) dlock_lock *const * "*Lock"
%typemap(in) dlock_lock *const * "$1 = ($1_ltype)$input;"

/* The ticket of an export: text that belongs to the hold, copied at once. */
%typemap(gotype) const char ** "*uintptr"
%typemap(in) const char ** "$1 = ($1_ltype)$input;"

/* Text that C has made for us: copied at once, and freed by cdlock_text_free. */
%typemap(gotype) char **ret_text "*uintptr"
%typemap(in) char **ret_text "$1 = ($1_ltype)$input;"
%ignore dlock_text_free;

/* Numbers that C writes into memory of Go's. */
%typemap(gotype) int64_t *into "*int64"
%typemap(in) int64_t *into "$1 = ($1_ltype)$input;"

/* Numbers, as Go counts. */
%typemap(gotype) size_t "int"
%typemap(gotype) uintptr_t "uintptr"

%include "../../../swig/dlock.i"

/* What C says only to C. */
%inline %{
/* The version this was compiled against; dlock_version_num() is the one that runs. */
static int64_t cdlock_built_num(void) { return DLOCK_VERSION_NUM; }
static const char *cdlock_built(void) { return DLOCK_VERSION_STRING; }
static const char *cdlock_text(uintptr_t text) { return (const char *)text; }
static void cdlock_text_free(uintptr_t text) { dlock_text_free((char *)text); }
/* A Go string is never NULL, which here means: whoever holds it. */
static dlock_op *cdlock_break_any(dlock_lock *lock) { return dlock_lock_break_start(lock, NULL); }

/* What is called for every lock, in as few calls as can be: each one into C costs as much as what
 * it does there. */

/* To be told of under the tag, if there is one. into[0]: what has come of it, or EPENDING; then, of
 * what has succeeded, the hold and its token. NULL: it has succeeded, and nothing is left of it. */
static dlock_op *cdlock_watch(dlock_op *op, uint64_t tag, int64_t *into)
{
    if (tag && dlock_op_notify(op, tag) == DLOCK_EPENDING) {
        into[0] = DLOCK_EPENDING;
        return op;
    }
    into[0] = dlock_op_result(op);
    if (into[0] != DLOCK_OK)
        return op;
    dlock_hold *hold = dlock_op_take_hold(op);
    into[1] = (int64_t)(uintptr_t)hold;
    into[2] = hold ? dlock_hold_token(hold) : 0;
    dlock_op_free(op);
    return NULL;
}

/* By a handle that is made for it alone. */
static dlock_op *cdlock_acquire_start(dlock_client *client, dlock_kind kind, const char *name,
                                      const dlock_conf *conf, int64_t wait_ms, uint64_t tag,
                                      int64_t *into)
{
    dlock_lock *lock = NULL;
    dlock_error *error = NULL;
    into[0] = dlock_lock_new(client, kind, name, conf, &lock, &error);
    if (into[0] != DLOCK_OK) {
        into[1] = (int64_t)(uintptr_t)error;
        return NULL;
    }
    dlock_op *op = dlock_lock_acquire_start(lock, wait_ms);
    dlock_lock_free(lock);
    return cdlock_watch(op, tag, into);
}

static dlock_op *cdlock_release_start(dlock_hold *hold, uint64_t tag, int64_t *into)
{
    dlock_op *op = dlock_hold_release_start(hold);
    dlock_hold_free(hold);
    return cdlock_watch(op, tag, into);
}

/* Reads what has come, if that is ours to do, and fetches events: into[0] is what driving says, then
 * come a tag and a dlock_what for each, and the event itself where it has no tag. How many. */
static int cdlock_fetch(dlock_client *client, int64_t *into, int room)
{
    dlock_event *event;
    int count = 0;
    into[0] = dlock_client_drive(client);
    for (into++; count < room && (event = dlock_client_next_event(client)); into += 3, count++) {
        into[0] = (int64_t)dlock_event_tag(event);
        into[1] = dlock_event_what(event);
        into[2] = (int64_t)(uintptr_t)event;
        if (into[0] || into[1] == DLOCK_EVENT_CLOSED)
            dlock_event_free(event);
    }
    return count;
}
%}
