// One member of the matrix, with libdlock's Go package: it does what it is told on standard input, a line
// at a time, and answers each with a line. matrix.py says what the words mean.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

const limit = 30 * time.Second

type member struct {
	client *dlock.Client
	holds  map[string]*dlock.Hold
	woken  chan outcome
}

// What has become of a wait for a signal.
type outcome struct {
	hold      *dlock.Hold
	signalled bool
	err       error
}

var background = context.Background()

// What the locks of all kinds have in common.
type lock interface {
	dlock.Lockable
	Lock(ctx context.Context) (*dlock.Hold, error)
	TryLock(ctx context.Context) (*dlock.Hold, error)
	Inspect(ctx context.Context) (dlock.Inspection, error)
	Revoke(ctx context.Context) error
}

func (m *member) lock(kind, name string) lock {
	switch kind {
	case "in-order":
		return m.client.Mutex(name, dlock.WithFair())
	case "read":
		return m.client.RWMutex(name).Reader().(lock)
	case "write":
		return m.client.RWMutex(name)
	case "semaphore":
		return m.client.Semaphore(name, 2)
	case "election":
		return m.client.Election(name, "member")
	case "several":
		return m.client.Multi(m.client.Mutex(name), m.client.Mutex(name+"-2"))
	}
	return m.client.Mutex(name)
}

func (m *member) take(slot, kind, name, waitMs string) (string, error) {
	ms, err := strconv.Atoi(waitMs)
	if err != nil {
		return "", err
	}
	acquire := m.lock(kind, name).TryLock
	ctx := background
	if ms > 0 {
		acquire = m.lock(kind, name).Lock
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
		defer cancel()
	}
	m.holds[slot], err = acquire(ctx)
	return "held", err
}

func (m *member) leave(kind, name string) (string, error) {
	hold, err := m.lock(kind, name).TryLock(background)
	if err != nil {
		return "", err
	}
	ticket, err := hold.Export()
	if err != nil {
		return "", errors.Join(err, hold.Release(background))
	}
	return "ticket " + ticket, nil
}

func (m *member) hear(slot string) (string, error) {
	select {
	case <-m.holds[slot].Revoked():
		return "heard", nil
	case <-time.After(limit):
		return "", errors.New("nobody asked")
	}
}

// It answers at once: whoever is to signal may be in this process, too.
func (m *member) wait(slot, name string) (string, error) {
	m.woken = make(chan outcome, 1)
	go func() {
		again, signalled, err := m.client.Cond(name).WaitFor(background, m.holds[slot], limit)
		m.woken <- outcome{again, signalled, err}
	}()
	return "waits", nil
}

func (m *member) endWait(slot string) (string, error) {
	got := <-m.woken
	if got.hold != nil {
		m.holds[slot] = got.hold
	}
	if got.err == nil && !got.signalled {
		return "busy", nil
	}
	return "woken", got.err
}

func (m *member) inspect(kind, name string) (string, error) {
	seen, err := m.lock(kind, name).Inspect(background)
	if len(seen.Holders) == 0 {
		return "free", err
	}
	return "taken", err
}

func (m *member) obey(what, slot string, words []string) (string, error) {
	switch what {
	case "open":
		var err error
		m.client, err = dlock.Open(background, words[0])
		return "open", err
	case "close":
		return "closed", m.client.Close()
	case "take":
		return m.take(slot, words[0], words[1], words[2])
	case "give":
		return "given", m.holds[slot].Release(background)
	case "leave":
		return m.leave(words[0], words[1])
	case "import":
		var err error
		m.holds[slot], err = m.client.Import(background, words[0])
		return "held", err
	case "listen":
		_ = m.holds[slot].Revoked()
		return "listens", nil
	case "hear":
		return m.hear(slot)
	case "revoke":
		return "asked", m.lock(words[0], words[1]).Revoke(background)
	case "wait":
		return m.wait(slot, words[0])
	case "woken":
		return m.endWait(slot)
	case "signal":
		count, err := m.client.Cond(words[0]).Signal(background, nil, 1)
		return fmt.Sprintf("signalled %d", count), err
	case "inspect":
		return m.inspect(words[0], words[1])
	}
	return "", errors.New("what is that?")
}

func answer(said string, err error) string {
	switch {
	case err == nil:
		return said
	case errors.Is(err, dlock.ErrUnsupported):
		return "no " + err.Error()
	case errors.Is(err, dlock.ErrNotObtained):
		return "busy"
	}
	return "failed " + err.Error()
}

func main() {
	members := map[string]*member{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		m := members[words[1]]
		if m == nil {
			m = &member{holds: map[string]*dlock.Hold{}}
			members[words[1]] = m
		}
		said := answer(m.obey(words[0], words[2], words[3:]))
		fmt.Println(strings.ReplaceAll(said, "\n", " "))
	}
}
