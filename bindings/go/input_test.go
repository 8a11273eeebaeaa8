package dlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/libdlock/libdlock/bindings/go/internal/testredis"
)

func TestABadURLIsAnErrorThatSaysWhy(t *testing.T) {
	for _, url := range []string{"", "nonsense", "nothing://x", "redis://", "redis://h:99999", "mem:\x00",
		"redis://h?nokey=1", "redis://h?lock.ttl_ms=1", "mem:?lock.ttl_ms=%zz", "file://",
		strings.Repeat("x", 100_000)} {
		client, err := dlock.Open(bg(t), url)
		if err == nil {
			t.Fatalf("%q opened", url)
		}
		var why *dlock.Error
		if client != nil || !errors.As(err, &why) || why.Op != "open" || why.Text == "" {
			t.Fatalf("%.40q: %v", url, err)
		}
		if !errors.Is(err, dlock.ErrInvalid) && !errors.Is(err, dlock.ErrUnsupported) {
			t.Fatalf("%.40q: %v", url, err)
		}
	}
}

func TestAPasswordIsInNoError(t *testing.T) {
	for _, url := range []string{"redis://me:sesame@127.0.0.1:1", "redis://me:sesame@h:x", "x://me:sesame@h"} {
		_, err := dlock.Open(bg(t), url, dlock.With("client.connect_ms", "100"))
		if err == nil || strings.Contains(err.Error(), "sesame") {
			t.Fatal(err)
		}
	}
}

func TestABadOptionIsAnErrorThatSaysWhich(t *testing.T) {
	client := open(t, mem())
	for text, option := range map[string]dlock.Option{
		"option is nil": nil, "lock.ttl_ms": dlock.With("lock.tll_ms", "1000"),
		"range": dlock.WithTTL(time.Millisecond), "whole": dlock.WithTTL(1500 * time.Microsecond),
		"NUL": dlock.With("lock.data", "a\x00b"), "goroutine": dlock.With("lock.owner", "thread"),
		"client.lazy": dlock.With("client.lazy", "true"), "logger": dlock.WithLogger(nil),
		"no logger of its own": dlock.WithLogger(slog.Default()),
	} {
		_, err := client.Mutex("x", option).Lock(bg(t))
		if text == "goroutine" {
			text = "lock.owner"
		}
		if text == "range" {
			text = "lock.ttl_ms"
		}
		is(t, err, dlock.ErrInvalid)
		if !strings.Contains(err.Error(), text) {
			t.Fatalf("%v doesn't say %q", err, text)
		}
	}
	_, err := dlock.Open(bg(t), mem(), nil)
	is(t, err, dlock.ErrInvalid)
	for _, url := range []string{"mem:?client.order=warn", "mem:?client.order=error"} {
		_, err = dlock.Open(bg(t), url) // of no lock a goroutine is the owner
		is(t, err, dlock.ErrInvalid)
	}
	_, err = dlock.Open(bg(t), mem(), dlock.WithRequire("magic"))
	is(t, err, dlock.ErrInvalid)
	_, err = dlock.Open(bg(t), testredis.Start(t).URL(), dlock.WithRequire("correctness"))
	is(t, err, dlock.ErrUnsupported)
}

func TestABadNameIsAnError(t *testing.T) {
	client := open(t, mem())
	for _, name := range []string{"", "a\x00b", strings.Repeat("n", 1025)} {
		_, err := client.Mutex(name).Lock(bg(t))
		is(t, err, dlock.ErrInvalid)
	}
	release(t, lock(t, client.Mutex(strings.Repeat("n", 1024))))
	release(t, lock(t, client.Mutex("any \xff\xfe byte")))
}

//nolint:staticcheck // nil contexts are what is tested
func TestNilIsAnErrorAndNeverAPanic(t *testing.T) {
	client := open(t, mem())
	mutex := client.Mutex("nil")
	hold := lock(t, mutex)
	defer release(t, hold)
	var none context.Context
	var nobody *dlock.Client
	failing := map[string]func() error{
		"Open":       func() error { _, err := dlock.Open(none, "mem:"); return err },
		"Lock":       func() error { _, err := mutex.Lock(none); return err },
		"TryLock":    func() error { _, err := mutex.TryLock(none); return err },
		"Inspect":    func() error { _, err := mutex.Inspect(none); return err },
		"Break":      func() error { return mutex.Break(none, "") },
		"BreakNUL":   func() error { return mutex.Break(bg(t), "\x00") },
		"Revoke":     func() error { return mutex.Revoke(none) },
		"WaitIdle":   func() error { return mutex.WaitIdle(none) },
		"Release":    func() error { return hold.Release(none) },
		"Extend":     func() error { return hold.Extend(none, time.Hour) },
		"Verify":     func() error { return hold.Verify(none) },
		"During":     func() error { return hold.During(none, func(context.Context) error { return nil }) },
		"DuringNil":  func() error { return hold.During(bg(t), nil) },
		"List":       func() error { _, err := client.List(none, "", 1); return err },
		"ListNone":   func() error { _, err := client.List(bg(t), "", 0); return err },
		"ListNUL":    func() error { _, err := client.List(bg(t), "\x00", 1); return err },
		"Doctor":     func() error { _, err := client.Doctor(none); return err },
		"Import":     func() error { _, err := client.Import(none, "x"); return err },
		"Lead":       func() error { return client.Election("e", "").Lead(bg(t), nil) },
		"Multi":      func() error { _, err := client.Multi().Lock(bg(t)); return err },
		"MultiNil":   func() error { _, err := client.Multi(nil).Lock(bg(t)); return err },
		"MultiEmpty": func() error { _, err := client.Multi(&dlock.Mutex{}).Lock(bg(t)); return err },
		"MultiTwice": func() error { _, err := client.Multi(mutex, mutex).Lock(bg(t)); return err },
		"MultiMulti": func() error { _, err := client.Multi(client.Multi(mutex)).Lock(bg(t)); return err },
		"Zero":       func() error { _, err := (&dlock.Mutex{}).Lock(bg(t)); return err },
		"ZeroRead":   func() error { _, err := (*dlock.RWMutex)(nil).RLock(bg(t)); return err },
		"AsLocker":   func() error { _, err := dlock.AsLocker(nil).Lock(bg(t)); return err },
		"AsLocker2":  func() error { _, err := dlock.AsLocker(nil).TryLock(bg(t)); return err },
		"NoClient":   func() error { _, err := nobody.Mutex("x").Lock(bg(t)); return err },
		"NoClient2":  func() error { _, err := nobody.Stats(); return err },
		"NoClient3":  func() error { return nobody.Close() },
		"NoClient4":  func() error { _, err := nobody.Multi(nobody.Mutex("a")).Lock(bg(t)); return err },
	}
	for name, call := range failing {
		if err := call(); !errors.Is(err, dlock.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if nobody.URL() != "" {
		t.Error("a client that is nil has a URL")
	}
}

func TestAHoldThatNobodyMadeIsOver(t *testing.T) {
	for how, nothing := range map[string]*dlock.Hold{"nil": nil, "zero": {}} {
		for name, call := range map[string]func() error{
			"Release":   func() error { return nothing.Release(bg(t)) },
			"Extend":    func() error { return nothing.Extend(bg(t), time.Hour) },
			"Verify":    func() error { return nothing.Verify(bg(t)) },
			"Downgrade": nothing.Downgrade,
			"Export":    func() error { _, err := nothing.Export(); return err },
			"During":    func() error { return nothing.During(bg(t), func(context.Context) error { return nil }) },
		} {
			if err := call(); !errors.Is(err, dlock.ErrInvalid) {
				t.Errorf("%s, %s: %v", name, how, err)
			}
		}
		if nothing.Token() != 0 || nothing.Name() != "" || nothing.Remaining() != 0 || nothing.TTL() != 0 ||
			nothing.State() != dlock.Released || nothing.Context().Err() == nil || nothing.Check() == nil ||
			nothing.Feed() == nil || nothing.Owner() != "" || nothing.Revoked() != nil ||
			nothing.MemberToken(0) != 0 {
			t.Errorf("a hold that is %s isn't over", how)
		}
	}
}

func TestAClosedClientRefusesEverything(t *testing.T) {
	client, err := dlock.Open(bg(t), mem())
	if err != nil {
		t.Fatal(err)
	}
	mutex := client.Mutex("x")
	hold := lock(t, mutex)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"Lock":     func() error { _, err := mutex.Lock(bg(t)); return err },
		"Inspect":  func() error { _, err := mutex.Inspect(bg(t)); return err },
		"Multi":    func() error { _, err := client.Multi(mutex).Lock(bg(t)); return err },
		"List":     func() error { _, err := client.List(bg(t), "", 1); return err },
		"Doctor":   func() error { _, err := client.Doctor(bg(t)); return err },
		"Import":   func() error { _, err := client.Import(bg(t), "x"); return err },
		"Stats":    func() error { _, err := client.Stats(); return err },
		"Features": func() error { _, err := client.Features(); return err },
		"Settings": func() error { _, err := client.Settings(); return err },
		"of lock":  func() error { _, err := mutex.Settings(); return err },
	} {
		if err := call(); !errors.Is(err, dlock.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, call := range map[string]func() error{
		"Check":   hold.Check,
		"Verify":  func() error { return hold.Verify(bg(t)) },
		"Extend":  func() error { return hold.Extend(bg(t), time.Hour) },
		"Release": func() error { return hold.Release(bg(t)) },
	} {
		if err := call(); !errors.Is(err, dlock.ErrNotHeld) && !errors.Is(err, dlock.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnAbsentServerIsUnavailableAndRetriedWhileTheContextLasts(t *testing.T) {
	_, err := dlock.Open(bg(t), "redis://127.0.0.1:1")
	is(t, err, dlock.ErrUnavailable)
	var why *dlock.Error
	if !errors.As(err, &why) || !why.Retriable {
		t.Fatal(err)
	}
	client, err := dlock.Open(bg(t), "redis://127.0.0.1:1?client.lazy=true")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(bg(t), 50*time.Millisecond)
	defer cancel()
	_, err = client.Mutex("x").Lock(ctx)
	is(t, err, context.DeadlineExceeded)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	over, stop := context.WithCancel(bg(t))
	stop()
	_, err = dlock.Open(over, "mem:")
	is(t, err, context.Canceled)
}

type lines struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(text string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return strings.Contains(l.text.String(), text)
}

func TestTheLoggerHearsOfConnectionsAndOfADroppedHold(t *testing.T) {
	var heard lines
	logger := slog.New(slog.NewTextHandler(&heard, &slog.HandlerOptions{Level: slog.LevelDebug}))
	server := testredis.Start(t)
	client, err := dlock.Open(bg(t), server.URL("client.timeout_ms=200", "client.close_ms=0"),
		dlock.WithLogger(logger), dlock.WithPrefix("app/"))
	if err != nil {
		t.Fatal(err)
	}
	if listed, err := client.List(bg(t), "", 10); err != nil || len(listed) != 0 {
		t.Fatal(listed, err)
	}
	drop := func() {
		if hold, err := client.Mutex("dropped").Lock(bg(t)); err != nil || hold.Check() != nil {
			t.Error(err)
		}
	}
	drop()
	until(t, "a warning of a dropped hold", func() bool {
		runtime.GC()
		return heard.has("dropped without a release")
	})
	listed, err := client.List(bg(t), "", 10)
	if err != nil || len(listed) != 1 {
		t.Fatalf("the garbage collector released it: %v, %v", listed, err)
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "a lost connection is told", func() bool { return heard.has("disconnected") })
	_ = client.Close() // the server is gone, so it can't be confirmed
}

// What C has of it is freed with its client, also when nothing of Go's is left; and then nobody is told any more.
func TestADroppedHoldIsFreedWithItsClientAndNotToldOfAfterThat(t *testing.T) {
	var heard lines
	logger := slog.New(slog.NewTextHandler(&heard, nil))
	dropped := func(client *dlock.Client, name string) {
		lock(t, client.Mutex(name)).Revoked() // which is heard of, and keeps it no longer
	}
	collected := func(name string) {
		until(t, "a warning of "+name, func() bool { runtime.GC(); return heard.has("lock=" + name) })
	}
	round := func(number int) {
		url := "file://" + filepath.Join(t.TempDir(), "table")
		client, err := dlock.Open(bg(t), url, dlock.WithLogger(logger))
		if err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprintf("before-%d.", number)
		dropped(client, before)
		collected(before)
		dropped(client, fmt.Sprintf("uncollected-%d.", number))
		hold := lock(t, client.Mutex("after"))
		// Whichever goes before, those that are left are freed.
		first, second, third := lock(t, client.Mutex("1")), lock(t, client.Mutex("2")), lock(t, client.Mutex("3"))
		release(t, second)
		release(t, first)
		release(t, third)
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		is(t, hold.Check(), dlock.ErrNotHeld)
	}
	round(0) // what is opened once for all is open behind it
	open := descriptors(t)
	for number := 1; number < 4; number++ {
		round(number)
	}
	if after := descriptors(t); after > open {
		t.Fatalf("%d descriptors before, %d after three clients", open, after)
	}
	client, err := dlock.Open(bg(t), mem(), dlock.WithLogger(logger))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	dropped(client, "last.")
	collected("last.")
	if heard.has("lock=after") {
		t.Fatal("a hold whose client was closed is told of")
	}
}

func TestASyncLockerLocks(t *testing.T) {
	client := open(t, mem())
	mutex := client.Mutex("plain")
	var failed error
	locker := dlock.SyncLocker(mutex, func(err error) { failed = err })
	locker.Lock()
	_, err := mutex.TryLock(bg(t))
	is(t, err, dlock.ErrBusy)
	locker.Unlock()
	again := lock(t, mutex).Locker(nil)
	again.Unlock()
	again.Lock()
	again.Unlock()
	if failed != nil {
		t.Fatal(failed)
	}
	panics := func(call func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Error("went on without the lock")
			}
		}()
		call()
	}
	panics(locker.Unlock)
	panics(dlock.SyncLocker(client.Mutex(""), func(err error) { failed = err }).Lock)
	is(t, failed, dlock.ErrInvalid)
	panics(dlock.SyncLocker(nil, nil).Lock)
	plain := dlock.AsLocker(mutex)
	hold, err := plain.Lock(bg(t))
	if err != nil || plain.Name() != "plain" {
		t.Fatal(err)
	}
	if _, err := plain.TryLock(bg(t)); !errors.Is(err, dlock.ErrBusy) {
		t.Fatal(err)
	}
	if err := hold.Release(bg(t)); err != nil {
		t.Fatal(err)
	}
}
