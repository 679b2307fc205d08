package logstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// BenchmarkSum measures queries over the sums of ten million entries of thirty
// days: the last two by minute, the others by hour, a hundred keys by four models
// by three statuses.
func BenchmarkSum(b *testing.B) {
	s := mustFile(b)
	now := noon.Add(30 * 24 * time.Hour)
	total := fill(b, s, now)
	for _, bb := range []struct {
		name string
		q    GroupQuery
	}{
		{"requests by model", GroupQuery{By: ByModel}},
		{"percentiles by model", GroupQuery{By: ByModel, Percentiles: true}},
		{"percentiles by key and day", GroupQuery{By: ByKey, Step: 24 * time.Hour, Percentiles: true}},
		{"one key of a hundred", GroupQuery{By: ByModel, Scope: Scope{Keys: []string{"key-7"}}}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			bb.q.From, bb.q.To = noon, now
			before := waittest.CPUTime(b)
			for b.Loop() {
				mustSum(b, s, bb.q)
			}
			b.ReportMetric(float64((waittest.CPUTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(total), "entries")
		})
	}
}

// fill stores sums as folding leaves them, and returns how many entries they are
// of.
func fill(b *testing.B, s *Store, now time.Time) (total int64) {
	b.Helper()
	r := rand.New(rand.NewPCG(7, 8))
	tx, err := s.keeper.(*sqliteBackend).write.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer tx.Rollback()
	add := func(at time.Time, grain, entries int) {
		total += int64(entries)
		bucket := at.UnixMilli()
		row := rollup{"acme", bucket, fillSet(r, bucket, entries).append(nil, bucket)}
		if err := addRollup(context.Background(), tx, grain, row); err != nil {
			b.Fatal(err)
		}
	}
	for at := noon; at.Before(now.Add(-foldMinutes)); at = at.Add(time.Hour) {
		add(at, grainHour, 14_000)
	}
	for at := now.Add(-foldMinutes); at.Before(now); at = at.Add(time.Minute) {
		add(at, grainMinute, 233)
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	return total
}

func fillSet(r *rand.Rand, bucket int64, entries int) groupSet {
	set := make(groupSet)
	for range entries {
		k := groupKey{status: []int{200, 200, 200, 200, 429, 500}[r.IntN(6)]}
		key := r.IntN(100)
		k.texts[ByKey], k.texts[ByWorkspace] = fmt.Sprintf("key-%d", key), fmt.Sprintf("team-%d", key%5)
		k.texts[ByModel], k.texts[ByService] = fmt.Sprintf("model-%d", r.IntN(4)), "openai"
		into := set.at(k)
		into.extendPeriod(bucket, bucket)
		into.Requests++
		into.Counted++
		into.Prompt += 1000
		took := time.Duration(r.ExpFloat64() * float64(2*time.Second))
		into.latency += took.Microseconds()
		into.Latencies.Add(took)
	}
	return set
}
