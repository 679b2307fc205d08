// Package dialects tests every pair of a client's protocol and a provider's.
//
// The matrix sends one conversation after the other through the running gateway
// to the simulator, in each of the protocols that clients speak and to a target
// in each of those that providers speak, streamed and not. The simulator refuses
// what the real provider would refuse, and reports what reached it; answers are
// read by readers that know nothing of the codecs. The parameters of each
// protocol are encoded for each provider, and the results are written to
// docs/dialects.md with the summary of the matrix. Both are reviewed like code;
// -update writes them again. What single protocols can say is the subject of their
// own tests.
package dialects

import (
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

// TestMain lets more cells run at a time than there are cores, since part of
// what they do is wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

var update = flag.Bool("update", false, "write the golden table and docs/dialects.md again")

// object is a decoded JSON object.
type object = map[string]any

// A target is where requests go: a row that speaks one protocol alone.
type target struct {
	dialect api.Dialect
	row     string // of the table, which lends its address and credential
	id      string // of the row made of it
	model   string // unless the case names another
	vendor  string // whose models are behind it, as far as signatures go
}

var targets = []*target{
	{api.DialectChat, "openai", "openai", "gpt-4.1", ""},
	{api.DialectMessages, "anthropic", "anthropic", "claude-sonnet-4-5", "anthropic"},
	{api.DialectResponses, "openai", "github", "gpt-5.2", "openai"},
	{api.DialectGemini, "google", "google", "gemini-2.5-flash", "google"},
	{api.DialectConverse, "bedrock", "bedrock", "anthropic.claude-sonnet-4-5-v1:0", "anthropic"},
	{api.DialectCohere, "cohere", "cohere", "command-a-03-2025", ""},
}

// spec is the row of t.
func (t *target) spec() *provider.Spec {
	row, ok := table.Lookup(t.row)
	if !ok {
		panic("there is no row " + t.row)
	}
	s := *row
	s.ID, s.Dialect, s.Dialects, s.Aliases = t.id, t.dialect, nil, nil
	op := t.dialect.ConversationOperation()
	s.Paths = maps.Clone(usual(s.Paths, t.dialect))
	maps.DeleteFunc(s.Paths, func(of api.Operation, _ string) bool { return of != op && of != op.Streamed() })
	return &s
}

// requestTarget returns t as encoders get it. A target without a row has no
// deviations.
func (t *target) requestTarget() dialect.RequestTarget {
	if t.row == "" {
		return dialect.RequestTarget{Provider: t.id, Model: t.model}
	}
	return t.spec().RequestTarget(t.model)
}

func usual(paths map[api.Operation]string, d api.Dialect) map[api.Operation]string {
	if _, ok := paths[d.ConversationOperation()]; !ok {
		panic("the row has no path for " + string(d))
	}
	return paths
}

// regionOf returns the setting of the region for a provider that has one.
func regionOf(to *target) string {
	for _, o := range to.spec().Options {
		if o.Name == "region" {
			return ", options: {region: us-east-1}"
		}
	}
	return ""
}

// start starts the gateway of the matrix.
func start(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	t.Setenv("PAIRS_KEY", gatewaytest.SimulatorKey)
	var settings strings.Builder
	settings.WriteString("timeouts: {header: 5s, first_token: 5s, idle: 5s}\nproviders:\n")
	var specs []*provider.Spec
	for _, to := range targets {
		specs = append(specs, to.spec())
		settings.WriteString("  - {slug: " + string(to.dialect) + ", provider: " + to.id +
			`, custom_host: SIMULATOR, api_key: "${PAIRS_KEY}"` + regionOf(to) + "}\n")
	}
	slices.SortFunc(specs, func(a, b *provider.Spec) int { return strings.Compare(a.ID, b.ID) })
	return gatewaytest.New(t, gatewaytest.Options{
		Settings: settings.String(), Specs: specs, Simulator: recorder.Options{Record: 4000},
	})
}

// golden compares a text with the file that was reviewed.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; run go test -update and review what it writes", err)
	}
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if g, w := line(gotLines, i), line(wantLines, i); g != w {
			t.Errorf("%s:%d\n got %s\nwant %s", file, i+1, g, w)
		}
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
