// A Go library that bench/run measures libdlock beside; see bench/peers.py for what is said.
//
//	peer PORT,… LIBRARY PAGE TTL_MS BASE
//
// LIBRARY is redislock, redsync, "redsync of 5", rueidislock, concurrency.Mutex, "concurrency.Mutex of one
// session" or go-zookeeper.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// What a worker has: a lock of one of the libraries, taken again and again.
type locker interface {
	Acquire(ctx context.Context, name string) error
	Release(ctx context.Context) error
}

// One that renews by itself.
type renewing interface {
	Lost() bool
}

// What the libraries are told: their own defaults, but for what the comparison asks for.
type settings struct {
	address string
	ports   string // one, or those of a Redlock's nodes
	ttl     time.Duration
}

type syncLocker struct {
	redsync *redsync.Redsync
	ttl     time.Duration
	mutex   *redsync.Mutex
}

func (l *syncLocker) Acquire(ctx context.Context, name string) error {
	l.mutex = l.redsync.NewMutex(name, redsync.WithExpiry(l.ttl), redsync.WithTries(1<<30))
	return l.mutex.LockContext(ctx)
}

func (l *syncLocker) Release(ctx context.Context) error {
	_, err := l.mutex.UnlockContext(ctx)
	return err
}

type bsmLocker struct {
	client *redislock.Client
	ttl    time.Duration
	lock   *redislock.Lock
}

// As the library's own description does it.
const bsmPause = 100 * time.Millisecond

func (l *bsmLocker) Acquire(ctx context.Context, name string) error {
	lock, err := l.client.Obtain(ctx, name, l.ttl,
		&redislock.Options{RetryStrategy: redislock.LinearBackoff(bsmPause)})
	l.lock = lock
	return err
}

func (l *bsmLocker) Release(ctx context.Context) error {
	return l.lock.Release(ctx)
}

// Libraries of other files, some of which not every Go can build, by their names.
var newer = map[string]func(settings) (func() locker, error){}

// Our binding's costs, where it is built in.
var perCall func() (map[string]float64, error)

func redisClient(s settings) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.address, PoolSize: 64})
}

// Returns what makes a locker for a worker; the workers share the library's client.
func open(library string, s settings) (func() locker, error) {
	switch library {
	case "redsync", "redsync of 5":
		var pools []syncredis.Pool
		for _, port := range strings.Split(s.ports, ",") {
			pools = append(pools, goredis.NewPool(redisClient(settings{address: "127.0.0.1:" + port})))
		}
		rs := redsync.New(pools...)
		return func() locker { return &syncLocker{redsync: rs, ttl: s.ttl} }, nil
	case "redislock":
		client := redislock.New(redisClient(s))
		return func() locker { return &bsmLocker{client: client, ttl: s.ttl} }, nil
	}
	if more, ok := newer[library]; ok {
		return more(s)
	}
	return nil, fmt.Errorf("no such library: %s", library)
}

type driver struct {
	in      *bufio.Reader
	library string
	page    *page
	base    int64
	make    func() locker
}

// Says "ready", waits for a line.
func (d *driver) awaitCue() error {
	fmt.Println("ready")
	_, err := d.in.ReadString('\n')
	return err
}

func answer(result any) error {
	text, err := json.Marshal(result)
	if err == nil {
		fmt.Println(string(text))
	}
	return err
}

func (d *driver) race(threads int, secs float64, oneName bool, hold time.Duration) error {
	r := &race{driver: d, oneName: oneName, hold: hold, workers: make([]worker, threads)}
	r.start()
	if err := d.awaitCue(); err != nil {
		return err
	}
	return answer(r.run(time.Duration(secs * float64(time.Second))))
}

const takers = 16

// Takes so many locks, each with a locker of its own, and counts at the end how many were lost.
func (d *driver) held(count int) error {
	lockers := make([]locker, count)
	var wait sync.WaitGroup
	for first := 0; first < takers; first++ {
		wait.Add(1)
		go func(first int) {
			defer wait.Done()
			for i := first; i < count; i += takers {
				lockers[i] = d.make()
				check(lockers[i].Acquire(context.Background(), "held/"+strconv.Itoa(i)))
			}
		}(first)
	}
	wait.Wait()
	if err := d.awaitCue(); err != nil {
		return err
	}
	lost := 0
	for _, l := range lockers {
		if r, ok := l.(renewing); !ok || r.Lost() {
			lost++
		}
	}
	return answer(map[string]int{"held": count, "lost": lost})
}

// What single calls cost, in nanoseconds; beside nobody's.
func (d *driver) calls() error {
	if perCall == nil {
		return fmt.Errorf("this program has no calls to measure")
	}
	if err := d.awaitCue(); err != nil {
		return err
	}
	costs, err := perCall()
	if err != nil {
		return err
	}
	return answer(costs)
}

func (d *driver) obey(words []string) error {
	number := func(i int) float64 {
		value, err := strconv.ParseFloat(words[i], 64)
		check(err)
		return value
	}
	switch words[0] {
	case "pairs":
		return d.race(int(number(1)), number(2), false, 0)
	case "one-name":
		hold := time.Duration(number(3) * float64(time.Millisecond))
		return d.race(int(number(1)), number(2), true, hold)
	case "held":
		return d.held(int(number(1)))
	case "calls":
		return d.calls()
	}
	return fmt.Errorf("no such command: %s", words[0])
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	ttl, err := strconv.Atoi(os.Args[4])
	check(err)
	base, err := strconv.Atoi(os.Args[5])
	check(err)
	shared, err := openPage(os.Args[3])
	check(err)
	lockers, err := open(os.Args[2], settings{
		address: "127.0.0.1:" + os.Args[1], ports: os.Args[1], ttl: time.Duration(ttl) * time.Millisecond})
	check(err)
	d := &driver{in: bufio.NewReader(os.Stdin), library: strings.ReplaceAll(os.Args[2], " ", "-"), page: shared, base: int64(base), make: lockers}
	for {
		line, err := d.in.ReadString('\n')
		if err != nil {
			return
		}
		check(d.obey(strings.Fields(line)))
	}
}
