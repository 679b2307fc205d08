package respcache

import (
	"context"
	"math"
	"time"

	"github.com/maypok86/otter/v2"
)

// defaultMemory is the default size of a [Memory] in bytes.
const defaultMemory = 256 << 20

// Memory is a [Store] in the memory of this process, which evicts entries that
// are rarely used when it is full.
type Memory struct {
	entries *otter.Cache[Key, *Entry]
}

var _ Store = (*Memory)(nil)

// NewMemory returns a store of about size bytes. Zero means 256 MB.
func NewMemory(size int64) *Memory {
	if size <= 0 {
		size = defaultMemory
	}
	return &Memory{entries: otter.Must(&otter.Options[Key, *Entry]{
		MaximumWeight: uint64(size),
		Weigher:       func(_ Key, e *Entry) uint32 { return uint32(min(e.size(), math.MaxUint32)) },
	})}
}

// Get implements [Store].
func (m *Memory) Get(_ context.Context, owner Tenant, key Key, now time.Time) (*Entry, error) {
	e, ok := m.entries.GetIfPresent(key)
	if !ok || e.Owner != owner {
		return nil, nil
	}
	if !now.Before(e.Expires) {
		m.entries.Invalidate(key)
		return nil, nil
	}
	return e, nil
}

// Put implements [Store].
func (m *Memory) Put(_ context.Context, key Key, e *Entry) error {
	m.entries.Set(key, e)
	return nil
}

// Bytes returns the approximate memory of all entries, and their number.
func (m *Memory) Bytes() (size, entries int64) {
	return int64(m.entries.WeightedSize()), int64(m.entries.EstimatedSize())
}
