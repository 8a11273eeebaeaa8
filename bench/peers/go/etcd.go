//go:build go1.25

package main

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// A session of its own for each goroutine: two of one session wouldn't exclude each other.
type etcdLocker struct {
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func (l *etcdLocker) Acquire(ctx context.Context, name string) error {
	l.mutex = concurrency.NewMutex(l.session, name)
	return l.mutex.Lock(ctx)
}

func (l *etcdLocker) Release(ctx context.Context) error { return l.mutex.Unlock(ctx) }

func init() {
	newer["concurrency.mutex"] = func(s settings) (func() locker, error) {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{s.address}, Logger: zap.NewNop()})
		return func() locker {
			session, err := concurrency.NewSession(client,
				concurrency.WithTTL(int(s.ttl.Seconds())))
			if err != nil {
				panic(err)
			}
			return &etcdLocker{session: session}
		}, err
	}
}
