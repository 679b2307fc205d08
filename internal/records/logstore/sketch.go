package logstore

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"
)

// sketchError is the maximum relative error of a percentile of a [Sketch]: 1 %.
// Durations below a microsecond count as zero.
const sketchError = 0.01

// gamma is the ratio of the upper limits of consecutive buckets. Bucket i holds
// durations above gamma^(i-1) and up to gamma^i microseconds:
// https://arxiv.org/abs/1908.10693.
const gamma = (1 + sketchError) / (1 - sketchError)

// lastBucket is the bucket of the longest possible duration.
const lastBucket = 1838

var logGamma = math.Log(gamma)

// Sketch records the distribution of durations, from which percentiles are computed.
// Sketches can be merged without loss. The zero value is empty. A sketch is not safe
// for concurrent use.
type Sketch struct {
	zeros  uint64
	low    int      // the bucket of counts[0]
	counts []uint64 // by bucket, without gaps
}

// Add counts d.
func (s *Sketch) Add(d time.Duration) {
	if d < time.Microsecond {
		s.zeros++
		return
	}
	s.count(bucketOf(d), 1)
}

func bucketOf(d time.Duration) int {
	return min(int(math.Ceil(math.Log(float64(d)/float64(time.Microsecond))/logGamma)), lastBucket)
}

// valueOf returns the duration within sketchError of all durations in a bucket.
func valueOf(bucket int) time.Duration {
	v := 2 * math.Exp(float64(bucket)*logGamma) / (gamma + 1) * float64(time.Microsecond)
	if v >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(math.Round(v))
}

// count adds n to a bucket, creating it if necessary.
func (s *Sketch) count(bucket int, n uint64) {
	switch high := s.low + len(s.counts); {
	case len(s.counts) == 0:
		s.low = bucket
		s.counts = append(s.counts, n)
		return
	case bucket < s.low:
		wide := make([]uint64, high-bucket)
		copy(wide[s.low-bucket:], s.counts)
		s.low, s.counts = bucket, wide
	case bucket >= high:
		for range bucket - high + 1 {
			s.counts = append(s.counts, 0)
		}
	}
	s.counts[bucket-s.low] += n
}

// Merge adds o to s.
func (s *Sketch) Merge(o *Sketch) {
	s.zeros += o.zeros
	for i, n := range o.counts {
		if n > 0 {
			s.count(o.low+i, n)
		}
	}
}

// Count returns the number of durations added.
func (s *Sketch) Count() uint64 {
	n := s.zeros
	for _, c := range s.counts {
		n += c
	}
	return n
}

// Percentile returns the duration that at least p percent of all do not exceed, by
// nearest rank. P must be 1 to 100. An empty sketch returns zero.
func (s *Sketch) Percentile(p int) time.Duration {
	high, low := bits.Mul64(s.Count(), uint64(p))
	low, carry := bits.Add64(low, 99, 0)
	rank, _ := bits.Div64(high+carry, low, 100)
	if rank <= s.zeros {
		return 0
	}
	rank -= s.zeros
	for i, n := range s.counts {
		if n >= rank {
			return valueOf(s.low + i)
		}
		rank -= n
	}
	return 0
}

// A sketch is encoded as the number of zeros and of buckets, and for each non-empty
// bucket its distance from the previous one and its count, all as uvarints.

func (s *Sketch) append(dst []byte) []byte {
	used := 0
	for _, n := range s.counts {
		if n > 0 {
			used++
		}
	}
	dst = binary.AppendUvarint(dst, s.zeros)
	dst = binary.AppendUvarint(dst, uint64(used))
	next := 0
	for i, n := range s.counts {
		if n > 0 {
			dst = binary.AppendUvarint(dst, uint64(s.low+i-next))
			dst = binary.AppendUvarint(dst, n)
			next = s.low + i + 1
		}
	}
	return dst
}

// mergeStored adds the encoded sketch b to s. If b is damaged, s may contain part of
// it.
func (s *Sketch) mergeStored(b []byte) error {
	r := reader{b: b}
	s.zeros += r.uvarint()
	next := 0
	for range r.count(2) {
		gap, n := r.uvarint(), r.uvarint()
		if r.bad || n == 0 || gap > uint64(lastBucket-next) {
			return errDamaged
		}
		s.count(next+int(gap), n)
		next += int(gap) + 1
		if next > lastBucket {
			break
		}
	}
	if r.bad || len(r.b) > 0 {
		return errDamaged
	}
	return nil
}
