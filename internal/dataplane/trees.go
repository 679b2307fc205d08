package dataplane

import (
	"container/list"
	"sync"
	"time"

	"modelgate/internal/pipeline"
)

// maxTrees bounds the compiled configs kept, and maxTreeBytes the texts they
// were compiled from.
const (
	maxTrees     = 4096
	maxTreeBytes = 16 << 20
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

// trees keeps compiled configs, the least recently used going first. The zero
// value is ready; it is safe for concurrent use.
type trees struct {
	mu    sync.Mutex
	byKey map[treeKey]*list.Element // guarded by mu, as is all below
	order list.List                 // of *kept, the latest used first
	bytes int
}

type kept struct {
	key  treeKey
	tree *pipeline.Tree
}

func (t *trees) get(key treeKey) (*pipeline.Tree, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.byKey[key]
	if !ok {
		return nil, false
	}
	t.order.MoveToFront(e)
	return e.Value.(*kept).tree, true
}

func (t *trees) put(key treeKey, tree *pipeline.Tree) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.byKey[key]; ok {
		return
	}
	if t.byKey == nil {
		t.byKey = make(map[treeKey]*list.Element)
	}
	t.byKey[key] = t.order.PushFront(&kept{key, tree})
	t.bytes += len(key.text)
	for t.order.Len() > maxTrees || t.bytes > maxTreeBytes && t.order.Len() > 1 {
		last := t.order.Back()
		k := t.order.Remove(last).(*kept)
		delete(t.byKey, k.key)
		t.bytes -= len(k.key.text)
	}
}
