package dlock

import (
	"sync"

	"github.com/libdlock/libdlock/bindings/go/internal/cdlock"
)

// The holds of a client that nobody has ended yet. What C has of them keeps descriptors of the client
// open, so they are freed when it is closed, also those that nobody refers to any more.
type holds struct {
	mutex sync.Mutex
	first *held
	shut  bool
}

// False when the client is closed: it will free nothing any more.
func (all *holds) add(h *held) bool {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	if all.shut {
		return false
	}
	h.next = all.first
	if h.next != nil {
		h.next.prev = h
	}
	all.first = h
	return true
}

// It may be in no list any more.
func (all *holds) remove(h *held) {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	switch {
	case h.prev != nil:
		h.prev.next = h.next
	case all.first == h:
		all.first = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.prev, h.next = nil, nil
}

// The client is closed, and all its holds are over.
func (all *holds) free() {
	for _, h := range all.take() {
		if c := h.close(); c != 0 {
			cdlock.Dlock_hold_free(c)
		}
	}
}

// All of them, which are in the list no more; none will be.
func (all *holds) take() (taken []*held) {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	all.shut = true
	for all.first != nil {
		h := all.first
		taken = append(taken, h)
		all.first = h.next
		h.prev, h.next = nil, nil
	}
	return taken
}

// Takes C's hold away because the client is closed; 0 when it was taken before.
func (h *held) close() cdlock.Hold {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	c := h.c
	if c == 0 {
		return 0
	}
	h.c, h.state, h.closed = 0, Released, true
	h.cleanup.Stop()
	return c
}
