package server

import (
	"maps"
	"sync"
	"sync/atomic"
)

// growOnlyMap is a map of a limited number of keys that are never removed. Reading takes no
// lock and does not allocate. The zero value is empty. Fields are set before it is used.
type growOnlyMap[K comparable, V any] struct {
	most int           // limit of keys, without that of the rest; zero is maxKeys
	room *atomic.Int64 // how many keys this map and others may still add; nil for any number
	own  func(K) K     // returns a key without the memory of the request that it is from; nil for itself

	all     atomic.Pointer[map[K]V] // replaced, never modified
	growing sync.Mutex              // held while all is replaced
}

// maxKeys is the limit of keys. Adding one copies all.
const maxKeys = 4000

// of returns the value of key, calling first to create it if necessary. If the map is
// full, it is the value of rest.
func (k *growOnlyMap[K, V]) of(key, rest K, first func(K) V) V {
	all := k.load()
	if v, ok := all[key]; ok {
		return v
	}
	if k.isFull(len(all)) {
		if v, ok := all[rest]; ok {
			return v
		}
	}
	return k.add(key, rest, first)
}

func (k *growOnlyMap[K, V]) load() map[K]V {
	if all := k.all.Load(); all != nil {
		return *all
	}
	return nil
}

// isFull reports whether a map of n keys takes only that of the rest.
func (k *growOnlyMap[K, V]) isFull(n int) bool {
	return n >= k.most && (k.most > 0 || n >= maxKeys) || k.room != nil && k.room.Load() <= 0
}

// takeRoom reports whether a key may be added to a map of n keys.
func (k *growOnlyMap[K, V]) takeRoom(n int) bool {
	if k.isFull(n) {
		return false
	}
	if k.room == nil || k.room.Add(-1) >= 0 {
		return true
	}
	k.room.Add(1)
	return false
}

func (k *growOnlyMap[K, V]) add(key, rest K, first func(K) V) V {
	k.growing.Lock()
	defer k.growing.Unlock()
	all := k.load()
	if v, ok := all[key]; ok {
		return v
	}
	if key != rest && !k.takeRoom(len(all)) {
		key = rest
		if v, ok := all[rest]; ok {
			return v
		}
	}
	if k.own != nil {
		key = k.own(key)
	}
	next := maps.Clone(all)
	if next == nil {
		next = map[K]V{}
	}
	v := first(key)
	next[key] = v
	k.all.Store(&next)
	return v
}
