package dlock

import (
	"context"
	"math"
	"time"

	"github.com/libdlock/libdlock/bindings/go/internal/cdlock"
)

// Cond is a condition beside a lock, as a [sync.Cond] is beside a mutex: who holds the lock may give it
// back, wait for word of another holder, of any process, and have it again. Made by [Client.Cond].
//
//	for !ready() {
//		if hold, err = cond.Wait(ctx, hold); err != nil {
//			return err
//		}
//	}
//
// Signals come in the order of the line. One of a waiter that dies, or can't have the lock any more,
// goes to the next. A wait may end without a signal, rarely: always wait in a loop.
type Cond struct {
	client   *Client
	name     string
	settings settings
}

// Cond is the condition with this name, which is one among those of locks. Nothing is sent before it
// is used; [ErrUnsupported], then, where the service has no conditions.
func (c *Client) Cond(name string, options ...Option) *Cond {
	return &Cond{client: c, name: name, settings: collectNamed("a condition", name, options)}
}

// Name is what the condition was made with.
func (c *Cond) Name() string {
	if c == nil {
		return ""
	}
	return c.name
}

// Wait gives the lock of hold back, waits for a signal, and takes the lock again: as the hold that it
// returns, with a larger token. hold is over then.
//
// When ctx ends, or anything fails later than the lock was given back, nothing is held; what fails
// before leaves hold as it was: hold.Check says which. hold is of a [Mutex] or of an [RWMutex]'s
// writer, and the only one of its grant.
func (c *Cond) Wait(ctx context.Context, hold *Hold) (*Hold, error) {
	again, _, err := c.wait(ctx, hold, int64(cdlock.DLOCK_FOREVER))
	return again, err
}

// WaitFor is Wait with a limit for the signal; whether there was one. The lock is held again either
// way, however long that takes: only ctx limits it.
func (c *Cond) WaitFor(ctx context.Context, hold *Hold, limit time.Duration) (*Hold, bool, error) {
	return c.wait(ctx, hold, max(0, limit.Milliseconds()))
}

func (c *Cond) wait(ctx context.Context, hold *Hold, ms int64) (*Hold, bool, error) {
	const what = "wait for a signal"
	if err := checkContext(ctx, what, c.Name()); err != nil {
		return nil, false, err
	}
	if hold == nil {
		return nil, false, invalid(what, c.Name(), "the hold is nil")
	}
	op, wrong := c.start(what, hold, func(handle cdlock.Cond, held cdlock.Hold) cdlock.Op {
		return cdlock.Dlock_cond_wait_start(handle, held, ms)
	})
	if wrong != nil {
		return nil, false, wrong
	}
	defer c.client.end(op)
	err := c.client.finish(ctx, op, what, c.name)
	taken := cdlock.Dlock_op_take_hold(op)
	hold.givenBack()
	if taken == 0 {
		if failed, is := err.(*Error); is {
			err = failed.notObtained(ctx)
		}
		return nil, false, err
	}
	again := newHold(ctx, c.client, hold.source, hold.name, taken, cdlock.Dlock_hold_token(taken))
	return again, err == nil, nil
}

// What C has released, or lost, is over here as well.
func (h *Hold) givenBack() {
	switch h.Check() {
	case ErrLost:
		h.drop(Lost)
	case ErrNotHeld:
		h.drop(Released)
	}
}

// Signal wakes the first n who wait, in their order, and says how many there were. Where nobody waits
// it is lost. The lock need not be held, and hold may be nil; one that is given has to be valid, or
// nothing is signalled: [ErrLost]. With "cond.owner" = "true" there has to be one.
func (c *Cond) Signal(ctx context.Context, hold *Hold, n int) (int, error) {
	return c.signal(ctx, hold, int64(n))
}

// Broadcast wakes all who wait.
func (c *Cond) Broadcast(ctx context.Context, hold *Hold) (int, error) {
	return c.signal(ctx, hold, math.MaxInt64)
}

func (c *Cond) signal(ctx context.Context, hold *Hold, n int64) (int, error) {
	const what = "signal"
	if err := checkContext(ctx, what, c.Name()); err != nil {
		return 0, err
	}
	op, wrong := c.start(what, hold, func(handle cdlock.Cond, held cdlock.Hold) cdlock.Op {
		return cdlock.Dlock_cond_signal_start(handle, n, held)
	})
	if wrong != nil {
		return 0, wrong
	}
	defer c.client.end(op)
	if err := c.client.finish(ctx, op, what, c.name); err != nil {
		return 0, err
	}
	return int(takeInfo(cdlock.Dlock_op_take_info(op)).Int("signalled")), nil
}

// Starts an operation of the condition's: client.end after it.
func (c *Cond) start(what string, hold *Hold, begin func(cdlock.Cond, cdlock.Hold) cdlock.Op) (
	cdlock.Op, error) {
	if c == nil {
		return 0, invalid(what, "", "the condition is nil")
	}
	if c.client == nil {
		return 0, invalid(what, c.name, "the client is nil")
	}
	c.client.gate <- struct{}{}
	handle, err := c.open(what)
	if err != nil {
		c.client.leave()
		return 0, err
	}
	defer cdlock.Dlock_cond_free(handle)
	held, done := hold.enter() // inside the gate, as others do
	defer done()
	if hold != nil && held == 0 {
		c.client.leave()
		return 0, invalidOr(hold, what)
	}
	return begin(handle, held), nil
}

// C's handle, yours to free.
func (c *Cond) open(what string) (cdlock.Cond, *Error) {
	return open(c.client, what, c.name, &c.settings,
		func(client cdlock.Client, conf cdlock.Conf, ret *cdlock.Cond, why *cdlock.Error) cdlock.Dlock_err {
			return cdlock.Dlock_cond_new(client, c.name, conf, ret, why)
		})
}
