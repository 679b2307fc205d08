package policy_test

import (
	"go/types"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// A method can change every field in reach of its type, so what a reader has to
// know grows with them. maxReach limits the fields of a struct, its own and those of
// the structs that it embeds, and maxMethods the methods of a type, its own and
// promoted ones, in the packages of the path of a request.
const (
	maxReach   = 40
	maxMethods = 60
)

func TestTypesOfTheRequestPathReachLittle(t *testing.T) {
	if testing.Short() {
		return // the types of two packages take a few seconds of processor time
	}
	list, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedExportFile |
			packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
	}, "./internal/dataplane/...", "./internal/pipeline/...")
	if err != nil {
		t.Fatal(err)
	}
	structs := 0
	for _, p := range list {
		for _, problem := range p.Errors {
			t.Errorf("%s: %v", p.PkgPath, problem)
		}
		for _, name := range p.Types.Scope().Names() {
			declared, ok := p.Types.Scope().Lookup(name).(*types.TypeName)
			if !ok || declared.IsAlias() {
				continue
			}
			fields, methods := reach(declared.Type()), types.NewMethodSet(types.NewPointer(declared.Type())).Len()
			if fields > 0 {
				structs++
			}
			if fields <= maxReach && methods <= maxMethods {
				continue
			}
			t.Errorf("%s.%s has %d fields in reach and %d methods, want at most %d and %d: divide it by lifetime and owner",
				strings.TrimPrefix(p.PkgPath, "modelgate/internal/"), name, fields, methods, maxReach, maxMethods)
		}
	}
	if structs < 100 {
		t.Errorf("only %d structs were looked at", structs)
	}
}

// reach returns the number of fields of a struct, with those of the structs that it
// embeds. It is zero for other types.
func reach(t types.Type) (n int) {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return 0
	}
	for f := range s.Fields() {
		n++
		if f.Embedded() {
			n += reach(f.Type())
		}
	}
	return n
}

func TestReachCountsEmbeddedFields(t *testing.T) {
	field := func(name string, t types.Type, embedded bool) *types.Var {
		return types.NewField(0, nil, name, t, embedded)
	}
	inner := types.NewStruct([]*types.Var{field("A", types.Typ[types.Int], false), field("B", types.Typ[types.Int], false)}, nil)
	named := types.NewNamed(types.NewTypeName(0, nil, "Inner", nil), inner, nil)
	outer := types.NewStruct([]*types.Var{field("Inner", types.NewPointer(named), true), field("C", named, false)}, nil)
	if n := reach(outer); n != 4 {
		t.Errorf("reach = %d, want 4: two fields, and two of the embedded struct", n)
	}
}
