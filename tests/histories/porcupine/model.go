package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// What one step of a history is, as a lock and its fenced resource see it.
type deed int

const (
	grant   deed = iota // acquire was answered with a token
	check               // the client was told that it still holds
	release             // the client was told that its release is done
	expire              // the end of a grant whose release nobody confirmed, some time or other
	look                // the resource was read
	write               // and written
)

// One operation; token and owner say whose.
type step struct {
	deed     deed
	owner    uint64
	token    int64
	rank     int   // of a grant, by its token
	side     int   // of the resource: page or server
	value    int64 // what was read; a write makes one more of it
	sequence int64 // how many writes the resource had accepted then
}

// The state of one lock. Its resource is two registers, each of which refuses smaller tokens.
type state struct {
	owner uint64 // 0: free
	last  int64  // token of the last grant
	rank  int    // and how many came before
	sides [2]register
}

type register struct {
	fence    int64
	known    bool // false until something of it was seen
	value    int64
	sequence int64
}

func (r register) visit(s step) (bool, register) {
	if s.token < r.fence || r.known && s.sequence < r.sequence {
		return false, r
	}
	before := s.sequence
	if s.deed == write {
		before--
	}
	// A worker may be killed after its write and before it could note it: then the count jumps,
	// and nothing is known of the value.
	if r.known && before == r.sequence && s.value != r.value {
		return false, r
	}
	if r.known && before < r.sequence {
		return false, r
	}
	after := register{fence: s.token, known: true, value: s.value, sequence: s.sequence}
	if s.deed == write {
		after.value++
	}
	return true, after
}

func apply(now state, s step) (bool, state) {
	switch s.deed {
	case grant:
		// All grants of the history have to find their places, so that of the next larger token
		// is the only one that may come next. That says no more than rising tokens do, but spares
		// Porcupine the search.
		if now.owner != 0 || s.token <= now.last || s.rank != now.rank+1 {
			return false, now
		}
		now.owner, now.last, now.rank = s.owner, s.token, s.rank
	case check:
		return now.owner == s.owner, now
	case release, expire: // each grant has exactly one of them, and nothing else ends it
		if now.owner != s.owner {
			return false, now
		}
		now.owner = 0
	case look, write:
		fine, after := now.sides[s.side].visit(s)
		now.sides[s.side] = after
		return fine, now
	}
	return true, now
}

func (s step) String() string {
	name := [...]string{"grant", "check", "release", "expire", "look", "write"}[s.deed]
	text := fmt.Sprintf("%s %d/%d", name, s.owner>>40, s.owner&0xffffffffff)
	switch s.deed {
	case grant:
		return fmt.Sprintf("%s token %d", text, s.token)
	case look, write:
		return fmt.Sprintf("%s token %d side %d saw %d, write %d", text, s.token, s.side, s.value,
			s.sequence)
	}
	return text
}

// The model that histories of one lock are held against: a mutex with owner and token, whose
// grants may end unseen, and the resource it guards.
var lockModel = porcupine.Model{
	Init: func() interface{} { return state{} },
	Step: func(now, input, _ interface{}) (bool, interface{}) {
		fine, after := apply(now.(state), input.(step))
		return fine, after
	},
	Equal:             func(a, b interface{}) bool { return a.(state) == b.(state) },
	DescribeOperation: func(input, _ interface{}) string { return input.(step).String() },
	DescribeState:     func(s interface{}) string { return fmt.Sprintf("%+v", s) },
}
