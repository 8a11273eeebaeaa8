//go:build dlock

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

// Our own binding, as its users use it: a handle for each name, and a hold.
type dlockLocker struct {
	client *dlock.Client
	name   string
	mutex  *dlock.Mutex
	hold   *dlock.Hold
}

func (l *dlockLocker) Acquire(ctx context.Context, name string) (err error) {
	if l.mutex == nil || l.name != name {
		l.mutex, l.name = l.client.Mutex(name), name
	}
	l.hold, err = l.mutex.Lock(ctx)
	return err
}

func (l *dlockLocker) Release(ctx context.Context) error { return l.hold.Release(ctx) }

func (l *dlockLocker) Lost() bool { return l.hold.Check() != nil }

func init() {
	for name, query := range map[string]string{"string": "redis.layout=string",
		"redisson": "redis.layout=redisson", "redisson kept": "redis.layout=redisson&lock.keep_ms=600000",
		"rueidis": "redis.layout=rueidis&redis.rueidis_majority=1"} {
		newer["go-"+name] = func(s settings) (func() locker, error) {
			client, err := dlock.Open(context.Background(), fmt.Sprintf("redis://%s?%s", s.address, query),
				dlock.WithTTL(s.ttl))
			return func() locker { return &dlockLocker{client: client} }, err
		}
	}
	perCall = callCosts
}

// What a call costs that does nothing in C but to look, and a pair on a lock in memory.
func callCosts() (map[string]float64, error) {
	ctx := context.Background()
	client, err := dlock.Open(ctx, "mem:")
	if err != nil {
		return nil, err
	}
	defer client.Close()
	mutex := client.Mutex("cgo")
	hold, err := mutex.Lock(ctx)
	if err != nil {
		return nil, err
	}
	costs := map[string]float64{
		"version_ns":   each(1_000_000, func() { _ = strings.Clone(dlock.Version()) }),
		"remaining_ns": each(1_000_000, func() { _ = hold.Remaining() }),
		"check_ns":     each(1_000_000, func() { _ = hold.Check() }),
	}
	if err := hold.Release(ctx); err != nil {
		return nil, err
	}
	costs["mem_pair_ns"] = each(200_000, func() {
		if hold, err = mutex.Lock(ctx); err == nil {
			err = hold.Release(ctx)
		}
		check(err)
	})
	return costs, nil
}

func each(count int, call func()) float64 {
	call()
	from := time.Now()
	for range count {
		call()
	}
	return float64(time.Since(from).Nanoseconds()) / float64(count)
}
