package jsonedit_test

import (
	"testing"

	"modelgate/internal/format/jsonedit"
)

func TestApplyTouchesOnlyTheEditedMember(t *testing.T) {
	value := []byte(`9`)
	type edits = []jsonedit.Edit
	for _, tt := range []struct {
		name, doc string
		edits     edits
		want      string
	}{
		{"nothing", ` { "a" : 1 } `, nil, ` { "a" : 1 } `},
		{"set", `{ "a" : 1.50 , "b":[ ] }`, edits{{Name: "a", Value: value}}, `{ "a" : 9 , "b":[ ] }`},
		{"set by the escaped name", `{"\u0061":1}`, edits{{Name: "a", Value: value}}, `{"\u0061":9}`},
		{"append", "{\n \"a\": 1\n}", edits{{Name: "b\n", Value: value}}, "{\n \"a\": 1,\"b\\n\":9\n}"},
		{"append to an empty object", ` {  } `, edits{{Name: "a", Value: value}, {Name: "b", Value: value}}, ` {"a":9,"b":9  } `},
		{"delete the first", `{ "a" : 1 , "b" : 2 }`, edits{{Name: "a"}}, `{ "b" : 2 }`},
		{"delete in the middle", `{ "a":1 , "b":2 , "c":3 }`, edits{{Name: "b"}}, `{ "a":1 , "c":3 }`},
		{"delete the last", `{ "a":1 , "b":2 }`, edits{{Name: "b"}}, `{ "a":1 }`},
		{"delete the only one", `{ "a":1 }`, edits{{Name: "a"}}, `{ }`},
		{"delete two at the end", `{"a":1, "b":2, "c":3}`, edits{{Name: "b"}, {Name: "c"}}, `{"a":1}`},
		{"delete two at the start", `{"a":1, "b":2, "c":3}`, edits{{Name: "b"}, {Name: "a"}}, `{"c":3}`},
		{"delete all but the middle", `{"a":1, "b":2, "c":3}`, edits{{Name: "a"}, {Name: "c"}}, `{"b":2}`},
		{"delete all and append", `{"a":1, "b":2}`, edits{{Name: "a"}, {Name: "b"}, {Name: "c", Value: value}}, `{"c":9}`},
		{"delete the last and append", `{"a":1, "b":2 }`, edits{{Name: "b"}, {Name: "c", Value: value}}, `{"a":1,"c":9 }`},
		{"set the last and append", `{"a":1 }`, edits{{Name: "a", Value: []byte(`"long"`)}, {Name: "c", Value: value}}, `{"a":"long","c":9 }`},
		{"rename", `{ "a" : [1 ] }`, edits{{Name: "a", Rename: "b\""}}, `{ "b\"" : [1 ] }`},
		{"rename and set", `{ "a" : 1 }`, edits{{Name: "a", Rename: "b", Value: value}}, `{ "b" : 9 }`},
		{"absent", `{"a":1}`, edits{{Name: "x"}, {Name: "y", Rename: "z"}, {Name: "v", Rename: "w", Value: value}}, `{"a":1}`},
		{"the later of two edits counts", `{"a":1}`, edits{{Name: "a"}, {Name: "a", Value: value}, {Name: "b", Value: value}, {Name: "b"}}, `{"a":9}`},
		{"rename to a name in use", `{"a":1, "b":2}`, edits{{Name: "a", Rename: "b"}}, `{"b":2}`},
		{"rename to a name that goes", `{"a":1, "b":2}`, edits{{Name: "a", Rename: "b"}, {Name: "b"}}, `{"b":1}`},
		{"rename to a name that comes", `{"a":1}`, edits{{Name: "a", Rename: "b"}, {Name: "b", Value: value}}, `{"b":9}`},
		{"exchange two names", `{"a":1, "b":2}`, edits{{Name: "a", Rename: "b"}, {Name: "b", Rename: "a"}}, `{"b":1, "a":2}`},
		{"two renames to one name", `{"a":1, "b":2}`, edits{{Name: "a", Rename: "c"}, {Name: "b", Rename: "c"}}, `{"c":1}`},
		{"rename to itself", `{"\u0061":1}`, edits{{Name: "a", Rename: "a"}}, `{"a":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var d jsonedit.Doc
			if err := d.Scan([]byte(tt.doc)); err != nil {
				t.Fatalf("Scan(%s): %v", tt.doc, err)
			}
			if got := string(d.Apply([]byte("before "), tt.edits...)); got != "before "+tt.want {
				t.Errorf("Apply(%s, %v)\n got %s\nwant before %s", tt.doc, tt.edits, got, tt.want)
			}
		})
	}
}
