package dlock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/libdlock/libdlock/bindings/go/internal/testredis"
)

func TestALockIsHeldReleasedAndTakenAgainUnderALargerToken(t *testing.T) {
	everywhere(t, func(t *testing.T, open func(...dlock.Option) *dlock.Client) {
		mutex := open().Mutex("orders/42")
		first := lock(t, mutex)
		if first.Name() != "orders/42" || first.Token() <= 0 || first.Owner() == "" {
			t.Fatalf("name %q, token %d, owner %q", first.Name(), first.Token(), first.Owner())
		}
		if left := first.Remaining(); first.Check() != nil || left <= 0 || left > 30*time.Second {
			t.Fatalf("check %v, remaining %v", first.Check(), left)
		}
		release(t, first)
		if first.State() != dlock.Released || first.Remaining() != 0 || first.Owner() != "" {
			t.Fatalf("after the release: %v, %v left", first.State(), first.Remaining())
		}
		is(t, first.Check(), dlock.ErrNotHeld)
		is(t, first.Release(bg(t)), dlock.ErrNotHeld)
		second := lock(t, mutex)
		if second.Token() <= first.Token() {
			t.Fatalf("token %d after %d", second.Token(), first.Token())
		}
		release(t, second)
	})
}

func TestAKeptLockIsTakenAgainWithoutARequestUntilAnotherClientWantsIt(t *testing.T) {
	url := testredis.Start(t).URL()
	client, other := open(t, url, dlock.WithTTL(10*time.Minute)), open(t, url)
	mutex := client.Mutex("kept", dlock.WithKeep(10*time.Minute))
	count := func(key string) int64 {
		t.Helper()
		stats, err := client.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return stats.Info.Int(key)
	}
	until(t, "it is kept", func() bool { // once its client can be told that it is wanted
		release(t, lock(t, mutex))
		return count("kept") > 0
	})
	local, asked := count("local_grants"), count("kept_asked")
	var last int64
	for range 20 {
		hold := lock(t, mutex)
		if hold.Token() <= last {
			t.Fatalf("token %d after %d", hold.Token(), last)
		}
		last = hold.Token()
		release(t, hold)
	}
	if now := count("local_grants"); now-local != 20 {
		t.Fatalf("%d local grants", now-local)
	}
	theirs := lock(t, other.Mutex("kept"))
	if theirs.Token() <= last || count("kept_asked")-asked != 1 {
		t.Fatalf("token %d after %d", theirs.Token(), last)
	}
	release(t, theirs)
}

func TestGoroutinesThatShareAHandleExcludeEachOther(t *testing.T) {
	everywhere(t, func(t *testing.T, open func(...dlock.Option) *dlock.Client) {
		handles := []*dlock.Mutex{open().Mutex("shared"), open().Mutex("shared")}
		var inside, entries atomic.Int64
		var all sync.WaitGroup
		for i := range 16 {
			all.Add(1)
			go func() {
				defer all.Done()
				for range 5 {
					hold, err := handles[i%2].Lock(bg(t))
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two are inside")
					}
					entries.Add(1)
					inside.Add(-1)
					if err := hold.Release(bg(t)); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		all.Wait()
		if entries.Load() != 16*5 {
			t.Fatalf("%d entries", entries.Load())
		}
	})
}

func TestOneGoroutineDoesNotReenter(t *testing.T) {
	mutex := open(t, mem()).Mutex("twice")
	hold := lock(t, mutex)
	_, err := mutex.TryLock(bg(t))
	is(t, err, dlock.ErrBusy, dlock.ErrNotObtained)
	release(t, hold)
}

func TestAWaitEndsWithItsContextAndHoldsNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, open func(...dlock.Option) *dlock.Client) {
		mutex := open().Mutex("waited-for")
		hold := lock(t, mutex)

		short, cancel := context.WithTimeout(bg(t), 30*time.Millisecond)
		defer cancel()
		_, err := mutex.Lock(short)
		is(t, err, dlock.ErrNotObtained, context.DeadlineExceeded)

		mine := errors.New("changed my mind")
		ctx, stop := context.WithCancelCause(bg(t))
		ended := make(chan error)
		go func() {
			_, err := mutex.Lock(ctx)
			ended <- err
		}()
		time.Sleep(10 * time.Millisecond) // whether it waits already or not, it ends alike
		stop(mine)
		is(t, <-ended, dlock.ErrNotObtained, dlock.ErrCanceled, context.Canceled, mine)

		_, err = mutex.Lock(ctx)
		is(t, err, context.Canceled)
		release(t, hold)
		release(t, lock(t, mutex)) // nobody has it who gave up
	})
}

func TestACancelThatComesTooLateLeavesNoGrantBehind(t *testing.T) {
	everywhere(t, func(t *testing.T, open func(...dlock.Option) *dlock.Client) {
		client := open()
		mutex := client.Mutex("raced-for")
		for range 100 {
			ctx, cancel := context.WithCancel(bg(t))
			go cancel()
			if hold, err := mutex.Lock(ctx); err == nil {
				release(t, hold)
			}
		}
		release(t, lock(t, mutex))
		stats, err := client.Stats()
		if err != nil || stats.Grants == 0 {
			t.Fatalf("%+v, %v", stats, err)
		}
	})
}

func TestReleaseReleasesEvenWhenItsContextIsDead(t *testing.T) {
	everywhere(t, func(t *testing.T, open func(...dlock.Option) *dlock.Client) {
		mutex := open().Mutex("deferred")
		hold := lock(t, mutex)
		dead, cancel := context.WithCancel(context.Background())
		cancel()
		if err := hold.Release(dead); err != nil {
			t.Fatal(err)
		}
		next, err := mutex.TryLock(bg(t))
		if err != nil {
			t.Fatal(err)
		}
		release(t, next)
	})
}

func TestReleaseDoesNotWaitForeverForAServiceThatIsSilent(t *testing.T) {
	server := testredis.Start(t)
	client, err := dlock.Open(bg(t), server.URL("client.timeout_ms=600000", "client.close_ms=0"))
	if err != nil {
		t.Fatal(err)
	}
	hold := lock(t, client.Mutex("silent"))
	stop(t, server)
	dead, cancel := context.WithCancel(context.Background())
	cancel()
	is(t, hold.Release(dead), dlock.ErrUnknown, context.Canceled)
	is(t, hold.Check(), dlock.ErrNotHeld)
	is(t, client.Close(), dlock.ErrUnknown)
}

func TestALossEndsTheHoldsContextWithItsCause(t *testing.T) {
	server := testredis.Start(t)
	for _, layout := range []string{"redisson", "string"} {
		t.Run(layout, func(t *testing.T) {
			client := open(t, server.URL("redis.layout="+layout))
			type key struct{}
			ctx, cancel := context.WithCancel(context.WithValue(bg(t), key{}, "value"))
			hold, err := client.Mutex("taken-away", dlock.WithTTL(3*time.Second)).Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			held := hold.Context()
			cancel()
			if held.Err() != nil || held.Value(key{}) != "value" {
				t.Fatalf("the hold's context ended with that of the wait: %v", held.Err())
			}
			if reply, err := server.Ask("DEL", "taken-away"); err != nil || reply != ":1" {
				t.Fatal(reply, err)
			}
			closes(t, "the hold's context ends", held.Done())
			is(t, context.Cause(held), dlock.ErrLost)
			is(t, hold.Check(), dlock.ErrLost)
			if hold.State() != dlock.Lost || hold.Remaining() != 0 {
				t.Fatalf("%v, %v", hold.State(), hold.Remaining())
			}
			is(t, hold.Release(bg(t)), dlock.ErrLost)
			if hold.State() != dlock.Lost {
				t.Fatal(hold.State())
			}
			is(t, hold.Release(bg(t)), dlock.ErrNotHeld)
		})
	}
}

func TestAReleaseEndsTheHoldsContext(t *testing.T) {
	hold := lock(t, open(t, mem()).Mutex("given-back"))
	held, done := hold.Context(), hold.Done()
	release(t, hold)
	closes(t, "the context", done)
	is(t, context.Cause(held), dlock.ErrNotHeld)
	is(t, context.Cause(hold.Context()), dlock.ErrNotHeld)
}

func TestAHoldThatNobodyRenewsIsLostInTime(t *testing.T) {
	client := open(t, mem())
	hold := lock(t, client.Mutex("short", dlock.WithTTL(100*time.Millisecond), dlock.With("lock.renew", "off")))
	closes(t, "it is lost", hold.Done())
	is(t, context.Cause(hold.Context()), dlock.ErrLost)
	is(t, hold.Release(bg(t)), dlock.ErrLost)
	limited := lock(t, client.Mutex("limited", dlock.WithTTL(100*time.Millisecond),
		dlock.WithMaxHold(200*time.Millisecond)))
	closes(t, "the longest hold is over", limited.Done())
	is(t, limited.Release(bg(t)), dlock.ErrLost)
}

func TestCloseEndsWaitsAndHolds(t *testing.T) {
	everywhere(t, func(t *testing.T, open func(...dlock.Option) *dlock.Client) {
		client, other := open(), open()
		mutex := client.Mutex("closed")
		hold := lock(t, mutex)
		held := hold.Context()
		ended := make(chan error)
		go func() {
			_, err := mutex.Lock(bg(t))
			ended <- err
		}()
		time.Sleep(10 * time.Millisecond) // in any order they end alike
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		is(t, <-ended, dlock.ErrClosed)
		closes(t, "the hold's context", held.Done())
		is(t, context.Cause(held), dlock.ErrClosed)
		is(t, hold.Check(), dlock.ErrNotHeld)
		if hold.Release(bg(t)) == nil {
			t.Fatal("released after its client was closed")
		}
		if err := client.Close(); err != nil {
			t.Fatalf("closed twice: %v", err)
		}
		next, err := other.Mutex("closed").TryLock(bg(t))
		if err != nil {
			t.Fatalf("not released by the close: %v", err)
		}
		release(t, next)
	})
}

func TestAClientThatIsClosedLeavesNoDescriptorWithItsHolds(t *testing.T) {
	for name, url := range map[string]string{
		"mem": mem(), "file": "file://" + filepath.Join(t.TempDir(), "table"),
		"redis": testredis.Start(t).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			kept := make([]*dlock.Hold, 0, 64)
			round := func() {
				client, err := dlock.Open(bg(t), url)
				if err != nil {
					t.Fatal(err)
				}
				kept = append(kept, lock(t, client.Mutex("kept")), lock(t, client.Mutex("watched")))
				held := kept[len(kept)-1].Context()
				lock(t, client.Mutex("forgotten"))
				if err := client.Close(); err != nil {
					t.Fatal(err)
				}
				is(t, context.Cause(held), dlock.ErrClosed)
			}
			round() // what is opened once for all is open behind it
			before := descriptors(t)
			for range 10 {
				round()
			}
			if after := descriptors(t); after > before {
				t.Fatalf("%d descriptors before, %d after 10 clients", before, after)
			}
			for _, hold := range kept {
				is(t, hold.Check(), dlock.ErrNotHeld)
				is(t, hold.Release(bg(t)), dlock.ErrNotHeld)
				is(t, context.Cause(hold.Context()), dlock.ErrClosed)
				if hold.State() != dlock.Released || hold.Token() == 0 || hold.Remaining() != 0 {
					t.Fatalf("%v, token %d, %v left", hold.State(), hold.Token(), hold.Remaining())
				}
			}
		})
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestManyGoroutinesMayCloseAndUseAClientAtOnce(t *testing.T) {
	for range 20 {
		client, err := dlock.Open(bg(t), mem())
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 16 {
			all.Add(1)
			go func() {
				defer all.Done()
				for {
					hold, err := client.Mutex("one").Lock(bg(t))
					if err != nil {
						is(t, err, dlock.ErrClosed)
						return
					}
					_, _ = hold.Context(), hold.Remaining()
					_ = hold.Release(bg(t)) // the close may have been first
					if _, err := client.Stats(); i == 0 || err != nil {
						_ = client.Close() // of many only one closes
					}
				}
			}()
		}
		all.Wait()
	}
}
