package jsonedit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"modelgate/internal/format/jsonedit"
)

func mustPath(t interface {
	Helper()
	Fatalf(string, ...any)
}, s string) jsonedit.Path {
	t.Helper()
	p, err := jsonedit.ParsePath(s)
	if err != nil {
		t.Fatalf("ParsePath(%q): %v", s, err)
	}
	return p
}

func TestParsePathSaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"", `path "", after "": expected a name`},
		{".a", `path ".a", after "": expected a name`},
		{"a.", `path "a.", after "a": expected a name`},
		{"a..b", `path "a..b", after "a": expected a name`},
		{"a[", `path "a[", after "a": expected ']'`},
		{"a]", `path "a]", after "a": expected '.' or '[' after a step`},
		{"a[*", `path "a[*", after "a": expected ']'`},
		{"a[-1]", `path "a[-1]", after "a": expected a number, * or a name in double quotes after '['`},
		{"a[99999999999]", `path "a[99999999999]", after "a": expected a number, * or a name in double quotes after '['`},
		{"a[0]b", `path "a[0]b", after "a[0]": expected '.' or '[' after a step`},
		{`a["b]`, `path "a[\"b]", after "a": expected a double quote to end the string, found the end`},
		{`a["b"`, `path "a[\"b\"", after "a": expected ']'`},
		{`a["\x"]`, `path "a[\"\\x\"]", after "a": expected one of "\/bfnrtu after a backslash`},
	} {
		if p, err := jsonedit.ParsePath(tt.path); err == nil || err.Error() != tt.want {
			t.Errorf("ParsePath(%q) = %q, %v, want %s", tt.path, p, err, tt.want)
		}
	}
}

func TestPathsAreWrittenInTheFormTheyAreReadIn(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"a", "a"},
		{"a.b", "a.b"},
		{"messages[*].name", "messages[*].name"},
		{"[0]", "[0]"},
		{"a[0][12].b", "a[0][12].b"},
		{`metadata["a.b"].c`, `metadata["a.b"].c`},
		{`[""]`, `[""]`},
		{`["a"]["b"]`, "a.b"},
		{`a["\u0062\""]`, `a["b\""]`},
	} {
		if got := mustPath(t, tt.path).String(); got != tt.want {
			t.Errorf("ParsePath(%q) is written as %q, want %q", tt.path, got, tt.want)
		}
	}
}

const pathDoc = ` {"a":{"b" : [ {"c":1, "d":2} , {"d":3}, 4 ], "x.y":5}, "\u0065":[[1,2],[3]], "k":{"n":1,"n":2} } `

func TestPathsReadDeleteAndSet(t *testing.T) {
	for _, tt := range []struct{ path, get, without, set string }{
		{"a.b[0].c", "1", `[ {"d":2} , {"d":3}, 4 ]`, `[ {"c":0, "d":2} , {"d":3}, 4 ]`},
		{"a.b[*].d", "2", `[ {"c":1} , {}, 4 ]`, `[ {"c":1, "d":0} , {"d":0}, 4 ]`},
		{"a.b[*].c", "1", `[ {"d":2} , {"d":3}, 4 ]`, `[ {"c":0, "d":2} , {"d":3,"c":0}, 4 ]`},
		{"a.b[*]", `{"c":1, "d":2}`, `[ ]`, `[ 0 , 0, 0 ]`},
		{"a.b[1]", `{"d":3}`, `[ {"c":1, "d":2} , 4 ]`, `[ {"c":1, "d":2} , 0, 4 ]`},
		{"a.b[2]", `4`, `[ {"c":1, "d":2} , {"d":3} ]`, `[ {"c":1, "d":2} , {"d":3}, 0 ]`},
		{"a.b[3]", ``, `[ {"c":1, "d":2} , {"d":3}, 4 ]`, `[ {"c":1, "d":2} , {"d":3}, 4 ]`},
		{"a.b.c", ``, `[ {"c":1, "d":2} , {"d":3}, 4 ]`, `[ {"c":1, "d":2} , {"d":3}, 4 ]`},
		{"a.b[0].p.q", ``, `[ {"c":1, "d":2} , {"d":3}, 4 ]`, `[ {"c":1, "d":2,"p":{"q":0}} , {"d":3}, 4 ]`},
		{"a.b[0].p[0]", ``, `[ {"c":1, "d":2} , {"d":3}, 4 ]`, `[ {"c":1, "d":2} , {"d":3}, 4 ]`},
	} {
		const list = `[ {"c":1, "d":2} , {"d":3}, 4 ]`
		mustEdit(t, tt.path, tt.get, strings.Replace(pathDoc, list, tt.without, 1), strings.Replace(pathDoc, list, tt.set, 1))
	}
	rest := func(old, changed string) string { return strings.Replace(pathDoc, old, changed, 1) }
	mustEdit(t, `a["x.y"]`, "5", rest(`, "x.y":5`, ""), rest(`"x.y":5`, `"x.y":0`))
	mustEdit(t, `["a"].b`, `[ {"c":1, "d":2} , {"d":3}, 4 ]`,
		` {"a":{"x.y":5}, "\u0065":[[1,2],[3]], "k":{"n":1,"n":2} } `, ` {"a":{"b" : 0, "x.y":5}, "\u0065":[[1,2],[3]], "k":{"n":1,"n":2} } `)
	mustEdit(t, "e[*][0]", "1", rest("[[1,2],[3]]", "[[2],[]]"), rest("[[1,2],[3]]", "[[0,2],[0]]"))
	mustEdit(t, "k.n", "2", rest(`{"n":1,"n":2}`, "{}"), rest(`{"n":1,"n":2}`, `{"n":0,"n":0}`))
	mustEdit(t, "new", "", pathDoc, rest("2} } ", `2},"new":0 } `))
	mustEdit(t, `k["\n"]`, "", pathDoc, rest("2} } ", `2,"\n":0} } `))
}

func mustEdit(t *testing.T, path, get, without, set string) {
	t.Helper()
	p := mustPath(t, path)
	if v, ok := jsonedit.Get([]byte(pathDoc), p); string(v.Raw()) != get || ok != (get != "") {
		t.Errorf("Get(%s) = %s, %t, want %s", path, v.Raw(), ok, get)
	}
	if got, err := jsonedit.Delete([]byte("-"), []byte(pathDoc), p); string(got) != "-"+without || err != nil {
		t.Errorf("Delete(%s) =\n%s, %v, want\n-%s", path, got, err, without)
	}
	if got, err := jsonedit.Set([]byte("-"), []byte(pathDoc), p, []byte("0")); string(got) != "-"+set || err != nil {
		t.Errorf("Set(%s) =\n%s, %v, want\n-%s", path, got, err, set)
	}
}

func TestPathsRefuseAnInvalidDocument(t *testing.T) {
	p := mustPath(t, "a")
	doc := []byte(`{"a":1,}`)
	if got, err := jsonedit.Delete([]byte("-"), doc, p); err == nil || string(got) != "-" {
		t.Errorf("Delete = %s, %v, want an error", got, err)
	}
	if got, err := jsonedit.Set([]byte("-"), doc, p, []byte("1")); err == nil || string(got) != "-" {
		t.Errorf("Set = %s, %v, want an error", got, err)
	}
	if v, ok := jsonedit.Get(doc, p); ok {
		t.Errorf("Get = %s, want nothing", v.Raw())
	}
}

func TestAPathThatLeadsNowhereChangesNothing(t *testing.T) {
	var p jsonedit.Path
	if got, err := jsonedit.Delete(nil, []byte(pathDoc), p); string(got) != pathDoc || err != nil {
		t.Errorf("Delete = %s, %v", got, err)
	}
	if _, ok := jsonedit.Get([]byte(pathDoc), p); ok {
		t.Error("Get found a value")
	}
}

// drawPath draws a path that often leads to something in a drawn value.
func drawPath(t *rapid.T) string {
	var path strings.Builder
	path.WriteString(string(jsonedit.AppendString([]byte("["), unquote(literal(t)))) + "]")
	for range rapid.IntRange(0, 3).Draw(t, "steps") {
		path.WriteString(rapid.SampledFrom([]string{".a", ".name", "[0]", "[1]", "[*]", `["b"]`, `[""]`}).Draw(t, "step"))
	}
	return path.String()
}

func TestSetIsReadBackAndDeleteLeavesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc, path := []byte(value(t, 4)), drawPath(t)
		p := mustPath(t, path)
		if v := mustPath(t, p.String()); v.String() != p.String() {
			t.Fatalf("%s is written as %s and then as %s", path, p, v)
		}
		mustHoldTogether(t, doc, p)
	})
}

// mustHoldTogether checks what Get, Set and Delete promise of each other.
func mustHoldTogether(t interface {
	Helper()
	Fatalf(string, ...any)
}, doc []byte, p jsonedit.Path) {
	t.Helper()
	before, found := jsonedit.Get(doc, p)
	set, err := jsonedit.Set(nil, doc, p, []byte(`"set"`))
	if err != nil || !json.Valid(set) {
		t.Fatalf("Set(%s, %s) = %s, %v", doc, p, set, err)
	}
	if after, ok := jsonedit.Get(set, p); found && (!ok || string(after.Raw()) != `"set"`) {
		t.Fatalf("Set(%s, %s) = %s, of which Get reads %s, %t", doc, p, set, after.Raw(), ok)
	}
	deleted, err := jsonedit.Delete(nil, doc, p)
	if err != nil || !json.Valid(deleted) {
		t.Fatalf("Delete(%s, %s) = %s, %v", doc, p, deleted, err)
	}
	if !found && !repeats(doc) && string(deleted) != string(doc) {
		t.Fatalf("Delete(%s, %s) = %s (-want +got):\n%s", doc, p, deleted, cmp.Diff(doc, deleted))
	}
	if found && len(deleted) >= len(doc) {
		t.Fatalf("Delete(%s, %s) = %s, and %s is still there", doc, p, deleted, before.Raw())
	}
}

// repeats reports whether an object anywhere in doc has a key twice. Then Get
// reads the last and Delete takes them all.
func repeats(doc []byte) bool {
	v, err := jsonedit.ParseValue(doc)
	return err == nil && repeatsIn(v)
}

func repeatsIn(v jsonedit.Value) bool {
	for element := range v.Elements() {
		if repeatsIn(element) {
			return true
		}
	}
	seen := map[string]bool{}
	for key, field := range v.Fields() {
		if seen[key.String()] || repeatsIn(field) {
			return true
		}
		seen[key.String()] = true
	}
	return false
}
