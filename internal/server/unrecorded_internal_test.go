package server

import (
	"testing"

	"modelgate/internal/records/reqlog"
)

func TestNothingIsKeptOfExchangesThatAreNotRecorded(t *testing.T) {
	t.Parallel()
	for _, unrecorded := range []bool{false, true} {
		s, err := New(t.Context(), Options{Data: t.TempDir(), Listen: "127.0.0.1:0", NoRecording: unrecorded})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if got := s.engine.Ledger == nil; got != unrecorded {
			t.Errorf("unrecorded %t: attempts have no account: %t", unrecorded, got)
		}
		s.recorder().Record(t.Context(), &reqlog.Entry{ID: reqlog.ID{1}})
		if err := s.flushLog(t.Context()); err != nil {
			t.Fatal(err)
		}
		if kept := s.logs.Stats().Written == 0; kept != unrecorded {
			t.Errorf("unrecorded %t: no entry is kept: %t", unrecorded, kept)
		}
	}
}
