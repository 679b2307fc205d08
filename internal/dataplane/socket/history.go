package socket

import (
	"slices"
	"sync"

	"modelgate/internal/base/bytepool"
)

const (
	// maxHistory is the limit in bytes of the turns that a connection keeps.
	maxHistory = 32 << 20
	// maxTurns is the number of turns that may be continued at a time.
	maxTurns = 64
)

// history holds the turns of a connection that later turns may continue by
// previous_response_id. It is safe for concurrent use.
type history struct {
	memory *bytepool.Share // counts what is held; nil does not
	limit  int64           // in bytes

	mu    sync.Mutex
	turns map[string]*pastTurn // guarded by mu; nil after close
	order []string             // of turns, the oldest first; guarded by mu
	held  int64                // guarded by mu
}

// pastTurn is a turn that has ended. Later turns hold those before them.
type pastTurn struct {
	before *pastTurn // nil for the first
	items  []byte    // input and output, separated by commas; may be empty
	lane   string
	stored bool // the provider has it too

	users int    // the history, the turns after it and those that find it; guarded by the history's mu
	free  func() // counts its memory no more
}

func newHistory(memory *bytepool.Share) *history {
	return &history{memory: memory, limit: maxHistory, turns: map[string]*pastTurn{}}
}

// find returns a turn that may be continued. It is held until release.
func (h *history) find(id string) (*pastTurn, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.turns[id]
	if ok {
		t.users++
	}
	return t, ok
}

// release ends the use of a turn that was found. Nil is allowed.
func (h *history) release(t *pastTurn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leave(t)
}

// leave frees a turn that nobody uses, and those before it. The caller holds mu.
func (h *history) leave(t *pastTurn) {
	for ; t != nil; t = t.before {
		if t.users--; t.users > 0 {
			return
		}
		t.free()
		h.held -= int64(len(t.items))
	}
}

// add adds a turn, whose before is held by the caller. The oldest turns are forgotten if there
// is too little room.
func (h *history) add(id string, t *pastTurn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.turns == nil || id == "" || h.turns[id] != nil {
		return
	}
	size := int64(len(t.items))
	for len(h.order) > 0 && (h.held+size > h.limit || len(h.order) >= maxTurns) {
		h.forget(h.order[0])
	}
	if h.held+size > h.limit || !h.hold(t) {
		return
	}
	h.held += size
	t.users = 1
	if t.before != nil {
		t.before.users++
	}
	h.turns[id], h.order = t, append(h.order, id)
}

// hold counts the memory of t. The caller holds mu.
func (h *history) hold(t *pastTurn) bool {
	t.free = func() {}
	if h.memory == nil {
		return true
	}
	release, err := h.memory.Hold(len(t.items))
	if err != nil {
		return false
	}
	t.free = release
	return true
}

// drop forgets a turn.
func (h *history) drop(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(id)
}

// forget removes a turn. The caller holds mu.
func (h *history) forget(id string) {
	t, ok := h.turns[id]
	if !ok {
		return
	}
	delete(h.turns, id)
	h.order = slices.DeleteFunc(h.order, func(one string) bool { return one == id })
	h.leave(t)
}

// clear forgets all turns.
func (h *history) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.order) > 0 {
		h.forget(h.order[0])
	}
}

// close forgets all turns, and keeps no more.
func (h *history) close() {
	h.clear()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turns = nil
}

// appendItems appends the items of t and of all turns before it, in order, and the item list
// input, as an array.
func (t *pastTurn) appendItems(dst, input []byte) []byte {
	var turns []*pastTurn
	for one := t; one != nil; one = one.before {
		turns = append(turns, one)
	}
	dst = append(dst, '[')
	begin := len(dst)
	for _, one := range slices.Backward(turns) {
		dst = appendList(dst, begin, one.items)
	}
	return append(appendList(dst, begin, input), ']')
}

// appendList appends items to a list that begins at begin.
func appendList(dst []byte, begin int, items []byte) []byte {
	if len(items) == 0 {
		return dst
	}
	if len(dst) > begin {
		dst = append(dst, ',')
	}
	return append(dst, items...)
}
