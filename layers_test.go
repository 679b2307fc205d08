package modelgate_test

import (
	"fmt"
	"go/build"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers lists which packages may import which, the highest layer first. A
// package imports only packages of lower lines: nothing of its own line,
// nothing above. Letters divide a layer where one package builds on another.
// Layer 0a imports the standard library alone. Tests may import anything.
//
// A new package gets its place here in the commit that brings it, and
// docs/architecture.md shows the same lines.
const layers = `
9   cmd/modelgate
8   internal/bench internal/faults internal/gatewaytest internal/mutants
7   internal/server
6f  internal/controlplane internal/controlplane/manifest internal/dataplane
6e  internal/controlplane/analytics internal/controlplane/audits internal/controlplane/configs internal/controlplane/deployments internal/controlplane/exports internal/controlplane/guardrails internal/controlplane/integrations internal/controlplane/keys internal/controlplane/members internal/controlplane/organisations internal/controlplane/policies internal/controlplane/prompts internal/controlplane/providers internal/controlplane/route/routetest internal/controlplane/secrets internal/controlplane/sessions internal/controlplane/workspaces
6d  internal/controlplane/credentials
6c  internal/controlplane/budgets
6b  internal/controlplane/limits
6a  internal/controlplane/route
5   internal/settings internal/snapshot
4   internal/pipeline
3b  internal/datakey internal/dialect/dialecttest internal/priceimport internal/publication internal/store/storetest internal/telemetry
3a  internal/ledger internal/logstore internal/provider/table internal/quota/pgquota internal/secretref internal/store
2c  internal/guardrail/checks internal/respcache/filecache internal/simulator/recorder
2b  internal/postgres internal/provider/auth internal/simulator internal/sqlite internal/upstream
2a  internal/dialect/chat internal/dialect/cohere internal/dialect/converse internal/dialect/gemini internal/dialect/messages internal/dialect/ollama internal/dialect/oracle internal/dialect/replicate internal/dialect/responses internal/respcache/rediscache
1d  internal/provider internal/respcache
1c  internal/dialect internal/jwt internal/pricing internal/reqlog
1b  internal/alert/alerttest internal/blob internal/catalog internal/guardrail internal/journal internal/modeldata internal/modelnames internal/semantic/evaluation internal/tokens
1a  config internal/access internal/alert internal/bodytext internal/grammar internal/inbound internal/inflight internal/llm internal/policy internal/prompt internal/quota/quotatest internal/quota/redisquota internal/redact internal/semantic internal/sigv4 internal/sqlrow internal/urlpath internal/wasmcode
0b  internal/egress internal/kv internal/quota
0a  api internal/apierr internal/breaker internal/bytepool internal/clientaddr internal/contentcoding internal/eventstream internal/jsonedit internal/oserr internal/parquet internal/programtest internal/secret internal/sse internal/waittest
`

// barriers are what a package must not reach, however many imports away. The
// layers forbid part of it already; these hold when the layers are redrawn.
// "name/..." is a package and all below it.
var barriers = []struct {
	from  []string
	never []string
	why   string
}{
	{
		from:  []string{"internal/dataplane", "internal/snapshot", "internal/pipeline"},
		never: []string{"database/sql", "internal/sqlite", "internal/store", "internal/publication", "internal/logstore", "internal/controlplane/..."},
		why:   "a model request is served from memory, so the path it takes cannot touch a database even by mistake",
	},
	{
		from:  []string{"internal/store"},
		never: []string{"internal/publication", "internal/snapshot"},
		why:   "who writes rows says which, and does not know how they are used",
	},
	{
		from:  []string{"internal/secretref"},
		never: []string{"database/sql", "internal/store"},
		why:   "external secrets are read without knowing where their references are stored",
	},
	{
		from:  []string{"internal/dialect/...", "internal/provider/..."},
		never: []string{"internal/pipeline"},
		why:   "protocols and providers are described without knowing how a request is routed",
	},
	{
		from:  []string{"api"},
		never: []string{"net/http"},
		why:   "words of the wire have no behaviour",
	},
	{
		from:  []string{"cmd/..."},
		never: []string{"internal/alert/alerttest", "internal/faults", "internal/gatewaytest", "internal/mutants", "internal/dialect/dialecttest", "internal/programtest", "internal/quota/quotatest", "internal/simulator/recorder", "internal/store/storetest", "internal/waittest"},
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
	"internal/contentcoding",
	"internal/controlplane/...",
	"internal/dialect/dialecttest",
	"internal/faults",
	"internal/gatewaytest",
	"internal/guardrail/checks",
	"internal/wasmcode",
	"internal/kv",
	"internal/logstore",
	"internal/mutants",
	"internal/postgres",
	"internal/provider/auth",
	"internal/quota/redisquota",
	"internal/respcache/...",
	"internal/server",
	"internal/settings",
	"internal/sqlite",
	"internal/store/...",
	"internal/telemetry",
	"internal/tokens",
}

// graph is what each package of ours imports, standard library and foreign
// modules included. Paths of ours are relative to the root.
type graph map[string][]string

func TestPackagesImportOnlyLowerLayers(t *testing.T) {
	report(t, layerProblems(mustGraph(t), parseLayers(layers)))
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
		{"sideways", layerProblems(graph{"left": {"right"}, "right": nil}, order), 1},
		{"unlisted", layerProblems(graph{"new": nil}, order), 1},
		{"database two imports away", reachabilityProblems(graph{"internal/pipeline": {"internal/x"}, "internal/x": {"database/sql"}}), 1},
		{"store one import away", reachabilityProblems(graph{"internal/dataplane": {"internal/store"}}), 1},
		{"pipeline from a dialect", reachabilityProblems(graph{"internal/dialect/chat": {"internal/pipeline"}}), 1},
		{"net/http through the standard library", reachabilityProblems(graph{"api": {"expvar"}}), 1},
		{"no barrier in the way", reachabilityProblems(graph{"internal/server": {"internal/store"}, "api": {"strings"}}), 0},
		{"simulator using the gateway's code", isolationProblems(graph{"internal/simulator": {"api", "internal/sse"}}), 1},
		{"foreign module inside", thirdPartyProblems(graph{"internal/pipeline": {"example.com/m"}}), 1},
		{"foreign module at an edge", thirdPartyProblems(graph{"internal/sqlite": {"example.com/m"}}), 0},
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
		layer, listed := order[from]
		if !listed {
			problems = append(problems, fmt.Sprintf("%s has no layer: add it to layers in layers_test.go and to docs/architecture.md", from))
			continue
		}
		for _, to := range g[from] {
			if below, ours := order[to]; ours && below >= layer {
				problems = append(problems, fmt.Sprintf("%s imports %s, which is not on a lower layer", from, to))
			}
		}
	}
	return problems
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

// parseLayers gives each package of the policy the number of its line, counted
// from below.
func parseLayers(text string) map[string]int {
	order := map[string]int{}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		for _, name := range strings.Fields(line)[1:] {
			order[name] = len(lines) - i
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
		t.Fatal("no package found: the tests have to run in the root of the repository")
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
	return within(name, "api/...", "cmd/...", "config/...", "console/...", "internal/...")
}

// foreign tells whether an import path belongs to a module of somebody else.
func foreign(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return strings.Contains(first, ".")
}
