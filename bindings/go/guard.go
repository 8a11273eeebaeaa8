package dlock

import (
	"context"
	"errors"
)

// Guarded is an operation that takes effect only while the lock is held. Run and Commit are needed.
type Guarded struct {
	// Prepare records the state before.
	Prepare func(ctx context.Context) error
	// Run does the work where it can still be undone.
	Run func(ctx context.Context) error
	// Commit makes it final; let the resource compare the token. [ErrLost]: it refused.
	Commit func(ctx context.Context, token int64) error
	// Undo restores the state before. It runs when the lock may not be held, so it must be fenced or
	// touch private state only.
	Undo func()
	// Lost is called exactly when the answer is [ErrLost].
	Lost func()
}

// Guard runs an operation in this order: check, Prepare, Run, check, Commit.
//
// Prepare fails: nothing to undo. Run fails: Undo. The second check fails or Commit answers
// [ErrLost]: Undo, Lost, ErrLost. Another failure of Commit: Undo. When Commit succeeded the answer
// is nil even if time ran out meanwhile. The steps' context ends with ctx and with the hold. Never
// releases the hold.
func (h *Hold) Guard(ctx context.Context, op Guarded) error {
	if op.Run == nil || op.Commit == nil {
		return invalid("guard", h.Name(), "Run and Commit are needed")
	}
	finished := false
	err := h.During(ctx, func(ctx context.Context) (err error) {
		err, finished = h.steps(ctx, op)
		return err
	})
	if finished {
		return nil
	}
	if errors.Is(err, ErrLost) && op.Lost != nil {
		op.Lost()
	}
	return err
}

func (h *Hold) steps(ctx context.Context, op Guarded) (err error, finished bool) {
	if op.Prepare != nil {
		if err := op.Prepare(ctx); err != nil {
			return err, false
		}
	}
	if err = op.Run(ctx); err == nil {
		err = h.Check()
	}
	if err == nil {
		err = op.Commit(ctx, h.token)
	}
	if err != nil && op.Undo != nil {
		op.Undo()
	}
	return err, err == nil
}
