package policy_test

import (
	"os"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestProgramCompilesForOtherSystems checks the types of the program for systems on which no test
// runs. Nothing is compiled, which would take minutes of processor time instead of seconds:
// `make release` does that.
func TestProgramCompilesForOtherSystems(t *testing.T) {
	if testing.Short() {
		return // the types of all modules take half a minute of processor time
	}
	for _, system := range []string{"windows", "darwin"} {
		load := func(mode packages.LoadMode, names ...string) []*packages.Package {
			list, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps | mode,
				Env: append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")}, names...)
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		var ours []string // of which functions are checked too
		packages.Visit(load(packages.NeedModule, "modelgate/cmd/modelgate"), nil, func(p *packages.Package) {
			if p.Module != nil && p.Module.Main {
				ours = append(ours, p.PkgPath)
			}
		})
		if len(ours) < 100 {
			t.Errorf("%s: the program has %d packages of ours", system, len(ours))
		}
		for _, p := range load(packages.NeedFiles|packages.NeedSyntax|packages.NeedTypes|packages.NeedTypesInfo, ours...) {
			for _, problem := range p.Errors {
				t.Errorf("%s: %s: %v", system, p.PkgPath, problem)
			}
		}
	}
}
