package logstore

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"
)

// SketchError is how far a percentile of a [Sketch] is from the exact one at
// most, as a part of it: 1 %. Durations below a microsecond count as zero.
const SketchError = 0.01

// gamma is how much longer the durations of a bucket may be than those of the
// one before it. Bucket i holds what is above gamma^(i-1) microseconds and up to
// gamma^i: https://arxiv.org/abs/1908.10693.
const gamma = (1 + SketchError) / (1 - SketchError)

// lastBucket is that of the longest duration there is.
const lastBucket = 1838

var logGamma = math.Log(gamma)

// Sketch keeps how durations are distributed, so that percentiles of many can be
// told and sketches of parts be merged into that of the whole, without loss. The
// zero value is empty. A sketch is for one goroutine.
type Sketch struct {
	zeros  uint64
	low    int      // the bucket that counts[0] counts
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

// valueOf is the duration that is no further from any of a bucket than
// SketchError of it.
func valueOf(bucket int) time.Duration {
	v := 2 * math.Exp(float64(bucket)*logGamma) / (gamma + 1) * float64(time.Microsecond)
	if v >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(math.Round(v))
}

// count adds n to a bucket, making room for it where there is none.
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

// Merge counts in s what o counts.
func (s *Sketch) Merge(o *Sketch) {
	s.zeros += o.zeros
	for i, n := range o.counts {
		if n > 0 {
			s.count(o.low+i, n)
		}
	}
}

// Count is how many durations were added.
func (s *Sketch) Count() uint64 {
	n := s.zeros
	for _, c := range s.counts {
		n += c
	}
	return n
}

// Percentile returns the duration that at least p percent of all do not exceed:
// the one of nearest rank. P is 1 to 100. An empty sketch has none and says zero.
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

// A sketch is stored as the number of zeros and then of buckets, and for each
// bucket that counts anything how far it is after the one before and its count,
// all as uvarints.

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

// mergeStored counts in s what the stored sketch b counts. When b is damaged, s
// may have part of it.
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
