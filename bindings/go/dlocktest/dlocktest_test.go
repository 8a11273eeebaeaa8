package dlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/libdlock/libdlock/bindings/go/dlocktest"
)

const patience = 60 * time.Second

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatal("never: ", what)
}

// The fake and a real lock in memory must answer alike.
func TestTheFakeAnswersAsARealLockDoes(t *testing.T) {
	ctx := context.Background()
	client, err := dlock.Open(ctx, "mem:dlocktest")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for kind, lock := range map[string]dlock.Locker{
		"fake": dlocktest.New("name"), "real": dlock.AsLocker(client.Mutex("name"))} {
		t.Run(kind, func(t *testing.T) {
			hold, err := lock.Lock(ctx)
			if err != nil || hold.Name() != "name" || hold.Token() <= 0 || hold.Remaining() <= 0 ||
				hold.Check() != nil || hold.Context().Err() != nil {
				t.Fatal(err)
			}
			if _, err := lock.TryLock(ctx); !errors.Is(err, dlock.ErrBusy) || !errors.Is(err, dlock.ErrNotObtained) {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			if _, err := lock.Lock(short); !errors.Is(err, dlock.ErrNotObtained) ||
				!errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			if _, err := lock.Lock(nil); !errors.Is(err, dlock.ErrInvalid) { //nolint:staticcheck // it is tested
				t.Fatal(err)
			}
			next := make(chan dlock.Holding, 1)
			go func() {
				if hold, err := lock.Lock(ctx); err == nil {
					next <- hold
				}
			}()
			if err := hold.Release(ctx); err != nil {
				t.Fatal(err)
			}
			second := <-next
			if second.Token() <= hold.Token() {
				t.Fatal("its token isn't larger")
			}
			<-hold.Done()
			if err := hold.Release(ctx); !errors.Is(err, dlock.ErrNotHeld) {
				t.Fatal(err)
			}
			if !errors.Is(hold.Check(), dlock.ErrNotHeld) || hold.Remaining() != 0 {
				t.Fatal(hold.Check())
			}
			if err := second.Release(ctx); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestTheFakeIsLostAtAWordAndHandsOn(t *testing.T) {
	ctx, fake := context.Background(), dlocktest.New("lost")
	if fake.Lose() {
		t.Fatal("lost, and nobody had it")
	}
	hold, err := fake.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 10 {
		all.Add(1)
		go func() {
			defer all.Done()
			hold, err := fake.Lock(ctx)
			if err == nil {
				err = hold.Release(ctx)
			}
			if err != nil {
				t.Error(err)
			}
		}()
	}
	until(t, "ten wait", func() bool { return fake.Waiters() == 10 })
	if !fake.Lose() || !errors.Is(context.Cause(hold.Context()), dlock.ErrLost) {
		t.Fatal("not lost")
	}
	all.Wait()
	if err := hold.Release(ctx); !errors.Is(err, dlock.ErrLost) {
		t.Fatal(err)
	}
	if err := hold.Release(ctx); !errors.Is(err, dlock.ErrNotHeld) || fake.Held() {
		t.Fatal(err)
	}
	fake.Fail(dlock.ErrUnavailable)
	if _, err := fake.TryLock(ctx); !errors.Is(err, dlock.ErrUnavailable) {
		t.Fatal(err)
	}
}

// What is tested: work that stops when its lock is lost.
func work(ctx context.Context, lock dlock.Locker) string {
	hold, err := lock.Lock(ctx)
	if err != nil {
		return "somebody else works"
	}
	defer func() { _ = hold.Release(ctx) }() // what is lost needs no release
	select {
	case <-hold.Done():
		return "stopped: " + context.Cause(hold.Context()).Error()
	case <-ctx.Done():
		return "done"
	}
}

func ExampleFake() {
	lock, said := dlocktest.New("nightly"), make(chan string)
	go func() { said <- work(context.Background(), lock) }()
	for !lock.Held() {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(lock.Name(), lock.Waiters(), lock.Lose())
	fmt.Println(<-said)
	lock.Fail(dlock.ErrBusy)
	_, err := lock.TryLock(context.Background())
	fmt.Println(err)
	hold, err := lock.Lock(context.Background())
	fmt.Println(hold.Token(), err)
	// Output:
	// nightly 0 true
	// stopped: dlock: lost
	// dlock: busy
	// 2 <nil>
}
