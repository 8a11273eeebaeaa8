// Linearizable asks Porcupine whether what clients noted can be the work of a mutex with owners,
// fencing tokens and grants that may end unseen, in front of a resource that refuses old tokens.
//
//	linearizable [-timeout 10s] DIRECTORY
//
// One line of JSON: for each backend how many pieces of history were fine, were not, or couldn't
// be decided in time. Anything but fine is exit code 1.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

var (
	timeout = flag.Duration("timeout", 20*time.Second, "for one piece of history")
	size    = flag.Int("grants", 200, "of one piece")
	shared  = flag.Int("shared", 40, "grants that a piece shares with the one before")
	jobs    = flag.Int("jobs", runtime.NumCPU(), "pieces at once")
)

// Counts of pieces by verdict, and of grants and operations.
type tally map[string]int

type judge struct {
	dir   string
	mutex sync.Mutex
	sums  map[string]tally
}

var names = map[porcupine.CheckResult]string{
	porcupine.Ok: "ok", porcupine.Illegal: "illegal", porcupine.Unknown: "unknown",
}

func (j *judge) add(backend, key string, count int) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.sums[backend] == nil {
		j.sums[backend] = tally{}
	}
	j.sums[backend][key] += count
}

// A picture of what can't be put in order helps more than a word.
func (j *judge) draw(history []porcupine.Operation, lock uint16, number int) {
	_, info := porcupine.CheckOperationsVerbose(lockModel, history, *timeout)
	path := filepath.Join(j.dir, fmt.Sprintf("lock-%d-piece-%d.html", lock, number))
	if err := porcupine.VisualizePath(lockModel, info, path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Fprintf(os.Stderr, "can't be put in order, see %s\n", path)
}

func (j *judge) piece(stays []*stay, lock uint16, number int) {
	history := operations(stays)
	verdict := porcupine.CheckOperationsTimeout(lockModel, history, *timeout)
	name := stays[0].worker.backend.name
	j.add(name, names[verdict], 1)
	j.add(name, "operations", len(history))
	if verdict == porcupine.Illegal {
		j.draw(history, lock, number)
	}
}

func (j *judge) run(locks map[uint16][]*stay) {
	var all sync.WaitGroup
	turn := make(chan struct{}, *jobs)
	for lock, stays := range locks {
		j.add(stays[0].worker.backend.name, "grants", len(stays))
		for number, piece := range pieces(stays, *size, *shared) {
			all.Add(1)
			turn <- struct{}{}
			go func(piece []*stay, lock uint16, number int) {
				defer all.Done()
				j.piece(piece, lock, number)
				<-turn
			}(piece, lock, number)
		}
	}
	all.Wait()
}

func (j *judge) fine() bool {
	pieces := 0
	for _, sums := range j.sums {
		if sums["illegal"]+sums["unknown"] > 0 {
			return false
		}
		pieces += sums["ok"]
	}
	return pieces > 0
}

func main() {
	flag.Parse()
	if flag.NArg() != 1 || *size <= *shared {
		flag.Usage()
		os.Exit(64)
	}
	r, err := readRun(flag.Arg(0))
	if err == nil {
		var locks map[uint16][]*stay
		if locks, err = r.locks(); err == nil {
			j := &judge{dir: flag.Arg(0), sums: map[string]tally{}}
			j.run(locks)
			_ = json.NewEncoder(os.Stdout).Encode(j.sums)
			if !j.fine() {
				os.Exit(1)
			}
			return
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(66)
}
