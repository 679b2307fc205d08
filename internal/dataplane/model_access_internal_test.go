package dataplane

import (
	"testing"

	"modelgate/internal/provider"
)

// BenchmarkCheckModelsOfAnyModel is the price of allow-lists for requests of
// targets that have none.
func BenchmarkCheckModelsOfAnyModel(b *testing.B) {
	rs, t := &resolver{admission: new(admission)}, new(provider.Target)
	b.ReportAllocs()
	for b.Loop() {
		if err := rs.checkModels(t, "gpt-4o"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestRequestsWithoutAllowListAreNotSearched(t *testing.T) {
	rs, target := &resolver{admission: new(admission)}, new(provider.Target)
	if n := testing.AllocsPerRun(100, func() { rs.checkModels(target, "gpt-4o") }); n > 0 || rs.admission.models != nil {
		t.Errorf("%v allocations, searched: %t", n, rs.admission.models != nil)
	}
}

func TestModelOfAFormIsReadFromItsField(t *testing.T) {
	t.Parallel()
	const kind, model = "multipart/form-data; boundary=x", "Content-Disposition: form-data; name=\"model\"\r\n\r\n"
	for name, tt := range map[string]struct{ kind, head, want string }{
		"a field":                   {kind, "--x\r\n" + model + "a\r\n--x\r\n", "a"},
		"unfinished":                {kind, "--x\r\n" + model + "a", ""},
		"a decoy before the form":   {kind, model + "b\r\n--x\r\n" + model + "a\r\n--x--", ""},
		"a decoy in another field":  {kind, "--x\r\nContent-Disposition: form-data; name=\"p\"\r\n\r\n" + model + "b\r\n--x\r\n" + model + "a\r\n--x--", "a"},
		"another type":              {"text/plain", "--x\r\n" + model + "a\r\n--x--", ""},
		"a model that is no UTF-8":  {kind, "--x\r\n" + model + "\xff\r\n--x--", ""},
		"another field of the form": {kind, "--x\r\nContent-Disposition: form-data; name=\"p\"\r\n\r\na\r\n--x--", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := modelIn(tt.kind, []byte(tt.head)); got != tt.want {
				t.Errorf("modelIn = %q, want %q", got, tt.want)
			}
		})
	}
}
