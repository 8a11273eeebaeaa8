// A peer of libdlock's on etcd: takes locks with etcd's own package concurrency, as told line by
// line. What the lines are stands in ../../peers.py.
//
//	peer etcd://HOST:PORT,HOST:PORT TTL_MS
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// One owner of locks, with a session of its own: does what it is told in that order.
type slot struct {
	contender
	lines chan string
}

func (s *slot) run() {
	for line := range s.lines {
		text, err := s.obey(strings.Fields(line))
		if err == nil {
			fmt.Println(s.name, "ok", text)
		} else {
			fmt.Println(s.name, "error", strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}

func newSlot(name string, client *clientv3.Client, seconds int) (*slot, error) {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(seconds))
	s := &slot{lines: make(chan string, 16)}
	s.contender = contender{name: name, session: session}
	go s.run()
	return s, err
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: peer etcd://HOSTS TTL_MS")
		os.Exit(64)
	}
	ms, _ := strconv.Atoi(os.Args[2])
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   strings.Split(strings.TrimPrefix(os.Args[1], "etcd://"), ","),
		DialTimeout: 30 * time.Second,
		Logger:      zap.NewNop(),
	})
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
			made, err := newSlot(name, client, (ms+999)/1000)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(70)
			}
			slots[name] = made
		}
		slots[name].lines <- line
	}
}
