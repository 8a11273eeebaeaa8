package dlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/libdlock/libdlock/bindings/go/internal/testredis"
)

func TestReadersShareAndKeepAWriterOut(t *testing.T) {
	client := open(t, testredis.Start(t).URL())
	rw := client.RWMutex("book")
	first, err := rw.RLock(bg(t))
	if err != nil {
		t.Fatal(err)
	}
	second, err := rw.TryRLock(bg(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = rw.TryLock(bg(t))
	is(t, err, dlock.ErrBusy)
	release(t, first)
	release(t, second)
	writer := lock(t, rw)
	_, err = rw.TryRLock(bg(t))
	is(t, err, dlock.ErrBusy)
	if err := writer.Downgrade(); err != nil {
		t.Fatal(err)
	}
	reader := lock(t, rw.Reader())
	is(t, writer.Downgrade(), dlock.ErrUnsupported)
	release(t, writer)
	release(t, reader)
	is(t, writer.Downgrade(), dlock.ErrNotHeld)
	hold := lock(t, rw)
	_, err = client.Mutex("book").TryLock(bg(t))
	is(t, err, dlock.ErrConflict)
	release(t, hold)
}

func TestASemaphoreHasAsManyHoldersAsPermits(t *testing.T) {
	client := open(t, testredis.Start(t).URL())
	three := client.Semaphore("pool", 3)
	first := lock(t, three)
	both := lock(t, client.Semaphore("pool", 3, dlock.WithTake(2)))
	if first.Token() != 0 {
		t.Fatalf("a semaphore's token is %d", first.Token())
	}
	_, err := three.TryLock(bg(t))
	is(t, err, dlock.ErrBusy)
	permits := func(lock interface {
		Inspect(context.Context) (dlock.Inspection, error)
	}, all, free int) {
		t.Helper()
		seen, err := lock.Inspect(bg(t))
		if err != nil || seen.Permits != all || seen.PermitsFree != free {
			t.Errorf("%d permits, %d of them free, %v", seen.Permits, seen.PermitsFree, err)
		}
	}
	permits(three, 3, 0)
	permits(client.Semaphore("empty", 7), 7, 7)
	permits(client.Mutex("no pool"), -1, -1)
	_, err = client.Semaphore("pool", 4).TryLock(bg(t))
	is(t, err, dlock.ErrConflict)
	_, err = client.Semaphore("nowhere", 0).TryLock(bg(t))
	is(t, err, dlock.ErrInvalid)
	release(t, both)
	release(t, first)
}

func TestAnElectionHasOneLeaderWhoPublishesItsName(t *testing.T) {
	url := testredis.Start(t).URL()
	a, b := open(t, url), open(t, url)
	var terms int
	ctx, cancel := context.WithCancel(bg(t))
	defer cancel()
	mine := errors.New("enough")
	err := a.Election("chief", "node-a").Lead(ctx, func(ctx context.Context, hold *dlock.Hold) error {
		terms++
		id, err := b.Election("chief", "node-b").Leader(ctx)
		if err != nil || id != "node-a" {
			t.Errorf("the leader is %q, %v", id, err)
		}
		if _, err := b.Election("chief", "node-b").TryLock(ctx); !errors.Is(err, dlock.ErrBusy) {
			t.Errorf("two leaders: %v", err)
		}
		if terms == 1 { // an operator ends the first term
			if err := b.Election("chief", "node-b").Break(ctx, ""); err != nil {
				t.Error(err)
			}
			_ = hold.Verify(ctx) // finds it out at once
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), dlock.ErrLost) {
				t.Errorf("ended by %v", context.Cause(ctx))
			}
			return ctx.Err()
		}
		return mine
	})
	is(t, err, mine)
	if terms != 2 {
		t.Fatalf("%d terms", terms)
	}
	if id, err := b.Election("chief", "node-b").Leader(bg(t)); err != nil || id != "" {
		t.Fatalf("the leader is %q, %v", id, err)
	}
	over, stop := context.WithCancel(bg(t))
	stop()
	is(t, a.Election("chief", "a").Lead(over, func(context.Context, *dlock.Hold) error { return nil }),
		context.Canceled)
}

func TestAMultiLockTakesAllOrNothing(t *testing.T) {
	server := testredis.Start(t)
	a, b := open(t, server.URL()), open(t, mem())
	one, two := a.Mutex("one"), b.Mutex("two")
	both := a.Multi(one, two)
	if both.Name() != "one+two" {
		t.Fatal(both.Name())
	}
	hold := lock(t, both)
	if hold.Token() != 0 || hold.MemberToken(0) <= 0 || hold.MemberToken(1) <= 0 {
		t.Fatalf("tokens %d, %d, %d", hold.Token(), hold.MemberToken(0), hold.MemberToken(1))
	}
	if hold.MemberToken(2) != 0 || hold.MemberToken(-1) != 0 {
		t.Fatal("a token of a member that isn't there")
	}
	_, err := two.TryLock(bg(t))
	is(t, err, dlock.ErrBusy)
	done := hold.Done()
	release(t, hold)
	closes(t, "the multi-lock's context", done)
	other := lock(t, two)
	_, err = both.TryLock(bg(t))
	is(t, err, dlock.ErrBusy)
	release(t, lock(t, one)) // it was given back
	release(t, other)
}

func TestALockIsHandedToAnotherClient(t *testing.T) {
	server := testredis.Start(t)
	giver, taker := open(t, server.URL()), open(t, server.URL())
	hold := lock(t, giver.Mutex("handed"))
	held := hold.Context()
	ticket, err := hold.Export()
	if err != nil {
		t.Fatal(err)
	}
	closes(t, "the giver's context", held.Done())
	is(t, hold.Check(), dlock.ErrNotHeld)
	_, err = hold.Export()
	is(t, err, dlock.ErrNotHeld)
	taken, err := taker.Import(bg(t), ticket)
	if err != nil {
		t.Fatal(err)
	}
	if taken.Token() <= hold.Token() || taken.Name() != "handed" {
		t.Fatalf("%q, token %d after %d", taken.Name(), taken.Token(), hold.Token())
	}
	_, err = taker.Import(bg(t), ticket)
	is(t, err, dlock.ErrNotHeld)
	for _, bad := range []string{"", "nonsense", "a\x00b"} {
		_, err = taker.Import(bg(t), bad)
		is(t, err, dlock.ErrInvalid)
	}
	release(t, taken)
}

func TestExtendAndVerifyAskTheServer(t *testing.T) {
	server := testredis.Start(t)
	client := open(t, server.URL())
	hold := lock(t, client.Mutex("extended"))
	if err := hold.Extend(bg(t), time.Hour); err != nil {
		t.Fatal(err)
	}
	if hold.Remaining() < 30*time.Minute {
		t.Fatal(hold.Remaining())
	}
	is(t, hold.Extend(bg(t), time.Millisecond), dlock.ErrInvalid)
	if err := hold.Verify(bg(t)); err != nil {
		t.Fatal(err)
	}
	if err := hold.Feed(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Ask("DEL", "extended"); err != nil {
		t.Fatal(err)
	}
	is(t, hold.Verify(bg(t)), dlock.ErrLost)
	is(t, hold.Feed(), dlock.ErrLost)
	is(t, hold.Release(bg(t)), dlock.ErrLost)
	is(t, hold.Extend(bg(t), time.Hour), dlock.ErrLost)
	is(t, hold.Verify(bg(t)), dlock.ErrLost)
}

func TestAnOperatorSeesBreaksAndRevokes(t *testing.T) {
	server := testredis.Start(t)
	client, operator := open(t, server.URL()), open(t, server.URL())
	mutex := client.Mutex("watched")
	theirs := operator.Mutex("watched")
	is(t, theirs.Break(bg(t), ""), dlock.ErrNotHeld)
	hold := lock(t, mutex)
	found, err := theirs.Inspect(bg(t))
	if err != nil || !found.Held || found.Kind != "mutex" || len(found.Holders) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	holder := found.Holders[0]
	if holder.Owner != hold.Owner() || holder.Token != hold.Token() || holder.Remaining <= 0 {
		t.Fatalf("%+v, owner %q, token %d", holder, hold.Owner(), hold.Token())
	}
	listed, err := operator.List(bg(t), "watch", 10)
	if err != nil || len(listed) != 1 || listed[0].Name != "watched" || listed[0].Owner != hold.Owner() {
		t.Fatalf("%+v, %v", listed, err)
	}
	revoked := hold.Revoked()
	until(t, "the holder hears of it", func() bool { return theirs.Revoke(bg(t)) == nil })
	closes(t, "the request", revoked)
	if hold.Check() != nil {
		t.Fatal("a revoke took the lock")
	}
	is(t, theirs.Break(bg(t), "somebody-else"), dlock.ErrNotHeld)
	if err := theirs.Break(bg(t), holder.Owner); err != nil {
		t.Fatal(err)
	}
	if err := theirs.WaitIdle(bg(t)); err != nil {
		t.Fatal(err)
	}
	is(t, hold.Verify(bg(t)), dlock.ErrLost)
	closes(t, "the victim's context", hold.Done())
	is(t, hold.Release(bg(t)), dlock.ErrLost)
	found, err = theirs.Inspect(bg(t))
	if err != nil || found.Held || len(found.Holders) != 0 {
		t.Fatalf("%+v, %v", found, err)
	}
}

func TestTheDoctorTheFeaturesAndTheStatisticsTell(t *testing.T) {
	client := open(t, testredis.Start(t).URL())
	report, err := client.Doctor(bg(t))
	if err != nil || report.Verdict < 0 || report.Verdict > 2 || len(report.Findings) == 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	features, err := client.Features()
	if err != nil || features["backend"] != "redis" || features.Int("tokens") != 1 {
		t.Fatalf("%v, %v", features, err)
	}
	release(t, lock(t, client.Mutex("counted")))
	stats, err := client.Stats()
	if err != nil || stats.Grants != 1 || stats.Releases != 1 || stats.Commands == 0 ||
		stats.BytesSent == 0 || stats.Hold.Count != 1 || stats.Hold.Max <= 0 {
		t.Fatalf("%+v, %v", stats, err)
	}
}

func TestWhatAClientAndALockGoByCanBeAsked(t *testing.T) {
	client := open(t, "mem:?client.lazy=on&lock.ttl_ms=9000&lock.data=a%26b", dlock.WithTTL(8*time.Second))
	said, err := client.Settings()
	if err != nil || said["lock.ttl_ms"] != "8000" || said["client.lazy"] != "true" ||
		said["lock.data"] != "a&b" || said["lock.owner"] != "none" || said["auth.password"] != "" {
		t.Fatalf("%v, %v", said, err)
	}
	said, err = client.Mutex("x", dlock.WithMaxHold(9*time.Second)).Settings()
	if err != nil || said.Int("lock.ttl_ms") != 8000 || said.Int("lock.max_hold_ms") != 9000 {
		t.Fatalf("%v, %v", said, err)
	}
	_, err = client.Multi(client.Mutex("x")).Settings()
	is(t, err, dlock.ErrUnsupported)
	_, err = client.Mutex("x", dlock.With("client.lazy", "true")).Settings()
	is(t, err, dlock.ErrInvalid)
}

func TestConnectingIsLeftForLaterWhereTheURLOrAnOptionSaysSo(t *testing.T) {
	nobody := "redis://127.0.0.1:1"
	lazy, eager := dlock.With("client.lazy", "1"), dlock.With("client.lazy", "off")
	for _, one := range []struct {
		url     string
		options []dlock.Option
		fails   bool
	}{{nobody + "?client.lazy=on", nil, false}, {nobody, []dlock.Option{lazy}, false},
		{nobody + "?client.lazy=0", []dlock.Option{lazy}, false}, {nobody, nil, true},
		{nobody + "?client.lazy=on", []dlock.Option{eager}, true}} {
		client, err := dlock.Open(bg(t), one.url, one.options...)
		if (err != nil) != one.fails {
			t.Errorf("%v: %v", one, err)
		}
		if err == nil {
			_ = client.Close()
		}
	}
}

func TestAGuardedOperationIsUndoneWhenTheLockWasLost(t *testing.T) {
	server := testredis.Start(t)
	client := open(t, server.URL())
	mutex := client.Mutex("guarded")
	var said []string
	say := func(what string, err error) func(context.Context) error {
		return func(context.Context) error { said = append(said, what); return err }
	}
	op := dlock.Guarded{Prepare: say("prepare", nil), Run: say("run", nil),
		Commit: func(_ context.Context, token int64) error {
			said = append(said, "commit")
			if token <= 0 {
				t.Error("no token")
			}
			return nil
		},
		Undo: func() { said = append(said, "undo") },
		Lost: func() { said = append(said, "lost") }}
	expect := func(hold *dlock.Hold, op dlock.Guarded, wanted error, words ...string) {
		t.Helper()
		said = nil
		err := hold.Guard(bg(t), op)
		if !errors.Is(err, wanted) || (wanted == nil && err != nil) {
			t.Fatalf("got %v, want %v", err, wanted)
		}
		if len(said) != len(words) {
			t.Fatalf("said %v, want %v", said, words)
		}
		for i := range words {
			if said[i] != words[i] {
				t.Fatalf("said %v, want %v", said, words)
			}
		}
	}
	mine := errors.New("mine")
	hold := lock(t, mutex)
	expect(hold, op, nil, "prepare", "run", "commit")
	failing := op
	failing.Prepare = say("prepare", mine)
	expect(hold, failing, mine, "prepare")
	failing = op
	failing.Run = say("run", mine)
	expect(hold, failing, mine, "prepare", "run", "undo")
	failing = op
	failing.Commit = func(context.Context, int64) error { return mine }
	expect(hold, failing, mine, "prepare", "run", "undo")
	failing.Commit = func(context.Context, int64) error { return dlock.ErrLost }
	expect(hold, failing, dlock.ErrLost, "prepare", "run", "undo", "lost")
	expect(hold, dlock.Guarded{Run: op.Run}, dlock.ErrInvalid)
	losing := op
	losing.Run = func(ctx context.Context) error {
		said = append(said, "run")
		if _, err := server.Ask("DEL", "guarded"); err != nil {
			t.Error(err)
		}
		_ = hold.Verify(bg(t)) // finds it out at once
		closes(t, "the step's context", ctx.Done())
		is(t, context.Cause(ctx), dlock.ErrLost)
		return nil
	}
	expect(hold, losing, dlock.ErrLost, "prepare", "run", "undo", "lost")
	expect(hold, op, dlock.ErrLost, "lost")
	is(t, hold.Release(bg(t)), dlock.ErrLost)
}
