package dlock

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/libdlock/libdlock/bindings/go/internal/cdlock"
)

// State is the life of a hold. Lost and Released are final.
type State int

const (
	// Held: yours.
	Held State = iota + 1
	// Suspect: yours still, but not renewed for half the lease.
	Suspect
	// Lost: not yours any more, without your doing.
	Lost
	// Released: given back.
	Released
)

// String is the state's name.
func (s State) String() string {
	switch s {
	case Held:
		return "held"
	case Suspect:
		return "suspect"
	case Lost:
		return "lost"
	case Released:
		return "released"
	}
	return "unknown"
}

var states = map[cdlock.Dlock_state]State{
	cdlock.DLOCK_HELD:     Held,
	cdlock.DLOCK_SUSPECT:  Suspect,
	cdlock.DLOCK_LOST:     Lost,
	cdlock.DLOCK_RELEASED: Released,
}

// Hold is a lock that you have. Any number of goroutines may use it; any of them may release it.
type Hold struct {
	client *Client
	source *lock
	name   string
	token  int64
	values context.Context // the values of Lock's context, without its end
	*held
}

// What a client knows of a hold. It doesn't refer to the Hold: one that is dropped is told of.
type held struct {
	prev, next *held // among its client's, with their mutex
	cleanup    runtime.Cleanup

	mutex  sync.RWMutex // read-held during each call of C with c
	c      cdlock.Hold  // 0: it was ended here
	state  State        // how, then
	closed bool         // by its client's Close
	life   *life        // made when somebody wants to hear of the end
}

// What hears of the end of a hold. It doesn't keep the hold alive, as the client keeps it.
type life struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	tag     uint64
	revoked chan struct{}
	once    sync.Once
}

func newLife(values context.Context) *life {
	ctx, cancel := context.WithCancelCause(values)
	return &life{ctx: ctx, cancel: cancel, revoked: make(chan struct{})}
}

func (l *life) hear(what cdlock.Dlock_what) bool {
	switch what {
	case cdlock.DLOCK_EVENT_LOST:
		l.cancel(ErrLost)
		return true
	case cdlock.DLOCK_EVENT_REVOKE:
		l.once.Do(func() { close(l.revoked) })
	}
	return false
}

func (l *life) closed() { l.cancel(ErrClosed) }

func newHold(ctx context.Context, client *Client, source *lock, name string, c cdlock.Hold,
	token int64) *Hold {
	h := &Hold{client: client, source: source, name: name, token: token, values: ctx, held: &held{c: c}}
	if ctx.Done() != nil {
		h.values = context.WithoutCancel(ctx)
	}
	if name == "" {
		h.name = cdlock.Dlock_hold_name(c)
	}
	// Before others can find it there, and close it.
	h.cleanup = h.warnIfDropped()
	if !client.holds.add(h.held) && h.close() != 0 {
		cdlock.Dlock_hold_free(c)
	}
	return h
}

// Nil, or one that no call has made.
func (h *Hold) none() bool { return h == nil || h.held == nil }

// Name is the lock's.
func (h *Hold) Name() string {
	if h == nil {
		return ""
	}
	return h.name
}

// Token is the fencing token: later grants of this name have larger ones. Hand it to the resource
// with each write; the resource keeps the highest it has seen and refuses smaller ones. 0: this
// grant can't fence. Readable after the release.
func (h *Hold) Token() int64 {
	if h == nil {
		return 0
	}
	return h.token
}

// MemberToken is the token of one member of a [Multi], in the order of its making; 0 after the end.
func (h *Hold) MemberToken(index int) int64 {
	c, done := h.enter()
	if c == 0 || index < 0 {
		done()
		return 0
	}
	defer done()
	return cdlock.Dlock_hold_member_token(c, index)
}

// The hold for a call of C, 0 when it was ended here; the function after it.
func (h *Hold) enter() (cdlock.Hold, func()) {
	if h.none() {
		return 0, func() {}
	}
	h.mutex.RLock()
	return h.c, h.mutex.RUnlock
}

// Remaining is how long the lock is yours for certain if no renewal succeeds any more; 0 whenever
// Check isn't nil.
func (h *Hold) Remaining() time.Duration {
	c, done := h.enter()
	defer done()
	if c == 0 {
		return 0
	}
	return time.Duration(cdlock.Dlock_hold_remaining_ms(c)) * time.Millisecond
}

// TTL is the lease that the service has granted: how long it lasts when nobody renews it. Less than
// [WithTTL] asked for where the service gives less, as a ZooKeeper with a shorter maxSessionTimeout does.
func (h *Hold) TTL() time.Duration {
	c, done := h.enter()
	defer done()
	if c == 0 {
		return 0
	}
	return time.Duration(cdlock.Dlock_hold_ttl_ms(c)) * time.Millisecond
}

// Check says whether the lock is still yours: nil, [ErrLost] or [ErrNotHeld]. Decided by this
// machine's clock alone, so ask it often.
func (h *Hold) Check() error {
	if h.none() {
		return ErrNotHeld
	}
	c, done := h.enter()
	defer done()
	switch {
	case c == 0 && h.state == Lost:
		return ErrLost
	case c == 0:
		return ErrNotHeld
	}
	switch cdlock.Dlock_hold_check(c) {
	case cdlock.DLOCK_OK:
		return nil
	case cdlock.DLOCK_ELOST:
		return ErrLost
	}
	return ErrNotHeld
}

// State is for reports; use Check to decide.
func (h *Hold) State() State {
	if h.none() {
		return Released
	}
	c, done := h.enter()
	defer done()
	if c == 0 {
		return h.state
	}
	return states[cdlock.Dlock_hold_state(c)]
}

// Owner is the id under which the server knows this grant; "" after the end.
func (h *Hold) Owner() string {
	c, done := h.enter()
	defer done()
	if c == 0 {
		return ""
	}
	return cdlock.Dlock_hold_owner(c)
}

// Feed says that the work still moves: with "lock.renew" = "fed" a lease is only renewed after this.
func (h *Hold) Feed() error {
	c, done := h.enter()
	if c != 0 {
		cdlock.Dlock_hold_feed(c) // what it answers, Check says
	}
	done()
	return h.Check()
}

// The life, listening from now on.
func (h *Hold) listen() *life {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.life != nil {
		return h.life
	}
	h.life = newLife(h.values)
	if h.c == 0 {
		h.life.cancel(h.cause())
		return h.life
	}
	tag, ok := h.client.listeners.add(h.life) // others hold h.mutex inside the gate: no gate here
	if !ok {
		h.life.cancel(ErrClosed)
		return h.life
	}
	h.life.tag = tag
	if code := cdlock.Dlock_hold_notify(h.c, tag); code != cdlock.DLOCK_OK {
		h.client.listeners.remove(tag)
		h.life.cancel(kindOf(code))
	}
	return h.life
}

// Why its context has ended; it has been ended here.
func (h *Hold) cause() error {
	if h.closed {
		return ErrClosed
	}
	return causeOf(h.state)
}

func causeOf(state State) error {
	if state == Lost {
		return ErrLost
	}
	return ErrNotHeld
}

func kindOf(code cdlock.Dlock_err) error {
	if kind, known := kinds[code]; known {
		return kind
	}
	return ErrInternal
}

// Context ends with the hold; [context.Cause] is then [ErrLost], [ErrNotHeld] after a release, or
// [ErrClosed]. It has the values of Lock's context but not its end, as that is mostly a limit for
// the wait: see During for work that has to end with either. Asking for it costs the service some
// attention, so ask where you need it.
func (h *Hold) Context() context.Context {
	if h.none() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(ErrNotHeld)
		return ctx
	}
	return h.listen().ctx
}

// Done is closed when the hold has ended, by whatever: the Done of Context.
func (h *Hold) Done() <-chan struct{} { return h.Context().Done() }

// Revoked is closed when somebody asks for the lock with Revoke. Nothing is taken from you.
func (h *Hold) Revoked() <-chan struct{} {
	if h.none() {
		return nil
	}
	return h.listen().revoked
}

// Release gives the lock back. Whatever the answer, it isn't yours afterwards.
//
// It releases even when ctx is dead; then it waits for the service a second at most, and goes on
// without you. [ErrLost]: the validity was over; [ErrNotHeld]: it was released before; [ErrUnknown]
// or [ErrUnavailable]: the service hasn't confirmed it; it is repeated until it has, or until the
// lease is over.
func (h *Hold) Release(ctx context.Context) error {
	if h.none() || ctx == nil {
		return invalid("release", h.Name(), "the hold or the context is nil")
	}
	c, life := h.end(Released)
	if c == 0 {
		return &Error{Op: "release", Name: h.name, Text: "this hold was released before, or is over",
			causes: []error{ErrNotHeld}}
	}
	h.client.forget(life, ErrNotHeld)
	w := h.client.waiter()
	defer h.client.rest(w)
	h.client.gate <- struct{}{}
	defer h.client.leave()
	op := cdlock.Cdlock_release_start(c, w.tag, &w.got[0])
	if op = h.client.outcome(ctx, op, w, grace); op == 0 {
		return nil
	}
	err := h.unreleased(ctx, op, w.code())
	cdlock.Dlock_op_free(op)
	return err
}

func (h *Hold) unreleased(ctx context.Context, op cdlock.Op, code cdlock.Dlock_err) error {
	switch code {
	case cdlock.DLOCK_ELOST:
		h.mutex.Lock()
		h.state = Lost
		h.mutex.Unlock()
	case cdlock.DLOCK_ECANCELED: // we stopped waiting; the release goes on
		return (&Error{Op: "release", Name: h.name, Text: "not confirmed yet; it goes on in the background",
			Retriable: false, causes: []error{ErrUnknown}}).because(ctx)
	}
	return failure("release", h.name, code, cdlock.Dlock_op_error(op))
}

// Takes C's hold away, once: it is the caller's to end.
func (h *Hold) end(how State) (cdlock.Hold, *life) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	c := h.c
	if c == 0 {
		return 0, nil
	}
	h.c, h.state = 0, how
	h.client.holds.remove(h.held)
	h.cleanup.Stop()
	return c, h.life
}

// The end of a hold that C has ended.
func (h *Hold) drop(how State) {
	if c, life := h.end(how); c != 0 {
		h.client.forget(life, causeOf(how))
		cdlock.Dlock_hold_free(c)
	}
}

// Nobody is to hear of this hold any more, but that it is over.
func (c *Client) forget(l *life, cause error) {
	if l == nil {
		return
	}
	l.cancel(cause)
	c.listeners.remove(l.tag)
}

// An operation of a hold.
func (h *Hold) ask(ctx context.Context, what string, begin func(cdlock.Hold) cdlock.Op) error {
	if h.none() {
		return invalid(what, "", "the hold is nil")
	}
	if err := checkContext(ctx, what, h.name); err != nil {
		return err
	}
	h.client.gate <- struct{}{}
	c, done := h.enter()
	if c == 0 {
		defer done()
		<-h.client.gate
		return invalidOr(h, what)
	}
	op := begin(c)
	done()
	defer h.client.end(op)
	return h.client.finish(ctx, op, what, h.name)
}

// Extend sets the lease from now on, up to "lock.max_hold_ms". Less than what remains changes nothing.
func (h *Hold) Extend(ctx context.Context, ttl time.Duration) error {
	return h.ask(ctx, "extend", func(c cdlock.Hold) cdlock.Op {
		return cdlock.Dlock_hold_extend_start(c, ttl.Milliseconds())
	})
}

// Verify asks the server whether it still has this grant as ours, for what the clock can't know: a
// wiped server, an operator's break. Without an answer nothing is learnt, and nothing changes.
func (h *Hold) Verify(ctx context.Context) error {
	return h.ask(ctx, "verify", cdlock.Dlock_hold_verify_start)
}

// Downgrade turns this hold of an [RWMutex]'s writer into a reader's, without letting another writer
// in between. Token and validity stay.
func (h *Hold) Downgrade() error {
	c, done := h.enter()
	defer done()
	if c == 0 {
		return invalidOr(h, "downgrade")
	}
	var why cdlock.Error
	if code := cdlock.Dlock_hold_downgrade(c, &why); code != cdlock.DLOCK_OK {
		return failureOf("downgrade", h.name, code, why)
	}
	return nil
}

func invalidOr(h *Hold, op string) error {
	if h.none() {
		return invalid(op, "", "the hold is nil")
	}
	return &Error{Op: op, Name: h.name, Text: "this hold is over", causes: []error{causeOf(h.state)}}
}

// Export gives the lock away: the hold is over, and the ticket lets [Client.Import] take it, in
// another process too. A ticket that nobody imports lapses with the lease. It is a secret.
func (h *Hold) Export() (ticket string, err error) {
	c, done := h.enter()
	if c == 0 {
		defer done()
		return "", invalidOr(h, "export")
	}
	var text uintptr
	var why cdlock.Error
	code := cdlock.Dlock_hold_export(c, &text, &why)
	if code == cdlock.DLOCK_OK {
		ticket = strings.Clone(cdlock.Cdlock_text(text))
	}
	done()
	if code != cdlock.DLOCK_OK {
		return "", failureOf("export", h.name, code, why)
	}
	h.drop(Released)
	return ticket, nil
}

// During calls work with a context that ends with ctx or with the hold, whichever comes first. The
// answer is work's; [ErrLost] is joined to it when the lock was lost meanwhile.
func (h *Hold) During(ctx context.Context, work func(ctx context.Context) error) error {
	if h.none() || ctx == nil || work == nil {
		return invalid("work", h.Name(), "the hold, the context or the function is nil")
	}
	if err := h.Check(); err != nil {
		return &Error{Op: "work", Name: h.name, Text: "the lock isn't held", causes: []error{err}}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	held := h.Context()
	defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
	err := work(ctx)
	if lost := h.Check(); errors.Is(lost, ErrLost) {
		return errors.Join(err, &Error{Op: "work", Name: h.name, Text: "the lock was lost meanwhile",
			causes: []error{ErrLost}})
	}
	return err
}
