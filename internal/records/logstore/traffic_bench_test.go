package logstore_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/testing/waittest"
)

var trafficEntries = flag.Int("traffic", 100_000, "number of entries that BenchmarkTrafficRead reads")

// recordTraffic records n entries of requests that arrive at rate in a second, in the
// batches that the writer makes of them: one each 200 ms, or for each request if fewer
// arrive. It returns the CPU time of recording, without that of making the entries.
func recordTraffic(b *testing.B, s *logstore.Store, t *traffic, n int) (cpu, took time.Duration) {
	b.Helper()
	batch := make([]*reqlog.Entry, max(1, int(t.rate/5)))
	for n > 0 {
		batch = batch[:min(n, len(batch))]
		for i := range batch {
			batch[i] = t.next()
		}
		n -= len(batch)
		before, start := waittest.CPUTime(b), time.Now()
		for _, e := range batch {
			s.Record(b.Context(), e)
		}
		if err := s.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		cpu += waittest.CPUTime(b) - before
		took += time.Since(start)
	}
	return cpu, took
}

// BenchmarkTrafficRecord measures what an entry costs at different rates of requests. Run
// it with -benchtime=100000x: the size of a file of few entries means nothing.
func BenchmarkTrafficRecord(b *testing.B) {
	for _, rate := range []float64{5, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("%g per second", rate), func(b *testing.B) {
			s := mustOpen(b, logstore.Options{})
			b.ResetTimer()
			cpu, took := recordTraffic(b, s, newTraffic(7, time.Now().Add(-time.Hour), rate), b.N)
			b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N), "cpu-ns/entry")
			b.ReportMetric(float64(b.N)/took.Seconds(), "entries/s")
			s.Pragma(b, "wal_checkpoint(TRUNCATE)")
			b.ReportMetric(float64(fileSize(b, s))/float64(b.N), "file-B/entry")
		})
	}
}

// BenchmarkTrafficRead measures what readers of the log ask for, with as many entries
// as -traffic says that came at a thousand in a second. A search for 50 entries follows
// the cursor until it has them or all was read.
func BenchmarkTrafficRead(b *testing.B) {
	const rate = 1000
	s := mustOpen(b, logstore.Options{})
	span := time.Duration(*trafficEntries) * time.Second / rate
	recordTraffic(b, s, newTraffic(7, time.Now().Add(-span), rate), *trafficEntries)
	recent := mustFind(b, s, logstore.Query{Limit: 50}, 1)
	end := recent[0].Time
	old := mustFind(b, s, logstore.Query{Limit: 50, To: end.Add(-span * 9 / 10)}, 1)
	for _, bb := range []struct {
		name string
		q    logstore.Query
		want int // entries, over pages; 1 is a single page
	}{
		{"newest page", logstore.Query{}, 1},
		{"deep page", logstore.Query{To: old[25].Time}, 1},
		{"workspace and time", logstore.Query{Workspace: old[25].Workspace, From: end.Add(-span * 11 / 20), To: end.Add(-span / 2)}, 1},
		{"key and status", logstore.Query{KeyID: "01970000-2222-7000-8000-000000000002", Status: "5xx"}, 50},
		{"rare model", logstore.Query{Model: rareModel}, 50},
		{"old trace", logstore.Query{TraceID: old[25].TraceID}, 50},
		{"metadata", logstore.Query{Metadata: map[string]string{"session": old[25].TraceID[:12]}}, 50},
		{"text in a tenth", logstore.Query{Text: "no such text", From: end.Add(-span / 10)}, 50},
	} {
		b.Run(bb.name, func(b *testing.B) {
			bb.q.Limit = 50
			before := waittest.CPUTime(b)
			for b.Loop() {
				mustFind(b, s, bb.q, bb.want)
			}
			b.ReportMetric(float64((waittest.CPUTime(b)-before).Microseconds())/1e3/float64(b.N), "cpu-ms/op")
		})
	}
	b.Run("by id", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Get(b.Context(), logstore.Scope{}, old[25].ID); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// mustFind lists page by page until it has as many entries as are wanted.
func mustFind(b *testing.B, s *logstore.Store, q logstore.Query, want int) (list []*reqlog.Entry) {
	b.Helper()
	for {
		page, err := s.List(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, page.Entries...)
		if page.Next == "" || len(list) >= want {
			return list
		}
		q.Cursor = page.Next
	}
}
