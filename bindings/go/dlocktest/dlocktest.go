// Package dlocktest has a lock without a service, for the tests of programs that use package dlock
// through [dlock.Locker]. It does at a word what a real one does once a year: it is lost.
package dlocktest

import (
	"context"
	"sync"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

// Fake is a mutex in this program's memory, first come, first served. Its leases don't end by
// themselves.
type Fake struct {
	name string

	mutex sync.Mutex
	token int64
	held  *holding
	queue []chan *holding
	fails []error
}

var _ dlock.Locker = (*Fake)(nil)

// New is a lock that nobody has.
func New(name string) *Fake { return &Fake{name: name} }

// Name is what it was made with.
func (f *Fake) Name() string { return f.name }

// Lock waits for it, or for the end of ctx.
func (f *Fake) Lock(ctx context.Context) (dlock.Holding, error) {
	turn, hold, err := f.ask(ctx, true)
	if turn == nil {
		if err != nil {
			return nil, err
		}
		return hold, nil
	}
	select {
	case hold := <-turn:
		return hold, nil
	case <-ctx.Done():
		return nil, f.leave(ctx, turn)
	}
}

// TryLock is [dlock.ErrBusy] when somebody has it.
func (f *Fake) TryLock(ctx context.Context) (dlock.Holding, error) {
	_, hold, err := f.ask(ctx, false)
	if err != nil {
		return nil, err
	}
	return hold, nil
}

func refused(text string, causes ...error) error {
	return &failure{text, causes}
}

type failure struct {
	text   string
	causes []error
}

func (f *failure) Error() string   { return "dlocktest: " + f.text }
func (f *failure) Unwrap() []error { return f.causes }

func (f *Fake) ask(ctx context.Context, waits bool) (chan *holding, *holding, error) {
	if ctx == nil {
		return nil, nil, refused("the context is nil", dlock.ErrInvalid)
	}
	if ctx.Err() != nil {
		return nil, nil, refused("the context has ended", dlock.ErrCanceled, dlock.ErrNotObtained, ctx.Err())
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.fails) > 0 {
		err := f.fails[0]
		f.fails = f.fails[1:]
		return nil, nil, err
	}
	if f.held == nil {
		return nil, f.grantLocked(ctx), nil
	}
	if !waits {
		return nil, nil, refused("somebody else has it", dlock.ErrBusy, dlock.ErrNotObtained)
	}
	turn := make(chan *holding, 1)
	f.queue = append(f.queue, turn)
	return turn, nil, nil
}

func (f *Fake) leave(ctx context.Context, turn chan *holding) error {
	f.mutex.Lock()
	for i, one := range f.queue {
		if one == turn {
			f.queue = append(f.queue[:i], f.queue[i+1:]...)
		}
	}
	f.mutex.Unlock()
	select {
	case hold := <-turn: // it came too late
		hold.end(dlock.ErrNotHeld)
	default:
	}
	return refused("the context has ended", dlock.ErrCanceled, dlock.ErrNotObtained, ctx.Err())
}

func (f *Fake) grantLocked(ctx context.Context) *holding {
	f.token++
	held, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f.held = &holding{fake: f, token: f.token, ctx: held, cancel: cancel}
	return f.held
}

// Fail makes the next Lock or TryLock return err; several are returned in turn.
func (f *Fake) Fail(err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.fails = append(f.fails, err)
}

// Lose takes the lock from its holder, as an expired lease does: its context ends with
// [dlock.ErrLost], and the next one gets it. Says whether anybody had it.
func (f *Fake) Lose() bool {
	f.mutex.Lock()
	hold := f.held
	f.mutex.Unlock()
	return hold != nil && hold.end(dlock.ErrLost)
}

// Held says whether somebody has it.
func (f *Fake) Held() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.held != nil
}

// Waiters is how many wait.
func (f *Fake) Waiters() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return len(f.queue)
}

type holding struct {
	fake   *Fake
	token  int64
	ctx    context.Context
	cancel context.CancelCauseFunc
	told   bool // that it was lost; under the fake's mutex
}

// Passes the lock on; false when it was over before.
func (h *holding) end(cause error) bool {
	f := h.fake
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.held != h {
		return false
	}
	h.cancel(cause)
	f.held = nil
	if len(f.queue) > 0 {
		turn := f.queue[0]
		f.queue = f.queue[1:]
		turn <- f.grantLocked(h.ctx)
	}
	return true
}

func (h *holding) Name() string             { return h.fake.name }
func (h *holding) Token() int64             { return h.token }
func (h *holding) Context() context.Context { return h.ctx }
func (h *holding) Done() <-chan struct{}    { return h.ctx.Done() }

func (h *holding) Remaining() time.Duration {
	if h.Check() != nil {
		return 0
	}
	return 30 * time.Second
}

func (h *holding) Check() error {
	if h.ctx.Err() != nil {
		return context.Cause(h.ctx)
	}
	return nil
}

func (h *holding) Release(context.Context) error {
	if h.end(dlock.ErrNotHeld) {
		return nil
	}
	h.fake.mutex.Lock()
	defer h.fake.mutex.Unlock()
	if context.Cause(h.ctx) == dlock.ErrLost && !h.told {
		h.told = true
		return refused("it was lost", dlock.ErrLost)
	}
	return refused("released before", dlock.ErrNotHeld)
}
