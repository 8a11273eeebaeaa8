package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Something to give back.
type hold interface {
	release(ctx context.Context) error
}

// One that has a token.
type fenced interface{ token() int64 }

// Kinds that not every build has, by their names: they try once.
var more = map[string]func(ctx context.Context, name string, ttl time.Duration) (hold, error){}

type libraries struct {
	ttl     time.Duration // the lease of whoever names none
	redsync *redsync.Redsync
	bsm     *redislock.Client
	rueidis rueidislock.Locker
}

// With several ports redsync uses all of them, the others the first.
func open(ports []string, ttl time.Duration) (*libraries, error) {
	address := "127.0.0.1:" + ports[0]
	client := redis.NewClient(&redis.Options{Addr: address})
	pools := []syncredis.Pool{goredis.NewPool(client)}
	for _, port := range ports[1:] {
		pools = append(pools, goredis.NewPool(redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})))
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{address}},
		KeyValidity:  ttl,
		TryNextAfter: time.Second, // 20 ms for an answer is too little where many share a core
	})
	return &libraries{
		ttl:     ttl,
		redsync: redsync.New(pools...),
		bsm:     redislock.New(client),
		rueidis: locker,
	}, err
}

// Tries once; errTaken when somebody has it.
func (l *libraries) try(ctx context.Context, kind, name string, ttl time.Duration) (hold, error) {
	if ttl == 0 {
		ttl = l.ttl
	}
	switch kind {
	case "redsync":
		return l.trySync(ctx, name, ttl)
	case "redislock":
		return l.tryBsm(ctx, name, ttl)
	case "rueidis":
		return l.tryRueidis(ctx, name)
	}
	if try, ok := more[kind]; ok {
		return try(ctx, name, ttl)
	}
	return nil, fmt.Errorf("no such kind: %s", kind)
}

type syncHold struct{ mutex *redsync.Mutex }

func (l *libraries) trySync(ctx context.Context, name string, ttl time.Duration) (hold, error) {
	mutex := l.redsync.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1))
	err := mutex.LockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		err = errTaken
	}
	return syncHold{mutex}, err
}

func (h syncHold) release(ctx context.Context) error {
	released, err := h.mutex.UnlockContext(ctx)
	if err == nil && !released {
		return errors.New("not released")
	}
	return err
}

type bsmHold struct{ lock *redislock.Lock }

func (l *libraries) tryBsm(ctx context.Context, name string, ttl time.Duration) (hold, error) {
	lock, err := l.bsm.Obtain(ctx, name, ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		err = errTaken
	}
	return bsmHold{lock}, err
}

func (h bsmHold) release(ctx context.Context) error {
	return h.lock.Release(ctx)
}

// Its lease is the locker's and renewed; its release says nothing of what became of it.
type rueidisHold struct {
	held   context.Context
	cancel context.CancelFunc
}

func (l *libraries) tryRueidis(ctx context.Context, name string) (hold, error) {
	held, cancel, err := l.rueidis.TryWithContext(context.Background(), name)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		err = errTaken
	}
	return rueidisHold{held, cancel}, err
}

func (h rueidisHold) release(context.Context) error {
	lost := h.held.Err()
	h.cancel()
	return lost
}
