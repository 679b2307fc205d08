package jsonedit_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"modelgate/internal/format/jsonedit"
)

func TestScanSaysWhereAndWhatIsWrong(t *testing.T) {
	for _, tt := range []struct{ doc, want string }{
		{"", "line 1, column 1: expected an object"},
		{"\n [1]", "line 2, column 2: expected an object"},
		{"\ufeff{}", "line 1, column 1: expected an object"},
		{"{", "line 1, column 2: expected a key in double quotes"},
		{"{\n  \"a\": 1,\n}", "line 3, column 1: expected a key in double quotes"},
		{"{'a':1}", "line 1, column 2: expected a key in double quotes"},
		{"{\"a\" 1}", "line 1, column 6: expected ':' after a key"},
		{"{\"a\":}", "line 1, column 6: expected a value"},
		{"{\"a\":", "line 1, column 6: expected a value, found the end"},
		{"{\n\n  \"model\": \"m\" \"x\"}", "line 3, column 16: expected ',' or '}' after a member"},
		{"{\"a\":{\"b\":1]}", "line 1, column 12: expected ',' or '}' after a member"},
		{"{\"a\":[1 2]}", "line 1, column 9: expected ',' or ']' after an element"},
		{"{\"a\":[1,]}", "line 1, column 9: expected a value"},
		{"{\"a\":01}", "line 1, column 7: expected ',' or '}' after a member"},
		{"{\"a\":-}", "line 1, column 7: expected a digit"},
		{"{\"a\":1.}", "line 1, column 8: expected a digit"},
		{"{\"a\":1e+}", "line 1, column 9: expected a digit"},
		{"{\"a\":nul}", "line 1, column 6: expected a value, such as null"},
		{"{\"a\":\"b}", "line 1, column 9: expected a double quote to end the string, found the end"},
		{"{\"a\":\"b\\", "line 1, column 9: expected an escape after the backslash, found the end"},
		{"{\"a\":\"\\x\"}", `line 1, column 8: expected one of "\/bfnrtu after a backslash`},
		{"{\"a\":\"\\u12g4\"}", `line 1, column 11: expected four hexadecimal digits after \u`},
		{"{\"a\":\"line\nbreak\"}", "line 1, column 11: expected control characters and line ends within a string to be escaped"},
		{"{\"a\":\"é\xffé\"}", "line 1, column 9: expected UTF-8 within a string"},
		{"{\"a\":{\"b\":[{\"c\":\"\\x\"}]}}", `line 1, column 19: expected one of "\/bfnrtu after a backslash`},
		{"{\"a\":{\"\\x\":1}}", `line 1, column 9: expected one of "\/bfnrtu after a backslash`},
		{"{\"a\":[{\"b\":-}]}", "line 1, column 13: expected a digit"},
		{"{\"a\":[1.x]}", "line 1, column 9: expected a digit"},
		{"{\"a\":{\"b\":fals}}", "line 1, column 11: expected a value, such as false"},
		{"{} {}", "line 1, column 4: expected nothing after the document"},
		{"{\"a\":1,\n\"\\u0061\":2}", `line 2, column 1: the key "a" is duplicated; send it once`},
	} {
		var d jsonedit.Doc
		if err := d.Scan([]byte(tt.doc)); err == nil || err.Error() != tt.want {
			t.Errorf("Scan(%q)\n got %v\nwant %s", tt.doc, err, tt.want)
		}
	}
}

func TestScanLooksAtEveryByteOfAString(t *testing.T) {
	for length := range 40 {
		for at := range length {
			for _, wrong := range []string{"\x00", "\n", "\x1f", "\xff", "\"", `\q`} {
				before, after := strings.Repeat("x", at)+wrong, length-at
				for _, doc := range []string{
					`{"a":"` + before + strings.Repeat("é", after) + `"}`,
					`{"` + before + strings.Repeat("y", after) + `":[1, 2, 3, 4, 5, 6, 7, 8, 9]}`,
				} {
					var d jsonedit.Doc
					if err := d.Scan([]byte(doc)); err == nil {
						t.Fatalf("Scan(%q) accepted it", doc)
					}
				}
			}
		}
	}
}

// dense holds every kind of token, in long strings and near their ends, in few bytes.
const dense = `{"a":[true,false,null,-0.5e+3,10,1E9,{"b":"\ud83d\u00afF\n x"}],"k\u0061y":{"c":[ ],"d":{}}, "é":"a text of 東京 and \\ more\"","":-0}`

func TestADocumentWithAByteChangedIsValidAsForTheStandardLibrary(t *testing.T) {
	const others = "\x00\t\n\r\x1f !\"#+,-./0129:;@AEFG[\\]^`abefgnrtuz{|}~\x7f\x80\xbf\xc3\xff"
	for i := range len(dense) {
		mustAgree(t, []byte(dense[:i]))
		mustAgree(t, []byte(dense[:i]+dense[i+1:]))
		for k := range len(others) {
			mustAgree(t, []byte(dense[:i]+others[k:k+1]+dense[i+1:]))
		}
	}
}

func TestACutDocumentIsRefusedWhereItEnds(t *testing.T) {
	const doc = `{"a":[-0.5e+3,10,1E9,{"b":"\ud83d\u00af\n x"}],"k\u0061y":{"c":[ ],"d":{}}, "e":"a longer text \\ more\"","":-0}`
	for i := range len(doc) {
		var d jsonedit.Doc
		var syntax *jsonedit.SyntaxError
		if err := d.Scan([]byte(doc[:i])); !errors.As(err, &syntax) || syntax.Offset != i {
			t.Errorf("Scan(%q) = %v, want an error at offset %d", doc[:i], err, i)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	const most = jsonedit.MaxDepth
	for _, tt := range []struct {
		name, open, innermost, end string
	}{
		{"arrays", "[", "[]", "]"},
		{"arrays that hold something", "[1,", "[1]", "]"},
		{"objects", `{"b":`, "{}", "}"},
		{"objects that hold something", `{"b":`, `{"b":1}`, "}"},
	} {
		nested := func(depth int) (doc string, innermost int) {
			begin := `{"a":` + strings.Repeat(tt.open, depth-2)
			return begin + tt.innermost + strings.Repeat(tt.end, depth-2) + "}", len(begin)
		}
		var d jsonedit.Doc
		if doc, _ := nested(most); d.Scan([]byte(doc)) != nil {
			t.Errorf("%s: %d levels: %v, want them accepted", tt.name, most, d.Scan([]byte(doc)))
		}
		doc, at := nested(most + 1)
		var syntax *jsonedit.SyntaxError
		if err := d.Scan([]byte(doc)); !errors.As(err, &syntax) || syntax.Offset != at || !strings.Contains(syntax.Problem, "at most 512") {
			t.Errorf("%s: %d levels: %v, want an error about the depth at offset %d", tt.name, most+1, err, at)
		}
	}
	var d jsonedit.Doc
	if err := d.Scan([]byte(strings.Repeat(`{"a":`, 1_000_000))); err == nil {
		t.Error("a million levels were accepted")
	}
}

func TestManyMembersAreFoundAndComparedByName(t *testing.T) {
	const n = jsonedit.MaxMembers
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k\u005f%d":%d`, i, i)
	}
	members := b.String()[1:]
	var d jsonedit.Doc
	for range 2 { // the second time with the memory of the first
		if err := d.Scan([]byte("{" + members + "}")); err != nil || d.Len() != n {
			t.Fatalf("Scan: %v, %d members, want %d", err, d.Len(), n)
		}
		for i := range n {
			if v, ok := d.Find(fmt.Sprintf("k_%d", i)); !ok || string(v.Raw()) != fmt.Sprint(i) {
				t.Fatalf("Find(k_%d) = %s, %t", i, v.Raw(), ok)
			}
		}
	}
	for _, again := range []int{0, 15, 16, 17, 64, n - 1} {
		var duplicate *jsonedit.DuplicateKeyError
		err := d.Scan(fmt.Appendf(nil, `{%s,"k_%d":0}`, members, again))
		if !errors.As(err, &duplicate) || duplicate.Key != fmt.Sprintf("k_%d", again) || duplicate.Offset != len(members)+2 {
			t.Errorf("k_%d again: %v", again, err)
		}
	}
	var syntax *jsonedit.SyntaxError
	if err := d.Scan([]byte("{" + members + `,"one more":0}`)); !errors.As(err, &syntax) || syntax.Offset != len(members)+2 || !strings.Contains(syntax.Problem, "at most 1024") {
		t.Errorf("%d members: %v, want an error about their number", n+1, err)
	}
	for again := range 200 { // a repeated key may not be where its hash puts it
		var duplicate *jsonedit.DuplicateKeyError
		few := strings.Join(strings.SplitN(members, ",", 201)[:200], ",")
		if err := d.Scan(fmt.Appendf(nil, `{%s,"k_%d":0}`, few, again)); !errors.As(err, &duplicate) {
			t.Errorf("k_%d again after 200 members: %v, want a repeated key", again, err)
		}
	}
	for size := 2; size < 200; size++ { // the repeated key may be the one that makes the index grow
		var doc strings.Builder
		doc.WriteString("{")
		for i := range size {
			doc.WriteString(fmt.Sprintf(`"%d":0,`, i))
		}
		if err := d.Scan([]byte(doc.String() + `"last":1}`)); err != nil {
			t.Fatalf("Scan of %d members: %v", size+1, err)
		}
		for name, want := range map[string]bool{"0": true, fmt.Sprint(size - 1): true, "last": true, fmt.Sprint(size): false} {
			if _, ok := d.Find(name); ok != want {
				t.Errorf("Find(%s) of %d members = %t, want %t", name, size+1, ok, want)
			}
		}
		var duplicate *jsonedit.DuplicateKeyError
		if err := d.Scan([]byte(doc.String() + `"1":0}`)); !errors.As(err, &duplicate) {
			t.Errorf("1 again after %d members: %v", size, err)
		}
	}
}

func TestADocCanBeUsedAgain(t *testing.T) {
	var d jsonedit.Doc
	for _, tt := range []struct{ doc, found string }{{`{"a":1,"\u0062":2}`, "ab"}, {`{"c":3}`, "c"}, {`{}`, ""}, {`{"a"}`, ""}} {
		_ = d.Scan([]byte(tt.doc))
		var found strings.Builder
		for _, name := range []string{"a", "b", "c"} {
			if _, ok := d.Find(name); ok {
				found.WriteString(name)
			}
		}
		if found.String() != tt.found {
			t.Errorf("%s: found %s, want %s", tt.doc, found.String(), tt.found)
		}
	}
	d.Reset()
	if d.Len() != 0 || d.Bytes() != nil || d.Apply(nil) != nil {
		t.Errorf("after Reset: %d members, %s", d.Len(), d.Bytes())
	}
}

func TestValuesSayWhatTheyAre(t *testing.T) {
	for _, tt := range []struct {
		raw     string
		kind    jsonedit.Kind
		integer any
		float   any
	}{
		{"null", jsonedit.Null, nil, nil},
		{"true", jsonedit.Bool, nil, nil},
		{`"1"`, jsonedit.String, nil, nil},
		{"[1]", jsonedit.Array, nil, nil},
		{`{"a":1}`, jsonedit.Object, nil, nil},
		{"0", jsonedit.Number, int64(0), 0.0},
		{"-7", jsonedit.Number, int64(-7), -7.0},
		{"1.0", jsonedit.Number, nil, 1.0},
		{"1e2", jsonedit.Number, nil, 100.0},
		{"9223372036854775807", jsonedit.Number, int64(math.MaxInt64), float64(math.MaxInt64)},
		{"-9223372036854775808", jsonedit.Number, int64(math.MinInt64), float64(math.MinInt64)},
		{"9223372036854775808", jsonedit.Number, nil, float64(1 << 63)},
		{"-9223372036854775809", jsonedit.Number, nil, -float64(1 << 63)},
		{"1e400", jsonedit.Number, nil, nil},
	} {
		v, err := jsonedit.ParseValue([]byte(" " + tt.raw + "\n"))
		if err != nil || string(v.Raw()) != tt.raw || v.Kind() != tt.kind || v.IsNull() != (tt.raw == "null") {
			t.Errorf("%s: raw %s, kind %d, %v", tt.raw, v.Raw(), v.Kind(), err)
		}
		if i, ok := v.Int(); ok != (tt.integer != nil) || ok && i != tt.integer {
			t.Errorf("%s: Int = %d, %t, want %v", tt.raw, i, ok, tt.integer)
		}
		if f, ok := v.Float(); ok != (tt.float != nil) || ok && f != tt.float {
			t.Errorf("%s: Float = %g, %t, want %v", tt.raw, f, ok, tt.float)
		}
		_, text := v.Text()
		_, view := v.TextBytes()
		_, truth := v.Bool()
		if isText := tt.kind == jsonedit.String; text != isText || view != isText || truth != (tt.kind == jsonedit.Bool) {
			t.Errorf("%s: text %t, view %t, bool %t", tt.raw, text, view, truth)
		}
	}
}

func TestGetTakesTheLastOfARepeatedKey(t *testing.T) {
	v, err := jsonedit.ParseValue([]byte(`{"a":1,"b":2,"\u0061":3}`))
	if a, ok := v.Get("a"); err != nil || !ok || string(a.Raw()) != "3" {
		t.Errorf("Get(a) = %s, %t, %v, want 3", a.Raw(), ok, err)
	}
	if c, ok := v.Get("c"); ok {
		t.Errorf("Get(c) = %s, want nothing", c.Raw())
	}
}

func TestKeysAreComparedWithoutUnescapingThem(t *testing.T) {
	for _, tt := range []struct {
		key, name string
		want      bool
	}{
		{`a\u00e9b`, "aéb", true},
		{`\ud83d\ude00`, "😀", true},
		{`\ud83d`, "\ufffd", true},
		{`\ud83d\u0061`, "\ufffda", true},
		{`a\nb`, "a\nb", true},
		{`a\nb`, "a\n", false},
		{`a\n`, "a\nb", false},
		{`a\n`, "a", false},
		{`ab\n`, "a", false},
		{`\u00e9`, "\xc3", false},
	} {
		v, err := jsonedit.ParseValue([]byte(`{"` + tt.key + `":1}`))
		if err != nil {
			t.Fatal(err)
		}
		for key := range v.Fields() {
			if got := key.Is(tt.name); got != tt.want || (key.String() == tt.name) != tt.want {
				t.Errorf("key %s is %q: %t, want %t", key.Raw(), tt.name, got, tt.want)
			}
		}
	}
}

func TestReadingAndEditingAllocateNothing(t *testing.T) {
	var d jsonedit.Doc
	var dst []byte
	body := []byte(strings.Replace(string(bodies["4KB"]), `{`, `{"\u0078":1,"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,`, 1))
	edits := []jsonedit.Edit{{Name: "model", Value: []byte(`"m"`)}, {Name: "x", Rename: "y"}, {Name: "new", Value: []byte("1")}, {Name: "user"}}
	sum := int64(0)
	allocs := testing.AllocsPerRun(50, func() {
		if err := d.Scan(body); err != nil {
			t.Fatal(err)
		}
		for key, v := range d.Members() {
			n, _ := v.Int()
			f, _ := v.Float()
			if key.Is("x") {
				sum += n + int64(f)
			}
		}
		messages, _ := d.Find("messages")
		for message := range messages.Elements() {
			role, _ := message.Get("role")
			text, _ := role.TextBytes()
			sum += int64(len(text))
			for key := range message.Fields() {
				sum += int64(len(key.Raw()))
			}
		}
		dst = d.Apply(dst[:0], edits...)
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}

func TestScanningManyMembersAgainAllocatesNothing(t *testing.T) {
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, `,"k\u005f%d":%d`, i, i)
	}
	body := []byte("{" + b.String()[1:] + "}")
	var d jsonedit.Doc
	allocs := testing.AllocsPerRun(20, func() {
		if err := d.Scan(body); err != nil || d.Len() != 500 {
			t.Fatalf("Scan: %v, %d members, want 500", err, d.Len())
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for 500 members, want 0", allocs)
	}
}

func TestAppendStringEscapesWhatMustBeAndNothingElse(t *testing.T) {
	short := map[byte]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	for c := range 256 {
		want := string(rune(c))
		switch escape, ok := short[byte(c)]; {
		case ok:
			want = escape
		case c < ' ':
			want = fmt.Sprintf(`\u%04x`, c)
		case c > 0x7f: // alone it is not UTF-8
			want = "\ufffd"
		}
		for at := range 18 { // at each place of eight bytes, and near the end
			before, after := strings.Repeat("x", at), strings.Repeat("y", 17-at)
			text := before + string([]byte{byte(c)}) + after
			if got := string(jsonedit.AppendString(nil, text)); got != `"`+before+want+after+`"` {
				t.Fatalf("AppendString(%q) = %s, want \"%s\"", text, got, before+want+after)
			}
		}
	}
	for _, tt := range []struct{ text, want string }{
		{"", `""`},
		{"a\ufffdb", "\"a\ufffdb\""},
		{"é東😀", `"é東😀"`},
		{"\xffé\xff", "\"\ufffdé\ufffd\""},
		{"é\xc3", "\"é\ufffd\""},
		{"\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\""},
		{"é\n東\"x", `"é\n東\"x"`},
	} {
		if got := string(jsonedit.AppendString(nil, tt.text)); got != tt.want {
			t.Errorf("AppendString(%q) = %s, want %s", tt.text, got, tt.want)
		}
	}
}
