package dlock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Locker is what a program needs of a lock, so that its tests can have another one: see package
// dlocktest. [AsLocker] makes one of any [Lockable].
type Locker interface {
	Lock(ctx context.Context) (Holding, error)
	TryLock(ctx context.Context) (Holding, error)
	Name() string
}

// Holding is what a program needs of a [Hold].
type Holding interface {
	Name() string
	Token() int64
	Remaining() time.Duration
	Check() error
	Context() context.Context
	Done() <-chan struct{}
	Release(ctx context.Context) error
}

type abstract struct{ Lockable }

// AsLocker is a lock as a [Locker].
func AsLocker(l Lockable) Locker { return abstract{l} }

func (a abstract) Lock(ctx context.Context) (Holding, error) {
	if a.Lockable == nil {
		return nil, invalid("lock", "", "the lock is nil")
	}
	hold, err := a.Lockable.Lock(ctx)
	if err != nil {
		return nil, err // not a nil *Hold in an interface
	}
	return hold, nil
}

func (a abstract) TryLock(ctx context.Context) (Holding, error) {
	if a.Lockable == nil {
		return nil, invalid("try to lock", "", "the lock is nil")
	}
	hold, err := a.Lockable.TryLock(ctx)
	if err != nil {
		return nil, err
	}
	return hold, nil
}

func (a abstract) Name() string {
	if a.Lockable == nil {
		return ""
	}
	return a.Lockable.Name()
}

// SyncLocker makes a [sync.Locker] of a lock, for code that wants one. Its Lock can't fail, so it
// waits as long as it takes; what no waiting mends goes to failed, and so does what Unlock meets
// (such as [ErrLost]). failed must not return from a failed Lock, for the caller would go on without
// the lock: if it does, or is nil, Lock and Unlock panic as those of [sync.Mutex] do.
func SyncLocker(l Lockable, failed func(error)) sync.Locker {
	return &syncLocker{lock: l, failed: failed}
}

// Locker is the [sync.Locker] of the lock that is held, locked: Unlock releases this hold.
func (h *Hold) Locker(failed func(error)) sync.Locker {
	ret := &syncLocker{failed: failed, hold: h}
	if h != nil && h.source != nil {
		ret.lock = h.source
	}
	return ret
}

type syncLocker struct {
	lock   Lockable
	failed func(error)
	mutex  sync.Mutex
	hold   *Hold
}

func (s *syncLocker) Lock() {
	hold, err := s.take()
	if err != nil {
		s.fail(err)
		panic(err)
	}
	s.mutex.Lock()
	s.hold = hold
	s.mutex.Unlock()
}

func (s *syncLocker) take() (*Hold, error) {
	if s.lock == nil {
		return nil, invalid("lock", "", "the lock is nil")
	}
	for {
		hold, err := s.lock.Lock(context.Background())
		var why *Error
		if err == nil || !errors.As(err, &why) || !why.Retriable {
			return hold, err
		}
	}
}

func (s *syncLocker) Unlock() {
	s.mutex.Lock()
	hold := s.hold
	s.hold = nil
	s.mutex.Unlock()
	if hold == nil {
		panic("dlock: Unlock of an unlocked Locker")
	}
	if err := hold.Release(context.Background()); err != nil {
		if s.failed == nil {
			panic(err)
		}
		s.failed(err)
	}
}

func (s *syncLocker) fail(err error) {
	if s.failed != nil {
		s.failed(err)
	}
}
