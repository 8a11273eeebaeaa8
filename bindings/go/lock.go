package dlock

import (
	"context"
	"strings"
	"time"

	"github.com/libdlock/libdlock/bindings/go/internal/cdlock"
)

// Lockable is a lock of whatever kind: [Mutex], [Semaphore], [Election], [Multi], and the sides of an
// [RWMutex].
type Lockable interface {
	// Lock waits until it has the lock or ctx ends.
	Lock(ctx context.Context) (*Hold, error)
	// TryLock tries once.
	TryLock(ctx context.Context) (*Hold, error)
	// Name is what the lock was made with.
	Name() string
	base() *lock
}

// A kind, a name and settings. It has nothing of C's: a handle there is made for each call and
// freed after it, so that there is nothing to close, and nothing for the garbage collector to do.
type lock struct {
	client   *Client
	kind     cdlock.Dlock_kind
	name     string
	settings settings
	members  []Lockable
}

func (c *Client) lock(kind cdlock.Dlock_kind, name string, options []Option) *lock {
	return &lock{client: c, kind: kind, name: name, settings: collectNamed("a lock", name, options)}
}

func (c *Client) multi(members []Lockable) *lock {
	l := &lock{client: c, members: append([]Lockable{}, members...)}
	var names []string
	for _, member := range members {
		if !usable(member) {
			l.settings.wrong = "a member of the multi-lock is nil"
			l.members = nil
			return l
		}
		names = append(names, member.Name())
	}
	l.name = strings.Join(names, "+")
	if len(members) == 0 {
		l.settings.wrong = "a multi-lock has at least one member"
	}
	return l
}

func usable(member Lockable) bool { return member != nil && member.base() != nil }

func (l *lock) base() *lock { return l }

// Name is what the lock was made with; of a multi-lock all names with '+' between them.
func (l *lock) Name() string {
	if l == nil {
		return ""
	}
	return l.name
}

// C's handle, yours to free.
func (l *lock) open(op string) (cdlock.Lock, *Error) {
	if l.members != nil || l.kind == 0 {
		return l.openMembers(op)
	}
	return open(l.client, op, l.name, &l.settings,
		func(client cdlock.Client, conf cdlock.Conf, ret *cdlock.Lock, why *cdlock.Error) cdlock.Dlock_err {
			return cdlock.Dlock_lock_new(client, l.kind, l.name, conf, ret, why)
		})
}

func (l *lock) openMembers(op string) (cdlock.Lock, *Error) {
	if l.settings.wrong != "" {
		return 0, invalid(op, l.name, l.settings.wrong)
	}
	var handles []cdlock.Lock
	defer func() {
		for _, handle := range handles {
			cdlock.Dlock_lock_free(handle)
		}
	}()
	for _, member := range l.members {
		handle, err := member.base().open(op)
		if err != nil {
			return 0, err
		}
		handles = append(handles, handle)
	}
	var ret cdlock.Lock
	var why cdlock.Error
	code := cdlock.Dlock_multi_new(&handles[0], len(handles), 0, &ret, &why)
	if code != cdlock.DLOCK_OK {
		return 0, failureOf(op, l.name, code, why)
	}
	return ret, nil
}

// Whose queue of events the operations of this lock come to: the first member's of a multi-lock.
func (l *lock) host() *Client {
	if l == nil {
		return nil
	}
	if len(l.members) > 0 {
		return l.members[0].base().host()
	}
	return l.client
}

// Lock waits until it has the lock, or until ctx ends: then it holds nothing, and the error is
// [ErrNotObtained] as well as the context's. An absent server is retried meanwhile.
func (l *lock) Lock(ctx context.Context) (*Hold, error) {
	if err := checkContext(ctx, "lock", l.Name()); err != nil {
		return nil, err
	}
	return l.acquire(ctx, "lock", waitMs(ctx))
}

// TryLock tries once: [ErrBusy] when somebody else has it.
func (l *lock) TryLock(ctx context.Context) (*Hold, error) {
	if err := checkContext(ctx, "try to lock", l.Name()); err != nil {
		return nil, err
	}
	return l.acquire(ctx, "try to lock", 0)
}

// How long libdlock itself waits: it knows best why a wait was in vain.
func waitMs(ctx context.Context) int64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return int64(cdlock.DLOCK_FOREVER)
	}
	return max(1, time.Until(deadline).Milliseconds())
}

// Starts an operation of the lock's: host().end after it.
func (l *lock) start(ctx context.Context, what string, begin func(cdlock.Lock) cdlock.Op) (
	cdlock.Op, error) {
	if err := checkContext(ctx, what, l.Name()); err != nil {
		return 0, err
	}
	host := l.host()
	if host == nil {
		return 0, invalid(what, l.Name(), "the lock is nil, or it has no client")
	}
	host.gate <- struct{}{}
	handle, err := l.open(what)
	if err != nil {
		<-host.gate
		return 0, err
	}
	op := begin(handle)
	cdlock.Dlock_lock_free(handle)
	return op, nil
}

func (l *lock) acquire(ctx context.Context, what string, wait int64) (*Hold, error) {
	host := l.host()
	if host == nil {
		return nil, invalid(what, l.Name(), "the lock is nil, or it has no client")
	}
	w := host.waiter()
	defer host.rest(w)
	host.gate <- struct{}{}
	defer host.leave()
	op, wrong := l.begin(what, wait, w)
	if wrong != nil {
		host.listeners.remove(w.tag)
		return nil, wrong
	}
	if op = host.outcome(ctx, op, w, 0); op != 0 {
		err := failure(what, l.name, w.code(), cdlock.Dlock_op_error(op)).notObtained(ctx)
		cdlock.Dlock_op_free(op)
		return nil, err
	}
	if ctx.Err() != nil {
		cdlock.Dlock_hold_free(w.hold()) // which releases it
		return nil, ended(what, l.name, ctx)
	}
	return newHold(ctx, host, l, l.name, w.hold(), w.got[2]), nil
}

// Begins to acquire, inside the gate; w knows whether that is all.
func (l *lock) begin(what string, wait int64, w *waiter) (cdlock.Op, *Error) {
	if l.members != nil || l.kind == 0 {
		handle, err := l.openMembers(what)
		if err != nil {
			return 0, err
		}
		op := cdlock.Dlock_lock_acquire_start(handle, wait)
		cdlock.Dlock_lock_free(handle)
		return cdlock.Cdlock_watch(op, w.tag, &w.got[0]), nil
	}
	client, err := l.client.enter(what, l.name)
	if err != nil {
		return 0, err
	}
	defer l.client.life.RUnlock()
	conf, err := l.settings.conf(what, l.name)
	if err != nil {
		return 0, err
	}
	op := cdlock.Cdlock_acquire_start(client, l.kind, l.name, conf, wait, w.tag, &w.got[0])
	if conf != 0 {
		cdlock.Dlock_conf_free(conf)
	}
	if op == 0 && w.code() != cdlock.DLOCK_OK {
		return 0, failureOf(what, l.name, w.code(), cdlock.Error(w.got[1]))
	}
	return op, nil
}

// Starts an operation, and awaits it.
func (l *lock) ask(ctx context.Context, what string, begin func(cdlock.Lock) cdlock.Op,
	then func(cdlock.Op)) error {
	op, err := l.start(ctx, what, begin)
	if err != nil {
		return err
	}
	host := l.host()
	defer host.end(op)
	if err := host.finish(ctx, op, what, l.name); err != nil {
		return err
	}
	if then != nil {
		then(op)
	}
	return nil
}

// WaitIdle waits until nobody holds the lock, without taking it. Somebody else may have it by the
// time this returns.
func (l *lock) WaitIdle(ctx context.Context) error {
	return l.ask(ctx, "wait", func(handle cdlock.Lock) cdlock.Op {
		return cdlock.Dlock_lock_wait_idle_start(handle, waitMs(ctx))
	}, nil)
}

// Inspect asks the service who holds the lock and who waits.
func (l *lock) Inspect(ctx context.Context) (found Inspection, err error) {
	err = l.ask(ctx, "inspect", cdlock.Dlock_lock_inspect_start, func(op cdlock.Op) {
		found = inspection(takeInfo(cdlock.Dlock_op_take_info(op)))
	})
	return found, err
}

// Break takes the lock away from its holder; for operators. owner is as Inspect shows it, "" is
// whoever holds it; [ErrNotHeld] when that is another one by then. The victim notices at its next
// renewal: until then only the token, which is larger for the next one, keeps a resource safe.
func (l *lock) Break(ctx context.Context, owner string) error {
	if strings.IndexByte(owner, 0) >= 0 {
		return invalid("break", l.Name(), "the owner contains a NUL")
	}
	return l.ask(ctx, "break", func(handle cdlock.Lock) cdlock.Op {
		if owner == "" {
			return cdlock.Cdlock_break_any(handle)
		}
		return cdlock.Dlock_lock_break_start(handle, owner)
	}, nil)
}

// Revoke asks the holders to give the lock up: [Hold.Revoked] tells those that listen. It takes
// nothing away. [ErrUnsupported]: no holder has heard of it.
func (l *lock) Revoke(ctx context.Context) error {
	return l.ask(ctx, "revoke", cdlock.Dlock_lock_revoke_start, nil)
}
