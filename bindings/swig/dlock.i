/*
 * What both bindings take from libdlock: the public header, less what neither of them calls.
 *
 * No word of a language is in here. A binding's own file says %module, its typemaps and (Python)
 * %thread / %nothread first, and then %include "dlock.i":
 *
 *     bindings/python/native.i                    Python
 *     bindings/go/internal/cdlock/cdlock.i        Go
 *
 * Left out, and the generated layers rely on it:
 *   - calls that wait for a service and have a _start form: bindings wait for the op instead;
 *   - callbacks (log sink, guard): log lines are events, and the guard's five steps are written
 *     again in each language on dlock_hold_check();
 *   - the version's macros: generated code is compiled against the header that is there, and asks
 *     it through a function of its own.
 * SWIG 4.5 from PyPI makes both layers; what it makes for Go is committed.
 */
%{
#include <dlock/dlock.h>
%}

%include <stdint.i>

#define DLOCK_API
#define DLOCK_CHECKED

%feature("doxygen:alias:threads") "Threads: "

%ignore dlock_client_open;
%ignore dlock_client_connect;
%ignore dlock_client_close;
%ignore dlock_client_list;
%ignore dlock_client_doctor;
%ignore dlock_client_import;
%ignore dlock_acquire;
%ignore dlock_lock_acquire;
%ignore dlock_lock_wait_idle;
%ignore dlock_lock_inspect;
%ignore dlock_lock_break;
%ignore dlock_lock_revoke;
%ignore dlock_hold_release;
%ignore dlock_hold_verify;
%ignore dlock_hold_extend;
%ignore dlock_cond_wait;
%ignore dlock_cond_signal;
%ignore dlock_cond_broadcast;

%ignore dlock_log_fn;
%ignore dlock_conf_set_log;
%ignore dlock_guarded;
%ignore dlock_hold_guard;

%include <dlock/dlock.h>
