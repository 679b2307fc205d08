package logstore

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// spreads are ways in which durations are distributed.
var spreads = map[string]func(*rand.Rand) time.Duration{
	"even":           func(r *rand.Rand) time.Duration { return time.Duration(r.Int64N(int64(time.Minute))) },
	"long tail":      func(r *rand.Rand) time.Duration { return time.Duration(math.Exp(r.NormFloat64()*3) * 1e8) },
	"two humps":      func(r *rand.Rand) time.Duration { return time.Duration(1+r.IntN(2)*9999) * time.Millisecond },
	"all the same":   func(*rand.Rand) time.Duration { return 1234567 * time.Nanosecond },
	"all magnitudes": func(r *rand.Rand) time.Duration { return time.Duration(r.Int64() >> r.IntN(63)) },
	"below a µs":     func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(3000) - 1000) },
}

func TestPercentilesAreWithinTheErrorThatIsStated(t *testing.T) {
	for name, draw := range spreads {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for _, n := range []int{1, 2, 3, 20, 100, 5000} {
				var s Sketch
				exact := make([]time.Duration, n)
				for i := range exact {
					exact[i] = draw(r)
					s.Add(exact[i])
				}
				mustBeClose(t, &s, exact)
			}
		})
	}
}

// mustBeClose compares each percentile with that of the durations themselves.
func mustBeClose(t *testing.T, s *Sketch, exact []time.Duration) {
	t.Helper()
	slices.Sort(exact)
	if got := s.Count(); got != uint64(len(exact)) {
		t.Errorf("Count() = %d, want %d", got, len(exact))
	}
	for p := 1; p <= 100; p++ {
		want := exact[(p*len(exact)+99)/100-1]
		if want < time.Microsecond {
			want = 0
		}
		// Half a nanosecond is what rounding adds.
		if got := s.Percentile(p); math.Abs(float64(got-want)) > sketchError*float64(want)*(1+1e-9)+0.5 {
			t.Errorf("Percentile(%d) of %d = %v, want %v within 1 %%", p, len(exact), got, want)
		}
	}
}

func TestMergedSketchesAreTheSketchOfTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var merged, stored Sketch
	var exact []time.Duration
	for _, draw := range spreads {
		var part Sketch
		for range r.IntN(500) {
			d := draw(r)
			part.Add(d)
			exact = append(exact, d)
		}
		merged.Merge(&part)
		if err := stored.mergeStored(part.append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	mustBeClose(t, &merged, exact)
	mustBeClose(t, &stored, exact)
}

func TestAnEmptySketchHasNoPercentiles(t *testing.T) {
	var s Sketch
	if got := s.Percentile(99); got != 0 || s.Count() != 0 {
		t.Errorf("Percentile(99) = %v of %d, want 0 of 0", got, s.Count())
	}
}

func TestASketchOfUsualLatenciesIsSmall(t *testing.T) {
	var s Sketch
	r := rand.New(rand.NewPCG(5, 6))
	for range 100_000 {
		s.Add(time.Duration(math.Exp(r.NormFloat64()) * float64(time.Second)))
	}
	if n := len(s.append(nil)); n > 1500 {
		t.Errorf("a stored sketch takes %d bytes, want at most 1500", n)
	}
}

func FuzzStoredSketches(f *testing.F) {
	var s Sketch
	for _, d := range []time.Duration{0, time.Millisecond, time.Second, math.MaxInt64} {
		s.Add(d)
		f.Add(s.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again Sketch
		if s.mergeStored(b) != nil {
			return
		}
		if len(s.counts) > lastBucket+1 {
			t.Fatalf("%d buckets, want at most %d", len(s.counts), lastBucket+1)
		}
		s.Percentile(50)
		if err := again.mergeStored(s.append(nil)); err != nil {
			t.Fatal(err)
		}
		if again.zeros != s.zeros || again.low != s.low || !slices.Equal(again.counts, s.counts) {
			t.Errorf("stored and read again: %+v, want %+v", again, s)
		}
	})
}
