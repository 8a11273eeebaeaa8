// A peer of libdlock's on Redis: takes locks with redsync, redislock and rueidislock, as told line
// by line. What the lines are stands in ../peers.py.
//
//	peer PORT,… TTL_MS
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

var errTaken = errors.New("taken")

// One owner of locks: does what it is told in that order, on a goroutine of its own.
type slot struct {
	contender
	lines  chan string
	mutex  sync.Mutex
	cancel context.CancelFunc // ends the command that runs
}

func (s *slot) run() {
	for line := range s.lines {
		ctx, cancel := context.WithCancel(context.Background())
		s.mutex.Lock()
		s.cancel = cancel
		s.mutex.Unlock()
		text, err := s.obey(ctx, strings.Fields(line))
		if err != nil && ctx.Err() != nil {
			err = ctx.Err() // not every library says it so that it can be recognized
		}
		cancel()
		switch {
		case err == nil:
			fmt.Println(s.name, "ok", text)
		case errors.Is(err, errTaken), errors.Is(err, context.Canceled):
			fmt.Println(s.name, "no")
		default:
			fmt.Println(s.name, "error", strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}

func (s *slot) tell(line string) {
	if line != "cancel" {
		s.lines <- line
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: peer PORT,… TTL_MS")
		os.Exit(64)
	}
	ttl, _ := strconv.Atoi(os.Args[2])
	libraries, err := open(strings.Split(os.Args[1], ","), time.Duration(ttl)*time.Millisecond)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(70)
	}
	fmt.Println("ready ok")
	slots := map[string]*slot{}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		name, line, _ := strings.Cut(in.Text(), " ")
		if slots[name] == nil {
			slots[name] = &slot{lines: make(chan string, 16)}
			slots[name].contender = contender{name: name, libraries: libraries}
			go slots[name].run()
		}
		slots[name].tell(line)
	}
}
