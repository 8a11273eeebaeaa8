/*
 * dlock._native: the C API as plain functions, for the hand-written package around it. SWIG makes
 * it at build time with -noproxy; there is no Python file in between.
 *
 *   handles   are capsules that free what they own when they are collected. So there is no _free
 *             here, no use after it, and a finalizer runs when nobody can be inside a call.
 *             A handle of another type, or None, is refused with TypeError.
 *   texts     are str; one with a NUL, or that UTF-8 can't carry, is refused, never cut.
 *   infos     come as JSON, events as a tuple (what, tag, code, token, text), the error of an op
 *             as a tuple (code, text, backend) or None.
 *   failures  of calls with an out-parameter are raised by dlock.errors.raise_code(); calls that
 *             answer with a code alone return it.
 *   the GIL   is released by whatever may wait, or write to a socket or a shared mapping.
 */
%module(package="dlock", threads="1") _native

%rename("%(regex:/^(?:dlock|DLOCK)_(.*)/\\1/)s") "";

%{
#include <dlock/dlock.h>

#define HANDLE(T)                                                                        \
    static void T##_end(PyObject *capsule)                                               \
    {                                                                                    \
        T *handle = (T *)PyCapsule_GetPointer(capsule, #T);                              \
        PyThreadState *state = PyEval_SaveThread();                                      \
        T##_free(handle);                                                                \
        PyEval_RestoreThread(state);                                                     \
    }                                                                                    \
    static PyObject *T##_handle(T *handle)                                               \
    {                                                                                    \
        PyObject *capsule = NULL;                                                        \
        if (handle == NULL)                                                              \
            Py_RETURN_NONE;                                                              \
        capsule = PyCapsule_New(handle, #T, T##_end);                                    \
        if (capsule == NULL)                                                             \
            T##_free(handle);                                                            \
        return capsule;                                                                  \
    }

HANDLE(dlock_conf)
HANDLE(dlock_client)
HANDLE(dlock_lock)
HANDLE(dlock_hold)
HANDLE(dlock_cond)
HANDLE(dlock_op)

static void *handle_of(PyObject *object, const char *type)
{
    if (PyCapsule_IsValid(object, type))
        return PyCapsule_GetPointer(object, type);
    PyErr_Format(PyExc_TypeError, "a %s is needed, not %R", type, (PyObject *)Py_TYPE(object));
    return NULL;
}

/* The UTF-8 of a str as a bytes object, which is what keeps it alive during the call. */
static char *text_of(PyObject *object, PyObject **ret_bytes)
{
    char *text = NULL;
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "a str is needed, not %R", (PyObject *)Py_TYPE(object));
        return NULL;
    }
    *ret_bytes = PyUnicode_AsUTF8String(object);
    if (*ret_bytes == NULL || PyBytes_AsStringAndSize(*ret_bytes, &text, NULL) != 0)
        return NULL;
    return text;
}

static PyObject *text_from(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *json_from(dlock_info *info)
{
    const char *json = NULL;
    PyObject *text = NULL;
    if (info == NULL)
        Py_RETURN_NONE;
    json = dlock_info_json(info);
    text = json == NULL ? PyErr_NoMemory() : text_from(json);
    dlock_info_free(info);
    return text;
}

static PyObject *tuple_from_error(const dlock_error *err)
{
    if (err == NULL)
        Py_RETURN_NONE;
    return Py_BuildValue("(iNN)", (int)dlock_error_code(err),
                         text_from(dlock_error_text(err)), text_from(dlock_error_backend(err)));
}

static PyObject *tuple_from_event(dlock_event *event)
{
    PyObject *tuple = NULL;
    if (event == NULL)
        Py_RETURN_NONE;
    tuple = Py_BuildValue("(iKiLN)", (int)dlock_event_what(event),
                          (unsigned long long)dlock_event_tag(event),
                          (int)dlock_event_code(event), (long long)dlock_event_token(event),
                          text_from(dlock_event_text(event)));
    dlock_event_free(event);
    return tuple;
}

/* Raises what dlock.errors makes of a failed call. */
static void raise_code(dlock_err code, dlock_error *err)
{
    PyObject *errors = PyImport_ImportModule("dlock.errors");
    PyObject *nothing = NULL;
    if (errors != NULL)
        nothing = PyObject_CallMethod(
            errors, "raise_code", "iNN", (int)code,
            text_from(err == NULL ? dlock_strerror(code) : dlock_error_text(err)),
            text_from(dlock_error_backend(err)));
    Py_XDECREF(nothing);
    Py_XDECREF(errors);
    dlock_error_free(err);
}

/* The handles in a list; NULL with an exception set. */
static dlock_lock **locks_of(PyObject *list, size_t *ret_count)
{
    dlock_lock **locks = NULL;
    Py_ssize_t count = PyList_Check(list) ? PyList_Size(list) : -1;
    if (count < 0) {
        PyErr_SetString(PyExc_TypeError, "a list of locks is needed");
        return NULL;
    }
    locks = (dlock_lock **)calloc((size_t)count + 1, sizeof(*locks));
    if (locks == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        locks[i] = (dlock_lock *)handle_of(PyList_GetItem(list, i), "dlock_lock");
        if (locks[i] == NULL) {
            free(locks);
            return NULL;
        }
    }
    *ret_count = (size_t)count;
    return locks;
}

/* Starts, waits for so long at most, and takes what is granted: one crossing of the GIL instead of two, and
 * no capsule for an op that is over. */
static PyObject *lock_acquire(dlock_lock *lock, int64_t wait_ms, int64_t slice_ms)
{
    PyThreadState *state = PyEval_SaveThread();
    dlock_op *op = dlock_lock_acquire_start(lock, wait_ms);
    dlock_err code = dlock_op_wait(op, slice_ms);
    dlock_hold *hold = code == DLOCK_OK ? dlock_op_take_hold(op) : NULL;
    if (hold != NULL) {
        dlock_op_free(op);
        op = NULL;
    }
    PyEval_RestoreThread(state);
    return Py_BuildValue("(NN)", dlock_hold_handle(hold), dlock_op_handle(op));
}

static PyObject *hold_release(dlock_hold *hold, int64_t slice_ms)
{
    PyThreadState *state = PyEval_SaveThread();
    dlock_op *op = dlock_hold_release_start(hold);
    dlock_err code = dlock_op_wait(op, slice_ms);
    if (code == DLOCK_OK && dlock_op_result(op) == DLOCK_OK) {
        dlock_op_free(op);
        op = NULL;
    }
    PyEval_RestoreThread(state);
    return dlock_op_handle(op);
}
%}

/* ---- Handles ---- */

%define HANDLE_TYPEMAPS(T)
%typemap(in) T *, const T * {
    $1 = ($1_ltype)handle_of($input, #T);
    if ($1 == NULL) SWIG_fail;
}
%typemap(out) T * { $result = T ## _handle($1); }
%typemap(in, numinputs=0) (T **RETURNED, dlock_error **err)
    (T *returned = NULL, dlock_error *why = NULL) "$1 = &returned; $2 = &why;"
%typemap(argout) (T **RETURNED, dlock_error **err) {
    if (result != DLOCK_OK) { raise_code(result, *$2); SWIG_fail; }
    Py_DECREF($result);
    $result = T ## _handle(*$1);
}
%enddef
HANDLE_TYPEMAPS(dlock_conf)
HANDLE_TYPEMAPS(dlock_client)
HANDLE_TYPEMAPS(dlock_lock)
HANDLE_TYPEMAPS(dlock_hold)
HANDLE_TYPEMAPS(dlock_cond)
HANDLE_TYPEMAPS(dlock_op)
%apply (dlock_client **RETURNED, dlock_error **err) { (dlock_client **ret_client, dlock_error **err) };
%apply (dlock_lock **RETURNED, dlock_error **err) { (dlock_lock **ret_lock, dlock_error **err) };
%apply (dlock_cond **RETURNED, dlock_error **err) { (dlock_cond **ret_cond, dlock_error **err) };

/* None: all clients there are. */
%typemap(in) const dlock_client *client_or_all {
    $1 = NULL;
    if ($input != Py_None) {
        $1 = ($1_ltype)handle_of($input, "dlock_client");
        if ($1 == NULL) SWIG_fail;
    }
}

/* "No settings" is a conf, too. */
%typemap(in) const dlock_conf *conf {
    $1 = NULL;
    if ($input != Py_None) {
        $1 = ($1_ltype)handle_of($input, "dlock_conf");
        if ($1 == NULL) SWIG_fail;
    }
}

%typemap(in) (dlock_lock *const *locks, size_t count) {
    size_t count = 0;
    $1 = locks_of($input, &count);
    if ($1 == NULL) SWIG_fail;
    $2 = count;
}
%typemap(freearg) (dlock_lock *const *locks, size_t count) "free((void *)$1);"

/* ---- Texts ---- */

%typemap(in) const char * (PyObject *bytes = NULL) {
    $1 = text_of($input, &bytes);
    if ($1 == NULL) SWIG_fail;
}
%typemap(in) const char *OR_NONE (PyObject *bytes = NULL) {
    $1 = NULL;
    if ($input != Py_None) {
        $1 = text_of($input, &bytes);
        if ($1 == NULL) SWIG_fail;
    }
}
%typemap(freearg) const char *, const char *OR_NONE "Py_XDECREF(bytes$argnum);"
%typemap(out) const char * "$result = text_from($1);"
%apply const char *OR_NONE { const char *owner, const char *prefix };

%typemap(in, numinputs=0) (const char **ret_ticket, dlock_error **err)
    (const char *ticket = NULL, dlock_error *why = NULL) "$1 = ($1_ltype)&ticket; $2 = &why;"
%typemap(argout) (const char **ret_ticket, dlock_error **err) {
    if (result != DLOCK_OK) { raise_code(result, *$2); SWIG_fail; }
    Py_DECREF($result);
    $result = text_from(*$1);
}

%typemap(in, numinputs=0) (char **ret_text, dlock_error **err)
    (char *text = NULL, dlock_error *why = NULL) "$1 = &text; $2 = &why;"
%typemap(argout) (char **ret_text, dlock_error **err) {
    if (result != DLOCK_OK) { raise_code(result, *$2); SWIG_fail; }
    Py_DECREF($result);
    $result = text_from(*$1);
    dlock_text_free(*$1);
}

/* ---- Infos, events, errors ---- */

%typemap(in, numinputs=0) (dlock_info **ret_info, dlock_error **err)
    (dlock_info *info = NULL, dlock_error *why = NULL) "$1 = &info; $2 = &why;"
%typemap(argout) (dlock_info **ret_info, dlock_error **err) {
    if (result != DLOCK_OK) { raise_code(result, *$2); SWIG_fail; }
    Py_DECREF($result);
    $result = json_from(*$1);
}
%typemap(out) dlock_info * "$result = json_from($1);"
%typemap(out) dlock_event * "$result = tuple_from_event($1);"
%typemap(out) const dlock_error * "$result = tuple_from_error($1);"

%typemap(in, numinputs=0) dlock_error **err (dlock_error *why = NULL) "$1 = &why;"
%typemap(argout) dlock_error **err {
    if (result != DLOCK_OK) { raise_code(result, *$1); SWIG_fail; }
    Py_DECREF($result);
    Py_INCREF(Py_None);
    $result = Py_None;
}

/* ---- What the capsules and tuples above took over ---- */

%ignore dlock_text_free;
%ignore dlock_conf_free;
%ignore dlock_client_free;
%ignore dlock_client_poll_fd; /* an event loop of Python's has its own way */
%ignore dlock_client_drive;
%ignore dlock_lock_free;
%ignore dlock_hold_free;
%ignore dlock_cond_free;
%ignore dlock_op_free;
%rename("$ignore", regextarget=1) "^dlock_(error|event|info)_";

/* ---- The GIL ---- */

%nothread;
%thread dlock_client_metrics;
%thread dlock_client_new;
%thread dlock_client_connect_start;
%thread dlock_client_close_start;
%thread dlock_client_list_start;
%thread dlock_client_doctor_start;
%thread dlock_client_import_start;
%thread dlock_lock_acquire_start;
%thread dlock_lock_wait_idle_start;
%thread dlock_lock_inspect_start;
%thread dlock_lock_break_start;
%thread dlock_lock_revoke_start;
%thread dlock_hold_downgrade;
%thread dlock_hold_export;
%thread dlock_hold_release_start;
%thread dlock_hold_verify_start;
%thread dlock_hold_extend_start;
%thread dlock_cond_wait_start;
%thread dlock_cond_signal_start;
%thread dlock_cond_broadcast_start;
%thread dlock_op_wait;

%include "dlock.i"

/* The pair, each half in one call: (hold, None), or (None, op) if nothing is granted within slice_ms; and
 * None, or the op of a release that isn't done by then or has failed. */
PyObject *lock_acquire(dlock_lock *lock, int64_t wait_ms, int64_t slice_ms);
PyObject *hold_release(dlock_hold *hold, int64_t slice_ms);

/* The version this was compiled against; version_num() is the one that runs. */
%constant int BUILT_NUM = DLOCK_VERSION_NUM;
