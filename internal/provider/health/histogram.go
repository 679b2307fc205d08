package health

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram counts times in buckets that are an eighth to a quarter as wide as the times
// in them, from unit up to half an hour.
const (
	unit    = 18 // as a shift of nanoseconds: 0.26 ms
	buckets = 92
)

type histogram [buckets]atomic.Uint32

func (h *histogram) add(d time.Duration) { h[bucketOf(d)].Add(1) }

func (h *histogram) sum(into *[buckets]int64) {
	for i := range h {
		into[i] += int64(h[i].Load())
	}
}

// bucketOf returns the bucket of a time: each power of two of units has four.
func bucketOf(d time.Duration) int {
	n := uint64(max(d, 0)) >> unit
	if n < 4 {
		return int(n)
	}
	power := bits.Len64(n) - 1
	return min((power-1)*4+int(n>>(power-2)&3), buckets-1)
}

// middleOf returns the time in the middle of a bucket.
func middleOf(bucket int) time.Duration {
	if bucket < 4 {
		return time.Duration(2*bucket+1) << (unit - 1)
	}
	power := bucket/4 + 1
	return time.Duration(2*(4+bucket%4)+1) << (power - 2 + unit - 1)
}

// Times are percentiles. They are a tenth off at most; Count is zero without any.
type Times struct {
	Count         int64
	P50, P90, P99 time.Duration
}

func timesOf(counts *[buckets]int64) (t Times) {
	for _, n := range counts {
		t.Count += n
	}
	if t.Count == 0 {
		return t
	}
	at := func(percent int64) time.Duration {
		rank, seen := (t.Count*percent+99)/100, int64(0)
		for bucket, n := range counts {
			if seen += n; seen >= rank {
				return middleOf(bucket)
			}
		}
		return 0
	}
	t.P50, t.P90, t.P99 = at(50), at(90), at(99)
	return t
}
