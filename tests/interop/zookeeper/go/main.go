// A peer of libdlock's on ZooKeeper: takes locks with go-zookeeper, as told line by line. What the
// lines are stands in ../../peers.py.
//
//	peer HOSTS SESSION_MS
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

type quiet struct{}

func (quiet) Printf(string, ...interface{}) {}

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

func newSlot(name string, hosts []string, session time.Duration) (*slot, error) {
	conn, _, err := zk.Connect(hosts, session, zk.WithLogger(quiet{}))
	s := &slot{lines: make(chan string, 16)}
	s.contender = contender{name: name, conn: conn}
	go s.run()
	return s, err
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: peer HOSTS SESSION_MS")
		os.Exit(64)
	}
	ms, _ := strconv.Atoi(os.Args[2])
	hosts, session := strings.Split(os.Args[1], ","), time.Duration(ms)*time.Millisecond
	fmt.Println("ready ok")
	slots := map[string]*slot{}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		name, line, _ := strings.Cut(in.Text(), " ")
		if slots[name] == nil {
			made, err := newSlot(name, hosts, session)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(70)
			}
			slots[name] = made
		}
		slots[name].lines <- line
	}
}
