package dialect_test

import (
	"slices"
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

func TestReaderKeepsTheFirstError(t *testing.T) {
	for _, tt := range []struct {
		name, json string
		read       func(r *dialect.Reader, v jsonedit.Value)
		want       string // the message; empty for none
	}{
		{"text", `"a"`, func(r *dialect.Reader, v jsonedit.Value) { r.Text("p", v) }, ""},
		{"null", `null`, func(r *dialect.Reader, v jsonedit.Value) { r.Text("p", v) }, ""},
		{"a number is not text", `1`, func(r *dialect.Reader, v jsonedit.Value) { r.Text("p", v) }, "p: must be a string, not 1"},
		{"required", `null`, func(r *dialect.Reader, v jsonedit.Value) { r.RequiredText("p", v) }, "p: is required: send a string"},
		{"required may be empty", `""`, func(r *dialect.Reader, v jsonedit.Value) { r.RequiredText("p", v) }, ""},
		{"empty", `""`, func(r *dialect.Reader, v jsonedit.Value) { r.NonEmptyText("p", v) }, "p: is required and must not be empty"},
		{"texts", `["a",2,{}]`, func(r *dialect.Reader, v jsonedit.Value) { r.Texts("p", v) }, "p[1]: must be a string, not 2"},
		{"texts need an array", `"a"`, func(r *dialect.Reader, v jsonedit.Value) { r.Texts("p", v) }, "p: must be an array, not a string"},
		{"fraction", `1.5`, func(r *dialect.Reader, v jsonedit.Value) { r.Int("p", v) }, "p: must be an integer, not 1.5"},
		{"number", `"1"`, func(r *dialect.Reader, v jsonedit.Value) { r.Float("p", v) }, "p: must be a number, not a string"},
		{"boolean", `0`, func(r *dialect.Reader, v jsonedit.Value) { r.Flag("p", v) }, "p: must be true or false, not 0"},
		{"kind", `[]`, func(r *dialect.Reader, v jsonedit.Value) { r.Is("p", v, jsonedit.Object, "an object") }, "p: must be an object, not an array"},
		{"base64", `""`, func(r *dialect.Reader, _ jsonedit.Value) { r.Base64("p", "????") }, "p: must be base64: illegal base64 data at input byte 0"},
		{"first", `1`, func(r *dialect.Reader, v jsonedit.Value) { r.Text("p", v); r.Bool("q", v); r.Base64("s", "?") }, "p: must be a string, not 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := jsonedit.ParseValue([]byte(tt.json))
			if err != nil {
				t.Fatal(err)
			}
			var r dialect.Reader
			tt.read(&r, v)
			got := ""
			if r.Err != nil {
				got = r.Err.Message
			}
			if got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
		})
	}
}

func TestReaderReadsNullAsAbsent(t *testing.T) {
	var r dialect.Reader
	var null jsonedit.Value
	if n, f, b, texts := r.Int("p", null), r.Float("p", null), r.Bool("p", null), r.Texts("p", null); n != nil || f != nil || b != nil || texts != nil || r.Err != nil {
		t.Errorf("null is read as %v, %v, %v, %v with error %v, want nothing", n, f, b, texts, r.Err)
	}
	v, err := jsonedit.ParseValue([]byte(`["a","b"]`))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for path := range r.Elements("p", v) {
		paths = append(paths, path)
	}
	if want := []string{"p[0]", "p[1]"}; !slices.Equal(paths, want) {
		t.Errorf("paths %q, want %q", paths, want)
	}
}
