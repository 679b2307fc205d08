package semantic_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"modelgate/internal/cache/semantic"
)

var (
	now   = time.Unix(1_800_000_000, 0)
	later = now.Add(time.Hour)
)

func key(n int) (k semantic.Key) {
	binary.BigEndian.PutUint64(k[:], uint64(n)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(k[8:], uint64(n))
	return k
}

// direction returns a vector of the given size that is near no other.
func direction(seed, size int) []float32 {
	r := rand.New(rand.NewPCG(uint64(seed), 7))
	v := make([]float32, size)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func TestTheNearestEntryIsFound(t *testing.T) {
	x := semantic.NewIndex(0)
	for i := range 1000 {
		x.Add(key(1), key(i), direction(i, 64), later)
	}
	for _, i := range []int{0, 1, 500, 999} {
		v := direction(i, 64)
		v[3] += 0.05
		if got, s, ok := x.Find(t.Context(), key(1), v, 0.95, now); !ok || got != key(i) || s < 0.95 || s > 1.001 {
			t.Errorf("Find of entry %d = %x, %v, %t", i, got[:2], s, ok)
		}
	}
	if _, _, ok := x.Find(t.Context(), key(1), direction(5000, 64), 0.95, now); ok {
		t.Error("an entry was found for a vector that is near none")
	}
}

func TestTheThresholdIsTheLeastSimilarity(t *testing.T) {
	x := semantic.NewIndex(0)
	x.Add(key(1), key(2), []float32{1, 0}, later)
	v := []float32{0.6, 0.8} // cosine 0.6
	if _, _, ok := x.Find(t.Context(), key(1), v, 0.59, now); !ok {
		t.Error("similarity 0.6 was not found at threshold 0.59")
	}
	if _, _, ok := x.Find(t.Context(), key(1), v, 0.61, now); ok {
		t.Error("similarity 0.6 was found at threshold 0.61")
	}
}

func TestPartitionsNeverShareAnEntry(t *testing.T) {
	x := semantic.NewIndex(0)
	v := direction(1, 16)
	for tenant := range 1000 {
		x.Add(key(tenant), key(tenant), v, later)
	}
	for tenant := range 1000 {
		if got, _, ok := x.Find(t.Context(), key(tenant), v, 0.95, now); !ok || got != key(tenant) {
			t.Fatalf("partition %d returned entry %x, %t", tenant, got[:2], ok)
		}
	}
	if _, _, ok := x.Find(t.Context(), key(1001), v, 0.95, now); ok {
		t.Error("an empty partition returned an entry")
	}
}

func TestTurnsWithOtherFactsAndOtherEmbeddersAreApart(t *testing.T) {
	a, b := mustRead(t, "What is 5 plus 5?"), mustRead(t, "What is 5 plus 6?")
	base := key(1)
	keys := map[semantic.Key]string{
		base: "the partition itself", base.Narrow(a, "lexical"): "a", base.Narrow(b, "lexical"): "other facts",
		base.Narrow(a, "openai/m"): "other embedder", key(2).Narrow(a, "lexical"): "other partition",
	}
	if len(keys) != 5 {
		t.Errorf("keys coincide: %v", keys)
	}
	if base.Narrow(a, "lexical") != base.Narrow(mustRead(t, "what's 5 plus 5"), "lexical") {
		t.Error("two forms of a turn are in different partitions")
	}
}

func TestExpiredAndRemovedEntriesAreNotFound(t *testing.T) {
	x := semantic.NewIndex(0)
	v := direction(1, 16)
	x.Add(key(1), key(2), v, now)
	if _, _, ok := x.Find(t.Context(), key(1), v, 0.95, now); ok {
		t.Error("an entry was found at the time it expires")
	}
	x.Add(key(1), key(2), v, later)
	if _, _, ok := x.Find(t.Context(), key(1), v, 0.95, now); !ok {
		t.Error("an entry that was added again was not found")
	}
	x.Remove(key(1), key(2))
	x.Remove(key(9), key(2))
	if _, _, ok := x.Find(t.Context(), key(1), v, 0.95, now); ok {
		t.Error("a removed entry was found")
	}
}

func TestVectorsWithoutDirectionAreNeverNear(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	x := semantic.NewIndex(0)
	x.Add(key(1), key(1), []float32{1, 0}, later)
	for name, v := range map[string][]float32{"nil": nil, "zero": {0, 0}, "NaN": {nan, 1}, "infinite": {inf, 1}, "longer": {1, 0, 0}, "shorter": {1}} {
		if _, _, ok := x.Find(t.Context(), key(1), v, 0.01, now); ok {
			t.Errorf("%s: an entry was found", name)
		}
		x.Add(key(2), key(2), v, later)
	}
	if _, _, ok := x.Find(t.Context(), key(2), []float32{0, 1}, -1, now); ok {
		t.Error("a vector without direction was stored")
	}
	huge := []float32{math.MaxFloat32, math.MaxFloat32}
	x.Add(key(3), key(3), huge, later)
	if _, s, ok := x.Find(t.Context(), key(3), huge, 0.99, now); !ok || s > 1.001 {
		t.Errorf("a vector of the largest numbers is not near itself: %v, %t", s, ok)
	}
}

func TestMemoryIsBoundedAndTheOldestPartitionsGo(t *testing.T) {
	const memory = 1 << 20
	x := semantic.NewIndex(memory)
	for i := range 10_000 {
		x.Add(key(i), key(i), direction(i, 64), later)
		if x.Bytes() > memory {
			t.Fatalf("%d bytes are in use after %d entries", x.Bytes(), i)
		}
	}
	if _, _, ok := x.Find(t.Context(), key(9999), direction(9999, 64), 0.95, now); !ok {
		t.Error("the latest entry was dropped")
	}
	if _, _, ok := x.Find(t.Context(), key(0), direction(0, 64), 0.95, now); ok {
		t.Error("the oldest entry is still there")
	}
}

func TestOnePartitionCannotExceedTheMemory(t *testing.T) {
	const memory = 1 << 20
	x := semantic.NewIndex(memory)
	for i := range 10_000 {
		x.Add(key(1), key(i), direction(i, 64), later)
		if x.Bytes() > memory {
			t.Fatalf("%d bytes are in use after %d entries", x.Bytes(), i)
		}
	}
	if _, _, ok := x.Find(t.Context(), key(1), direction(9999, 64), 0.95, now); !ok {
		t.Error("the latest entry was dropped")
	}
	x.Add(key(2), key(1), make([]float32, memory), later)
	if x.Bytes() > memory {
		t.Error("a vector larger than the memory was stored")
	}
}

func TestAFullPartitionReplacesItsOldestEntry(t *testing.T) {
	x := semantic.NewIndex(0)
	for i := range semantic.MaxEntries + 2 {
		x.Add(key(1), key(i), []float32{float32(math.Cos(float64(i) * 1e-5)), float32(math.Sin(float64(i) * 1e-5))}, later)
		if i == 2 {
			x.Add(key(1), key(2), []float32{-1, 0}, later)
		}
	}
	if got, _, ok := x.Find(t.Context(), key(1), []float32{-1, 0}, 0.999, now); !ok || got != key(2) {
		t.Error("the third entry was replaced, which is not the oldest")
	}
	if got, _, _ := x.Find(t.Context(), key(1), []float32{1, 0}, 0.999, now); got == key(0) || got == key(1) {
		t.Error("the oldest entries are still there")
	}
}

func TestAnEndedRequestStopsTheSearch(t *testing.T) {
	x := semantic.NewIndex(0)
	x.Add(key(1), key(1), []float32{1, 0}, later)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, ok := x.Find(ctx, key(1), []float32{1, 0}, 0.5, now); ok {
		t.Error("an entry was found for a request that has ended")
	}
}

func TestAnIndexIsSafeForConcurrentUse(t *testing.T) {
	x := semantic.NewIndex(200_000)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 500 {
				p := key((i * (g + 1)) % 50)
				x.Add(p, key(i), direction(i, 32), later)
				x.Find(context.Background(), p, direction(i, 32), 0.9, now)
				x.Remove(p, key(i-3))
			}
		})
	}
	wg.Wait()
	if x.Bytes() > 200_000 || x.Bytes() < 0 {
		t.Errorf("%d bytes are in use", x.Bytes())
	}
}

func TestDotEqualsTheSumOfProducts(t *testing.T) {
	for size := range 40 {
		a, b := direction(1, size), direction(2, size)
		want := 0.0
		for i := range a {
			want += float64(a[i]) * float64(b[i])
		}
		if got := semantic.Dot(a, b); math.Abs(float64(got)-want) > 1e-4 {
			t.Errorf("Dot of %d numbers = %v, want %v", size, got, want)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	for _, size := range []int{256, 1536} {
		for _, entries := range []int{1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%d/%d", size, entries), func(b *testing.B) {
				x := semantic.NewIndex(2 << 30)
				v := direction(1, size)
				for i := range entries {
					v[i%size] += 0.01
					x.Add(key(1), key(i), v, later)
				}
				q := direction(2, size)
				for b.Loop() {
					x.Find(context.Background(), key(1), q, 0.95, now)
				}
			})
		}
	}
}

func BenchmarkLexical(b *testing.B) {
	for b.Loop() {
		_, _ = semantic.Lexical{}.Embed(context.Background(), "Could you please tell me how many kilometres it is from Paris to Rome by train?")
	}
}
