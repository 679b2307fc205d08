package logstore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// BenchmarkRecord measures the whole price of recording an entry: what its
// caller pays and what the writer spends, as CPU time of the process.
func BenchmarkRecord(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchmarkRecord(b, logstore.Options{}) })
	b.Run("postgres", func(b *testing.B) { benchmarkRecord(b, logstore.Options{URL: storetest.Postgres(b)}) })
}

func benchmarkRecord(b *testing.B, o logstore.Options) {
	s := mustOpen(b, o)
	ctx := b.Context()
	entries := make([]*reqlog.Entry, 4096)
	start := time.Now()
	for i := range entries {
		entries[i] = sampleEntry(i, start)
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := waittest.CPUTime(b)
	for i := range b.N {
		e := entries[i%len(entries)]
		if i >= len(entries) { // an entry's own id, without the price of making one
			e = &reqlog.Entry{}
			*e = *entries[i%len(entries)]
			e.ID = reqlog.NewID(start.Add(time.Duration(i) * 50 * time.Microsecond))
		}
		s.Record(ctx, e)
	}
	if err := s.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64((waittest.CPUTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/entry")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	if o.URL == "" {
		b.ReportMetric(float64(fileSize(b, s))/float64(b.N), "file-B/entry")
	}
}

// BenchmarkScan measures how fast a filter that matches nothing skips
// entries.
func BenchmarkScan(b *testing.B) {
	s := mustOpen(b, logstore.Options{})
	ctx := b.Context()
	const n = 100_000
	start := time.Now().Add(-time.Minute)
	for i := range n {
		e := sampleEntry(i, start)
		s.Record(ctx, e)
	}
	if err := s.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name string
		q    logstore.Query
	}{
		{"latency", logstore.Query{MinLatency: time.Hour}},
		{"absent model", logstore.Query{Model: "none"}},
		{"absent trace", logstore.Query{TraceID: "0123456789abcdef0123456789abcdef"}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				if page, err := s.List(ctx, bb.q); err != nil || len(page.Entries) != 0 {
					b.Fatalf("List() = %d entries, %v; want none", len(page.Entries), err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/n, "ns/entry")
		})
	}
}

func fileSize(tb testing.TB, s *logstore.Store) int64 {
	tb.Helper()
	return s.Size(tb)
}

func mustOpen(tb testing.TB, o logstore.Options) *logstore.Store {
	tb.Helper()
	if o.Path == "" && o.URL == "" {
		o.Path = filepath.Join(tb.TempDir(), "logs.db")
	}
	s, err := logstore.Open(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// sampleEntry is a usual entry; i varies what varies in life.
func sampleEntry(i int, start time.Time) *reqlog.Entry {
	models := []string{"gpt-4o", "gpt-4o-mini", "claude-sonnet", "mistral-large"}
	at := start.Add(time.Duration(i) * 50 * time.Microsecond)
	return &reqlog.Entry{
		ID:        reqlog.NewID(at),
		Time:      at,
		Trace:     reqlog.Trace{TraceID: fmt.Sprintf("%032x", uint64(i)*0x9e3779b97f4a7c15), SpanID: fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15)},
		Sender:    reqlog.Sender{Organisation: "acme", Workspace: fmt.Sprintf("team-%d", i%5), KeyID: fmt.Sprintf("0190a5a5-0000-7000-8000-%012d", i%20), KeyName: fmt.Sprintf("key %d", i%20), UserAgent: "OpenAI/Python 3.1.0"},
		Input:     reqlog.Input{Method: "POST", Path: "/v1/chat/completions", Operation: api.Chat, Stream: i%3 == 0, Model: models[i%4], RequestBytes: int64(i%60000) + 400, Metadata: map[string]string{"_user": fmt.Sprintf("user-%d", i%1000), "env": "production"}},
		Origin:    reqlog.Origin{Provider: "openai", Slug: "main", ResponseModel: models[i%4] + "-2026-05-01", OptionIndex: "config", CacheStatus: "DISABLED"},
		Result:    reqlog.Result{Status: 200, Usage: llm.Usage{Input: int64(i % 5000), Output: int64(i % 700), Known: true}, Finish: "stop", ResponseBytes: int64(i%9000) + 800},
		Steps:     reqlog.Steps{Attempts: []reqlog.Attempt{{Target: "config", Provider: "openai", Slug: "main", Status: 200, Start: 40 * time.Microsecond, Took: time.Duration(i) * 17 * time.Microsecond}}},
		Durations: reqlog.Durations{Total: time.Duration(i%9999) * 31 * time.Microsecond, Upstream: time.Duration(i%9999) * 29 * time.Microsecond, FirstToken: time.Duration(i%9999) * 7 * time.Microsecond, Overhead: 45 * time.Microsecond},
	}
}

// BenchmarkRecordBodies is BenchmarkRecord with two bodies of 2 KB, as a short
// exchange has them, and with two of 50 KB.
func BenchmarkRecordBodies(b *testing.B) {
	for _, size := range []int{2 << 10, 50 << 10} {
		b.Run(fmt.Sprintf("sqlite %d KB", size>>10), func(b *testing.B) { benchmarkRecordBodies(b, size, logstore.Options{}) })
		b.Run(fmt.Sprintf("postgres %d KB", size>>10), func(b *testing.B) {
			benchmarkRecordBodies(b, size, logstore.Options{URL: storetest.Postgres(b)})
		})
	}
}

func benchmarkRecordBodies(b *testing.B, size int, o logstore.Options) {
	s := mustOpen(b, o)
	text := []byte(`{"model":"gpt-4o","messages":[{"role":"user","content":"`)
	for i := 0; len(text) < 2*size+1000; i++ {
		text = fmt.Appendf(text, "sentence %d says that %x is a number; ", i, i*i*2654435761)
	}
	start := time.Now()
	b.ReportAllocs()
	b.ResetTimer()
	before := waittest.CPUTime(b)
	for i := range b.N {
		e := sampleEntry(i, start)
		e.Level = reqlog.LevelFull
		from := i % 1000
		e.Bodies = &reqlog.Bodies{
			Request:  reqlog.Body{Type: "application/json", Data: text[from : from+size], Size: int64(size)},
			Response: reqlog.Body{Type: "application/json", Data: text[from+size : from+2*size], Size: int64(size)},
		}
		s.Record(b.Context(), e)
	}
	if err := s.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64((waittest.CPUTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/entry")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	if o.URL == "" {
		b.ReportMetric(float64(fileSize(b, s))/float64(b.N), "file-B/entry")
	}
}
