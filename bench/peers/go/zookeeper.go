package main

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// One session for all goroutines, and a lock for each acquire, as its description does it.
type zkLocker struct {
	conn *zk.Conn
	lock *zk.Lock
}

func (l *zkLocker) Acquire(_ context.Context, name string) error {
	l.lock = zk.NewLock(l.conn, "/"+name, zk.WorldACL(zk.PermAll))
	return l.lock.Lock()
}

func (l *zkLocker) Release(context.Context) error { return l.lock.Unlock() }

type quiet struct{}

func (quiet) Printf(string, ...interface{}) {}

func init() {
	newer["go-zookeeper"] = func(s settings) (func() locker, error) {
		conn, _, err := zk.Connect([]string{s.address}, s.ttl, zk.WithLogger(quiet{}))
		return func() locker { return &zkLocker{conn: conn} }, err
	}
}
