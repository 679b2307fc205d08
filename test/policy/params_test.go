package policy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// maxParameters is how many parameters a function takes at most, without those of a
// variable number. One that needs more is missing a type.
const maxParameters = 5

func TestFunctionsTakeFewParameters(t *testing.T) {
	found := 0
	for name, data := range mustTexts(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, data, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		// Declared functions, literals, methods of interfaces and types of functions.
		ast.Inspect(file, func(node ast.Node) bool {
			f, ok := node.(*ast.FuncType)
			if !ok {
				return true
			}
			found++
			if n := parameters(f.Params); n > maxParameters {
				t.Errorf("%s: a function takes %d parameters, at most %d are allowed: give those that belong together a type", files.Position(f.Pos()), n, maxParameters)
			}
			return true
		})
	}
	if found < 1000 {
		t.Errorf("only %d functions were looked at", found)
	}
}

// parameters counts those of a list, without a last one of a variable number.
func parameters(list *ast.FieldList) (n int) {
	for _, p := range list.List {
		if _, variadic := p.Type.(*ast.Ellipsis); !variadic {
			n += max(len(p.Names), 1)
		}
	}
	return n
}
