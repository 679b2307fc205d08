package quota

// Len returns the number of counters.
func (m *Memory) Len() (n int) {
	for i := range m.shards {
		m.shards[i].mu.RLock()
		n += len(m.shards[i].counters)
		m.shards[i].mu.RUnlock()
	}
	return n
}
