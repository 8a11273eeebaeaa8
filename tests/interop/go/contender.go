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
)

const patience = 120 * time.Second

// What one owner does: a command in, the answer out.
type contender struct {
	name      string
	libraries *libraries
	holds     []hold
}

func milliseconds(text string) time.Duration {
	n, _ := strconv.Atoi(text)
	return time.Duration(n) * time.Millisecond
}

func (c *contender) obey(ctx context.Context, words []string) (string, error) {
	switch {
	case len(words) == 5 && words[0] == "take":
		err := c.take(ctx, words[1], words[2], milliseconds(words[3]), milliseconds(words[4]))
		return strconv.FormatInt(c.token(), 10) + " -", err
	case len(words) == 1 && words[0] == "release":
		return "", c.release(ctx)
	case len(words) == 6 && words[0] == "contend":
		return c.contend(ctx, words[1], words[2], milliseconds(words[3]), words[4],
			milliseconds(words[5]))
	}
	return "", fmt.Errorf("no such command: %q", words)
}

// Asks again every 20 ms, more or less, until it has it or the wait is over.
func (c *contender) take(ctx context.Context, kind, name string, ttl, wait time.Duration) error {
	end := time.Now().Add(wait)
	for {
		held, err := c.libraries.try(ctx, kind, name, ttl)
		if err == nil {
			c.holds = append(c.holds, held)
		}
		if !errors.Is(err, errTaken) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(10+rand.Intn(20)) * time.Millisecond):
		}
	}
}

func (c *contender) release(ctx context.Context) error {
	if len(c.holds) == 0 {
		return errors.New("holds nothing")
	}
	last := len(c.holds) - 1
	held := c.holds[last]
	c.holds = c.holds[:last]
	return held.release(ctx)
}

// Takes the kinds in turn until the time is over, and at least once; notes each entry.
func (c *contender) contend(ctx context.Context, list, name string, ttl time.Duration, path string,
	length time.Duration) (string, error) {
	kinds, rounds := strings.Split(list, ","), 0
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer log.Close()
	for end := time.Now().Add(length); rounds == 0 || time.Now().Before(end); rounds++ {
		kind := kinds[rounds%len(kinds)]
		if err = c.note(log, "?", kind); err != nil {
			return "", err
		}
		if err = c.take(ctx, kind, name, ttl, patience); err != nil {
			return "", err
		}
		if err = c.stay(log, kind); err == nil {
			err = c.release(ctx)
		}
		if err != nil {
			return "", err
		}
		time.Sleep(time.Duration(rand.Intn(3)) * time.Millisecond)
	}
	return strconv.Itoa(rounds), nil
}

func (c *contender) stay(log *os.File, kind string) error {
	if err := c.note(log, "+", kind); err != nil {
		return err
	}
	time.Sleep(time.Duration(rand.Intn(3)) * time.Millisecond)
	return c.note(log, "-", kind)
}

// That of what was taken last, 0 when there is none.
func (c *contender) token() int64 {
	if len(c.holds) > 0 {
		if held, ok := c.holds[len(c.holds)-1].(fenced); ok {
			return held.token()
		}
	}
	return 0
}

// One write to a file opened for appending: the lines of all contenders have one order.
func (c *contender) note(log *os.File, what, kind string) error {
	_, err := fmt.Fprintf(log, "%s %s %s %d %d\n", what, c.name, kind, c.token(), time.Now().UnixMilli())
	return err
}
