package dlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libdlock/libdlock/bindings/go/internal/cdlock"
)

// Waiting. A goroutine that waits for an operation sleeps on a channel; the client's goroutine wakes
// it when the event has come. Where that goroutine reads the answers, too, this is all there is. Else
// a thread of C's reads them, and who is the only one to wait on a client stays in C for a moment,
// because there the caller itself reads the answer, without any change of threads.

// So long: for less C polls before it reads. A service that takes longer is waited for on a channel.
const driveMs = 30

// How long a release is waited for when its context is dead.
const grace = time.Second

// Whoever hears of events under a tag.
type listener interface {
	// hear returns whether this was its last event.
	hear(what cdlock.Dlock_what) bool
	closed()
}

type listeners struct {
	next  atomic.Uint64
	mutex sync.Mutex
	byTag map[uint64]listener
	shut  bool
}

// A number that wasn't used before; false when nobody will speak any more.
func (l *listeners) add(who listener) (uint64, bool) {
	tag := l.next.Add(1)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.shut {
		return 0, false
	}
	if l.byTag == nil {
		l.byTag = make(map[uint64]listener)
	}
	l.byTag[tag] = who
	return tag, true
}

// 0 is nobody's.
func (l *listeners) remove(tag uint64) {
	if tag == 0 {
		return
	}
	l.mutex.Lock()
	delete(l.byTag, tag)
	l.mutex.Unlock()
}

func (l *listeners) tell(tag uint64, what cdlock.Dlock_what) {
	l.mutex.Lock()
	who := l.byTag[tag]
	l.mutex.Unlock()
	if who != nil && who.hear(what) {
		l.remove(tag)
	}
}

func (l *listeners) closed() {
	l.mutex.Lock()
	l.shut = true
	all := l.byTag
	l.byTag = nil
	l.mutex.Unlock()
	for _, who := range all {
		who.closed()
	}
}

// Hears one event: that the operation has finished.
type waiter struct {
	done chan struct{}
	tag  uint64    // under which it is told, or 0
	got  *[3]int64 // what C says of the operation; apart, for C may see no pointers of Go's
}

func (w *waiter) hear(cdlock.Dlock_what) bool { w.done <- struct{}{}; return true }
func (w *waiter) closed()                     {}

// What C says of it: a code, and of what has succeeded the hold and its token.
func (w *waiter) code() cdlock.Dlock_err { return cdlock.Dlock_err(w.got[0]) }
func (w *waiter) hold() cdlock.Hold      { return cdlock.Hold(w.got[1]) }

var spareWaiters = sync.Pool{New: func() any {
	return &waiter{done: make(chan struct{}, 1), got: new([3]int64)}
}}

// Whoever is going to wait for an operation that isn't begun yet; c.rest(w) after it.
func (c *Client) waiter() *waiter {
	w := spareWaiters.Get().(*waiter)
	w.tag = 0
	if c.waiting.Add(1) > 1 || c.reads.Load() {
		w.tag, _ = c.listeners.add(w) // 0 where nobody speaks any more: then it has finished
	}
	return w
}

func (c *Client) rest(w *waiter) {
	c.waiting.Add(-1)
	spareWaiters.Put(w) // it is empty again
}

// Waits until op, which runs, has finished. When ctx ends first, and the patience after it, op is
// cancelled: that needs no network, and is awaited like anything else. Outside the gate while it sleeps.
func (c *Client) await(ctx context.Context, op cdlock.Op, w *waiter, patience time.Duration) {
	if c.stay(op, w) {
		return
	}
	<-c.gate
	c.sleep(ctx, op, w, patience)
	c.gate <- struct{}{}
}

// The same for what may have finished before it was to be told. What C then says of it is in w; 0:
// it has succeeded, and nothing is left of it.
func (c *Client) outcome(ctx context.Context, op cdlock.Op, w *waiter, patience time.Duration) cdlock.Op {
	if w.code() == cdlock.DLOCK_EPENDING {
		c.await(ctx, op, w, patience)
		return cdlock.Cdlock_watch(op, 0, &w.got[0])
	}
	c.listeners.remove(w.tag)
	return op
}

// Waits in C, for a moment, where nobody is to tell us.
func (c *Client) stay(op cdlock.Op, w *waiter) bool {
	if w.tag != 0 {
		return false
	}
	if cdlock.Dlock_op_wait(op, driveMs) == cdlock.DLOCK_OK {
		return true
	}
	w.tag, _ = c.listeners.add(w)
	if w.tag != 0 && cdlock.Dlock_op_notify(op, w.tag) == cdlock.DLOCK_EPENDING {
		return false
	}
	c.listeners.remove(w.tag)
	return true // it has finished, as have all of a closed client
}

func (c *Client) sleep(ctx context.Context, op cdlock.Op, w *waiter, patience time.Duration) {
	over := ctx.Done()
	if over == nil {
		<-w.done
		return
	}
	select {
	case <-w.done:
		return
	case <-over:
	}
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-w.done:
			return
		case <-timer.C:
		}
	}
	c.gate <- struct{}{}
	cdlock.Dlock_op_cancel(op)
	<-c.gate
	<-w.done
}

// Starts an operation of the client's: c.end after it.
func (c *Client) start(what, name string, begin func(cdlock.Client) cdlock.Op) (cdlock.Op, *Error) {
	if c == nil {
		return 0, invalid(what, name, "the client is nil")
	}
	c.gate <- struct{}{}
	handle, err := c.enter(what, name)
	if err != nil {
		<-c.gate
		return 0, err
	}
	defer c.life.RUnlock()
	return begin(handle), nil
}

// The end of an operation, and of its stay inside the gate.
func (c *Client) end(op cdlock.Op) {
	cdlock.Dlock_op_free(op)
	c.leave()
}

func (c *Client) leave() { <-c.gate }

// Awaits an operation, and says what came of it.
func (c *Client) finish(ctx context.Context, op cdlock.Op, what, name string) error {
	w := c.waiter()
	if w.tag == 0 || cdlock.Dlock_op_notify(op, w.tag) == cdlock.DLOCK_EPENDING {
		c.await(ctx, op, w, 0)
	} else {
		c.listeners.remove(w.tag)
	}
	c.rest(w)
	code := cdlock.Dlock_op_result(op)
	if code == cdlock.DLOCK_OK {
		return nil
	}
	return failure(what, name, code, cdlock.Dlock_op_error(op)).because(ctx)
}

func checkContext(ctx context.Context, op, name string) error {
	if ctx == nil {
		return invalid(op, name, "the context is nil")
	}
	if ctx.Err() != nil {
		return ended(op, name, ctx)
	}
	return nil
}
