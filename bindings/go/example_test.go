package dlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

// A service for the examples: memory.
func memory(name string) (context.Context, *dlock.Client) {
	ctx := context.Background()
	client, err := dlock.Open(ctx, "mem:"+name)
	if err != nil {
		log.Fatal(err)
	}
	return ctx, client
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func Example() {
	ctx := context.Background()
	client, err := dlock.Open(ctx, "mem:") // or file:///run/lock/app, or redis://127.0.0.1
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	hold, err := client.Mutex("orders/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release(ctx)
	fmt.Println(hold.Name(), hold.Token() > 0, hold.Check())
	// Output: orders/42 true <nil>
}

func ExampleOpen() {
	ctx := context.Background()
	var client *dlock.Client
	client, err := dlock.Open(ctx, "mem:open", dlock.WithTTL(10*time.Second), dlock.WithPrefix("app/"),
		dlock.WithRequire("correctness"), dlock.WithMaxHold(time.Hour), dlock.WithFair(),
		dlock.WithAsyncRelease(), dlock.With("client.close_ms", "500"),
		dlock.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	must(err)
	fmt.Println(client.URL())
	must(client.Close())
	_, err = dlock.Open(ctx, "nowhere:")
	fmt.Println(errors.Is(err, dlock.ErrUnsupported) || errors.Is(err, dlock.ErrInvalid))
	// Output:
	// mem:open
	// true
}

func ExampleBackends() {
	fmt.Println(dlock.Version() != "", len(dlock.Backends()) > 0)
	// Output: true true
}

func ExampleOption() {
	ctx, client := memory("options")
	defer client.Close()
	patient := []dlock.Option{dlock.WithTTL(time.Minute)}
	hold, err := client.Mutex("report", patient...).Lock(ctx)
	must(err)
	fmt.Println(hold.TTL(), hold.Remaining() > 30*time.Second)
	must(hold.Release(ctx))
	// Output: 1m0s true
}

// A worker that has nearly always the same lock to itself: only the first Lock and the last Unlock ask the service.
func ExampleWithKeep() {
	ctx := context.Background()
	client, err := dlock.Open(ctx, "redis://localhost")
	must(err)
	defer client.Close() // gives back what is kept
	queue := client.Mutex("queue", dlock.WithKeep(10*time.Second))
	for range 1000 {
		hold, err := queue.Lock(ctx)
		must(err)
		must(hold.Release(ctx))
	}
}

func ExampleMutex() {
	ctx, client := memory("mutex")
	defer client.Close()
	var mutex *dlock.Mutex = client.Mutex("stock")
	hold, err := mutex.Lock(ctx)
	must(err)
	_, err = mutex.TryLock(ctx)
	fmt.Println(errors.Is(err, dlock.ErrBusy), errors.Is(err, dlock.ErrNotObtained))
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = mutex.Lock(short)
	fmt.Println(errors.Is(err, dlock.ErrTimeout) || errors.Is(err, dlock.ErrCanceled),
		errors.Is(err, context.DeadlineExceeded))
	must(hold.Release(ctx))
	must(mutex.WaitIdle(ctx))
	fmt.Println(mutex.Name(), "is free")
	// Output:
	// true true
	// true true
	// stock is free
}

func ExampleRWMutex() {
	ctx, client := memory("sides")
	defer client.Close()
	var book *dlock.RWMutex = client.RWMutex("book")
	reader, err := book.RLock(ctx)
	must(err)
	second, err := book.TryRLock(ctx)
	must(err)
	third, err := book.Reader().TryLock(ctx)
	must(err)
	_, err = book.TryLock(ctx)
	fmt.Println(errors.Is(err, dlock.ErrBusy))
	for _, hold := range []*dlock.Hold{reader, second, third} {
		must(hold.Release(ctx))
	}
	writer, err := book.Lock(ctx)
	must(err)
	must(writer.Downgrade())
	must(writer.Release(ctx))
	// Output: true
}

func ExampleSemaphore() {
	ctx, client := memory("permits")
	defer client.Close()
	var pool *dlock.Semaphore = client.Semaphore("connections", 10, dlock.WithTake(2))
	hold, err := pool.Lock(ctx)
	must(err)
	fmt.Println(hold.Token())
	must(hold.Release(ctx))
	// Output: 0
}

func ExampleElection() {
	ctx, client := memory("leader")
	defer client.Close()
	var chief *dlock.Election = client.Election("chief", "node-7")
	err := chief.Lead(ctx, func(ctx context.Context, term *dlock.Hold) error {
		id, err := chief.Leader(ctx)
		fmt.Println(id, "leads", term.Name())
		return err
	})
	fmt.Println(err)
	// Output:
	// node-7 leads chief
	// <nil>
}

func ExampleMulti() {
	ctx, client := memory("several")
	defer client.Close()
	accounts := []dlock.Lockable{client.Mutex("account/7"), client.Mutex("account/3")}
	var transfer *dlock.Multi = client.Multi(accounts...)
	hold, err := transfer.Lock(ctx)
	must(err)
	fmt.Println(hold.Name(), hold.MemberToken(0) > 0, hold.MemberToken(1) > 0)
	must(hold.Release(ctx))
	// Output: account/7+account/3 true true
}

func ExampleHold() {
	ctx, client := memory("held")
	defer client.Close()
	hold, err := client.Mutex("job", dlock.With("lock.renew", "fed")).Lock(ctx)
	must(err)
	fmt.Println(hold.State(), hold.State() == dlock.Held, hold.State() == dlock.Suspect)
	must(hold.Feed()) // the work moves
	must(hold.Extend(ctx, time.Minute))
	must(hold.Verify(ctx))
	fmt.Println(hold.Remaining() > 30*time.Second, hold.Owner() != "")
	must(hold.Release(ctx))
	fmt.Println(hold.State(), hold.State() == dlock.Released, hold.State() == dlock.Lost)
	fmt.Println(errors.Is(hold.Release(ctx), dlock.ErrNotHeld))
	// Output:
	// held true false
	// true true
	// released true false
	// true
}

func ExampleHold_Context() {
	ctx, client := memory("lost")
	defer client.Close()
	hold, err := client.Mutex("short", dlock.WithTTL(100*time.Millisecond), dlock.With("lock.renew", "off")).Lock(ctx)
	must(err)
	select {
	case <-hold.Done(): // the same as hold.Context().Done()
		fmt.Println(errors.Is(context.Cause(hold.Context()), dlock.ErrLost))
	case <-hold.Revoked():
		fmt.Println("somebody asks for it")
	}
	// Output: true
}

func ExampleHold_During() {
	ctx, client := memory("during")
	defer client.Close()
	hold, err := client.Mutex("import").Lock(ctx)
	must(err)
	defer hold.Release(ctx)
	err = hold.During(ctx, func(ctx context.Context) error {
		return ctx.Err() // work that ends with ctx, or with the lock
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleHold_Guard() {
	ctx, client := memory("guard")
	defer client.Close()
	hold, err := client.Mutex("account/7").Lock(ctx)
	must(err)
	defer hold.Release(ctx)
	balance, fence, before := 100, int64(0), 0
	err = hold.Guard(ctx, dlock.Guarded{
		Prepare: func(context.Context) error { before = balance; return nil },
		Run:     func(context.Context) error { balance -= 30; return nil },
		Commit: func(_ context.Context, token int64) error {
			if token < fence {
				return dlock.ErrLost // somebody later was here
			}
			fence = token
			return nil
		},
		Undo: func() { balance = before },
		Lost: func() { fmt.Println("too late") },
	})
	fmt.Println(balance, err)
	// Output: 70 <nil>
}

func ExampleClient_Import() {
	ctx, client := memory("handed")
	defer client.Close()
	hold, err := client.Mutex("job").Lock(ctx)
	must(err)
	ticket, err := hold.Export()
	if errors.Is(err, dlock.ErrUnsupported) { // of memory; Redis can
		fmt.Println("taken over")
		must(hold.Release(ctx))
		return
	}
	must(err)
	taken, err := client.Import(ctx, ticket)
	must(err)
	must(taken.Release(ctx))
	fmt.Println("taken over")
	// Output: taken over
}

func ExampleMutex_Inspect() {
	ctx, client := memory("inspected")
	defer client.Close()
	mutex := client.Mutex("stuck")
	hold, err := mutex.Lock(ctx)
	must(err)
	var found dlock.Inspection
	found, err = mutex.Inspect(ctx)
	must(err)
	var holder dlock.Holder = found.Holders[0]
	fmt.Println(found.Held, found.Kind, found.Waiters, holder.Token == hold.Token())
	var whose dlock.Process = holder.Process
	var line []dlock.Waiting = found.Waiting // where the service tells who stands in it
	fmt.Println(whose.PID == os.Getpid(), len(line))
	err = mutex.Revoke(ctx) // asks for it; not every service can
	fmt.Println(err == nil || errors.Is(err, dlock.ErrUnsupported))
	must(mutex.Break(ctx, holder.Owner)) // takes it
	fmt.Println(errors.Is(hold.Verify(ctx), dlock.ErrLost))
	// Output:
	// true mutex 0 true
	// true 0
	// true
	// true
}

func ExampleClient_List() {
	ctx, client := memory("listed")
	defer client.Close()
	hold, err := client.Mutex("orders/42").Lock(ctx)
	must(err)
	defer hold.Release(ctx)
	var all []dlock.Listed
	all, err = client.List(ctx, "orders/", 100)
	must(err)
	fmt.Println(len(all), all[0].Name, all[0].Owner == hold.Owner())
	// Output: 1 orders/42 true
}

func ExampleClient_Doctor() {
	ctx, client := memory("well")
	defer client.Close()
	var report dlock.Report
	report, err := client.Doctor(ctx)
	must(err)
	var worst dlock.Finding
	for _, finding := range report.Findings {
		if finding.Severity > worst.Severity {
			worst = finding
		}
	}
	fmt.Println(report.Verdict == worst.Severity)
	// Output: true
}

func ExampleClient_Stats() {
	ctx, client := memory("counted")
	defer client.Close()
	hold, err := client.Mutex("one").Lock(ctx)
	must(err)
	must(hold.Release(ctx))
	var stats dlock.Stats
	stats, err = client.Stats()
	must(err)
	var held dlock.Times = stats.Hold
	var all dlock.Info
	all, err = client.Features()
	must(err)
	fmt.Println(stats.Grants, held.Count, all["backend"], all.Int("tokens"))
	// Output: 1 1 mem 1
}

func ExampleMetrics() {
	_, client := memory("watched")
	defer client.Close()
	page, err := dlock.Metrics()
	must(err)
	fmt.Println(strings.Contains(page, `client="`), strings.HasSuffix(page, "# EOF\n"))
	// Output: true true
}

func ExampleClient_Settings() {
	_, client := memory("set")
	defer client.Close()
	settings, err := client.Settings()
	must(err)
	var lease dlock.Info
	lease, err = client.Mutex("short", dlock.WithTTL(2*time.Second)).Settings()
	must(err)
	fmt.Println(settings.Int("lock.ttl_ms"), lease.Int("lock.ttl_ms"))
	// Output: 30000 2000
}

func ExampleSyncLocker() {
	_, client := memory("sync")
	defer client.Close()
	locker := dlock.SyncLocker(client.Mutex("plain"), func(err error) { log.Fatal(err) })
	locker.Lock()
	defer locker.Unlock()
	fmt.Println("locked")
	// Output: locked
}

func ExampleHold_Locker() {
	ctx, client := memory("adapted")
	defer client.Close()
	hold, err := client.Mutex("plain").Lock(ctx)
	must(err)
	hold.Locker(func(err error) { log.Print(err) }).Unlock()
	fmt.Println(hold.State())
	// Output: released
}

func ExampleCond() {
	ctx, client := memory("cond")
	defer client.Close()
	mutex, filled := client.Mutex("queue"), client.Cond("queue/filled")
	var queue []string // a thing that other processes see, too
	go func() {
		hold, err := mutex.Lock(ctx)
		must(err)
		queue = append(queue, "one")
		_, err = filled.Signal(ctx, hold, 1) // wakes who has waited longest
		must(err)
		must(hold.Release(ctx))
	}()
	hold, err := mutex.Lock(ctx)
	must(err)
	for len(queue) == 0 { // Wait gives the lock back, and has it again when it returns
		hold, err = filled.Wait(ctx, hold)
		must(err)
	}
	fmt.Println(queue[0])
	queue = nil
	hold, woken, err := filled.WaitFor(ctx, hold, time.Millisecond)
	must(err)
	fmt.Println(woken)
	count, err := filled.Broadcast(ctx, hold)
	must(err)
	fmt.Println(count)
	must(hold.Release(ctx))
	// Output:
	// one
	// false
	// 0
}

func ExampleAsLocker() {
	ctx, client := memory("abstract")
	defer client.Close()
	var lock dlock.Locker = dlock.AsLocker(client.Mutex("job")) // or dlocktest.New("job")
	var hold dlock.Holding
	hold, err := lock.Lock(ctx)
	must(err)
	fmt.Println(lock.Name(), hold.Check(), hold.Release(ctx))
	// Output: job <nil> <nil>
}

func ExampleError() {
	ctx, client := memory("wrong")
	defer client.Close()
	_, err := client.Mutex("job", dlock.With("lock.tll_ms", "1000")).Lock(ctx)
	var why *dlock.Error
	fmt.Println(errors.As(err, &why), why.Op, why.Name, why.Retriable, errors.Is(why, dlock.ErrInvalid))
	fmt.Println(why.Error() == "dlock: lock job: "+why.Text, len(why.Unwrap()), why.Backend == "")
	var old *dlock.VersionError // of Open, when the libdlock that is loaded is older
	fmt.Println(errors.As(err, &old))
	// Output:
	// true lock job false true
	// true 1 true
	// false
}

// What to do about an error, by its kind.
func ExampleErrNotObtained() {
	advice := func(err error) string {
		switch {
		case errors.Is(err, dlock.ErrNotObtained):
			return "somebody else has it"
		case errors.Is(err, dlock.ErrLost), errors.Is(err, dlock.ErrNotHeld):
			return "stop working"
		case errors.Is(err, dlock.ErrUnavailable), errors.Is(err, dlock.ErrUnknown),
			errors.Is(err, dlock.ErrQuorum):
			return "try again later"
		case errors.Is(err, dlock.ErrInvalid), errors.Is(err, dlock.ErrUnsupported),
			errors.Is(err, dlock.ErrAccess), errors.Is(err, dlock.ErrConflict),
			errors.Is(err, dlock.ErrProtocol), errors.Is(err, dlock.ErrDeadlock):
			return "mend the program or the service"
		case errors.Is(err, dlock.ErrClosed), errors.Is(err, dlock.ErrInternal):
			return "give up"
		}
		return "go on"
	}
	fmt.Println(advice(dlock.ErrLost))
	fmt.Println(advice(nil))
	// Output:
	// stop working
	// go on
}
