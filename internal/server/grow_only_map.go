package server

import (
	"maps"
	"sync"
	"sync/atomic"
)

// growOnlyMap is a map of at most maxKeys keys that are never removed. Reading takes no
// lock and does not allocate. The zero value is empty.
type growOnlyMap[K comparable, V any] struct {
	all     atomic.Pointer[map[K]V] // replaced, never modified
	growing sync.Mutex              // held while all is replaced
}

// maxKeys is the limit of keys. Adding one copies all.
const maxKeys = 4000

// of returns the value of key, calling first to create it if necessary. If the map is
// full, it is the value of rest.
func (k *growOnlyMap[K, V]) of(key, rest K, first func(K) V) V {
	all := k.all.Load()
	if all != nil {
		if v, ok := (*all)[key]; ok {
			return v
		}
		if v, ok := (*all)[rest]; ok && len(*all) >= maxKeys {
			return v
		}
	}
	if all != nil && len(*all) >= maxKeys {
		key = rest
	}
	return k.add(key, first)
}

func (k *growOnlyMap[K, V]) add(key K, first func(K) V) V {
	k.growing.Lock()
	defer k.growing.Unlock()
	next := map[K]V{}
	if all := k.all.Load(); all != nil {
		if v, ok := (*all)[key]; ok {
			return v
		}
		next = maps.Clone(*all)
	}
	v := first(key)
	next[key] = v
	k.all.Store(&next)
	return v
}
