package dlock_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/libdlock/libdlock/bindings/go/internal/testredis"
)

// Nothing here takes this long; what does has failed.
const patience = 60 * time.Second

var serial atomic.Int64

func bg(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, url string, options ...dlock.Option) *dlock.Client {
	t.Helper()
	client, err := dlock.Open(bg(t), url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return client
}

func mem() string { return fmt.Sprintf("mem:test-%d", serial.Add(1)) }

// Runs a test on each service; each call of the function is another client of it.
func everywhere(t *testing.T, test func(t *testing.T, open func(...dlock.Option) *dlock.Client)) {
	t.Helper()
	urls := map[string]func(t *testing.T) string{
		"mem":  func(*testing.T) string { return mem() },
		"file": func(t *testing.T) string { return "file://" + filepath.Join(t.TempDir(), "table") },
		"redis": func(t *testing.T) string {
			return testredis.Start(t).URL()
		},
		"redis-string": func(t *testing.T) string {
			return testredis.Start(t).URL("redis.layout=string", "client.retry_ms=10")
		},
	}
	for name, url := range urls {
		t.Run(name, func(t *testing.T) {
			at := url(t)
			test(t, func(options ...dlock.Option) *dlock.Client { return open(t, at, options...) })
		})
	}
}

func lock(t testing.TB, l dlock.Lockable) *dlock.Hold {
	t.Helper()
	hold, err := l.Lock(bg(t))
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

func release(t testing.TB, hold *dlock.Hold) {
	t.Helper()
	if err := hold.Release(bg(t)); err != nil {
		t.Fatal(err)
	}
}

func is(t testing.TB, err error, wanted ...error) {
	t.Helper()
	for _, one := range wanted {
		if !errors.Is(err, one) {
			t.Fatalf("got %v, which isn't %v", err, one)
		}
	}
}

func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("not within %v: %s", patience, what)
}

func closes(t testing.TB, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
	}
}
