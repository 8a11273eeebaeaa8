package main

import (
	"sort"

	"github.com/anishathalye/porcupine"
)

// How much later than a lease its end may come: requests that were held back in the network, and
// the time until somebody looks.
const grace = 10 * second

// One grant and all that was done with it.
type stay struct {
	worker    *worker
	op        uint64
	lock      uint16
	asked     int64
	granted   int64
	token     int64
	until     int64 // the last deadline that was known
	leave     int64
	left      int64
	confirmed bool // the release was OK
	lost      bool
	visits    []record
	checks    []record
}

func (s *stay) add(r record) {
	switch r.event {
	case still:
		s.lost = s.lost || r.code != codeOK
		if r.code == codeOK {
			s.checks = append(s.checks, r)
			s.until = max(s.until, r.value)
		}
	case looked, wrote:
		if r.code == codeAccepted {
			s.visits = append(s.visits, r)
		}
	case leave:
		s.leave = r.time
	case left:
		s.left, s.confirmed = r.time, r.code == codeOK
	}
}

func max(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

func min(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

// The grants of one worker. An acquire that got nothing is no step: the model needs none.
func staysOf(w *worker, records []record) []*stay {
	asked := map[uint64]int64{}
	stays := map[uint64]*stay{}
	var all []*stay
	sort.SliceStable(records, func(i, j int) bool { return records[i].time < records[j].time })
	for _, r := range records {
		switch {
		case r.event == ask:
			asked[r.op] = r.time
		case r.event == answer && r.code == codeOK:
			s := &stay{worker: w, op: r.op, lock: r.lock, asked: asked[r.op], granted: r.time,
				token: r.token, until: r.value}
			stays[r.op] = s
			all = append(all, s)
		case stays[r.op] != nil:
			stays[r.op].add(r)
		}
	}
	return all
}

// When the service may have forgotten this grant, between two times; 0: it hadn't any reason to.
func (s *stay) forgotten(from, until int64) int64 {
	for _, loss := range s.worker.backend.loses {
		if loss.from <= until && loss.until >= from {
			return max(loss.from, from)
		}
	}
	return 0
}

// The last moment in which anything of it can have happened.
func (s *stay) last() int64 {
	if s.left != 0 {
		return s.left
	}
	return s.worker.died
}

// The end of the grant at the service: confirmed by an answer, or some time between the first
// moment in which it was possible and the last.
func (s *stay) end() (deed, int64, int64) {
	forgotten := s.forgotten(s.asked, s.last())
	if s.confirmed && forgotten == 0 {
		return release, s.leave, s.left
	}
	from := s.until
	if s.leave != 0 {
		from = min(from, s.leave)
	}
	if s.leave == 0 || s.lost {
		// Killed: some services see that at once, and it was after all that was noted.
		from = min(from, s.lastNoted())
	}
	if forgotten != 0 {
		from = min(from, forgotten)
	}
	if s.until <= s.granted {
		// Nothing was left of it when it was told, as when its process stood still between the
		// answer and the telling: it had ended before.
		from = s.asked
	}
	return expire, max(from, s.asked), max(s.last(), s.until) + s.worker.backend.ttl + grace
}

func (s *stay) lastNoted() int64 {
	at := s.granted
	for _, r := range s.checks {
		at = max(at, r.extra)
	}
	for _, r := range s.visits {
		at = max(at, r.time)
	}
	return at
}

func (s *stay) operations(rank int) []porcupine.Operation {
	var all []porcupine.Operation
	add := func(call, back int64, what step) {
		what.owner = s.op
		all = append(all, porcupine.Operation{ClientId: rank, Input: what, Call: call, Return: back})
	}
	add(s.asked, s.granted, step{deed: grant, token: s.token, rank: rank})
	for _, r := range s.checks {
		if s.forgotten(s.asked, r.extra) == 0 {
			add(r.time, r.extra, step{deed: check})
		}
	}
	for _, r := range s.visits {
		what := step{deed: look, token: s.token, side: int(r.side), value: r.value, sequence: r.sequence}
		if r.event == wrote {
			what.deed = write
		}
		add(r.extra, r.time, what)
	}
	how, from, until := s.end()
	add(from, until, step{deed: how})
	return all
}

// The grants of each lock, in the order of their tokens.
func (r *run) locks() (map[uint16][]*stay, error) {
	locks := map[uint16][]*stay{}
	for _, w := range r.workers {
		records, err := r.records(w)
		if err != nil {
			return nil, err
		}
		for _, s := range staysOf(w, records) {
			locks[s.lock] = append(locks[s.lock], s)
		}
	}
	for _, stays := range locks {
		sort.Slice(stays, func(i, j int) bool { return stays[i].token < stays[j].token })
	}
	return locks, nil
}

// A history of one lock is cut into pieces of so many grants, neighbours in the order of tokens,
// each of which begins with the last grants of the one before. That loses little and accuses
// nobody wrongly: take a grant and all that was done with it out of a history that can be put in
// an order, and the rest still can.
func pieces(stays []*stay, size, shared int) [][]*stay {
	var all [][]*stay
	for at := 0; at < len(stays); at += size - shared {
		end := at + size
		if end >= len(stays) {
			return append(all, stays[at:])
		}
		all = append(all, stays[at:end])
	}
	return all
}

func operations(stays []*stay) []porcupine.Operation {
	var all []porcupine.Operation
	for i, s := range stays {
		all = append(all, s.operations(i+1)...)
	}
	return all
}
