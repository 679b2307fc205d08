package server

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/store/publication"
)

func TestACopyOfAnotherShapeIsRefused(t *testing.T) {
	box, err := secret.NewBox(secret.New(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	for shape, want := range map[string]string{stateShape: "", "": "another version", "other": "another version"} {
		path := filepath.Join(t.TempDir(), copyName)
		if err := writeCopy(path, box, stateCopy{Database: "db", Shape: shape, State: publication.State{}}); err != nil {
			t.Fatal(err)
		}
		switch _, err := readCopy(path, box, "db"); {
		case want == "" && err != nil:
			t.Errorf("a copy of this build: %v", err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("a copy with the shape %q: %v, want an error with %q", shape, err, want)
		}
	}
}

func TestShapesDifferByEveryField(t *testing.T) {
	type inner struct{ Max int64 }
	type wider struct {
		Max    int64
		Window string
	}
	shapes := map[string]string{}
	for name, of := range map[string]reflect.Type{
		"one field":         reflect.TypeFor[struct{ A int }](),
		"another name":      reflect.TypeFor[struct{ B int }](),
		"another type":      reflect.TypeFor[struct{ A string }](),
		"a list":            reflect.TypeFor[struct{ A []inner }](),
		"a list of another": reflect.TypeFor[struct{ A []wider }](),
		"a map":             reflect.TypeFor[struct{ A map[string]inner }](),
		"a pointer":         reflect.TypeFor[struct{ A *inner }](),
	} {
		shape := shapeOf(of)
		if other, ok := shapes[shape]; ok {
			t.Errorf("%s and %s have the same shape", name, other)
		}
		shapes[shape] = name
	}
}
