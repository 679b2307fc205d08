package semantic

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxEntries is the limit of entries of one partition. All of them are
	// compared with a turn; a further one replaces the oldest. docs/cache.md has
	// the times, and why there is no approximate index.
	MaxEntries = 100_000
	// DefaultMemory is the limit in bytes of all vectors.
	DefaultMemory = 256 << 20

	// overhead is what an entry takes next to its vector, and partOverhead what
	// a partition takes next to its entries.
	overhead, partOverhead = 140, 500

	shardCount = 32
	// batch is the number of entries that are compared between two looks at the
	// context.
	batch = 1024
)

// Index finds the nearest vector of a partition. Entries expire, and the
// partitions that were used the longest ago are dropped when memory is used up.
// It is safe for concurrent use; partitions do not wait for each other.
type Index struct {
	memory int64
	used   atomic.Int64 // bytes
	shards [shardCount]shard
}

type shard struct {
	mu    sync.Mutex
	parts map[Key]*list.Element // of *part; guarded by mu
	order list.List             // the latest used first; guarded by mu
}

// part holds the entries of a partition, as a ring once it is full.
type part struct {
	key Key

	mu      sync.RWMutex
	entries []entry     // guarded by mu
	at      map[Key]int // guarded by mu; indices of entries
	oldest  int         // guarded by mu; index of the entry that is replaced next
	bytes   int64       // guarded by mu
	dropped bool        // guarded by mu; no longer in the shard
}

type entry struct {
	vector  []float32
	key     Key
	expires time.Time
}

func (e *entry) size() int64 { return int64(len(e.vector))*4 + overhead }

// NewIndex returns an empty index that uses at most memory bytes. Zero means
// [DefaultMemory].
func NewIndex(memory int64) *Index {
	if memory <= 0 {
		memory = DefaultMemory
	}
	x := &Index{memory: memory}
	for i := range x.shards {
		x.shards[i].parts = make(map[Key]*list.Element)
	}
	return x
}

// Bytes returns the memory in use.
func (x *Index) Bytes() int64 { return x.used.Load() }

// Find returns the entry whose vector is nearest to v among those of the
// partition that have not expired at now, and its similarity. It returns false
// if none reaches the threshold, if v has no direction, or when ctx ends.
func (x *Index) Find(ctx context.Context, partition Key, v []float32, threshold float32, now time.Time) (Key, float32, bool) {
	p := x.part(partition, false)
	unit, ok := Unit(v)
	if p == nil || !ok {
		return Key{}, 0, false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	best, nearest := -1, threshold
	for i := range p.entries {
		if i%batch == 0 && ctx.Err() != nil {
			return Key{}, 0, false
		}
		e := &p.entries[i]
		if len(e.vector) != len(unit) || !now.Before(e.expires) {
			continue
		}
		if s := Dot(unit, e.vector); s >= nearest {
			best, nearest = i, s
		}
	}
	if best < 0 {
		return Key{}, 0, false
	}
	return p.entries[best].key, nearest, true
}

// Add stores a vector until expires. An entry with the same key is replaced. A
// vector without direction is ignored, and so is one larger than the memory.
func (x *Index) Add(partition, key Key, v []float32, expires time.Time) {
	unit, ok := Unit(v)
	e := entry{vector: unit, key: key, expires: expires}
	if !ok || e.size()+partOverhead > x.memory {
		return
	}
	for !x.put(x.part(partition, true), e) {
		// The partition was dropped between the two steps.
	}
	for i := 0; x.used.Load() > x.memory && i < shardCount; {
		if !x.dropLast(x.shard(partition, i), partition) {
			i++
		}
	}
	if x.used.Load() > x.memory {
		x.shrink(partition)
	}
}

// Remove deletes an entry, whose response is not stored any more.
func (x *Index) Remove(partition, key Key) {
	p := x.part(partition, false)
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, ok := p.at[key]; ok {
		p.entries[i].expires = time.Time{}
	}
}

// put adds e to p, and returns false if p was dropped.
func (x *Index) put(p *part, e entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropped {
		return false
	}
	i, ok := p.at[e.key]
	switch {
	case ok:
	case len(p.entries) >= MaxEntries:
		i = p.oldest
		p.oldest = (p.oldest + 1) % len(p.entries)
		delete(p.at, p.entries[i].key)
	default:
		i = len(p.entries)
		p.entries = append(p.entries, entry{})
	}
	change := e.size()
	if p.entries[i].vector != nil {
		change -= p.entries[i].size()
	}
	p.entries[i], p.at[e.key] = e, i
	p.bytes += change
	x.used.Add(change)
	return true
}

// shrink drops the older half of a partition, the only one left.
func (x *Index) shrink(partition Key) {
	p := x.part(partition, false)
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.entries)
	left := make([]entry, 0, n-n/2)
	clear(p.at)
	for i := n / 2; i < n; i++ {
		e := p.entries[(p.oldest+i)%n]
		p.at[e.key] = len(left)
		left = append(left, e)
	}
	bytes := int64(partOverhead)
	for i := range left {
		bytes += left[i].size()
	}
	x.used.Add(bytes - p.bytes)
	p.entries, p.oldest, p.bytes = left, 0, bytes
}

// shard returns the shard that is i after that of a partition.
func (x *Index) shard(partition Key, i int) *shard {
	return &x.shards[(int(partition[0])+i)%shardCount]
}

// part returns a partition, which is the latest used then. If there is none it
// returns nil, or creates it.
func (x *Index) part(k Key, create bool) *part {
	s := x.shard(k, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.parts[k]; e != nil {
		s.order.MoveToFront(e)
		return e.Value.(*part)
	}
	if !create {
		return nil
	}
	p := &part{key: k, at: make(map[Key]int), bytes: partOverhead}
	s.parts[k] = s.order.PushFront(p)
	x.used.Add(partOverhead)
	return p
}

// dropLast drops the partition of s that was used the longest ago, unless it is
// the one to keep. It returns false if there is none.
func (x *Index) dropLast(s *shard, keep Key) bool {
	s.mu.Lock()
	e := s.order.Back()
	if e != nil && e.Value.(*part).key == keep {
		e = e.Prev()
	}
	if e == nil {
		s.mu.Unlock()
		return false
	}
	p := s.order.Remove(e).(*part)
	delete(s.parts, p.key)
	s.mu.Unlock()

	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped = true
	x.used.Add(-p.bytes)
	p.entries, p.at = nil, nil
	return true
}
