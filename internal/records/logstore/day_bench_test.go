package logstore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
)

// BenchmarkDay measures groups and a sorted page of a million entries of one day, which are
// recorded like those of a gateway.
func BenchmarkDay(b *testing.B) {
	s := mustFile(b)
	const entries = 1_000_000
	r := rand.New(rand.NewPCG(3, 4))
	begin := time.Now().Truncate(time.Hour).Add(-25 * time.Hour)
	for i := range entries {
		at := begin.Add(time.Duration(i) * 24 * time.Hour / entries)
		e := &reqlog.Entry{ID: reqlog.NewID(at), Time: at}
		e.Organisation, e.Workspace, e.KeyID = "acme", fmt.Sprint("team-", i%40), fmt.Sprint("key-", i%100)
		e.Provider, e.Slug, e.Model, e.Operation, e.CacheStatus = "openai", "main", fmt.Sprint("model-", r.IntN(4)), "chat", "MISS"
		e.OptionIndex, e.TargetName, e.Config, e.ConfigVersion = "config.targets[0]", "cheap", "main", 3
		e.Total, e.FirstToken = time.Duration(r.ExpFloat64()*float64(2*time.Second)), time.Duration(r.ExpFloat64()*float64(300*time.Millisecond))
		if e.Status = 200; r.IntN(50) == 0 {
			e.Status, e.ErrorCode = 429, "rate_limited"
		}
		e.Priced, e.Cost, e.Usage = true, catalog.NanoDollars(r.IntN(1e7)), llm.Usage{Known: true, Input: 1000, Output: int64(r.IntN(500))}
		s.Record(b.Context(), e)
		if i%100_000 == 0 {
			if err := s.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			mustFold(b, s, at)
		}
	}
	if err := s.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	mustFold(b, s, time.Now())
	day := GroupQuery{Scope: Scope{Organisation: "acme"}, From: begin, To: begin.Add(24 * time.Hour)}
	for _, bb := range []struct {
		name  string
		group func(q *GroupQuery)
	}{
		{"requests by error code", func(q *GroupQuery) { q.By = ByErrorCode }},
		{"percentiles by error code", func(q *GroupQuery) { q.By, q.Percentiles = ByErrorCode, true }},
		{"percentiles by key", func(q *GroupQuery) { q.By, q.Percentiles = ByKey, true }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			q := day
			bb.group(&q)
			for b.Loop() {
				if list, err := s.Groups(b.Context(), q); err != nil || len(list) < 2 {
					b.Fatal(len(list), err)
				}
			}
		})
	}
	b.Run("sorted page of an hour", func(b *testing.B) {
		for b.Loop() {
			page, err := s.List(b.Context(), Query{From: begin, To: begin.Add(time.Hour), Order: Order{By: SortCost}})
			if err != nil || len(page.Entries) != 100 {
				b.Fatal(len(page.Entries), err)
			}
		}
	})
	b.Run("sorted page of the day", func(b *testing.B) {
		for b.Loop() {
			page, err := s.List(b.Context(), Query{From: begin, To: begin.Add(24 * time.Hour), Order: Order{By: SortCost}})
			if err != nil || len(page.Entries) != 100 {
				b.Fatal(len(page.Entries), err)
			}
		}
	})
}
