package ledger_test

import (
	"testing"
	"time"

	"modelgate/internal/model/llm"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
)

// busy is an entry as an exchange leaves it.
func busy(id reqlog.ID) *reqlog.Entry {
	return &reqlog.Entry{
		ID: id, Time: id.Time(), Trace: reqlog.Trace{TraceID: id.String()}, Sender: reqlog.Sender{KeyID: "5b9cba5d-6f5a-4d2b-8a1b-0d9f8e7c6b5a", KeyName: "search", Organisation: "acme", Workspace: "search", UserAgent: "client/1.0"},
		Input:  reqlog.Input{Method: "POST", Path: "/v1/chat/completions", Operation: "chat", Stream: true, Model: "gpt-x", RequestBytes: 4096, Metadata: map[string]string{"team": "search"}},
		Origin: reqlog.Origin{Provider: "openai", Slug: "main", ResponseModel: "gpt-x-2026", OptionIndex: "targets[0]", CacheStatus: "DISABLED"},
		Result: reqlog.Result{Status: 200, Usage: llm.Usage{Input: 1000, Output: 200, Known: true}, Finish: "stop", ResponseBytes: 9000}, Steps: reqlog.Steps{Attempts: []reqlog.Attempt{{Target: "targets[0]", Provider: "openai", Slug: "main", Status: 200, Took: time.Second}}},
		Durations: reqlog.Durations{Total: time.Second},
	}
}

func TestNotingAllocatesNothing(t *testing.T) {
	l := mustOpen(t, ledger.Options{Dir: t.TempDir(), SyncInterval: time.Hour})
	id := reqlog.NewID(time.Now())
	i, s, e := intent(id, 1), settlement(id, 1), busy(id)
	note := func() {
		l.RecordIntent(t.Context(), i)
		l.RecordSettlement(s)
		l.Record(t.Context(), e)
	}
	for range 600 { // until every buffer has its size
		note()
	}
	if got := testing.AllocsPerRun(200, note); got > 0.5 && !raceEnabled {
		t.Errorf("%v allocations for an exchange, want none", got)
	}
	l.Close(closed(t))
}

func BenchmarkExchange(b *testing.B) {
	for name, o := range map[string]ledger.Options{"grouped": {}, "counted": {Counter: newCountStore()}, "strict": {Sync: ledger.Strict}} {
		b.Run(name, func(b *testing.B) {
			o.Dir, o.Store = b.TempDir(), newMemory()
			l := mustOpen(b, o)
			b.ReportAllocs()
			if o.Sync == ledger.Strict {
				b.SetParallelism(64)
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					id := reqlog.NewID(time.Now())
					l.RecordIntent(b.Context(), intent(id, 1))
					l.RecordSettlement(settlement(id, 1))
					l.Record(b.Context(), busy(id))
				}
			})
			b.ReportMetric(3*float64(b.N)/b.Elapsed().Seconds(), "records/s")
			b.StopTimer()
			mustClose(b, l)
		})
	}
}

// BenchmarkAppend is one record of a size, written at once.
func BenchmarkAppend(b *testing.B) {
	l := mustOpen(b, ledger.Options{Dir: b.TempDir(), SyncInterval: time.Hour, MaxSize: 1 << 40})
	i := intent(reqlog.NewID(time.Now()), 1)
	b.ReportAllocs()
	for b.Loop() {
		l.RecordIntent(b.Context(), i)
	}
	b.StopTimer()
	l.RecordSettlement(settlement(i.ID, 1))
	mustClose(b, l)
}

// BenchmarkReplay reads what a start reads, in exchanges.
func BenchmarkReplay(b *testing.B) {
	id := reqlog.NewID(time.Now())
	i, s := intent(id, 1), settlement(id, 1)
	var list []ledger.Record
	for range 10_000 {
		list = append(list, ledger.Record{Intent: &i}, ledger.Record{Settle: &s}, ledger.Record{Exchange: id, Row: codec.Append(nil, busy(id))})
	}
	segment := ledger.Segment(list)
	b.SetBytes(int64(len(segment)))
	for b.Loop() {
		if got, _, err := ledger.Records(segment); err != nil || len(got) != 30_000 {
			b.Fatal(len(got), err)
		}
	}
}
