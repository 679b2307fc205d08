package controlplane

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"modelgate/internal/records/reqlog"
)

// spanAt is an exchange that began at a second and is a span below another.
func spanAt(sec int, span, parent string, attempts ...int) *reqlog.Entry {
	at := time.Unix(int64(1_800_000_000+sec), 0).UTC()
	e := &reqlog.Entry{ID: reqlog.NewID(at), Time: at, Trace: reqlog.Trace{SpanID: span, ParentSpanID: parent, SpanName: fmt.Sprint(sec)}}
	for _, start := range attempts {
		e.Attempts = append(e.Attempts, reqlog.Attempt{Target: fmt.Sprint("try", start), Start: time.Duration(start) * time.Second})
	}
	return e
}

// drawTree writes a tree in one line: orphans have a question mark.
func drawTree(list []*spanNode) string {
	var parts []string
	for _, n := range list {
		text := n.Name
		if n.Orphan {
			text += "?"
		}
		if len(n.Children) > 0 {
			text += "(" + drawTree(n.Children) + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func TestSpansAreBelowTheirParents(t *testing.T) {
	for _, tt := range []struct {
		name    string
		entries []*reqlog.Entry
		want    string
	}{
		{"none", nil, ""},
		{"without ids", []*reqlog.Entry{spanAt(1, "", ""), spanAt(2, "", "")}, "1 2"},
		{"a tree", []*reqlog.Entry{spanAt(1, "a", ""), spanAt(2, "b", "a"), spanAt(3, "c", "b"), spanAt(4, "d", "a")}, "1(2(3) 4)"},
		{"a child that began before its parent", []*reqlog.Entry{spanAt(1, "b", "a"), spanAt(2, "a", "")}, "2(1)"},
		{"attempts among children", []*reqlog.Entry{spanAt(0, "a", "", 1, 5), spanAt(3, "b", "a")}, "0(try1 3 try5)"},
		{"an orphan", []*reqlog.Entry{spanAt(1, "a", "lost"), spanAt(2, "b", "a")}, "1?(2)"},
		{"its own parent", []*reqlog.Entry{spanAt(1, "a", "a")}, "1?"},
		{"a ring", []*reqlog.Entry{spanAt(1, "a", "c"), spanAt(2, "b", "a"), spanAt(3, "c", "b")}, "1?(2(3))"},
		{"a ring with a tail", []*reqlog.Entry{spanAt(1, "t", "a"), spanAt(2, "a", "b"), spanAt(3, "b", "a")}, "2?(1 3)"},
		{"the same id twice", []*reqlog.Entry{spanAt(1, "a", ""), spanAt(2, "a", ""), spanAt(3, "b", "a")}, "1(3) 2"},
		{"the same id twice, below itself", []*reqlog.Entry{spanAt(1, "a", "a"), spanAt(2, "a", "a")}, "1?(2)"},
	} {
		if got := drawTree(buildSpanTree(tt.entries)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestEverySpanIsShownOnceForAnyParent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "spans")
		var entries []*reqlog.Entry
		for i := range n {
			id := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e", "f"})
			entries = append(entries, spanAt(i, id.Draw(t, "span"), id.Draw(t, "parent")))
		}
		seen := make(map[string]bool)
		var walk func(list []*spanNode, above *spanNode)
		walk = func(list []*spanNode, above *spanNode) {
			for i, s := range list {
				if seen[*s.ID] {
					t.Fatalf("%s is shown twice", s.Name)
				}
				seen[*s.ID] = true
				if above != nil && *above.SpanID != *s.ParentID || above == nil && s.Orphan != (s.ParentID != nil) || above != nil && s.Orphan {
					t.Fatalf("%s is at a wrong place", s.Name)
				}
				if i > 0 && s.begin.Before(list[i-1].begin) {
					t.Fatalf("%s is not in order", s.Name)
				}
				walk(s.Children, s)
			}
		}
		walk(buildSpanTree(entries), nil)
		if len(seen) != n {
			t.Fatalf("%d spans are shown, want %d", len(seen), n)
		}
	})
}

func TestAChainOfSpansCanBeReadHoweverLong(t *testing.T) {
	var entries []*reqlog.Entry
	for i := range maxSpans {
		entries = append(entries, spanAt(i, fmt.Sprint("s", i), fmt.Sprint("s", i-1), 0))
	}
	text, err := json.Marshal(buildSpanTree(entries))
	var back []map[string]any
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil || len(back) != maxSpans/200 || back[1]["orphan"] != true {
		t.Errorf("%d spans in a chain are %d trees, %v; want %d", maxSpans, len(back), err, maxSpans/200)
	}
}
