package main

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// What one owner does: a command in, the answer out. The library has one kind of lock, and no wait
// that ends.
type contender struct {
	name  string
	conn  *zk.Conn
	holds []*zk.Lock
}

func (c *contender) obey(words []string) (string, error) {
	switch {
	case len(words) >= 5 && words[0] == "take":
		token, err := c.take(words[2])
		return token + " -", err
	case len(words) == 1 && words[0] == "release":
		return "", c.release()
	case len(words) == 3 && words[0] == "who":
		children, _, err := c.conn.Children(words[2])
		return strings.Join(children, " "), err
	case len(words) == 6 && words[0] == "contend":
		ms, err := strconv.Atoi(words[5])
		if err != nil {
			return "", err
		}
		return c.contend(words[1], words[2], words[4], time.Duration(ms)*time.Millisecond)
	}
	return "", fmt.Errorf("no such command: %q", words)
}

// The token: when the node was created, in the server's transactions. The library doesn't tell its
// node, but who holds the lock has the first.
func (c *contender) take(path string) (string, error) {
	lock := zk.NewLock(c.conn, path, zk.WorldACL(zk.PermAll))
	if err := lock.Lock(); err != nil {
		return "", err
	}
	c.holds = append(c.holds, lock)
	token, err := c.token(path)
	return strconv.FormatInt(token, 10), err
}

func (c *contender) token(path string) (int64, error) {
	children, _, err := c.conn.Children(path)
	first, lowest := "", ""
	for _, child := range children {
		digits := child[len(child)-10:]
		if first == "" || digits < lowest {
			first, lowest = child, digits
		}
	}
	if err != nil || first == "" {
		return 0, fmt.Errorf("nobody holds %s: %v", path, err)
	}
	_, stat, err := c.conn.Get(path + "/" + first)
	if err != nil {
		return 0, err
	}
	if stat.EphemeralOwner != c.conn.SessionID() {
		return 0, fmt.Errorf("%s is somebody else's", first)
	}
	return stat.Czxid, nil
}

func (c *contender) release() error {
	if len(c.holds) == 0 {
		return errors.New("holds nothing")
	}
	last := len(c.holds) - 1
	lock := c.holds[last]
	c.holds = c.holds[:last]
	return lock.Unlock()
}

// Takes the lock again and again until the time is over, and at least once; notes each entry.
func (c *contender) contend(kind, path, name string, length time.Duration) (string, error) {
	log, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer log.Close()
	rounds := 0
	for end := time.Now().Add(length); rounds == 0 || time.Now().Before(end); rounds++ {
		if err = c.once(log, kind, path); err != nil {
			return "", err
		}
		time.Sleep(time.Duration(rand.Intn(3)) * time.Millisecond)
	}
	return strconv.Itoa(rounds), nil
}

func (c *contender) once(log *os.File, kind, path string) error {
	if err := c.note(log, "?", kind, "0"); err != nil {
		return err
	}
	token, err := c.take(path)
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
