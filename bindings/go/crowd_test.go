//go:build !race

// The race detector ends at 8,000 goroutines.

package dlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/libdlock/libdlock/bindings/go/internal/testredis"
)

const (
	crowdNames   = 100
	crowdThreads = 16
	crowdShort   = 10_000
)

// How many wait: what DLOCK_CROWD says, which is more for make proof.
func crowdSize() int {
	if size, err := strconv.Atoi(os.Getenv("DLOCK_CROWD")); err == nil {
		return size
	}
	return crowdShort
}

// In a process of its own: threads that other tests have left behind don't count.
func TestACrowdWaitsOnFewThreadsAndLeavesNothingBehind(t *testing.T) {
	if url := os.Getenv("DLOCK_CROWD_URL"); url != "" {
		crowd(t, url)
		return
	}
	child := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "DLOCK_CROWD_URL="+testredis.Start(t).URL())
	said, err := child.CombinedOutput()
	for _, line := range strings.Split(string(said), "\n") {
		if err != nil || strings.Contains(line, "waiters") {
			t.Log(line)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func status(t *testing.T, key string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), key+":")
	number, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return number
}

type count struct{ granted, canceled, failed atomic.Int64 }

func crowd(t *testing.T, url string) {
	size, ctx := crowdSize(), context.Background()
	holder, client := open(t, url), open(t, url)
	var held []*dlock.Hold
	for n := range crowdNames {
		held = append(held, lock(t, holder.Mutex("crowd/"+strconv.Itoa(n))))
	}
	before, began := status(t, "VmRSS"), time.Now()

	canceled, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	var half, rest count
	for n := range size {
		all.Add(1)
		mine, my := ctx, &rest
		if n/crowdNames%2 == 0 {
			mine, my = canceled, &half
		}
		go func() {
			defer all.Done()
			hold, err := client.Mutex("crowd/" + strconv.Itoa(n%crowdNames)).Lock(mine)
			if err == nil {
				err = hold.Release(ctx)
			}
			switch {
			case err == nil:
				my.granted.Add(1)
			case errors.Is(err, context.Canceled):
				my.canceled.Add(1)
			default:
				my.failed.Add(1)
				t.Error(err)
			}
		}()
	}
	for end := time.Now().Add(2 * patience); dlock.Pending(client) < int64(size) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	started, threads, after := time.Since(began), status(t, "Threads"), status(t, "VmRSS")
	if got := dlock.Pending(client); got != int64(size) {
		t.Fatalf("%d of %d wait", got, size)
	}

	began = time.Now()
	cancel()
	for end := time.Now().Add(2 * patience); half.canceled.Load() < int64(size/2) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	ended := time.Since(began)
	if half.canceled.Load() != int64(size/2) || rest.canceled.Load() != 0 {
		t.Fatalf("canceled %d and %d of %d", half.canceled.Load(), rest.canceled.Load(), size/2)
	}
	began = time.Now()
	for _, hold := range held {
		release(t, hold)
	}
	all.Wait()
	served := time.Since(began)
	threads = max(threads, status(t, "Threads"))
	fmt.Printf("%d waiters on %d names: %.1f KiB each, %d threads; waiting after %.2f s, half of them canceled "+
		"in %.2f s, the others served in %.2f s\n", size, crowdNames, float64(after-before)/float64(size),
		threads, started.Seconds(), ended.Seconds(), served.Seconds())
	if rest.granted.Load() != int64(size/2) {
		t.Fatalf("%d granted", rest.granted.Load())
	}
	if threads > crowdThreads {
		t.Fatalf("%d threads", threads)
	}
	if listed, err := holder.List(bg(t), "", crowdNames); err != nil || len(listed) != 0 {
		t.Fatalf("left behind: %v, %v", listed, err)
	}
	if tasks, err := filepath.Glob("/proc/self/task/*"); err != nil || len(tasks) > crowdThreads {
		t.Fatal(len(tasks), err)
	}
}
