package table_test

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
)

// A field that no row sets has no effect.
func TestEveryFieldOfARowIsSetByOne(t *testing.T) {
	set := map[string]bool{}
	for _, s := range table.All() {
		markSet(set, reflect.ValueOf(*s))
	}
	for _, name := range fieldsOf(reflect.TypeFor[provider.Spec](), map[reflect.Type]bool{}) {
		if !set[name] {
			t.Errorf("no row sets %s: remove the field", name)
		}
	}
}

// A profile for a dialect that the row has no path for reaches no request.
func TestProfilesAreOfDialectsWithAPath(t *testing.T) {
	eachRow(t, func(t *testing.T, s *provider.Spec) {
		p := s.Profile
		for d, set := range map[api.Dialect]bool{
			api.DialectChat: p.Chat != nil, api.DialectMessages: p.Messages != nil, api.DialectResponses: p.Responses != nil, api.DialectGemini: p.Vertex,
		} {
			_, ok := s.Path(d.ConversationOperation())
			if d == api.DialectChat && !ok {
				_, ok = s.Path(api.Embeddings)
			}
			if set && !ok && s.Complete == nil { // which may add a path
				t.Errorf("has a profile for %s and no path", d)
			}
		}
	})
}

// markSet notes the fields that v sets, and those of all that it holds.
func markSet(set map[string]bool, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			markSet(set, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			markSet(set, v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			markSet(set, v.MapIndex(key))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				set[v.Type().String()+"."+v.Type().Field(i).Name] = true
				markSet(set, v.Field(i))
			}
		}
	}
}

// fieldsOf returns the fields of typ and of all types that it holds.
func fieldsOf(typ reflect.Type, seen map[reflect.Type]bool) (names []string) {
	if typ == reflect.TypeFor[modeldata.Table]() { // whose package has such a test
		return nil
	}
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return fieldsOf(typ.Elem(), seen)
	case reflect.Struct:
		if seen[typ] {
			return nil
		}
		seen[typ] = true
		for field := range typ.Fields() {
			names = append(names, typ.String()+"."+field.Name)
			names = append(names, fieldsOf(field.Type, seen)...)
		}
	}
	return names
}

// A value or a function of the package that no row needs is left over.
func TestEveryNameOfTheTableIsReferenced(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared, mentions := map[string]bool{}, map[string]int{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				declared[d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						for _, n := range v.Names {
							declared[n.Name] = true
						}
					}
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				mentions[id.Name]++
			}
			return true
		})
	}
	for name := range declared {
		if !ast.IsExported(name) && mentions[name] < 2 {
			t.Errorf("%s is referenced by nothing: remove it", name)
		}
	}
	if len(declared) < 50 {
		t.Errorf("%d names were found, want more", len(declared))
	}
}
