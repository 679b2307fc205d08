package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/records/ledger"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// writeLedger makes a ledger with one whole exchange, and one attempt without an end
// when cut is true, as a killed process leaves it.
func writeLedger(t *testing.T, cut bool) string {
	t.Helper()
	data, live := t.TempDir(), t.TempDir()
	logs, err := logstore.Open(t.Context(), logstore.Options{Path: filepath.Join(live, "logs.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close(t.Context())
	l, err := ledger.Open(t.Context(), ledger.Options{Dir: filepath.Join(live, "ledger"), Store: discardCounts{}, Codec: ledger.Codec{Append: logstore.AppendEntry, Parse: logstore.ParseEntry}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	id := reqlog.NewID(time.Now())
	s := reqlog.Settlement{ID: id, Attempt: 1, Outcome: reqlog.Answered, Status: 200, Cost: 420, Priced: true}
	s.Usage.Input, s.Usage.Known = 7, true
	if err := l.RecordIntent(t.Context(), reqlog.Intent{ID: id, Attempt: 1, Provider: "openai", Model: "m"}); err != nil {
		t.Fatal(err)
	}
	l.RecordSettlement(s)
	l.Record(t.Context(), &reqlog.Entry{ID: id, Input: reqlog.Input{Model: "m"}})
	if cut {
		if err := l.RecordIntent(t.Context(), reqlog.Intent{ID: reqlog.NewID(time.Now()), Attempt: 1, Provider: "openai", Model: "cut-model"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(data, "ledger"), os.DirFS(filepath.Join(live, "ledger"))); err != nil {
		t.Fatal(err)
	}
	return data
}

// discardCounts is a store that loses everything, as a log that was put back from an
// old backup has.
type discardCounts struct{}

func (discardCounts) Apply(_ context.Context, _ []*reqlog.Entry, _ bool) error { return nil }
func (discardCounts) Sync(_ context.Context) error                             { return nil }

func TestLedgerVerifyTellsWhatIsThere(t *testing.T) {
	code, out, _ := invoke(t, nil, "", "ledger", "verify", "--data", writeLedger(t, false))
	for _, want := range []string{"00000001.seg", "requests            1\n", "input tokens        7\n", "nano-dollars        420\n", "ok"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestLedgerVerifyNamesDamage(t *testing.T) {
	for name, change := range map[string]func(segment []byte) []byte{
		"an attempt without an end": nil,
		"a damaged record": func(b []byte) []byte {
			b[bytes.Index(b, []byte("openai"))] ^= 1
			return b
		},
		"an unreadable head": func(b []byte) []byte { return append([]byte("none"), b[4:]...) },
	} {
		data := writeLedger(t, change == nil)
		segment := filepath.Join(data, "ledger", "00000001.seg")
		before, err := os.ReadFile(segment)
		if err == nil && change != nil {
			before = change(before)
			err = os.WriteFile(segment, before, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		code, out, _ := invoke(t, nil, "", "ledger", "verify", "--data", data)
		if code != 1 {
			t.Errorf("%s: exit code %d, want 1:\n%s", name, code, out)
		}
		files, _ := os.ReadDir(filepath.Join(data, "ledger"))
		if after, err := os.ReadFile(segment); err != nil || !bytes.Equal(after, before) || len(files) != 1 {
			t.Errorf("%s: verify changed the ledger: %v, %v", name, files, err)
		}
	}
}

func TestLedgerReplayAppliesWhatTheLogLacks(t *testing.T) {
	data := writeLedger(t, true)
	code, out, errText := invoke(t, nil, "", "ledger", "verify", "--data", data)
	if code != 1 || !strings.Contains(out, "cut-model") || strings.Count(errText, "\n") != 1 {
		t.Errorf("verify ended with %d, %q, %q; want 1, the attempt without an end, and one line", code, out, errText)
	}
	if code, out, _ := invoke(t, nil, "", "ledger", "replay", "--data", data); code != 0 || !strings.Contains(out, "added to the log   2\n") || !strings.Contains(out, "estimated      1\n") {
		t.Errorf("replay ended with %d and said %q", code, out)
	}
	if code, out, _ := invoke(t, nil, "", "ledger", "replay", "--data", data); code != 0 || !strings.Contains(out, "added to the log   0\n") {
		t.Errorf("a second replay ended with %d and said %q", code, out)
	}
	if code, out, _ := invoke(t, nil, "", "ledger", "verify", "--data", data); code != 0 {
		t.Errorf("verify ended with %d after the replay: %s", code, out)
	}
}

func TestLedgerRefusesOtherWords(t *testing.T) {
	if code, _, _ := invoke(t, nil, "", "ledger", "mend", "--data", writeLedger(t, false)); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	if code, _, errText := invoke(t, nil, "", "ledger", "verify", "--data", t.TempDir()); code != 1 || !strings.Contains(errText, "ledger not found") {
		t.Errorf("a folder without a ledger gave %d, %q", code, errText)
	}
}
