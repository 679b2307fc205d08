package policy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// Limits of the dependencies of routes, in fields.
const (
	maxCommonDeps = 17 // of route.Deps, which every family can read
	maxFamilyDeps = 5  // of a family's Routes
)

// TestFamiliesNeedLittle keeps the dependencies of one family of routes out of the struct
// that all families share, and each family's own short.
func TestFamiliesNeedLittle(t *testing.T) {
	const folder = "internal/controlplane/"
	found := 0
	for name, data := range mustTexts(t) {
		if !strings.HasPrefix(name, folder) || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		for typ, n := range structSizes(t, name, data) {
			limit := 0
			switch {
			case path.Dir(name)+"/" == folder+"route/" && typ == "Deps":
				limit = maxCommonDeps
			case typ == "Routes", path.Dir(name)+"/" == folder && typ == "Logs":
				limit = maxFamilyDeps
			default:
				continue
			}
			found++
			if n > limit {
				t.Errorf("%s: %s has %d fields, more than %d; see docs/adr/0029-a-resource-is-in-one-package.md", name, typ, n, limit)
			}
		}
	}
	if found < 8 {
		t.Errorf("found %d structs with dependencies of routes, want at least 8", found)
	}
}

// structSizes returns the number of fields of each struct type that a file declares.
func structSizes(t *testing.T, name string, data []byte) map[string]int {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, data, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	sizes := make(map[string]int)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				sizes[spec.Name.Name] += max(1, len(f.Names))
			}
		}
		return true
	})
	return sizes
}

func TestFieldsOfStructsAreCounted(t *testing.T) {
	got := structSizes(t, "a.go", []byte("package a\n\ntype Routes struct {\n\tA, B int\n\tC\n}\n\ntype D int\n"))
	if len(got) != 1 || got["Routes"] != 3 {
		t.Errorf("structSizes = %v, want 3 for Routes", got)
	}
}
