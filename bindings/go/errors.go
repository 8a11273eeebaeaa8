package dlock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/libdlock/libdlock/bindings/go/internal/cdlock"
)

// What went wrong, for [errors.Is]. Everything that libdlock refuses is an [*Error] which is one of
// these, and also the context's error when that ended the call.
var (
	// ErrNotObtained: somebody else had the lock to the end, or the context ended first. Every failed
	// Lock and TryLock that may succeed later is this and one of the others.
	ErrNotObtained = errors.New("dlock: not obtained")
	// ErrBusy: held by somebody else, and nobody wanted to wait; or the grant has other holds.
	ErrBusy = errors.New("dlock: busy")
	// ErrTimeout: held by somebody else until the context's deadline.
	ErrTimeout = errors.New("dlock: timed out")
	// ErrCanceled: the context ended the wait. You hold nothing.
	ErrCanceled = errors.New("dlock: canceled")
	// ErrLost: the validity is over, or the server said that the grant isn't ours. Final for a hold.
	ErrLost = errors.New("dlock: lost")
	// ErrNotHeld: the hold was released before, or nobody holds what you named.
	ErrNotHeld = errors.New("dlock: not held")
	// ErrDeadlock: what you wait for could never come.
	ErrDeadlock = errors.New("dlock: deadlock")
	// ErrUnavailable: the service can't be reached, and nothing of the call is left there.
	ErrUnavailable = errors.New("dlock: unavailable")
	// ErrUnknown: it may have happened, or happen yet: not answered, or cut off in the service's
	// line. libdlock cleans up behind.
	ErrUnknown = errors.New("dlock: unanswered")
	// ErrInvalid: an argument, a setting or a URL is wrong; the text says which and why.
	ErrInvalid = errors.New("dlock: invalid")
	// ErrUnsupported: this service, layout or build can't do that.
	ErrUnsupported = errors.New("dlock: not supported")
	// ErrAccess: wrong credentials, or a right is missing; the text names it.
	ErrAccess = errors.New("dlock: access denied")
	// ErrConflict: another kind of lock or another layout is in use under this name.
	ErrConflict = errors.New("dlock: conflict")
	// ErrQuorum: too few of the servers answered.
	ErrQuorum = errors.New("dlock: no quorum")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("dlock: closed")
	// ErrProtocol: the server doesn't speak the protocol that was expected.
	ErrProtocol = errors.New("dlock: protocol error")
	// ErrInternal: out of memory or descriptors, a counter at its end, or a fork.
	ErrInternal = errors.New("dlock: internal error")
)

var kinds = map[cdlock.Dlock_err]error{
	cdlock.DLOCK_EBUSY:     ErrBusy,
	cdlock.DLOCK_ETIMEDOUT: ErrTimeout,
	cdlock.DLOCK_ECANCELED: ErrCanceled,
	cdlock.DLOCK_ELOST:     ErrLost,
	cdlock.DLOCK_ENOTHELD:  ErrNotHeld,
	cdlock.DLOCK_EDEADLK:   ErrDeadlock,
	cdlock.DLOCK_EUNAVAIL:  ErrUnavailable,
	cdlock.DLOCK_EUNKNOWN:  ErrUnknown,
	cdlock.DLOCK_EINVAL:    ErrInvalid,
	cdlock.DLOCK_ENOTSUP:   ErrUnsupported,
	cdlock.DLOCK_EACCES:    ErrAccess,
	cdlock.DLOCK_ECONFLICT: ErrConflict,
	cdlock.DLOCK_EQUORUM:   ErrQuorum,
	cdlock.DLOCK_ECLOSED:   ErrClosed,
	cdlock.DLOCK_EPROTO:    ErrProtocol,
}

// Error is what every failing call returns, but for [VersionError].
type Error struct {
	// Op is what was asked: "lock", "release", "open" and so on.
	Op string
	// Name is the lock's, "" when it was about none.
	Name string
	// Text says what went wrong, for people. It contains no secret.
	Text string
	// Backend is what the service itself said, unchanged.
	Backend string
	// Retriable: the same call may succeed later without anything being mended.
	Retriable bool

	causes []error
}

// Error is one line: what was asked of which lock, and what went wrong.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("dlock: " + e.Op)
	if e.Name != "" && !strings.HasPrefix(e.Text, e.Name+":") {
		b.WriteString(" " + e.Name)
	}
	b.WriteString(": " + e.Text)
	for _, cause := range e.causes {
		if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
			b.WriteString(": " + cause.Error())
		}
	}
	return b.String()
}

// Unwrap makes [errors.Is] find the sentinels, and the context's error.
func (e *Error) Unwrap() []error { return e.causes }

// VersionError is what [Open] returns when the libdlock that is loaded is older than the one the
// program was built with.
type VersionError struct {
	// Built is the version the program was compiled against.
	Built string
	// Loaded is the version of the shared library it runs with.
	Loaded string
}

// Error names both versions.
func (e *VersionError) Error() string {
	return "dlock: built with libdlock " + e.Built + ", but the one that is loaded is older: " + e.Loaded
}

// Is makes it an [ErrUnsupported].
func (e *VersionError) Is(target error) bool { return target == ErrUnsupported }

func invalid(op, name, text string) *Error {
	return &Error{Op: op, Name: name, Text: text, causes: []error{ErrInvalid}}
}

func closed(op, name string) *Error {
	return &Error{Op: op, Name: name, Text: "the client is closed", causes: []error{ErrClosed}}
}

// Takes an error of C's over, if there is one.
func failure(op, name string, code cdlock.Dlock_err, why cdlock.Error) *Error {
	e := &Error{Op: op, Name: name}
	if why != 0 {
		e.Text, e.Backend = cdlock.Dlock_error_text(why), cdlock.Dlock_error_backend(why)
	}
	if e.Text == "" {
		e.Text = cdlock.Dlock_strerror(code)
	}
	kind, known := kinds[code]
	if !known {
		kind = ErrInternal
	}
	e.causes = append(e.causes, kind)
	switch code {
	case cdlock.DLOCK_EBUSY, cdlock.DLOCK_ETIMEDOUT, cdlock.DLOCK_EUNAVAIL, cdlock.DLOCK_EUNKNOWN,
		cdlock.DLOCK_EQUORUM:
		e.Retriable = true
	}
	return e
}

// The same for an error that is ours to free.
func failureOf(op, name string, code cdlock.Dlock_err, why cdlock.Error) *Error {
	e := failure(op, name, code, why)
	cdlock.Dlock_error_free(why)
	return e
}

// A lock that wasn't obtained, and what ended the wait.
func (e *Error) notObtained(ctx context.Context) *Error {
	if errors.Is(e, ErrBusy) || errors.Is(e, ErrTimeout) || errors.Is(e, ErrCanceled) {
		e.causes = append(e.causes, ErrNotObtained)
	}
	return e.because(ctx)
}

// libdlock waits for whole milliseconds, so its wait may end a little before the context's.
const early = 2 * time.Millisecond

func (e *Error) because(ctx context.Context) *Error {
	deadline, limited := ctx.Deadline()
	if ctx.Err() == nil && e.Retriable && limited && time.Until(deadline) < early {
		e.causes = append(e.causes, context.DeadlineExceeded)
	} else if err := ctx.Err(); err != nil {
		e.causes = append(e.causes, err)
		if cause := context.Cause(ctx); cause != err {
			e.causes = append(e.causes, cause)
		}
	}
	return e
}

func ended(op, name string, ctx context.Context) *Error {
	return (&Error{Op: op, Name: name, Text: "the context has ended",
		causes: []error{ErrCanceled, ErrNotObtained}}).because(ctx)
}
