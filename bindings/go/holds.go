package dlock

import (
	"sync"
	"weak"

	"github.com/libdlock/libdlock/bindings/go/internal/cdlock"
)

// The holds of a client that nobody has ended yet. What C has of them keeps descriptors of the client
// open, so they are freed when it is closed, also those that nobody refers to any more. It keeps no
// Hold alive: one that is dropped is told of.
type holds struct {
	mutex sync.Mutex
	live  map[cdlock.Hold]weak.Pointer[Hold]
	shut  bool
}

// False when the client is closed: it will free nothing any more.
func (all *holds) add(h *Hold) bool {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	if all.shut {
		return false
	}
	if all.live == nil {
		all.live = make(map[cdlock.Hold]weak.Pointer[Hold])
	}
	all.live[h.c] = weak.Make(h)
	return true
}

// Before C's hold is freed: the next one may have its address.
func (all *holds) remove(c cdlock.Hold) {
	all.mutex.Lock()
	delete(all.live, c)
	all.mutex.Unlock()
}

// The client is closed, and all its holds are over.
func (all *holds) free() {
	all.mutex.Lock()
	all.shut = true
	live := all.live
	all.live = nil
	all.mutex.Unlock()
	for c, pointer := range live {
		if h := pointer.Value(); h != nil && !h.close() {
			continue // somebody else ends it this moment
		}
		cdlock.Dlock_hold_free(c)
	}
}

// Takes C's hold away because the client is closed; false when it was taken before.
func (h *Hold) close() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.c == 0 {
		return false
	}
	h.c, h.state, h.closed = 0, Released, true
	h.cleanup.Stop()
	return true
}
