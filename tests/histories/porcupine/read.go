package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The events of tests/histories/history.h.
const (
	ask    = 1
	answer = 2
	still  = 3
	looked = 4
	wrote  = 5
	leave  = 6
	left   = 7
)

const (
	magic      = 0x31747369486b6c64
	headSize   = 4096
	recordSize = 64
	second     = int64(1e9)
)

// Codes of dlock.h, and of the resource's answers.
const (
	codeOK       = 0
	codeAccepted = 0
)

type record struct {
	time     int64
	op       uint64
	token    int64
	value    int64
	extra    int64
	sequence int64
	lock     uint16
	event    uint8
	code     uint8
	side     uint8
}

// A time in which a service may have forgotten what it knew.
type span struct{ from, until int64 }

type backend struct {
	name  string
	ttl   int64
	loses []span
}

type worker struct {
	id      uint64
	backend *backend
	file    string
	died    int64 // 0: it ended in good order
	killed  bool
}

// A finished run: its log, and the histories that names.
type run struct {
	dir      string
	backends map[string]*backend
	workers  []*worker
	open     map[string]func(int64) // faults that last
}

func words(text string) (int64, []string, error) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return 0, nil, fmt.Errorf("too short")
	}
	time, err := strconv.ParseInt(fields[0], 10, 64)
	return time, fields[1:], err
}

func (r *run) addBackend(f []string) error {
	if len(f) < 3 {
		return fmt.Errorf("a backend needs name and ttl")
	}
	ttl, err := strconv.ParseInt(strings.TrimPrefix(f[2], "ttl_ms="), 10, 64)
	r.backends[f[1]] = &backend{name: f[1], ttl: ttl * 1e6}
	return err
}

func (r *run) addWorker(f []string) error {
	if len(f) < 4 || r.backends[f[2]] == nil {
		return fmt.Errorf("a worker needs number, backend and file")
	}
	id, err := strconv.ParseUint(f[1], 10, 64)
	r.workers = append(r.workers, &worker{id: id, backend: r.backends[f[2]], file: f[3]})
	return err
}

func (r *run) endWorker(time int64, f []string, killed bool) error {
	for _, w := range r.workers {
		if strconv.FormatUint(w.id, 10) == f[1] {
			w.died, w.killed = time, killed
			return nil
		}
	}
	return fmt.Errorf("no such worker")
}

func (r *run) beginFault(time int64, f []string) error {
	if len(f) < 5 {
		return fmt.Errorf("a fault needs number, backend, kind and harm")
	}
	b := r.backends[f[2]]
	if b == nil || f[4] != "lose" && f[4] != "wipe" {
		return nil
	}
	at := len(b.loses)
	b.loses = append(b.loses, span{time, 1 << 62})
	r.open[f[1]] = func(until int64) { b.loses[at].until = until }
	return nil
}

func (r *run) addLine(text string) error {
	time, f, err := words(text)
	if err != nil {
		return err
	}
	switch f[0] {
	case "backend":
		return r.addBackend(f)
	case "worker":
		return r.addWorker(f)
	case "dead", "ended":
		return r.endWorker(time, f, f[0] == "dead")
	case "fault":
		return r.beginFault(time, f)
	case "healed":
		if end := r.open[f[1]]; end != nil {
			end(time)
			delete(r.open, f[1])
		}
	}
	return nil
}

func readRun(dir string) (*run, error) {
	file, err := os.Open(filepath.Join(dir, "nemesis.log"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := &run{dir: dir, backends: map[string]*backend{}, open: map[string]func(int64){}}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		text := lines.Text()
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if err := r.addLine(text); err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
	}
	return r, lines.Err()
}

func parseRecord(b []byte) record {
	u := binary.LittleEndian
	return record{
		time: int64(u.Uint64(b)), op: u.Uint64(b[8:]), token: int64(u.Uint64(b[16:])),
		value: int64(u.Uint64(b[24:])), extra: int64(u.Uint64(b[32:])),
		sequence: int64(u.Uint64(b[40:])), lock: u.Uint16(b[52:]), event: b[56], code: b[57],
		side: b[59],
	}
}

// The records of one worker that were written completely, in the order in which they began.
func (r *run) records(w *worker) ([]record, error) {
	file, err := os.ReadFile(filepath.Join(r.dir, w.file))
	if os.IsNotExist(err) && w.killed {
		return nil, nil // before it could begin
	}
	if err != nil {
		return nil, err
	}
	u := binary.LittleEndian
	if len(file) < headSize || u.Uint64(file) != magic {
		if w.killed {
			return nil, nil
		}
		return nil, fmt.Errorf("%s is no history", w.file)
	}
	claimed := u.Uint64(file[16:])
	if most := uint64(len(file)-headSize) / recordSize; claimed > most {
		claimed = most
	}
	var all []record
	for i := uint64(0); i < claimed; i++ {
		b := file[headSize+i*recordSize:][:recordSize]
		if u.Uint16(b[62:]) == 1 {
			all = append(all, parseRecord(b))
		}
	}
	return all, nil
}
