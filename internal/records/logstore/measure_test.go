package logstore

import (
	"errors"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
)

func TestBoundsKeepWhatIsKnownAndWithin(t *testing.T) {
	some := &reqlog.Entry{ID: reqlog.NewID(time.Now()), Charge: reqlog.Charge{Cost: 700, Priced: true}, Result: reqlog.Result{Usage: llm.Usage{Input: 10, CachedInput: 5, Output: 7, Known: true}}}
	free := &reqlog.Entry{ID: reqlog.NewID(time.Now()), Charge: reqlog.Charge{Priced: true}, Result: reqlog.Result{Usage: llm.Usage{Known: true}}}
	none := &reqlog.Entry{ID: reqlog.NewID(time.Now()), Result: reqlog.Result{Usage: llm.Usage{Input: 10}}}
	for _, tt := range []struct {
		name             string
		q                Query
		some, free, none bool
	}{
		{"no bounds", Query{}, true, true, true},
		{"cost at the least", Query{Cost: Bounds{Min: new(int64(700))}}, true, false, false},
		{"cost above it", Query{Cost: Bounds{Min: new(int64(701))}}, false, false, false},
		{"cost at the most", Query{Cost: Bounds{Max: new(int64(700))}}, true, true, false},
		{"cost below it", Query{Cost: Bounds{Max: new(int64(699))}}, false, true, false},
		{"cost of nothing", Query{Cost: Bounds{Min: new(int64(0)), Max: new(int64(0))}}, false, true, false},
		{"tokens", Query{Tokens: Bounds{Min: new(int64(22)), Max: new(int64(22))}}, true, false, false},
		{"prompt tokens, cached ones too", Query{PromptTokens: Bounds{Min: new(int64(15))}}, true, false, false},
		{"too many prompt tokens", Query{PromptTokens: Bounds{Min: new(int64(16))}}, false, false, false},
		{"completion tokens", Query{CompletionTokens: Bounds{Max: new(int64(6))}}, false, true, false},
		{"two of them", Query{Cost: Bounds{Min: new(int64(1))}, CompletionTokens: Bounds{Max: new(int64(7))}}, true, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for e, want := range map[*reqlog.Entry]bool{some: tt.some, free: tt.free, none: tt.none} {
				if got := mustMatch(t, tt.q, e); got != want {
					t.Errorf("an entry that costs %d with %+v is listed: %t, want %t", e.Cost, e.Usage, got, want)
				}
			}
		})
	}
}

// mustMatch reports whether e is listed for q, as it is stored.
func mustMatch(t *testing.T, q Query, e *reqlog.Entry) bool {
	t.Helper()
	data := AppendEntry(nil, e)
	b, err := newBlockReader(data)
	if err != nil {
		t.Fatal(err)
	}
	p, err := q.plan(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	f, ok := p.filterFor(b, data)
	packed, _, err := b.next()
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	got, err := f.matches(packed)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestBoundsBelongToTheirListing(t *testing.T) {
	seen := map[uint32]Query{}
	for _, q := range []Query{
		{}, {Cost: Bounds{Min: new(int64(1))}}, {Cost: Bounds{Max: new(int64(1))}}, {Tokens: Bounds{Max: new(int64(1))}},
		{PromptTokens: Bounds{Max: new(int64(1))}}, {CompletionTokens: Bounds{Max: new(int64(1))}}, {Cost: Bounds{Max: new(int64(0))}},
	} {
		if other, ok := seen[q.fingerprint()]; ok {
			t.Errorf("%+v and %+v have one fingerprint", other, q)
		}
		seen[q.fingerprint()] = q
	}
	_, err := Query{Tokens: Bounds{Min: new(int64(2)), Max: new(int64(1))}}.plan(time.Now())
	if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Param != "tokens" {
		t.Errorf("bounds that cross: %v, want an error that names tokens", err)
	}
}
