package main

import (
	"context"
	"math"
	"os"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// The page on which every critical section leaves a mark, as bench.h has it.
type spot struct {
	inside, last, entries, overlaps int64
	_                               [4]int64
}

const spots = 1024

type page [spots]spot

func openPage(path string) (*page, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	memory, err := syscall.Mmap(int(file.Fd()), 0, int(unsafe.Sizeof(page{})),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*page)(unsafe.Pointer(&memory[0])), nil
}

// Says whether the holder before was somebody else.
func (s *spot) enter(who int64) bool {
	if atomic.SwapInt64(&s.inside, who) != 0 {
		atomic.AddInt64(&s.overlaps, 1)
	}
	last := atomic.LoadInt64(&s.last)
	atomic.StoreInt64(&s.last, who)
	atomic.StoreInt64(&s.entries, atomic.LoadInt64(&s.entries)+1)
	return last != who
}

func (s *spot) exit() {
	atomic.StoreInt64(&s.inside, 0)
}

const (
	starting = iota
	warming
	measured
	over
)

type worker struct {
	done, changes atomic.Int64
	waits         []time.Duration
	_             [8]int64 // so that no two workers count in one cache line
}

// So many workers that take and release: each a name of its own, or all the same one.
type race struct {
	*driver
	oneName bool
	hold    time.Duration
	workers []worker
	phase   atomic.Int32
	ready   sync.WaitGroup
	ended   sync.WaitGroup
	began   chan struct{}
}

func (r *race) start() {
	r.began = make(chan struct{})
	r.ready.Add(len(r.workers))
	r.ended.Add(len(r.workers))
	for i := range r.workers {
		go r.work(i)
	}
	r.ready.Wait()
}

func (r *race) work(number int) {
	defer r.ended.Done()
	ctx, me, l := context.Background(), &r.workers[number], r.make()
	// A library's own: what one keeps, another would find with a layout that it doesn't know.
	name := "peer/" + r.library + "/" + strconv.Itoa(number)
	at, who := &r.page[number], r.base+int64(number)+1
	if r.oneName {
		name, at = "bench/0", &r.page[0]
	} else {
		check(l.Acquire(ctx, name)) // so that the connection is there
		check(l.Release(ctx))
	}
	r.ready.Done()
	<-r.began
	for r.phase.Load() != over {
		from := time.Now()
		check(l.Acquire(ctx, name))
		changed := at.enter(who)
		if r.oneName {
			me.took(time.Since(from), changed, r.phase.Load())
			time.Sleep(r.hold)
		}
		at.exit()
		check(l.Release(ctx))
		me.done.Add(1)
	}
}

func (w *worker) took(waited time.Duration, changed bool, phase int32) {
	if phase != warming {
		w.waits = append(w.waits, waited)
	}
	if changed {
		w.changes.Add(1)
	}
}

type result struct {
	Rate       float64 `json:"rate"`
	Secs       float64 `json:"secs"`
	Done       int64   `json:"done"`
	Total      int64   `json:"total"`
	Grants     int64   `json:"grants"`
	GrantsRate float64 `json:"grants_rate"`
	Changes    int64   `json:"changes"`
	Least      int64   `json:"least"`
	Most       int64   `json:"most"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	Max        float64 `json:"max_us"`
}

func (r *race) counts() (done []int64, changes int64) {
	for i := range r.workers {
		done = append(done, r.workers[i].done.Load())
		changes += r.workers[i].changes.Load()
	}
	return done, changes
}

func (r *race) run(duration time.Duration) result {
	r.phase.Store(warming)
	close(r.began)
	time.Sleep(duration / 10)
	r.phase.Store(measured)
	before, changesBefore := r.counts()
	from := time.Now()
	time.Sleep(duration)
	after, changesAfter := r.counts()
	secs := time.Since(from).Seconds()
	r.phase.Store(over)
	r.ended.Wait()
	final, finalChanges := r.counts()
	ret := result{Secs: secs, Changes: changesAfter - changesBefore, Least: math.MaxInt64}
	grants := int64(0)
	for i := range after {
		each := after[i] - before[i]
		grants += each
		ret.Grants += final[i]
		if each < ret.Least {
			ret.Least = each
		}
		if each > ret.Most {
			ret.Most = each
		}
	}
	ret.Done, ret.Total, ret.GrantsRate = grants, ret.Grants, float64(grants)/secs
	if r.oneName {
		ret.Done, ret.Total = ret.Changes, finalChanges
	}
	ret.Rate = float64(ret.Done) / secs
	ret.P50, ret.P99, ret.Max = r.waits()
	return ret
}

// Percentiles of all waits, in microseconds.
func (r *race) waits() (p50, p99, most float64) {
	var all []time.Duration
	for i := range r.workers {
		all = append(all, r.workers[i].waits...)
	}
	if len(all) == 0 {
		return 0, 0, 0
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	at := func(part float64) float64 {
		return float64(all[int(part*float64(len(all)-1))].Nanoseconds()) / 1000
	}
	return at(0.5), at(0.99), at(1)
}
