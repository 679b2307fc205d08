package dataplane

import (
	"container/list"
	"runtime"
	"strings"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline"
)

// Limits of compiled configs. Sizes are estimates in bytes of memory; see
// config.Config.Size.
const (
	maxTrees     = 4096
	maxTreeBytes = 64 << 20  // cached for later requests
	maxLiveBytes = 512 << 20 // cached, or used by an open request
)

// treeKey is what a tree is compiled from: the config as it was written, and
// the options of the headers that change its root.
type treeKey struct {
	text       string
	workspace  string // in which the names in text are resolved
	timeout    time.Duration
	forward    string
	customHost string
	strict     bool // its value, if isSet
	isSet      bool
	chosen     string // the provider chosen by the request, if the config leaves it open
	noCode     bool   // its checks must not contain code, see guardrail.Compilation
}

// size returns the approximate size of the key in bytes.
func (k *treeKey) size() int {
	const nameSize = 40 // of a forwarded header, in addition to its letters
	return 256 + len(k.text) + 2*len(k.forward) + nameSize*strings.Count(k.forward, ",") + len(k.customHost)
}

// trees is an LRU cache of compiled configs. A tree is part of the live size as
// long as it is cached or a request uses it. It is safe for concurrent use;
// call newTrees to make one.
type trees struct {
	compiling chan struct{} // one token for each config being compiled

	mu    sync.Mutex
	byKey map[treeKey]*list.Element // guarded by mu, as are the fields below
	order list.List                 // of *cachedTree, the latest used first
	bytes int                       // size of the trees in byKey
	live  int                       // size of these and of dropped ones in use
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
// there are processors, because a config takes far more memory while it is
// parsed.
func newTrees() *trees {
	return &trees{compiling: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), byKey: make(map[treeKey]*list.Element)}
}

// get returns the tree of key, which the caller must release, or nil.
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

// make returns the tree of key, which the caller must release. A tree that is
// not cached is parsed first, which determines its size, and then compiled.
func (t *trees) make(key treeKey, parse func() (size int, compile func() *pipeline.Tree, err error)) (*cachedTree, error) {
	t.compiling <- struct{}{}
	defer func() { <-t.compiling }()
	if k := t.get(key); k != nil { // another request was quicker
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

// reserve adds size to the live size. It drops unused trees if there is no
// room.
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

// put caches a tree whose size is reserved.
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

// drop removes a tree from the cache. The caller must hold mu.
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

// releaseTrees ends the use of the compiled configs.
func (rs *resolver) releaseTrees() {
	for _, k := range rs.trees {
		rs.admission.plane.trees.release(k)
	}
	rs.trees = nil
}
