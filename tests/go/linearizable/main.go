// Is there an order in which all could have happened one by one? Reads what contenders noted of one
// lock (see tests/interop/peers.py), and asks Porcupine.
//
//	linearizable LOG [DEAD…]
//
// DEAD are contenders whose process was killed: what they held ended some time after.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const patience = 120 * time.Second

// What was asked for: the lock with this token (0: none), or its end.
type step struct {
	who     string
	acquire bool
	token   int64
}

// Who has it, and the newest token.
type state struct {
	holder string
	token  int64
}

var model = porcupine.Model{
	Init: func() interface{} { return state{} },
	Step: func(before, input, _ interface{}) (bool, interface{}) {
		now, it := before.(state), input.(step)
		if !it.acquire {
			return now.holder == it.who, state{token: now.token}
		}
		free := now.holder == "" && (it.token == 0 || it.token > now.token)
		if it.token > now.token {
			now.token = it.token
		}
		return free, state{it.who, now.token}
	},
	Equal: func(a, b interface{}) bool { return a == b },
}

// A contender, as far as the log was read.
type party struct {
	asked    int64
	inside   int64 // since this line; 0: it isn't
	leaving  int64 // since this line; 0: it isn't
	released bool
}

type history struct {
	parties map[string]*party
	steps   []porcupine.Operation
}

func (h *history) add(it step, call, end int64) {
	h.steps = append(h.steps, porcupine.Operation{Input: it, Call: call, Output: nil, Return: end})
}

// The line's number is its time. Each line of a contender's says that what it did before is over.
func (h *history) read(line int64, words []string) error {
	who := words[1]
	p := h.parties[who]
	if p == nil {
		p = &party{}
		h.parties[who] = p
	}
	if p.leaving != 0 {
		h.add(step{who: who}, p.leaving, line)
		p.leaving = 0
	}
	token, err := strconv.ParseInt(words[3], 10, 64)
	switch words[0] {
	case "?":
		p.asked = line
	case "+":
		h.add(step{who, true, token}, p.asked, line)
		p.inside = line
	case "-":
		p.leaving, p.inside = line, 0
	default:
		return fmt.Errorf("line %d: %q", line, words)
	}
	return err
}

// What nothing was heard of any more ended some time, or hasn't yet.
func (h *history) finish(dead map[string]bool) error {
	for who, p := range h.parties {
		if p.inside != 0 && !dead[who] {
			return fmt.Errorf("%s is inside, and alive", who)
		}
		if since := p.inside + p.leaving; since != 0 {
			h.add(step{who: who}, since, math.MaxInt64)
		}
	}
	return nil
}

func run() error {
	file, err := os.Open(os.Args[1])
	if err != nil {
		return err
	}
	defer file.Close()
	dead := map[string]bool{}
	for _, who := range os.Args[2:] {
		dead[who] = true
	}
	h, line, lines := history{parties: map[string]*party{}}, int64(0), bufio.NewScanner(file)
	for lines.Scan() {
		line++
		if err := h.read(line, strings.Fields(lines.Text())); err != nil {
			return err
		}
	}
	if err := h.finish(dead); err != nil {
		return err
	}
	if found := porcupine.CheckOperationsTimeout(model, h.steps, patience); found != porcupine.Ok {
		return fmt.Errorf("%s: %d operations", found, len(h.steps))
	}
	fmt.Printf("linearizable: %d operations of %d contenders\n", len(h.steps), len(h.parties))
	return lines.Err()
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: linearizable LOG [DEAD…]")
		os.Exit(64)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
