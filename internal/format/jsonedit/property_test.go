package jsonedit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"modelgate/internal/format/jsonedit"
)

// accepted is the reference for Scan: valid as the standard library sees it, an
// object in UTF-8, not too deep, and without a repeated key at the top level.
func accepted(b []byte) (valid, unique bool) {
	if !json.Valid(b) || !utf8.Valid(b) || depth(b) > jsonedit.MaxDepth {
		return false, false
	}
	keys, isObject := topKeys(b)
	seen := map[string]bool{}
	for _, k := range keys {
		seen[k] = true
	}
	return isObject, len(seen) == len(keys)
}

func depth(b []byte) (deepest int) {
	d := json.NewDecoder(bytes.NewReader(b))
	for level := 0; ; deepest = max(deepest, level) {
		token, err := d.Token()
		switch {
		case err != nil:
			return deepest
		case token == json.Delim('{') || token == json.Delim('['):
			level++
		case token == json.Delim('}') || token == json.Delim(']'):
			level--
		}
	}
}

// topKeys returns the keys of an object in their order, repeated ones too.
func topKeys(b []byte) (keys []string, isObject bool) {
	d := json.NewDecoder(bytes.NewReader(b))
	if token, _ := d.Token(); token != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		key, _ := d.Token()
		keys = append(keys, key.(string))
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			panic(err)
		}
	}
	return keys, true
}

// mustAgree fails when Scan and the reference differ on b.
func mustAgree(t interface {
	Helper()
	Fatalf(string, ...any)
}, b []byte) {
	t.Helper()
	valid, unique := accepted(b)
	var d jsonedit.Doc
	err := d.Scan(b)
	var syntax *jsonedit.SyntaxError
	var duplicate *jsonedit.DuplicateKeyError
	switch {
	case valid && unique && err != nil:
		t.Fatalf("Scan(%q) = %v, want it accepted", b, err)
	case valid && !unique && !errors.As(err, &duplicate):
		t.Fatalf("Scan(%q) = %v, want a repeated key", b, err)
	case !valid && !errors.As(err, &syntax) && !errors.As(err, &duplicate):
		t.Fatalf("Scan(%q) = %v, want it refused", b, err)
	case err != nil && (d.Len() != 0 || d.Bytes() != nil):
		t.Fatalf("Scan(%q) = %v, and the document keeps %d members", b, err, d.Len())
	}
	_, err = jsonedit.ParseValue(b)
	if want := json.Valid(b) && utf8.Valid(b) && depth(b) <= jsonedit.MaxDepth; want != (err == nil) {
		t.Fatalf("ParseValue(%q) = %v, want accepted %t", b, err, want)
	}
	if errors.As(err, &syntax) {
		mustPointAt(t, b, syntax)
	}
}

func mustPointAt(t interface {
	Helper()
	Fatalf(string, ...any)
}, b []byte, e *jsonedit.SyntaxError) {
	t.Helper()
	if e.Offset > len(b) {
		t.Fatalf("%q: offset %d, want at most %d", b, e.Offset, len(b))
	}
	before := string(b[:e.Offset])
	line := 1 + strings.Count(before, "\n")
	if column := len(before) - strings.LastIndex(before, "\n"); e.Line != line || e.Column != column {
		t.Fatalf("%q: offset %d is called line %d, column %d, want %d, %d", b, e.Offset, e.Line, e.Column, line, column)
	}
}

func TestScanAcceptsWhatTheReferenceAccepts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := []byte(object(t, 20).String())
		if rapid.Bool().Draw(t, "broken") {
			b = broken(t, b)
		}
		mustAgree(t, b)
	})
}

// broken changes, drops, doubles or inserts bytes.
func broken(t *rapid.T, b []byte) []byte {
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		at := rapid.IntRange(0, len(b)).Draw(t, "at")
		to := rapid.IntRange(at, min(len(b), at+3)).Draw(t, "to")
		insert := rapid.SampledFrom([]string{"", "\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", "\x00", "\n", "\x1f",
			"\xff", "\xc3", "\xe6\x9d", "\xed\xa0\x80", "\xc0\x80", "tru", "null", "\ufeff", " ", `\u12`}).Draw(t, "insert")
		b = append(append(bytes.Clone(b[:at]), insert...), b[to:]...)
	}
	return b
}

func TestMembersValuesAndFindAgreeWithTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := object(t, 40)
		var d jsonedit.Doc
		if err := d.Scan([]byte(src.String())); err != nil {
			t.Fatal(err)
		}
		i := 0
		for key, v := range d.Members() {
			p := src.parts[i]
			if string(key.Raw()) != p.key || string(v.Raw()) != p.value || key.String() != p.name() || !key.Is(p.name()) {
				t.Fatalf("member %d = %s, %s, want %s, %s", i, key.Raw(), v.Raw(), p.key, p.value)
			}
			if found, ok := d.Find(p.name()); !ok || string(found.Raw()) != p.value {
				t.Fatalf("Find(%q) = %s, %t, want %s", p.name(), found.Raw(), ok, p.value)
			}
			mustMean(t, v)
			i++
		}
		if i != len(src.parts) || d.Len() != i {
			t.Fatalf("%d members, Len %d, want %d", i, d.Len(), len(src.parts))
		}
		if _, ok := d.Find("not there"); ok {
			t.Fatal("found a member that is not there")
		}
	})
}

// mustMean checks what a value says of itself against the standard library.
func mustMean(t *rapid.T, v jsonedit.Value) {
	var want any
	d := json.NewDecoder(bytes.NewReader(v.Raw()))
	d.UseNumber()
	if err := d.Decode(&want); err != nil {
		t.Fatalf("%s: %v", v.Raw(), err)
	}
	switch want := want.(type) {
	case string:
		got, ok := v.Text()
		view, also := v.TextBytes()
		if got != want || !ok || string(view) != want || !also {
			t.Fatalf("%s: text %q, %q, want %q", v.Raw(), got, view, want)
		}
	case json.Number:
		mustCount(t, v, want)
	case bool:
		if got, ok := v.Bool(); got != want || !ok {
			t.Fatalf("%s: bool %t, %t", v.Raw(), got, ok)
		}
	case []any:
		n := 0
		for element := range v.Elements() {
			mustMean(t, element)
			n++
		}
		if n != len(want) || v.Kind() != jsonedit.Array {
			t.Fatalf("%s: %d elements, want %d", v.Raw(), n, len(want))
		}
	case map[string]any:
		mustHold(t, v, want)
	}
}

// mustCount checks a number against the standard library's readings of it.
func mustCount(t *rapid.T, v jsonedit.Value, want json.Number) {
	i, ok := v.Int()
	wantInt, err := want.Int64()
	if ok != (err == nil) || ok && i != wantInt {
		t.Fatalf("%s: int %d, %t, want %d, %v", v.Raw(), i, ok, wantInt, err)
	}
	f, ok := v.Float()
	wantFloat, err := want.Float64()
	if err != nil {
		wantFloat = 0 // not the infinity that it came close to
	}
	if ok != (err == nil) || f != wantFloat || v.Kind() != jsonedit.Number {
		t.Fatalf("%s: float %g, %t, want %g, %v", v.Raw(), f, ok, wantFloat, err)
	}
}

func mustHold(t *rapid.T, v jsonedit.Value, want map[string]any) {
	got := map[string]string{}
	for key, field := range v.Fields() {
		mustMean(t, field)
		got[key.String()] = string(field.Raw())
	}
	if len(got) != len(want) || v.Kind() != jsonedit.Object {
		t.Fatalf("%s: %d fields, want %d", v.Raw(), len(got), len(want))
	}
	for name, raw := range got {
		if field, ok := v.Get(name); !ok || string(field.Raw()) != raw {
			t.Fatalf("%s: Get(%q) = %s, %t, want %s", v.Raw(), name, field.Raw(), ok, raw)
		}
	}
}

// drawEdits draws edits of members that are there, and of others.
func drawEdits(t *rapid.T, src document) []jsonedit.Edit {
	names := []string{"new", "other", "a", ""}
	for _, p := range src.parts {
		names = append(names, p.name(), p.name())
	}
	name := rapid.SampledFrom(names)
	edits := make([]jsonedit.Edit, rapid.IntRange(0, 5).Draw(t, "edits"))
	for i := range edits {
		edits[i].Name = name.Draw(t, "name")
		if rapid.Bool().Draw(t, "set") {
			edits[i].Value = []byte(value(t, 1))
		}
		if rapid.IntRange(0, 2).Draw(t, "rename") == 0 {
			edits[i].Rename = name.Draw(t, "new name")
		}
	}
	return edits
}

// edited is the reference for Apply, made from the parts of the document.
func edited(src document, edits []jsonedit.Edit) string {
	last := map[string]jsonedit.Edit{}
	for _, e := range edits {
		last[e.Name] = e
	}
	present := map[string]bool{}
	for _, p := range src.parts {
		present[p.name()] = true
	}
	taken := map[string]bool{} // names that stay, or come by appending
	for name := range present {
		e, ok := last[name]
		taken[name] = !ok || (e.Rename == "" && e.Value != nil) || (e.Rename == name && name != "")
	}
	for name, e := range last {
		if !present[name] && e.Value != nil && e.Rename == "" {
			taken[name] = true
		}
	}
	gone := map[string]bool{}
	for i, e := range edits {
		if !present[e.Name] || laterEdit(edits[i+1:], e.Name) {
			continue
		}
		switch {
		case e.Rename == "":
			gone[e.Name] = e.Value == nil
		case e.Rename != e.Name:
			gone[e.Name] = taken[e.Rename]
			taken[e.Rename] = true
		}
	}
	return rewritten(src, edits, last, present, gone)
}

func laterEdit(edits []jsonedit.Edit, name string) bool {
	for _, e := range edits {
		if e.Name == name {
			return true
		}
	}
	return false
}

func rewritten(src document, edits []jsonedit.Edit, last map[string]jsonedit.Edit, present, gone map[string]bool) string {
	out := document{before: src.before, inside: src.inside, after: src.after}
	tail := "" // the white space before the closing brace
	for i, p := range src.parts {
		tail = p.after
		if gone[p.name()] {
			continue
		}
		if e, ok := last[p.name()]; ok {
			if e.Rename != "" {
				p.key = string(jsonedit.AppendString(nil, e.Rename))
			}
			if e.Value != nil {
				p.value = string(e.Value)
			}
		}
		if len(out.parts) == 0 && i > 0 {
			p.before = src.parts[0].before
		}
		out.parts = append(out.parts, p)
	}
	if len(src.parts) == 0 {
		tail = src.inside
	}
	out.inside = tail
	if n := len(out.parts); n > 0 {
		out.parts[n-1].after = ""
		if gone[src.parts[0].name()] {
			// what precedes the first key belongs to the object
			out.parts[0].before = src.parts[0].before
		}
	}
	spreadGaps(src, &out, gone)
	for i, e := range edits {
		if e.Value == nil || e.Rename != "" || present[e.Name] || laterEdit(edits[i+1:], e.Name) {
			continue
		}
		out.parts = append(out.parts, part{key: string(jsonedit.AppendString(nil, e.Name)), colon: ":", value: string(e.Value)})
	}
	if n := len(out.parts); n > 0 {
		out.parts[n-1].after += tail
	}
	return out.String()
}

// spreadGaps gives a member that follows a deleted one the white space before the
// first of the deleted, which stays.
func spreadGaps(src document, out *document, gone map[string]bool) {
	gap, kept := -1, 0
	for i, p := range src.parts {
		if gone[p.name()] {
			if gap < 0 {
				gap = i
			}
			continue
		}
		if gap >= 0 {
			out.parts[kept].before = src.parts[gap].before
			gap = -1
		}
		kept++
	}
}

func TestApplyChangesTheEditedMembersAndNoOtherByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := object(t, 24)
		text := []byte(src.String())
		var d, again jsonedit.Doc
		if err := d.Scan(text); err != nil {
			t.Fatal(err)
		}
		edits := drawEdits(t, src)
		got := d.Apply(nil, edits...)
		if diff := cmp.Diff(edited(src, edits), string(got)); diff != "" {
			t.Fatalf("Apply(%s, %+v) (-want +got):\n%s", text, edits, diff)
		}
		if err := again.Scan(got); err != nil {
			t.Fatalf("Apply(%s, %+v) = %s: %v", text, edits, got, err)
		}
		if !bytes.Equal(d.Bytes(), []byte(src.String())) {
			t.Fatalf("Apply changed its document to %s", d.Bytes())
		}
	})
}

func TestTheStandardLibrarySeesExactlyTheEditedMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := object(t, 20)
		set, remove := literal(t), literal(t)
		var d jsonedit.Doc
		if err := d.Scan([]byte(src.String())); err != nil {
			t.Fatal(err)
		}
		got := d.Apply(nil, jsonedit.Edit{Name: unquote(set), Value: []byte(`["new"]`)}, jsonedit.Edit{Name: unquote(remove)})
		want := decoded(t, []byte(src.String()))
		want[unquote(set)] = json.RawMessage(`["new"]`)
		delete(want, unquote(remove))
		if diff := cmp.Diff(want, decoded(t, got)); diff != "" {
			t.Fatalf("set %s, delete %s in %s (-want +got):\n%s", set, remove, src, diff)
		}
	})
}

func decoded(t *rapid.T, b []byte) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &members); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return members
}

func TestAppendStringWritesWhatTheStandardLibraryReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[\x00-\x7f]*`),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		b := jsonedit.AppendString([]byte("x"), s)[1:]
		if got, want := unquote(string(b)), strings.ToValidUTF8(s, "\ufffd"); !utf8.Valid(b) || len(got) < len(want) {
			t.Fatalf("AppendString(%q) = %s", s, b)
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
		if unquote(string(b)) != unquote(want.String()) {
			t.Fatalf("AppendString(%q) = %s, want %s", s, b, want.String())
		}
	})
}
