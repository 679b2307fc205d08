package quota

import (
	"context"
	"strconv"
	"testing"
	"time"
)

// TestCountersDoNotWaitForEachOther holds the lock of one counter, as a slow reservation
// would, and uses others, of its shard too.
func TestCountersDoNotWaitForEachOther(t *testing.T) {
	m, now := new(Memory), time.Now()
	held := m.lock("held", now)
	ended := make(chan error, 1)
	sameShard := 0
	go func() {
		for i := range 1000 {
			l := &Limit{Counter: strconv.Itoa(i), Max: 1, Window: time.Hour}
			if m.shard(l.Counter) == m.shard("held") {
				sameShard++
			}
			v, err := m.Reserve(context.Background(), now, []Claim{{Limit: l, Amount: 1, Least: 1}})
			if err == nil {
				m.Settle(now, v.Grants, Use{Requests: 1})
				m.Peek(now, l)
				_, err = m.Read(context.Background(), now, []*Limit{l})
			}
			if err != nil {
				ended <- err
				return
			}
		}
		m.RemoveUnused(func(map[string]bool) {})
		ended <- nil
	}()
	select {
	case err := <-ended:
		if err != nil || sameShard == 0 {
			t.Errorf("%v; %d counters in the shard of the held one", err, sameShard)
		}
	case <-time.After(time.Minute):
		t.Error("other counters wait for one that is in use")
	}
	held.mu.Unlock()
}

// TestShardsDoNotWaitForEachOther holds the lock of one shard, as its creation of a counter
// does.
func TestShardsDoNotWaitForEachOther(t *testing.T) {
	m, now := new(Memory), time.Now()
	held := m.shard("held")
	held.mu.Lock()
	defer held.mu.Unlock()
	ended := make(chan int, 1)
	go func() {
		n := 0
		for i := range 1000 {
			if l := (&Limit{Counter: strconv.Itoa(i), Max: 1, Window: time.Hour}); m.shard(l.Counter) != held {
				m.Peek(now, l)
				n++
			}
		}
		ended <- n
	}()
	select {
	case n := <-ended:
		if n < 900 {
			t.Errorf("%d of 1000 counters are in other shards", n)
		}
	case <-time.After(time.Minute):
		t.Error("counters wait for a shard that is not theirs")
	}
}
