// Package evaluation measures an embedder with labelled pairs of turns.
//
// It provides the pairs, which were written for this purpose, and the precision
// and recall of an embedder together with the facts of [semantic.Read], as the
// cache uses them. It guarantees that the same pairs are held out in every
// measurement: vocabulary and weights are tuned with the others. It does not
// call providers; see cmd/modelgate.
package evaluation

import (
	"context"
	_ "embed"
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"modelgate/internal/cache/semantic"
)

//go:embed pairs.tsv
var table string

// Pair is two turns and whether one response serves both.
type Pair struct {
	Domain, Kind  string
	First, Second string
	Same          bool
	HeldOut       bool // not used for tuning
}

// Pairs returns all pairs.
func Pairs() ([]Pair, error) {
	var list []Pair
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 5 || f[0] != "same" && f[0] != "different" {
			return nil, fmt.Errorf("pair %d: want a label, a domain, a kind and two turns: %q", len(list)+1, line)
		}
		h := fnv.New32a()
		h.Write([]byte(f[3] + "\t" + f[4]))
		list = append(list, Pair{f[1], f[2], f[3], f[4], f[0] == "same", h.Sum32()%5 < 2})
	}
	return list, nil
}

// Count counts pairs by label and result.
type Count struct{ Hits, Misses, FalseHits, TrueMisses int }

// Precision returns the share of hits that are right, and NaN without a hit.
func (c Count) Precision() float64 { return share(c.Hits, c.FalseHits) }

// Recall returns the share of equal pairs that hit.
func (c Count) Recall() float64 { return share(c.Hits, c.Misses) }

func share(part, rest int) float64 {
	if part+rest == 0 {
		return math.NaN()
	}
	return float64(part) / float64(part+rest)
}

// Report is the result of a measurement.
type Report struct {
	Embedder  string
	Threshold float64
	Tuned     Count // the pairs used for tuning
	HeldOut   Count
	// WithoutFacts is the result of all pairs if vectors alone decide.
	WithoutFacts Count
	FalseHits    []Pair
}

// All returns the result of all pairs.
func (r Report) All() Count {
	a, b := r.Tuned, r.HeldOut
	return Count{a.Hits + b.Hits, a.Misses + b.Misses, a.FalseHits + b.FalseHits, a.TrueMisses + b.TrueMisses}
}

// Run measures an embedder.
func Run(ctx context.Context, e semantic.Embedder, threshold float64, pairs []Pair) (Report, error) {
	r := Report{Embedder: e.Name(), Threshold: threshold}
	for _, p := range pairs {
		near, equal, err := compare(ctx, e, threshold, p)
		if err != nil {
			return Report{}, fmt.Errorf("embedding %q: %w", p.First, err)
		}
		part := &r.Tuned
		if p.HeldOut {
			part = &r.HeldOut
		}
		part.add(p.Same, near && equal)
		r.WithoutFacts.add(p.Same, near)
		if !p.Same && near && equal {
			r.FalseHits = append(r.FalseHits, p)
		}
	}
	return r, nil
}

// compare reports whether the vectors of a pair are near, and whether its facts
// are equal.
func compare(ctx context.Context, e semantic.Embedder, threshold float64, p Pair) (near, equal bool, err error) {
	var units [2][]float32
	var turns [2]semantic.Turn
	for i, text := range []string{p.First, p.Second} {
		turn, ok := semantic.Read(text)
		if !ok {
			return false, false, nil
		}
		v, err := e.Embed(ctx, text)
		if err != nil {
			return false, false, err
		}
		if units[i], ok = semantic.Unit(v); !ok {
			return false, false, nil
		}
		turns[i] = turn
	}
	if len(units[0]) != len(units[1]) {
		return false, false, fmt.Errorf("vectors have %d and %d dimensions", len(units[0]), len(units[1]))
	}
	return float64(semantic.Dot(units[0], units[1])) >= threshold, turns[0].Facts == turns[1].Facts, nil
}

func (c *Count) add(same, hit bool) {
	switch {
	case same && hit:
		c.Hits++
	case same:
		c.Misses++
	case hit:
		c.FalseHits++
	default:
		c.TrueMisses++
	}
}
