package jwt

import (
	"sync"

	"modelgate/internal/identity/access"
)

// Limits of cached verified tokens per state, at about a kilobyte each.
const (
	shards   = 32
	perShard = 256 // in each of its two halves
)

// cache stores verified tokens by hash and evicts those not used for long. It is
// sharded to reduce lock contention. The zero value is ready to use; it is safe for
// concurrent use.
type cache [shards]shard

// shard is a part of a cache. When the young half is full it becomes the old one, whose
// entries are dropped unless used since.
type shard struct {
	mu         sync.Mutex
	young, old map[access.Hash]*verifiedToken // guarded by mu
}

func (c *cache) get(h access.Hash) *verifiedToken {
	s := &c[h[0]%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.young[h]; j != nil {
		return j
	}
	j := s.old[h]
	if j != nil {
		s.keep(h, j)
	}
	return j
}

func (c *cache) put(h access.Hash, j *verifiedToken) {
	s := &c[h[0]%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(h, j)
}

// keep adds j to the young half. The caller must hold mu.
func (s *shard) keep(h access.Hash, j *verifiedToken) {
	if s.young == nil || len(s.young) == perShard {
		s.young, s.old = make(map[access.Hash]*verifiedToken), s.young
	}
	s.young[h] = j
}
