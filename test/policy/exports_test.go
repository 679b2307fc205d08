package policy_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestExportedNamesAreUsedOutside keeps packages small from the outside: a
// function, variable, constant or type is exported only for another package, or
// for the package's tests from outside. A type counts as used where an expression
// has it, and a constant where its type or another one of its set is used.
func TestExportedNamesAreUsedOutside(t *testing.T) {
	if testing.Short() {
		return // the types of all packages take half a minute of processor time
	}
	files := token.NewFileSet()
	list, err := packages.Load(&packages.Config{
		Fset:  files,
		Tests: true,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	used := exports{files: files, used: map[token.Position]bool{}}
	for _, p := range list {
		for _, problem := range p.Errors {
			t.Errorf("%s: %v", p.PkgPath, problem)
		}
		used.add(p)
	}
	problems, found := used.problems(list)
	for _, p := range problems {
		t.Error(p + " is exported and not used outside of its package: begin it with a small letter")
	}
	if found < 2000 {
		t.Errorf("only %d exported names were looked at", found)
	}
}

// exports holds where the names are declared that other packages use. A package
// is checked several times, alone and with its tests, so positions identify them.
type exports struct {
	files *token.FileSet
	used  map[token.Position]bool
}

// add notes what p uses of other packages.
func (e exports) add(p *packages.Package) {
	for _, o := range p.TypesInfo.Uses {
		if o.Pkg() != nil && o.Pkg().Path() != p.PkgPath {
			e.used[e.files.Position(o.Pos())] = true
		}
	}
	seen := map[types.Type]bool{}
	for _, v := range p.TypesInfo.Types {
		e.addType(v.Type, p.PkgPath, seen)
	}
}

// addType notes the named types of other packages that an expression's type, its
// exported fields and its exported methods mention.
func (e exports) addType(t types.Type, pkg string, seen map[types.Type]bool) {
	if t == nil || seen[t] {
		return
	}
	seen[t] = true
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		if o := t.Obj(); o.Pkg() != nil && o.Pkg().Path() != pkg {
			e.used[e.files.Position(o.Pos())] = true
		}
		for a := range t.TypeArgs().Types() {
			e.addType(a, pkg, seen)
		}
		for m := range t.Methods() {
			if m.Exported() {
				e.addType(m.Type(), pkg, seen)
			}
		}
		e.addType(t.Underlying(), pkg, seen)
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				e.addType(f.Type(), pkg, seen)
			}
		}
	case *types.Map:
		e.addType(t.Key(), pkg, seen)
		e.addType(t.Elem(), pkg, seen)
	case *types.Signature:
		e.addType(t.Params(), pkg, seen)
		e.addType(t.Results(), pkg, seen)
	case *types.Tuple:
		for v := range t.Variables() {
			e.addType(v.Type(), pkg, seen)
		}
	case interface{ Elem() types.Type }: // pointers, slices, arrays and channels
		e.addType(t.Elem(), pkg, seen)
	}
}

// problems lists the exported names of packages that nothing uses, with their
// places, and counts all exported names.
func (e exports) problems(list []*packages.Package) (problems []string, found int) {
	for _, p := range list {
		if !strings.HasPrefix(p.PkgPath, "modelgate/internal/") {
			continue // modelgate/config is for programs, the others are programs or tests
		}
		for _, f := range p.Syntax {
			for _, d := range f.Decls {
				names := exportedNames(d)
				found += len(names)
				if e.usedSet(p, d, names) || schemaTypes(p, d) {
					continue
				}
				for _, name := range names {
					if o := p.TypesInfo.Defs[name]; o != nil && !e.isUsed(o) {
						problems = append(problems, e.files.Position(name.Pos()).String()+": "+name.Name)
					}
				}
			}
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems), found
}

func (e exports) isUsed(o types.Object) bool { return e.used[e.files.Position(o.Pos())] }

// usedSet reports whether d is a set of constants of which other packages use one,
// or their type.
func (e exports) usedSet(p *packages.Package, d ast.Decl, names []*ast.Ident) bool {
	set, ok := d.(*ast.GenDecl)
	return ok && set.Tok == token.CONST && slices.ContainsFunc(names, func(name *ast.Ident) bool {
		c := p.TypesInfo.Defs[name]
		n, named := types.Unalias(c.Type()).(*types.Named)
		return e.isUsed(c) || named && e.isUsed(n.Obj())
	})
}

// schemaTypes reports whether d declares types of the control plane: the API's
// description names its schemas after them.
func schemaTypes(p *packages.Package, d ast.Decl) bool {
	set, ok := d.(*ast.GenDecl)
	return ok && set.Tok == token.TYPE && strings.HasPrefix(p.PkgPath, "modelgate/internal/controlplane/")
}

// exportedNames lists what d declares for other packages, without methods.
func exportedNames(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				names = append(names, s.Names...)
			case *ast.TypeSpec:
				names = append(names, s.Name)
			}
		}
	}
	return slices.DeleteFunc(names, func(name *ast.Ident) bool { return !name.IsExported() })
}
