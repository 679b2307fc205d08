package bench

import (
	"math"
	"slices"
	"time"
)

// samples are exact measured times, in no order until they are asked.
type samples []time.Duration

// quantile returns the smallest sample that a share q of all does not exceed
// (nearest rank), 0 when there are none. It sorts s.
func (s samples) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	if !slices.IsSorted(s) {
		slices.Sort(s)
	}
	rank := int(math.Ceil(q * float64(len(s))))
	return s[min(max(rank, 1), len(s))-1]
}

// median returns the middle of v, the mean of the two middle ones for an even
// number, 0 for none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	mid := len(v) / 2
	if len(v)%2 == 1 {
		return v[mid]
	}
	return (v[mid-1] + v[mid]) / 2
}

func micros(d time.Duration) float64 { return round(float64(d)/1e3, 1) }

func round(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}
