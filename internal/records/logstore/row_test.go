package logstore_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/model/llm"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

func TestAnEntryAloneComesBackAsItWas(t *testing.T) {
	at := time.Unix(1_700_000_000, 123456789).UTC()
	e := &reqlog.Entry{
		ID: reqlog.NewID(at), Time: at, Trace: reqlog.Trace{TraceID: "trace"}, Input: reqlog.Input{Model: "m", Stream: true, Metadata: map[string]string{"a": "b"}}, Origin: reqlog.Origin{Provider: "openai"}, Result: reqlog.Result{Status: 200, Usage: llm.Usage{Input: 3, Output: 4, Known: true}},
		Steps: reqlog.Steps{Attempts: []reqlog.Attempt{{Provider: "openai", Status: 200, Took: time.Second}}},
	}
	got, err := logstore.ParseEntry(logstore.AppendEntry([]byte("before")[:0], e))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Errorf("the entry changed (-want +got):\n%s", diff)
	}
	for _, b := range [][]byte{nil, {1}, {1, 0, 0}, []byte("nonsense")} {
		if _, err := logstore.ParseEntry(b); err == nil {
			t.Errorf("ParseEntry(%q) gave no error", b)
		}
	}
}

func TestMissingTellsWhichEntriesTheStoreLacks(t *testing.T) {
	onBoth(t, testMissingTellsWhichEntriesTheStoreLacks)
}

func testMissingTellsWhichEntriesTheStoreLacks(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	var all []*reqlog.Entry
	for i := range 100 {
		e := &reqlog.Entry{ID: reqlog.NewID(time.UnixMilli(1_700_000_000_000 + int64(i)*100)), Input: reqlog.Input{Model: "m"}}
		all = append(all, e)
		if i%3 == 0 {
			s.Record(t.Context(), e)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Errorf("Sync = %v", err)
	}
	missing, err := s.Missing(t.Context(), all)
	if err != nil || len(missing) != 66 || missing[0] != all[1] {
		t.Errorf("Missing = %d entries, %v; want the 66 that were not recorded", len(missing), err)
	}
}
