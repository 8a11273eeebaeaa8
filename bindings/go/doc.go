// Package dlock takes distributed locks over what you already run: nothing (memory, or one file shared
// by the processes of a machine), Redis, PostgreSQL, ZooKeeper, etcd or memcached. It is libdlock, a C
// library, made to feel like Go.
//
//	client, err := dlock.Open(ctx, "redis://127.0.0.1")
//	…
//	defer client.Close()
//	hold, err := client.Mutex("orders/42").Lock(ctx)
//	…
//	defer hold.Release(ctx)
//	err = ship(hold.Context(), 42, hold.Token())
//
// # The promise
//
// Nobody else can get a lock before the validity of your hold ends, as long as the server keeps its
// state. Validity is decided on this machine, by its clock: [Hold.Check] and [Hold.Remaining] ask
// nobody. State that a server loses (restart, eviction, failover, an operator's break) is noticed by
// the next renewal, at most a third of the lease later; until then, and against a pause between your
// check and your write, only the fencing token ([Hold.Token]) protects the resource.
//
// # Goroutines
//
// Every Lock is an owner of its own: two goroutines that share a handle exclude each other, and one
// that locks twice waits for itself. Whoever wants to lend a lock to a function passes the [Hold] on.
// Clients, locks and holds may be used by any number of goroutines at once.
//
// A goroutine that waits costs a channel, not a thread: each client has one goroutine that hears of
// everything, asleep in Go's own poller. When a context ends, the wait is cancelled and its end
// awaited, so nothing is granted behind your back: who gets an error holds nothing.
//
// # Releasing
//
// Release every hold, and close every client. No finalizer does it for you: a [Hold] that is dropped
// is renewed until its client is closed, and a warning goes to the client's logger.
// [Hold.Release] releases even when its context is dead, as it mostly is in a deferred call.
//
// # Building
//
// Needs, installed before: a C compiler, pkg-config, and libdlock with its header (make install in its
// repository). "Package dlock was not found" is pkg-config's word for a libdlock that isn't there, or whose
// dlock.pc isn't where PKG_CONFIG_PATH says. The build tag dlock_static links libdlock itself statically.
package dlock
