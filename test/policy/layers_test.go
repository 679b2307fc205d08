package policy_test

import (
	"fmt"
	"go/build"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers lists which folders may import which, the highest first. A package
// imports packages of its own folder, of lower lines, and of folders that
// come before its own on its line: nothing else of ours. A package that is in
// none of the folders has no layer.
//
// docs/architecture.md shows the same lines.
const layers = `
9  cmd examples
8  internal/testing tools
7  internal/server
6  internal/dataplane internal/controlplane internal/stateplane
5  internal/snapshot internal/settings
4  internal/pipeline internal/store internal/secrets
3  internal/provider internal/cache internal/upstream internal/records internal/guardrail
2  config internal/prompt internal/model internal/limits internal/identity internal/dialect
1  internal/alert internal/storage internal/format
0  api internal/base internal/simulator
`

// siblings are folders whose packages don't import one another: what they have
// in common is in the folder's own package or in the shared ones. Those in
// above connect the others.
var siblings = []struct {
	folder        string
	shared, above []string
}{
	{folder: "internal/dialect"},
	{
		folder: "internal/controlplane",
		shared: []string{"route", "limits", "budgets", "credentials", "people"},
		above:  []string{"manifest"},
	},
}

// barriers are what a package must not reach, however many imports away. The
// layers forbid part of it already; these hold when the layers are redrawn.
// "name/..." is a package and all below it.
var barriers = []struct {
	from  []string
	never []string
	why   string
}{
	{
		from:  []string{"internal/dataplane/...", "internal/snapshot", "internal/pipeline/..."},
		never: []string{"database/sql", "internal/storage/sqlite", "internal/store", "internal/store/publication", "internal/records/logstore", "internal/controlplane/..."},
		why:   "a model request is served from memory, so the path it takes cannot touch a database even by mistake",
	},
	{
		from:  []string{"internal/store"},
		never: []string{"internal/store/publication", "internal/snapshot"},
		why:   "the store records which rows it writes, and does not know how they are used",
	},
	{
		from:  []string{"internal/secrets/secretref"},
		never: []string{"database/sql", "internal/store"},
		why:   "external secrets are read without knowing where their references are stored",
	},
	{
		from:  []string{"internal/dialect/...", "internal/provider/..."},
		never: []string{"internal/pipeline/..."},
		why:   "protocols and providers are described without knowing how a request is routed",
	},
	{
		from:  []string{"api"},
		never: []string{"net/http"},
		why:   "words of the wire have no behaviour",
	},
	{
		from:  []string{"cmd/..."},
		never: []string{"internal/testing/...", "tools/faults", "tools/mutants"},
		why:   "test helpers stay out of the binary",
	},
}

// alone are packages that may use the standard library and the listed packages
// of ours, and nothing else of ours.
var alone = map[string][]string{
	"internal/simulator": {"api"}, // it stands for somebody else's server and shares no code with the gateway
}

// edges are the packages that may import modules of others. Everything between
// them is ours and the standard library.
var edges = []string{
	"cmd/modelgate",
	"cmd/modelgate/admin",
	"internal/base/filelock",
	"internal/base/sigv4",
	"internal/format/contentcoding",
	"internal/controlplane/...",
	"internal/dataplane/socket",
	"internal/guardrail/checks",
	"internal/guardrail/wasmcode",
	"internal/identity/jws",
	"internal/identity/oidc",
	"internal/identity/passkey",
	"internal/identity/saml",
	"internal/storage/kv",
	"internal/records/logstore",
	"internal/storage/postgres",
	"internal/provider/auth",
	"internal/limits/redisquota",
	"internal/cache/...",
	"internal/server",
	"internal/server/bundle",
	"internal/settings",
	"internal/settings/foreign",
	"internal/storage/sqlite",
	"internal/storage/tabledata",
	"internal/store/...",
	"internal/records/telemetry",
	"internal/model/tokens",
	"internal/testing/...",
	"tools/...",
}

// graph is what each package of ours imports, standard library and foreign
// modules included. Paths of ours are relative to the root.
type graph map[string][]string

func TestPackagesImportOnlyLowerLayers(t *testing.T) {
	report(t, layerProblems(mustGraph(t), parseLayers(layers)))
}

func TestPackagesOfAFamilyDoNotImportOneAnother(t *testing.T) {
	report(t, siblingProblems(mustGraph(t)))
}

// TestLayersAreFew keeps the map small enough to be remembered.
func TestLayersAreFew(t *testing.T) {
	if lines := strings.Count(strings.TrimSpace(layers), "\n") + 1; lines > 10 {
		t.Errorf("layers has %d lines, want 10 at most", lines)
	}
	folders, err := os.ReadDir("internal")
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) > 25 {
		t.Errorf("internal has %d entries, want 25 at most: put packages into the folder that they serve", len(folders))
	}
}

func TestBarriersHoldHoweverManyImportsAway(t *testing.T) {
	report(t, reachabilityProblems(mustGraph(t)))
}

func TestLonelyPackagesShareNoCode(t *testing.T) {
	report(t, isolationProblems(mustGraph(t)))
}

func TestOnlyEdgesImportForeignModules(t *testing.T) {
	report(t, thirdPartyProblems(mustGraph(t)))
}

func TestFoldersOfTestsHoldOnlyTests(t *testing.T) {
	for _, r := range mustPackages(t) {
		if within(r.path, "test/...") && !r.testOnly() {
			t.Errorf("%s: only _test.go files belong under test/; move the package under internal/", r.path)
		}
	}
}

// TestPolicyNoticesEveryBreach runs the policy on graphs that break it.
func TestPolicyNoticesEveryBreach(t *testing.T) {
	order := parseLayers("2 high\n1 left right\n0 low")
	for _, tt := range []struct {
		name string
		got  []string
		want int
	}{
		{"downwards", layerProblems(graph{"high": {"left", "low", "fmt"}, "left": {"low"}, "right": nil, "low": {"fmt"}}, order), 0},
		{"upwards", layerProblems(graph{"low": {"left"}, "left": nil}, order), 1},
		{"to the right", layerProblems(graph{"left": {"right"}, "right": nil}, order), 1},
		{"to the left", layerProblems(graph{"right": {"left"}, "left": nil}, order), 0},
		{"within a folder", layerProblems(graph{"left/a": {"left/b", "left"}, "left/b": nil, "left": nil}, order), 0},
		{"a dialect that uses another", siblingProblems(graph{"internal/dialect/chat": {"internal/dialect", "internal/dialect/messages"}}), 1},
		{"a family that uses another", siblingProblems(graph{"internal/controlplane/keys": {"internal/controlplane/route", "internal/controlplane/members"}}), 1},
		{"who connects families", siblingProblems(graph{"internal/controlplane": {"internal/controlplane/keys"}, "internal/controlplane/manifest": {"internal/controlplane/keys"}}), 0},
		{"unlisted", layerProblems(graph{"new": nil}, order), 1},
		{"database two imports away", reachabilityProblems(graph{"internal/pipeline": {"internal/x"}, "internal/x": {"database/sql"}}), 1},
		{"store one import away", reachabilityProblems(graph{"internal/dataplane": {"internal/store"}}), 1},
		{"pipeline from a dialect", reachabilityProblems(graph{"internal/dialect/chat": {"internal/pipeline"}}), 1},
		{"net/http through the standard library", reachabilityProblems(graph{"api": {"expvar"}}), 1},
		{"no barrier in the way", reachabilityProblems(graph{"internal/server": {"internal/store"}, "api": {"strings"}}), 0},
		{"simulator using the gateway's code", isolationProblems(graph{"internal/simulator": {"api", "internal/format/sse"}}), 1},
		{"foreign module inside", thirdPartyProblems(graph{"internal/pipeline": {"example.com/m"}}), 1},
		{"foreign module at an edge", thirdPartyProblems(graph{"internal/storage/sqlite": {"example.com/m"}}), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if len(tt.got) != tt.want {
				t.Errorf("problems = %q, want %d", tt.got, tt.want)
			}
		})
	}
}

func layerProblems(g graph, order map[string]int) []string {
	var problems []string
	for _, from := range g.packages() {
		folder, layer := folderOf(from, order)
		if folder == "" {
			problems = append(problems, fmt.Sprintf("%s has no layer: put it into a folder of layers in layers_test.go, or add one there and in docs/architecture.md", from))
			continue
		}
		for _, to := range g[from] {
			other, below := folderOf(to, order)
			if other != "" && other != folder && below > layer {
				problems = append(problems, fmt.Sprintf("%s imports %s, but %s is not on a lower layer than %s", from, to, other, folder))
			}
		}
	}
	return problems
}

// folderOf gives the folder of the policy that a package is in and its place,
// counted from below. The name is empty if it is in none.
func folderOf(name string, order map[string]int) (string, int) {
	for folder, place := range order {
		if within(name, folder+"/...") {
			return folder, place
		}
	}
	return "", 0
}

func siblingProblems(g graph) []string {
	var problems []string
	for _, family := range siblings {
		for _, from := range g.packages() {
			own := member(from, family.folder)
			if own == "" || slices.Contains(family.above, own) {
				continue
			}
			for _, to := range g[from] {
				other := member(to, family.folder)
				if other == "" || other == own || slices.Contains(family.shared, other) {
					continue
				}
				problems = append(problems, fmt.Sprintf("%s imports %s: packages of %s don't import one another, except for %q", from, to, family.folder, family.shared))
			}
		}
	}
	return problems
}

// member is the name of the package of a folder that a package is or is below;
// it is empty for the folder's own package and for those of other folders.
func member(name, folder string) string {
	rest, inside := strings.CutPrefix(name, folder+"/")
	if !inside {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

func reachabilityProblems(g graph) []string {
	var problems []string
	imports := walk{graph: g, standard: map[string][]string{}}
	for _, b := range barriers {
		for _, from := range g.packages() {
			if !within(from, b.from...) {
				continue
			}
			if way := imports.way(from, b.never); way != nil {
				problems = append(problems, fmt.Sprintf("%s must not reach %s (%s), but does: %s",
					from, way[len(way)-1], b.why, strings.Join(way, " imports ")))
			}
		}
	}
	return problems
}

func isolationProblems(g graph) []string {
	var problems []string
	for from, allowed := range alone {
		for _, to := range g[from] {
			if ours(to) && !slices.Contains(allowed, to) {
				problems = append(problems, fmt.Sprintf("%s may import %q of ours, but imports %s", from, allowed, to))
			}
		}
	}
	return problems
}

func thirdPartyProblems(g graph) []string {
	var problems []string
	for _, from := range g.packages() {
		for _, to := range g[from] {
			if foreign(to) && !within(from, edges...) {
				problems = append(problems, fmt.Sprintf("%s imports %s, but modules of others are used only at the edges listed in layers_test.go", from, to))
			}
		}
	}
	return problems
}

// parseLayers gives each folder of the policy its place, counted from below and
// from the left.
func parseLayers(text string) map[string]int {
	order := map[string]int{}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range slices.Backward(lines) {
		for _, name := range strings.Fields(line)[1:] {
			order[name] = len(order)
		}
	}
	return order
}

// mustGraph reads the imports of the program's own files.
func mustGraph(t *testing.T) graph {
	t.Helper()
	g := graph{}
	for _, r := range mustPackages(t) {
		if r.testOnly() {
			continue
		}
		g[r.path] = nil
		for _, name := range r.imports(false) {
			g[r.path] = append(g[r.path], strings.TrimPrefix(name, module+"/"))
		}
	}
	if len(g) == 0 {
		t.Fatal("no package found")
	}
	return g
}

func (g graph) packages() []string {
	names := make([]string, 0, len(g))
	for name := range g {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// walk follows imports from package to package and into the standard library.
type walk struct {
	graph
	standard map[string][]string // what was read of the standard library so far
}

// way is a shortest chain of imports from a package to a forbidden one, nil
// when there is none.
func (w walk) way(from string, never []string) []string {
	ways := [][]string{{from}}
	seen := map[string]bool{from: true}
	for len(ways) > 0 {
		way := ways[0]
		ways = ways[1:]
		for _, next := range w.next(way[len(way)-1]) {
			if seen[next] {
				continue
			}
			seen[next] = true
			longer := append(slices.Clone(way), next)
			if within(next, never...) {
				return longer
			}
			ways = append(ways, longer)
		}
	}
	return nil
}

// next is what a package imports, be it ours or the standard library's. Modules
// of others end a chain: who may import them is a rule of its own.
func (w walk) next(name string) []string {
	if ours(name) || foreign(name) {
		return w.graph[name]
	}
	imports, known := w.standard[name]
	if !known {
		// What can't be read ("C", "unsafe") imports nothing.
		dir := filepath.Join(build.Default.GOROOT, "src", filepath.FromSlash(name))
		if read, err := build.Default.ImportDir(dir, 0); err == nil {
			// The standard library's own internal/... would read as ours.
			imports = slices.DeleteFunc(read.Imports, ours)
		}
		w.standard[name] = imports
	}
	return imports
}

// within tells whether a path is one of the patterns or below one that ends in
// "/...".
func within(name string, patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		folder, deep := strings.CutSuffix(p, "/...")
		return name == folder || deep && strings.HasPrefix(name, folder+"/")
	})
}

// ours tells whether an import path, relative to the root, is in this module.
func ours(name string) bool {
	return within(name, "api/...", "cmd/...", "config/...", "console/...", "internal/...", "tools/...", "examples/...")
}

// foreign tells whether an import path belongs to a module of somebody else.
func foreign(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return strings.Contains(first, ".")
}
