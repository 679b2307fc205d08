package dataplane

import (
	"container/list"
	"runtime"
	"strings"
	"sync"
	"time"

	"modelgate/internal/apierr"
	"modelgate/internal/pipeline"
)

// Limits of compiled configs. Sizes are estimates in bytes of memory, as
// config.Config.Size has them.
const (
	maxTrees     = 4096
	maxTreeBytes = 64 << 20  // kept for later requests
	maxLiveBytes = 512 << 20 // kept, or used by a request that has not ended
)

// treeKey is what a tree is compiled from: the config as it was written, and
// the headers that apply on top of its root.
type treeKey struct {
	text       string
	workspace  string // whose names the text means
	timeout    time.Duration
	forward    string
	customHost string
	strict     bool // what it is set to, when isSet
	isSet      bool
	chosen     string // whom the request chooses, where the config leaves it that
}

// size returns about how many bytes the key takes.
func (k *treeKey) size() int {
	const nameSize = 40 // of a forwarded header, besides its letters
	return 256 + len(k.text) + 2*len(k.forward) + nameSize*strings.Count(k.forward, ",") + len(k.customHost)
}

// trees keeps compiled configs, the least recently used going first. A tree
// counts until it is dropped and no request uses it any more. Use newTrees; it
// is safe for concurrent use.
type trees struct {
	compiling chan struct{} // one token for each config that is being compiled

	mu    sync.Mutex
	byKey map[treeKey]*list.Element // guarded by mu, as is all below
	order list.List                 // of *kept, the latest used first
	bytes int                       // of those in byKey
	live  int                       // of those and of the ones still used
}

// cachedTree is a compiled config.
type cachedTree struct {
	key    treeKey
	tree   *pipeline.Tree
	size   int
	users  int  // requests that use it; guarded by trees.mu
	cached bool // guarded by trees.mu
}

// newTrees returns a cache that compiles about as many configs at a time as
// there are processors: a config takes far more memory while it is read.
func newTrees() *trees {
	return &trees{compiling: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), byKey: make(map[treeKey]*list.Element)}
}

// get returns the tree of key, which the caller has to release, or nil.
func (t *trees) get(key treeKey) *cachedTree {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.byKey[key]
	if !ok {
		return nil
	}
	t.order.MoveToFront(e)
	k := e.Value.(*cachedTree)
	k.users++
	return k
}

// make returns the tree of key, which the caller has to release. A tree that is
// not kept is parsed first, which tells its size, and then compiled.
func (t *trees) make(key treeKey, parse func() (size int, compile func() *pipeline.Tree, err error)) (*cachedTree, error) {
	t.compiling <- struct{}{}
	defer func() { <-t.compiling }()
	if k := t.get(key); k != nil { // somebody else was quicker
		return k, nil
	}
	size, compile, err := parse()
	if err != nil {
		return nil, err
	}
	if size += key.size(); !t.reserve(size) {
		e := apierr.New(apierr.Unavailable, "the configs of the requests being served take more than %d bytes of memory; try again shortly, or send smaller configs", maxLiveBytes).
			WithParam("x-gateway-config").WithCode("config_memory_full")
		e.RetryAfter = time.Second
		return nil, e
	}
	k := &cachedTree{key: key, tree: compile(), size: size, users: 1}
	t.put(k)
	return k, nil
}

// reserve counts size as live. Trees that nobody uses make room.
func (t *trees) reserve(size int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := t.order.Back(); t.live+size > maxLiveBytes && e != nil; {
		before := e.Prev()
		if e.Value.(*cachedTree).users == 0 {
			t.drop(e)
		}
		e = before
	}
	if t.live+size > maxLiveBytes {
		return false
	}
	t.live += size
	return true
}

// put keeps a tree whose size is reserved.
func (t *trees) put(k *cachedTree) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.byKey[k.key]; ok {
		return
	}
	k.cached = true
	t.byKey[k.key] = t.order.PushFront(k)
	t.bytes += k.size
	for t.order.Len() > maxTrees || t.bytes > maxTreeBytes && t.order.Len() > 1 {
		t.drop(t.order.Back())
	}
}

// drop removes a tree from those kept. The caller holds mu.
func (t *trees) drop(e *list.Element) {
	k := t.order.Remove(e).(*cachedTree)
	delete(t.byKey, k.key)
	t.bytes -= k.size
	if k.cached = false; k.users == 0 {
		t.live -= k.size
	}
}

// release ends the use of a tree by a request.
func (t *trees) release(k *cachedTree) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.users--; k.users == 0 && !k.cached {
		t.live -= k.size
	}
}
