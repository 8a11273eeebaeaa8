package dlock

import (
	"context"
	"errors"
)

// Mutex has one holder. Made by [Client.Mutex].
type Mutex struct{ *lock }

// RWMutex has one writer or many readers. Lock and TryLock take the side of the writer. A [Mutex] of
// the same name is another kind of lock: [ErrConflict]. Made by [Client.RWMutex].
type RWMutex struct {
	*lock
	read Mutex
}

// RLock waits for the readers' side.
func (l *RWMutex) RLock(ctx context.Context) (*Hold, error) { return l.Reader().Lock(ctx) }

// TryRLock tries once for the readers' side.
func (l *RWMutex) TryRLock(ctx context.Context) (*Hold, error) { return l.Reader().TryLock(ctx) }

// Reader is the readers' side by itself, as for [Client.Multi].
func (l *RWMutex) Reader() Lockable {
	if l == nil {
		return &Mutex{}
	}
	return &l.read
}

// Semaphore has as many holders as it has permits. Made by [Client.Semaphore].
type Semaphore struct{ *lock }

// Multi is several locks as one. Made by [Client.Multi].
type Multi struct{ *lock }

// Election is a lock whose holder is the leader: Lock campaigns, the hold is the term, releasing it
// resigns. Made by [Client.Election].
type Election struct{ *lock }

// Lead campaigns, and calls term while this is the leader: its context ends when the term does. It
// campaigns again after a term that was lost. It returns what term returned of a term that wasn't,
// or why it couldn't campaign.
func (e *Election) Lead(ctx context.Context, term func(ctx context.Context, hold *Hold) error) error {
	if e == nil || term == nil {
		return invalid("lead", e.name(), "the election or the function is nil")
	}
	for {
		hold, err := e.Lock(ctx)
		if err != nil {
			return err
		}
		err = hold.During(ctx, func(ctx context.Context) error { return term(ctx, hold) })
		released := hold.Release(ctx)
		if ctx.Err() == nil && (errors.Is(err, ErrLost) || errors.Is(released, ErrLost)) {
			continue
		}
		return errors.Join(err, released)
	}
}

func (e *Election) name() string {
	if e == nil {
		return ""
	}
	return e.Name()
}

// Leader is what the leader publishes, "" when there is none. It may lag.
func (e *Election) Leader(ctx context.Context) (id string, err error) {
	if e == nil {
		return "", invalid("inspect", "", "the election is nil")
	}
	found, err := e.Inspect(ctx)
	if err != nil || len(found.Holders) == 0 {
		return "", err
	}
	return found.Holders[0].Data, nil
}
