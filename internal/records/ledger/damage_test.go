package ledger_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
)

// records draws any records.
func records(t *rapid.T) []ledger.Record {
	return rapid.SliceOfN(rapid.Custom(record), 0, 30).Draw(t, "records")
}

func record(t *rapid.T) ledger.Record {
	id := reqlog.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	n := rapid.Uint16().Draw(t, "attempt")
	at := time.UnixMicro(rapid.Int64Range(0, 1<<50).Draw(t, "time")).UTC()
	small := rapid.StringN(0, 20, 30)
	count := rapid.Int64Range(0, 1<<40)
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		return ledger.Record{Intent: &reqlog.Intent{
			ID: id, Attempt: n, Time: at, Organisation: small.Draw(t, "org"), Workspace: small.Draw(t, "ws"), KeyID: small.Draw(t, "key"),
			Provider: small.Draw(t, "provider"), Slug: small.Draw(t, "slug"), Model: small.Draw(t, "model"), RequestBytes: count.Draw(t, "bytes"),
		}}
	case 1:
		return ledger.Record{Settle: &reqlog.Settlement{
			ID: id, Attempt: n, Time: at, Outcome: reqlog.Outcome(rapid.IntRange(1, 5).Draw(t, "outcome")), Status: rapid.IntRange(0, 599).Draw(t, "status"),
			Usage: llm.Usage{Input: count.Draw(t, "in"), CachedInput: count.Draw(t, "cached"), Output: count.Draw(t, "out"), Reasoning: count.Draw(t, "reasoning"), Known: rapid.Bool().Draw(t, "known")},
			Cost:  catalog.NanoDollars(count.Draw(t, "cost")), Priced: rapid.Bool().Draw(t, "priced"), Price: small.Draw(t, "price"),
		}}
	}
	return ledger.Record{Exchange: id, Row: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "row")}
}

func markEstimated(list []ledger.Record) (out []string) {
	for _, r := range list {
		out = append(out, recordLine(r)+string(r.Row))
	}
	return out
}

// A segment that ends anywhere holds every record that ended before, and no
// other.
func TestASegmentCutAnywhereKeepsTheRecordsBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := records(t)
		whole := ledger.Segment(list)
		cut := rapid.IntRange(ledger.HeadSize, len(whole)).Draw(t, "cut")
		junk := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xff}), 0, 100).Draw(t, "junk")
		b := append(slices.Clone(whole[:cut]), junk...)
		kept := 0 // those that end before the cut, and one that the junk happens to complete
		for kept < len(list) && bytes.HasPrefix(b, ledger.Segment(list[:kept+1])) {
			kept++
		}
		got, damaged, err := ledger.Records(b)
		if err != nil || damaged != 0 {
			t.Fatalf("reading gave %d damaged places and %v, want neither", damaged, err)
		}
		if want := markEstimated(list[:kept]); !slices.Equal(markEstimated(got), want) {
			t.Fatalf("got %q, want %q", markEstimated(got), want)
		}
	})
}

// A byte that changed costs the record it is in, and no other.
func TestAChangedByteCostsOneRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := records(t)
		b := ledger.Segment(list)
		if len(list) == 0 {
			return
		}
		at := rapid.IntRange(ledger.HeadSize, len(b)-1).Draw(t, "at")
		b[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		hit := 0
		for len(ledger.Segment(list[:hit+1])) <= at {
			hit++
		}
		want := slices.Delete(slices.Clone(list), hit, hit+1)
		got, _, err := ledger.Records(b)
		if err != nil || !slices.Equal(markEstimated(got), markEstimated(want)) {
			t.Fatalf("got %q, %v; want all but record %d of %q", markEstimated(got), err, hit, markEstimated(list))
		}
	})
}

func FuzzSegment(f *testing.F) {
	id := reqlog.NewID(time.Unix(1_700_000_000, 0))
	i, s := intent(id, 1), settlement(id, 1)
	whole := ledger.Segment([]ledger.Record{{Intent: &i}, {Settle: &s}, {Exchange: id, Row: []byte("row")}})
	f.Add(whole, []byte{}, 0)
	f.Add(whole[:100], whole, 300)
	f.Fuzz(func(t *testing.T, b, insert []byte, at int) {
		at = min(max(at, 0), len(b))
		b = slices.Concat(b[:at], insert, b[at:])
		got, _, err := ledger.Records(b)
		if err != nil {
			return
		}
		again, _, err := ledger.Records(bytes.Clone(b))
		if err != nil || !slices.Equal(markEstimated(got), markEstimated(again)) {
			t.Errorf("reading twice differs: %v", err)
		}
		total := ledger.HeadSize
		for _, r := range got {
			total += 16 + len(r.Row)
		}
		if total > len(b) {
			t.Errorf("%d records take %d bytes of %d", len(got), total, len(b))
		}
	})
}

func TestADamagedSegmentIsPutAsideAndTheRestCounts(t *testing.T) {
	for name, damage := range map[string]func(b []byte) []byte{
		"a changed byte":      func(b []byte) []byte { b[ledger.HeadSize+300] ^= 1; return b },
		"a hole":              func(b []byte) []byte { clear(b[ledger.HeadSize+200 : ledger.HeadSize+400]); return b },
		"a broken head":       func(b []byte) []byte { b[3] ^= 1; return b },
		"nothing of it":       func(b []byte) []byte { return bytes.Repeat([]byte("junk "), 500) },
		"a torn end":          func(b []byte) []byte { return b[:len(b)-10] },
		"zeros at its end":    func(b []byte) []byte { return append(b, make([]byte, 5000)...) },
		"a mark out of range": func(b []byte) []byte { b[35] = 0xff; return b },
	} {
		t.Run(name, func(t *testing.T) {
			dir, away := t.TempDir(), newMemory()
			away.setError(errAway)
			l := mustOpen(t, ledger.Options{Dir: dir, Store: away})
			for range 5 {
				exchange(t, l)
			}
			left := kill(t, dir)
			file := segments(t, left)[0]
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			store := newMemory()
			again := mustOpen(t, ledger.Options{Dir: left, Store: store})
			exchange(t, again)
			mustClose(t, again)
			aside := strings.Contains(name, "byte") || strings.Contains(name, "hole") || strings.Contains(name, "head") || strings.Contains(name, "nothing")
			if got := again.Stats().Quarantined == 1; got != aside {
				t.Errorf("put aside: %t, want %t", got, aside)
			}
			if _, err := os.Stat(file + ".corrupt"); (err == nil) != aside {
				t.Errorf("the file aside: %v, want it there: %t", err, aside)
			}
			// With the head the seed is gone, and with it all that it sealed.
			want := 6
			if strings.Contains(name, "head") || strings.Contains(name, "nothing") {
				want = 1
			}
			if got := len(store.ids(t)); got != want && got != want-1 || got < 1 {
				t.Errorf("the store has %d rows, want %d or one less", got, want)
			}
			l.Close(closed(t))
		})
	}
}

func TestIncompleteEndIsCutFromTheFile(t *testing.T) {
	dir, away := t.TempDir(), newMemory()
	away.setError(errAway) // the segment stays
	l := mustOpen(t, ledger.Options{Dir: dir, Store: away})
	exchange(t, l)
	left := kill(t, dir)
	file := segments(t, left)[0]
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const torn = 10
	if err := os.WriteFile(file, append(b, make([]byte, torn)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := mustVerify(t, left); r.Segments[0].Torn != torn || r.Segments[0].Damaged != 0 {
		t.Errorf("before a start Verify = %+v, want %d bytes torn", r.Segments[0], torn)
	}
	again := mustOpen(t, ledger.Options{Dir: left, Store: away})
	if r := mustVerify(t, left).Segments[0]; r.Path != file || r.Torn != 0 || r.Bytes != int64(len(b)) || r.Rows != 1 || r.Settled != 1 {
		t.Errorf("after a start Verify = %+v, want %s of %d bytes with the attempt and its row", r, file, len(b))
	}
	again.Close(closed(t))
	l.Close(closed(t))
}

func TestALaterFormIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	b := ledger.Segment(nil)
	b[8] = 99
	if err := os.WriteFile(filepath.Join(dir, "00000001.seg"), ledger.Rehead(b), 0o600); err != nil {
		t.Fatal(err)
	}
	l := mustOpen(t, ledger.Options{Dir: dir})
	mustClose(t, l)
	if got := segments(t, dir); len(got) != 2 || !strings.HasSuffix(got[0], "00000001.seg") {
		t.Errorf("segments = %v, want the later one where it was", got)
	}
}

func TestRowThatCannotBeDecodedIsCountedAsLost(t *testing.T) {
	dir, away := t.TempDir(), newMemory()
	away.setError(errAway)
	l := mustOpen(t, ledger.Options{Dir: dir, Store: away})
	bad, good := exchange(t, l), exchange(t, l)
	left := kill(t, dir)
	l.Close(closed(t))
	store := newMemory()
	again := mustOpen(t, ledger.Options{Dir: left, Store: store, Codec: ledger.Codec{Append: codec.Append, Parse: func(b []byte) (*reqlog.Entry, error) {
		e, err := codec.Parse(b)
		if err == nil && e.ID == bad {
			err = errors.New("of another form")
		}
		return e, err
	}}})
	mustClose(t, again)
	if got := store.ids(t); len(got) != 1 || got[0] != good || again.Stats().Lost != 1 {
		t.Errorf("the store has %v and %d rows are lost, want %s and 1", got, again.Stats().Lost, good)
	}
}

func TestVerifyCountsAttemptsWithoutAPrice(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, ledger.Options{Dir: dir})
	for n, priced := range []bool{true, false, false} {
		id := reqlog.NewID(time.Now())
		mustIntend(t, l, id, 1)
		s := settlement(id, 1)
		s.Priced = priced
		l.RecordSettlement(s)
		l.Record(t.Context(), entry(id))
		if r := mustVerify(t, dir); r.Unpriced != n {
			t.Errorf("after %d attempts %d have no price, want %d", n+1, r.Unpriced, n)
		}
	}
	mustClose(t, l)
}

// TestSegmentThatWasBeingMadeIsRemoved starts with files that have no head: up to its
// size a process may have died while it wrote it.
func TestSegmentThatWasBeingMadeIsRemoved(t *testing.T) {
	for _, tt := range []struct{ size, aside int }{
		{0, 0}, {10, 0}, {ledger.HeadSize - 1, 0}, {ledger.HeadSize, 0}, {ledger.HeadSize + 1, 1},
	} {
		dir := mustWriteSegments(t, make([]byte, tt.size))
		l := mustOpen(t, ledger.Options{Dir: dir, KeepSegments: true})
		if got := l.Stats().Quarantined; got != tt.aside {
			t.Errorf("of a file of %d zeros %d segments are put aside, want %d", tt.size, got, tt.aside)
		}
		mustClose(t, l)
		if got := segments(t, dir); len(got) != 1+tt.aside {
			t.Errorf("of a file of %d zeros segments %v are left, want the process's and %d aside", tt.size, got, tt.aside)
		}
	}
}

func TestVerifyTellsWhatCannotBeRead(t *testing.T) {
	id := reqlog.NewID(time.Now())
	whole := ledger.Segment([]ledger.Record{noteIntent(id, 1), settleRecord(id, 1), noteRow(id)})
	with := func(at int) []byte {
		b := bytes.Clone(whole)
		b[at] ^= 1
		return b
	}
	for _, tt := range []struct {
		name                  string
		content               []byte
		ok, problem           bool
		damaged               int
		intents, settled, row int
	}{
		{"complete", whole, true, false, 0, 1, 1, 1},
		{"of a head alone", whole[:ledger.HeadSize], true, false, 0, 0, 0, 0},
		{"of nothing", nil, false, true, 0, 0, 0, 0},
		{"of less than a head", whole[:ledger.HeadSize-1], false, true, 0, 0, 0, 0},
		{"with a damaged head", with(3), false, true, 0, 0, 0, 0},
		{"with a damaged settlement", with(ledger.HeadSize + ledger.IntentSize + 20), false, false, 1, 1, 0, 1},
		{"without its last byte", whole[:len(whole)-1], true, false, 0, 1, 1, 0},
		{"with an attempt alone", whole[:ledger.HeadSize+ledger.IntentSize], false, false, 0, 1, 0, 0},
	} {
		r := mustVerify(t, mustWriteSegments(t, tt.content))
		if len(r.Segments) != 1 {
			t.Fatalf("a segment %s: Verify = %+v, want one segment", tt.name, r)
		}
		s := r.Segments[0]
		if r.OK() != tt.ok || s.Damaged != tt.damaged || (s.Problem != "") != tt.problem || s.Intents != tt.intents || s.Settled != tt.settled || r.Attempts != tt.settled || s.Rows != tt.row || s.Bytes != int64(len(tt.content)) || s.InUse || s.Quarantined {
			t.Errorf("a segment %s: Verify = %+v, OK %t; want OK %t, %d damaged places, a problem: %t, %d intents, %d settlements and %d rows",
				tt.name, r, r.OK(), tt.ok, tt.damaged, tt.problem, tt.intents, tt.settled, tt.row)
		}
	}
}
