// Package semantic finds a cached response for a question that was asked before
// and phrased differently.
//
// [Read] reads the last turn of a user. It separates what may be phrased
// differently from the facts of the turn: numbers, units, negations, quoted
// strings, code, names, the kind of question and every word that is not
// everyday vocabulary. An [Embedder] turns the turn into a vector, and an
// [Index] returns the entry of the nearest vector of the same partition.
//
// It guarantees that two turns are compared only if their partitions and their
// facts are equal, however near their vectors are, and that memory, entries and
// work are bounded. It does not store responses, and it does not decide what
// makes up a partition; see internal/dataplane. It knows English vocabulary: in
// other languages every word is a fact, so that only spelling, case and
// punctuation may differ.
package semantic

import (
	"context"
	"crypto/sha256"
	"math"
)

// DefaultThreshold is the cosine similarity from which two turns count as the
// same question.
const DefaultThreshold = 0.95

// MaxText is the limit in bytes of a turn. Longer turns are not compared: no
// embedding represents one changed word of a long text.
const MaxText = 32 << 10

// Embedder turns text into vectors. Vectors of embedders with different names
// are never compared. It is safe for concurrent use.
type Embedder interface {
	// Name returns the provider and the model.
	Name() string
	// Embed returns the vector of text, of any length above zero.
	Embed(ctx context.Context, text string) ([]float32, error)
}

// Key identifies a partition or an entry.
type Key [sha256.Size]byte

// Narrow returns the key of the part of a partition that holds turns with equal
// facts, embedded by the named embedder.
func (k Key) Narrow(t Turn, embedder string) Key {
	h := sha256.New()
	h.Write(k[:])
	h.Write(t.Facts[:])
	h.Write([]byte(embedder))
	return Key(h.Sum(nil))
}

// Unit returns v scaled to length 1, and false if v has no direction: it is
// empty, zero or not finite.
func Unit(v []float32) ([]float32, bool) {
	sum := 0.0
	for _, f := range v {
		sum += float64(f) * float64(f)
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, false
	}
	scale := 1 / math.Sqrt(sum)
	unit := make([]float32, len(v))
	for i, f := range v {
		unit[i] = float32(float64(f) * scale)
	}
	return unit, true
}

// Dot returns the sum of the products of two vectors of equal length: the cosine
// similarity of unit vectors. It has eight sums, so that additions do not wait
// for each other.
func Dot(a, b []float32) float32 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	b = b[:len(a)]
	for len(a) >= 8 && len(b) >= 8 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		s4 += a[4] * b[4]
		s5 += a[5] * b[5]
		s6 += a[6] * b[6]
		s7 += a[7] * b[7]
		a, b = a[8:], b[8:]
	}
	for i := range a {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7
}
