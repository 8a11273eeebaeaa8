// Package sync has the names that Go's own tests of package sync use, for locks of libdlock: a Mutex
// or RWMutex is a lock with a name of its own on the service DLOCK_URL, by way of [dlock.SyncLocker].
package sync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

type (
	Cond   = sync.Cond
	Locker = sync.Locker
)

func NewCond(l Locker) *Cond { return sync.NewCond(l) }

var (
	number atomic.Int64
	client = sync.OnceValue(func() *dlock.Client {
		client, err := dlock.Open(context.Background(), os.Getenv("DLOCK_URL"))
		if err != nil {
			panic(err)
		}
		return client
	})
)

func name() string { return fmt.Sprintf("theirs/%d", number.Add(1)) }

func failed(err error) { panic(err) }

// One is one lock, held once: it is the holder's to write.
type one struct {
	lock   dlock.Lockable
	locker Locker
	tried  Locker // what TryLock got
}

func newOne(lock dlock.Lockable) one {
	return one{lock: lock, locker: dlock.SyncLocker(lock, failed)}
}

func (o *one) tryLock() bool {
	tried := try(o.lock)
	if tried != nil {
		o.tried = tried
	}
	return tried != nil
}

func (o *one) unlock() {
	if tried := o.tried; tried != nil {
		o.tried = nil
		tried.Unlock()
		return
	}
	o.locker.Unlock()
}

func try(lock dlock.Lockable) Locker {
	hold, err := lock.TryLock(context.Background())
	if errors.Is(err, dlock.ErrBusy) {
		return nil
	}
	if err != nil {
		panic(err)
	}
	return hold.Locker(failed)
}

// Many are the holds of a lock that several may have, which those who give them back can't name.
type many struct {
	mutex sync.Mutex
	holds []Locker
}

func (m *many) take(lock dlock.Lockable) {
	locker := dlock.SyncLocker(lock, failed)
	locker.Lock()
	m.add(locker)
}

func (m *many) add(locker Locker) {
	m.mutex.Lock()
	m.holds = append(m.holds, locker)
	m.mutex.Unlock()
}

func (m *many) give() {
	m.mutex.Lock()
	last := len(m.holds) - 1
	if last < 0 {
		panic("theirs: unlock of an unlocked lock")
	}
	locker := m.holds[last]
	m.holds = m.holds[:last]
	m.mutex.Unlock()
	locker.Unlock()
}

type Mutex struct {
	once sync.Once
	one  one
}

func (m *Mutex) ready() *one {
	m.once.Do(func() { m.one = newOne(client().Mutex(name())) })
	return &m.one
}

func (m *Mutex) Lock()         { m.ready().locker.Lock() }
func (m *Mutex) TryLock() bool { return m.ready().tryLock() }
func (m *Mutex) Unlock()       { m.ready().unlock() }

type RWMutex struct {
	once    sync.Once
	writer  one
	reader  dlock.Lockable
	readers many
}

func (m *RWMutex) ready() *RWMutex {
	m.once.Do(func() {
		lock := client().RWMutex(name())
		m.writer, m.reader = newOne(lock), lock.Reader()
	})
	return m
}

func (m *RWMutex) Lock()         { m.ready().writer.locker.Lock() }
func (m *RWMutex) TryLock() bool { return m.ready().writer.tryLock() }
func (m *RWMutex) Unlock()       { m.ready().writer.unlock() }
func (m *RWMutex) RLock()        { m.ready().readers.take(m.reader) }
func (m *RWMutex) RUnlock()      { m.ready().readers.give() }

func (m *RWMutex) TryRLock() bool {
	locker := try(m.ready().reader)
	if locker != nil {
		m.readers.add(locker)
	}
	return locker != nil
}

type reading struct{ *RWMutex }

func (r reading) Lock()   { r.RLock() }
func (r reading) Unlock() { r.RUnlock() }

func (m *RWMutex) RLocker() Locker { return reading{m} }

// Semaphores, which their tests know by a number's address; it is how many permits there are.
type semaphore struct {
	lock  *dlock.Semaphore
	holds many
}

var semaphores sync.Map

func semaphoreOf(permits *uint32) *semaphore {
	found, _ := semaphores.LoadOrStore(permits, sync.OnceValue(func() *semaphore {
		return &semaphore{lock: client().Semaphore(name(), int(*permits))}
	}))
	return found.(func() *semaphore)()
}

func Runtime_Semacquire(permits *uint32) {
	of := semaphoreOf(permits)
	of.holds.take(of.lock)
}

func Runtime_Semrelease(permits *uint32, _ bool, _ int) { semaphoreOf(permits).holds.give() }
