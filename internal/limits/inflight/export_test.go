package inflight

// Keys returns the number of keys that have requests.
func (g *Gate) Keys() (n int) {
	for i := range g.shards {
		s := &g.shards[i]
		s.mu.Lock()
		n += len(s.keys)
		s.mu.Unlock()
	}
	return n
}
