package jsonedit_test

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"modelgate/internal/format/jsonedit"
)

var seeds = []string{`{}`, ` { "a" : 1 , "b":[true,false,null,-0.5e+3,{"c":"d"}]}`, `{"a":1,"\u0061":2}`, `{"a":"\ud83d\ude00 é 東京 \"x\" a longer text"}`,
	`{"a":}`, "{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}", `[1,2]`, `{"a":1}}`, `{"a":01}`, "\ufeff{}", `{"messages":[{"role":"user","content":"hi"}],"model":"m"}`}

func FuzzScan(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { mustAgree(t, b) })
}

func FuzzApply(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), "a", `{"x":1}`, "b", "c")
	}
	f.Fuzz(func(t *testing.T, b []byte, set, value, remove, rename string) {
		var d jsonedit.Doc
		if _, err := jsonedit.ParseValue([]byte(value)); err != nil || d.Scan(b) != nil || !utf8.ValidString(set+" "+rename) {
			return
		}
		edits := []jsonedit.Edit{{Name: remove}, {Name: set, Value: []byte(value)}, {Name: "model", Rename: rename}}
		got := d.Apply(nil, edits...)
		var after jsonedit.Doc
		if depth(got) > jsonedit.MaxDepth {
			return // deep inside deep
		}
		if err := after.Scan(got); err != nil {
			t.Fatalf("Apply(%q, %+v) = %q: %v", b, edits, got, err)
		}
		for key, v := range d.Members() {
			name := key.String()
			if name == set || name == remove || name == "model" || name == rename {
				continue
			}
			if kept, ok := after.Find(name); !ok || !bytes.Equal(kept.Raw(), v.Raw()) {
				t.Fatalf("Apply(%q, %+v) = %q: %q is %q, %t", b, edits, got, name, kept.Raw(), ok)
			}
		}
		if v, ok := after.Find(set); set != "model" && (!ok || string(v.Raw()) != string(bytes.TrimSpace([]byte(value))) && set != rename) {
			t.Fatalf("Apply(%q, %+v) = %q: %q is %q, %t", b, edits, got, set, v.Raw(), ok)
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, s := range seeds {
		for _, p := range []string{"a", "messages[*].role", "b[3].c", `["\u0061"]`, "[0]", "a.b.c"} {
			f.Add([]byte(s), p)
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte, path string) {
		p, err := jsonedit.ParsePath(path)
		if err != nil {
			return
		}
		if again := mustPath(t, p.String()); again.String() != p.String() {
			t.Fatalf("%q is written as %q and then as %q", path, p, again)
		}
		if _, err := jsonedit.ParseValue(doc); err == nil {
			mustHoldTogether(t, doc, p)
		}
	})
}
