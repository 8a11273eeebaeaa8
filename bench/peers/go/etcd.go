//go:build go1.25

package main

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

type etcdLocker struct {
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func (l *etcdLocker) Acquire(ctx context.Context, name string) error {
	l.mutex = concurrency.NewMutex(l.session, name)
	return l.mutex.Lock(ctx)
}

func (l *etcdLocker) Release(ctx context.Context) error { return l.mutex.Unlock(ctx) }

func etcdClient(s settings) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{s.address}, Logger: zap.NewNop()})
}

func etcdSession(client *clientv3.Client, s settings) *concurrency.Session {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(s.ttl.Seconds())))
	check(err)
	return session
}

func init() {
	// A session of its own for each goroutine: two of one session don't exclude each other.
	newer["concurrency.mutex"] = func(s settings) (func() locker, error) {
		client, err := etcdClient(s)
		return func() locker { return &etcdLocker{session: etcdSession(client, s)} }, err
	}
	// For names that nobody else wants.
	newer["concurrency.mutex of one session"] = func(s settings) (func() locker, error) {
		client, err := etcdClient(s)
		if err != nil {
			return nil, err
		}
		session := etcdSession(client, s)
		return func() locker { return &etcdLocker{session: session} }, nil
	}
}
