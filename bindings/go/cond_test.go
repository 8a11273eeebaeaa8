package dlock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/libdlock/libdlock/bindings/go/internal/testredis"
)

func take(t *testing.T, lock dlock.Lockable) *dlock.Hold {
	t.Helper()
	hold, err := lock.Lock(bg(t))
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

// Until so many wait at the condition.
func inLine(t *testing.T, client *dlock.Client, name string, many int64) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		found, err := client.Mutex(name).Inspect(bg(t))
		if err != nil {
			t.Fatal(err)
		}
		if int64(found.Waiters) == many {
			return
		}
	}
	t.Fatal("they don't wait")
}

type woken struct {
	hold *dlock.Hold
	err  error
}

func wait(t *testing.T, cond *dlock.Cond, hold *dlock.Hold, ctx context.Context) chan woken {
	over := make(chan woken, 1)
	go func() {
		again, err := cond.Wait(ctx, hold)
		over <- woken{again, err}
	}()
	return over
}

// On each service that has conditions. Those that a test in Go doesn't start itself are told by whoever runs it, in
// DLOCK_TEST_URLS (tests/go/run.py).
func withConditions(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("mem", func(t *testing.T) { test(t, mem()) })
	t.Run("file", func(t *testing.T) { test(t, "file://"+filepath.Join(t.TempDir(), "table")) })
	t.Run("redis", func(t *testing.T) { test(t, testredis.Start(t).URL()) })
	for _, url := range strings.Fields(os.Getenv("DLOCK_TEST_URLS")) {
		scheme, _, _ := strings.Cut(url, ":")
		// The names of a test are its own there.
		t.Run(scheme, func(t *testing.T) { test(t, url+"?client.prefix="+t.Name()+"/") })
	}
}

func TestASignalWakesAWaiterWhoHoldsTheLockAgain(t *testing.T) {
	withConditions(t, aSignalWakes)
}

func aSignalWakes(t *testing.T, url string) {
	t.Helper()
	one, other := open(t, url), open(t, url)
	hold := take(t, one.Mutex("m"))
	over := wait(t, one.Cond("m/cond"), hold, bg(t))
	theirs := take(t, other.Mutex("m")) // it was given back
	inLine(t, other, "m/cond", 1)
	if n, err := other.Cond("m/cond").Signal(bg(t), theirs, 5); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := theirs.Release(bg(t)); err != nil {
		t.Fatal(err)
	}
	got := <-over
	if got.err != nil || got.hold.Check() != nil || got.hold.Token() <= theirs.Token() {
		t.Fatal(got.err)
	}
	if err := hold.Check(); !errors.Is(err, dlock.ErrNotHeld) {
		t.Fatal(err)
	}
	if err := got.hold.Release(bg(t)); err != nil {
		t.Fatal(err)
	}
}

func TestAWaitThatRunsOutHoldsTheLockAgain(t *testing.T) {
	withConditions(t, aWaitRunsOut)
}

func aWaitRunsOut(t *testing.T, url string) {
	t.Helper()
	client := open(t, url)
	hold := take(t, client.Mutex("m"))
	again, signalled, err := client.Cond("m/cond").WaitFor(bg(t), hold, 10*time.Millisecond)
	if err != nil || signalled || again.Check() != nil {
		t.Fatal(signalled, err)
	}
	if err := again.Release(bg(t)); err != nil {
		t.Fatal(err)
	}
}

func TestAContextThatEndsLeavesNothingHeld(t *testing.T) {
	withConditions(t, aContextEnds)
}

func aContextEnds(t *testing.T, url string) {
	t.Helper()
	client := open(t, url)
	hold := take(t, client.Mutex("m"))
	ctx, cancel := context.WithCancel(bg(t))
	over := wait(t, client.Cond("m/cond"), hold, ctx)
	inLine(t, client, "m/cond", 1)
	cancel()
	got := <-over
	if got.hold != nil || !errors.Is(got.err, context.Canceled) || !errors.Is(got.err, dlock.ErrNotObtained) {
		t.Fatal(got.err)
	}
	if err := hold.Check(); !errors.Is(err, dlock.ErrNotHeld) {
		t.Fatal(err)
	}
	if err := take(t, client.Mutex("m")).Release(bg(t)); err != nil {
		t.Fatal(err)
	}
}

func TestABroadcastWakesAll(t *testing.T) {
	withConditions(t, aBroadcastWakes)
}

func aBroadcastWakes(t *testing.T, url string) {
	t.Helper()
	client := open(t, url)
	cond := client.Cond("m/cond")
	var all []chan woken
	for i := range 3 {
		all = append(all, wait(t, cond, take(t, client.Mutex("m")), bg(t)))
		inLine(t, client, "m/cond", int64(i+1))
	}
	if n, err := cond.Broadcast(bg(t), nil); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	for range all {
		var got woken
		select {
		case got = <-all[0]:
		case got = <-all[1]:
		case got = <-all[2]:
		}
		if got.err != nil {
			t.Fatal(got.err)
		}
		if err := got.hold.Release(bg(t)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsWrongWithAConditionIsSaid(t *testing.T) {
	client, other := open(t, mem()), open(t, mem())
	hold := take(t, client.Mutex("m"))
	var none *dlock.Cond
	for name, wrong := range map[string]struct {
		cond *dlock.Cond
		hold *dlock.Hold
		want error
	}{
		"nil":           {none, hold, dlock.ErrInvalid},
		"no hold":       {client.Cond("c"), nil, dlock.ErrInvalid},
		"another's":     {other.Cond("c"), hold, dlock.ErrInvalid},
		"no name":       {client.Cond(""), hold, dlock.ErrInvalid},
		"NUL":           {client.Cond("a\x00"), hold, dlock.ErrInvalid},
		"not a mutex's": {client.Cond("c"), take(t, client.Election("e", "x")), dlock.ErrUnsupported},
	} {
		if _, err := wrong.cond.Wait(bg(t), wrong.hold); !errors.Is(err, wrong.want) {
			t.Error(name, err)
		}
		if err := hold.Check(); err != nil {
			t.Fatal(name, err)
		}
	}
	owned := client.Cond("c", dlock.With("cond.owner", "true"))
	if _, err := owned.Signal(bg(t), nil, 1); !errors.Is(err, dlock.ErrNotHeld) {
		t.Fatal(err)
	}
	if _, err := owned.Signal(bg(t), hold, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := owned.Signal(bg(t), hold, 0); !errors.Is(err, dlock.ErrInvalid) {
		t.Fatal(err)
	}
	if err := hold.Release(bg(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := owned.Broadcast(bg(t), hold); !errors.Is(err, dlock.ErrNotHeld) {
		t.Fatal(err)
	}
	if _, err := client.Cond("c").Wait(bg(t), hold); !errors.Is(err, dlock.ErrNotHeld) {
		t.Fatal(err)
	}
}
