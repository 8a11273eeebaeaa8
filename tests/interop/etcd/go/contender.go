package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// What one owner does: a command in, the answer out.
type contender struct {
	name    string
	session *concurrency.Session
	holds   []hold
}

// A lock that is held, and its key.
type hold struct {
	release func(context.Context) error
	key     string
}

func (c *contender) obey(words []string) (string, error) {
	switch {
	case len(words) >= 5 && words[0] == "take":
		token, err := c.take(words[1], words[2])
		return token + " -", err
	case len(words) == 1 && words[0] == "release":
		return "", c.release()
	case len(words) == 1 && words[0] == "check":
		return "", c.check()
	case len(words) == 6 && words[0] == "contend":
		ms, err := strconv.Atoi(words[5])
		if err != nil {
			return "", err
		}
		return c.contend(words[1], words[2], words[4], time.Duration(ms)*time.Millisecond)
	}
	return "", fmt.Errorf("no such command: %q", words)
}

// The token, as the package has it: of an election the revision of its key, of a mutex that of the
// answer by which it was granted, which etcdctl hands on as ETCD_LOCK_REV.
func (c *contender) take(kind, name string) (string, error) {
	ctx := context.Background()
	if kind == "election" {
		election := concurrency.NewElection(c.session, name)
		if err := election.Campaign(ctx, c.name); err != nil {
			return "", err
		}
		c.holds = append(c.holds, hold{election.Resign, election.Key()})
		return strconv.FormatInt(election.Rev(), 10), nil
	}
	mutex := concurrency.NewMutex(c.session, name)
	if err := mutex.Lock(ctx); err != nil {
		return "", err
	}
	c.holds = append(c.holds, hold{mutex.Unlock, mutex.Key()})
	return strconv.FormatInt(mutex.Header().Revision, 10), nil
}

// Whether the key of the newest one is still there.
func (c *contender) check() error {
	if len(c.holds) == 0 {
		return errors.New("holds nothing")
	}
	key := c.holds[len(c.holds)-1].key
	found, err := c.session.Client().Get(context.Background(), key, clientv3.WithCountOnly())
	if err == nil && found.Count == 0 {
		err = fmt.Errorf("%s is gone", key)
	}
	return err
}

// A request that a dying member has cut off is made again: deleting twice is no harm.
func (c *contender) release() error {
	if len(c.holds) == 0 {
		return errors.New("holds nothing")
	}
	last := len(c.holds) - 1
	held := c.holds[last]
	c.holds = c.holds[:last]
	err := held.release(context.Background())
	for try := 0; err != nil && try < 100; try++ {
		time.Sleep(100 * time.Millisecond)
		_, err = c.session.Client().Delete(context.Background(), held.key)
	}
	return err
}

// Takes the lock again and again until the time is over, and at least once; notes each entry.
func (c *contender) contend(kinds, path, name string, length time.Duration) (string, error) {
	log, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer log.Close()
	kind := strings.Split(kinds, ",")
	rounds := 0
	for end := time.Now().Add(length); rounds == 0 || time.Now().Before(end); rounds++ {
		if err = c.once(log, kind[rounds%len(kind)], path); err != nil {
			return "", err
		}
		time.Sleep(time.Duration(rand.Intn(3)) * time.Millisecond)
	}
	return strconv.Itoa(rounds), nil
}

// Takes it; a request that a dying member has cut off is made again, behind a release of whatever
// it may have done.
func (c *contender) patiently(kind, path string) (string, error) {
	token, err := c.take(kind, path)
	for try := 0; err != nil && try < 100; try++ {
		time.Sleep(100 * time.Millisecond)
		_, gone := c.session.Client().Delete(context.Background(),
			fmt.Sprintf("%s/%x", path, c.session.Lease()))
		if gone == nil {
			c.holds = nil
			token, err = c.take(kind, path)
		}
	}
	return token, err
}

func (c *contender) once(log *os.File, kind, path string) error {
	if err := c.note(log, "?", kind, "0"); err != nil {
		return err
	}
	token, err := c.patiently(kind, path)
	if err != nil {
		return err
	}
	if err = c.note(log, "+", kind, token); err != nil {
		return err
	}
	time.Sleep(time.Duration(rand.Intn(3)) * time.Millisecond)
	if err = c.note(log, "-", kind, "0"); err != nil {
		return err
	}
	return c.release()
}

// One write to a file opened for appending: the lines of all contenders have one order.
func (c *contender) note(log *os.File, what, kind, token string) error {
	_, err := fmt.Fprintf(log, "%s %s %s %s %d\n", what, c.name, kind, token,
		time.Now().UnixMilli())
	return err
}
