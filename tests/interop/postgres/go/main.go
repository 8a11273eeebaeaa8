// A peer of libdlock's on PostgreSQL's advisory locks: takes them with lib/pq, as told line by line. What
// the lines are stands in ../../peers.py.
//
//	peer postgres://USER@HOST:PORT/DATABASE TTL_MS
//
// Each slot is a goroutine with a connection of its own; a lock has no lease.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"

	_ "github.com/lib/pq"
)

type hold struct {
	unlock string
	keys   []any
}

type slot struct {
	name  string
	conn  *sql.Conn
	lines chan string
	holds []hold
}

// What stands for the key, and which numbers or names that is of.
func keyOf(kind, name string) (string, []any) {
	word, _, _ := strings.Cut(kind, "-")
	switch {
	case word == "hashtext":
		return "hashtext($1)", []any{name}
	case word == "hashtextextended":
		return "hashtextextended($1, 0)", []any{name}
	case strings.Contains(name, ","):
		one, two, _ := strings.Cut(name, ",")
		return "$1::int, $2::int", []any{one, two}
	}
	return "$1::bigint", []any{name}
}

func (s *slot) take(kind, name string, wait bool) (bool, error) {
	key, keys := keyOf(kind, name)
	side := ""
	if strings.HasSuffix(kind, "-read") {
		side = "_shared"
	}
	held := hold{fmt.Sprintf("SELECT pg_advisory_unlock%s(%s)", side, key), keys}
	ctx := context.Background()
	if wait {
		_, err := s.conn.ExecContext(ctx, fmt.Sprintf("SELECT pg_advisory_lock%s(%s)", side, key), keys...)
		if err == nil {
			s.holds = append(s.holds, held)
		}
		return err == nil, err
	}
	got := false
	err := s.conn.QueryRowContext(ctx, fmt.Sprintf("SELECT pg_try_advisory_lock%s(%s)", side, key), keys...).
		Scan(&got)
	if got {
		s.holds = append(s.holds, held)
	}
	return got, err
}

func (s *slot) release() error {
	if len(s.holds) == 0 {
		return errors.New("holds nothing")
	}
	last := s.holds[len(s.holds)-1]
	s.holds = s.holds[:len(s.holds)-1]
	was := false
	err := s.conn.QueryRowContext(context.Background(), last.unlock, last.keys...).Scan(&was)
	if err == nil && !was {
		err = errors.New("it was not ours")
	}
	return err
}

// One write to a file opened for appending: the lines of all contenders have one order.
func (s *slot) note(log *os.File, what, kind string) error {
	_, err := fmt.Fprintf(log, "%s %s %s 0 %d\n", what, s.name, kind, time.Now().UnixMilli())
	return err
}

func (s *slot) once(log *os.File, kind, name string) error {
	if err := s.note(log, "?", kind); err != nil {
		return err
	}
	if _, err := s.take(kind, name, true); err != nil {
		return err
	}
	if err := s.note(log, "+", kind); err != nil {
		return err
	}
	time.Sleep(time.Duration(rand.Intn(3)) * time.Millisecond)
	if err := s.note(log, "-", kind); err != nil {
		return err
	}
	return s.release()
}

// Takes the kinds in turn until the time is over, and at least once; notes each entry.
func (s *slot) contend(kinds, name, path string, length time.Duration) (string, error) {
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer log.Close()
	kind := strings.Split(kinds, ",")
	rounds := 0
	for end := time.Now().Add(length); rounds == 0 || time.Now().Before(end); rounds++ {
		if err := s.once(log, kind[rounds%len(kind)], name); err != nil {
			return "", err
		}
		time.Sleep(time.Duration(rand.Intn(10)) * time.Millisecond)
	}
	return "ok " + strconv.Itoa(rounds), nil
}

func (s *slot) obey(words []string) (string, error) {
	switch {
	case len(words) >= 5 && words[0] == "take":
		got, err := s.take(words[1], words[2], words[4] != "0")
		if err == nil && !got {
			return "no", nil
		}
		return "ok 0 -", err
	case len(words) == 1 && words[0] == "release":
		return "ok", s.release()
	case len(words) == 6 && words[0] == "contend":
		ms, err := strconv.Atoi(words[5])
		if err != nil {
			return "", err
		}
		return s.contend(words[1], words[2], words[4], time.Duration(ms)*time.Millisecond)
	}
	return "", fmt.Errorf("no such command: %q", words)
}

func (s *slot) run() {
	for line := range s.lines {
		text, err := s.obey(strings.Fields(line))
		if err != nil {
			text = "error " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(s.name, text)
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: peer URL TTL_MS")
		os.Exit(64)
	}
	db, err := sql.Open("postgres", os.Args[1]+"?sslmode=disable")
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
			conn, err := db.Conn(context.Background())
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(70)
			}
			slots[name] = &slot{name: name, conn: conn, lines: make(chan string, 16)}
			go slots[name].run()
		}
		slots[name].lines <- line
	}
}
