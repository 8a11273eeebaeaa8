//go:build dlock

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

// Our own package, in the layout of the others.
type ownHold struct{ hold *dlock.Hold }

func (h ownHold) release(ctx context.Context) error { return h.hold.Release(ctx) }
func (h ownHold) token() int64                      { return h.hold.Token() }

func init() {
	if len(os.Args) < 2 {
		return // main says what is missing
	}
	client, err := dlock.Open(context.Background(),
		fmt.Sprintf("redis://127.0.0.1:%s?redis.layout=string&client.retry_ms=20&client.lazy=true", os.Args[1]))
	more["go-string"] = func(ctx context.Context, name string, ttl time.Duration) (hold, error) {
		if err != nil {
			return nil, err
		}
		mutex := client.Mutex(name, dlock.WithTTL(ttl))
		// It waits a little by itself, so that its own queue and its cancelling are in the game.
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		held, err := mutex.Lock(ctx)
		// Also when its last request had no answer in time: what came of that is given back by itself.
		if errors.Is(err, dlock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded) {
			err = errTaken
		}
		return ownHold{held}, err
	}
}
