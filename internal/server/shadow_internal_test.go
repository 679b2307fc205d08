package server

import (
	"testing"
	"time"
)

func TestSampledShadowResultsCountForAll(t *testing.T) {
	var s shadowSampler
	start := time.Now()
	busy, rare := shadowKind{version: "1", verdict: "passed"}, shadowKind{version: "1", verdict: "failed"}
	stored, weight := 0, int64(0)
	for i := range 10_000 { // in one second
		if w := s.take(busy, start.Add(time.Duration(i)*100*time.Microsecond)); w > 0 {
			stored, weight = stored+1, weight+w
		}
	}
	if stored < 60 || stored > 61 {
		t.Errorf("%d of 10000 results are stored, want the burst of 60", stored)
	}
	if s.take(rare, start) != 1 {
		t.Error("the first result of another verdict is not stored")
	}
	if last := s.take(busy, start.Add(time.Minute)); weight+last != 10_001 {
		t.Errorf("stored results count for %d of 10001", weight+last)
	}
	steady, later := shadowKind{version: "2", verdict: "passed"}, 0
	for range 60 {
		s.take(steady, start)
	}
	for i := range 40 {
		if s.take(steady, start.Add(time.Duration(i+1)*250*time.Millisecond)) > 0 {
			later++
		}
	}
	if later != 10 {
		t.Errorf("%d results are stored in the 10 seconds after the burst, want 10", later)
	}
	for i := range maxShadowKinds + 10 {
		s.take(shadowKind{version: string(rune(i + 1000))}, start)
	}
	if len(s.kinds) > maxShadowKinds {
		t.Errorf("%d kinds are counted, want at most %d", len(s.kinds), maxShadowKinds)
	}
}
