package policy_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// dependencies holds every module of others that we import, and why we don't
// do without. "test:" marks those that only tests import, so that nothing of
// them is in the binary. Standard library first; a new line here is part of the
// change that needs it.
var dependencies = map[string]string{
	"github.com/anthropics/anthropic-sdk-go":                            "test: the official Go client of the messages protocol sends requests to the built gateway",
	"github.com/aws/aws-sdk-go-v2":                                      "signs requests to AWS and links to files in buckets, as its own clients do",
	"github.com/coreos/go-oidc/v3":                                      "OpenID Connect: discovery, keys, ID tokens and tokens of back-channel logout",
	"github.com/crewjam/saml":                                           "SAML 2.0: messages, conditions of assertions, decryption, single logout; wrapped strictly",
	"github.com/beevik/etree":                                           "the XML documents in the interfaces of crewjam/saml and goxmldsig",
	"github.com/russellhaering/goxmldsig":                               "verifies XML signatures, and reads on from the canonical bytes",
	"github.com/danielgtaylor/huma/v2":                                  "declares routes of the control plane once, for decoding, validation and OpenAPI 3.1",
	"github.com/andybalholm/brotli":                                     "reads br, in which some providers and the hosts before them answer, to account for it",
	"github.com/klauspost/compress":                                     "zstd: recorded bodies at three times the speed of compress/flate, which is met on the way of a response",
	"github.com/jackc/pgx/v5":                                           "PostgreSQL, for several nodes",
	"github.com/fsnotify/fsnotify":                                      "notices a changed configuration file without polling, mounted ones included",
	"github.com/go-jose/go-jose/v4":                                     "verifies signatures of JSON Web Tokens, of all kinds of keys, and reads keys of elliptic curves",
	"github.com/goccy/go-yaml":                                          "reads modelgate.yaml strictly, and says line and column of a mistake",
	"github.com/google/go-cmp":                                          "test: shows how two structures differ",
	"github.com/johannesboyne/gofakes3":                                 "test: an S3 server inside the test, with uploads in parts",
	"github.com/parquet-go/parquet-go":                                  "test: reads the files that we write; as a writer it would make the binary 4.6 MB larger",
	"github.com/maypok86/otter/v2":                                      "cached responses: bounded by their size, with an eviction that keeps what is used often",
	"github.com/coder/websocket":                                        "WebSocket connections of clients and to providers: the handshake, frames and close codes, with contexts",
	"github.com/modelcontextprotocol/go-sdk":                            "test: the official SDK serves tools of both eras of MCP to the gateway, and calls those behind it",
	"github.com/openai/openai-go/v3":                                    "test: the official Go client sends requests to the built gateway",
	"github.com/prometheus/client_golang":                               "metrics in the form every collector reads",
	"github.com/redis/rueidis":                                          "Redis, for counters and cached responses that several nodes share: it pipelines the calls of concurrent requests",
	"github.com/santhosh-tekuri/jsonschema/v6":                          "validates JSON in texts for guardrails: JSON Schema of all drafts, with limits of ours on patterns and references",
	"github.com/rogpeppe/go-internal":                                   "test: txtar, the form of the provider fixtures",
	"github.com/scim2/filter-parser/v2":                                 "test: a second parser of SCIM filters, with which ours is compared",
	"github.com/spf13/cobra":                                            "commands: subcommands, help, and completion in four shells",
	"github.com/spf13/pflag":                                            "the flags of cobra, in its interfaces",
	"github.com/standard-webhooks/standard-webhooks/libraries":          "test: the reference library verifies the webhooks that we send",
	"github.com/tetratelabs/wazero":                                     "runs checks of guardrails that users bring as WebAssembly, with limits of time and memory and without cgo",
	"go.opentelemetry.io/otel":                                          "attributes and instruments of OpenTelemetry metrics",
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc": "metrics by OTLP over gRPC, which many collectors require",
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp": "metrics by OTLP over HTTP",
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace":                 "what both clients of traces have in common",
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc":   "traces by OTLP over gRPC, which many collectors require",
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp":   "traces by OTLP over HTTP, with the standard variables, compression and certificates",
	"go.opentelemetry.io/otel/metric":                                   "instruments of OpenTelemetry metrics",
	"go.opentelemetry.io/otel/sdk":                                      "the resource that the standard variables describe",
	"go.opentelemetry.io/otel/sdk/metric":                               "adds up histograms in either temporality that collectors ask for",
	"go.opentelemetry.io/proto/otlp":                                    "the messages of OTLP, in which spans are made",
	"github.com/tiktoken-go/tokenizer":                                  "counts tokens where a provider reports none, with both vocabularies of OpenAI embedded",
	"golang.org/x/crypto":                                               "argon2id, for the passwords of people",
	"github.com/go-webauthn/webauthn":                                   "passkeys: attestations, assertions and their many encodings",
	"golang.org/x/oauth2":                                               "the authorization code flow with PKCE, for sign-in at identity providers",
	"github.com/coreos/go-systemd/v22":                                  "tells systemd when the gateway is ready, reloads and ends",
	"golang.org/x/sys":                                                  "locks files on Windows, for which syscall has no function",
	"golang.org/x/tools":                                                "test: type-checks all packages to find names that are exported without a use",
	"google.golang.org/grpc":                                            "test: a collector that takes OTLP over gRPC",
	"google.golang.org/protobuf":                                        "test: reads what a collector was sent",
	"modernc.org/sqlite":                                                "SQLite without cgo: the embedded store of a single static binary",
	"pgregory.net/rapid":                                                "test: properties with shrinking, for code that edits bytes",
}

// requirement is one line of go.mod.
type requirement struct {
	path     string
	indirect bool
}

func TestEveryDependencyHasAReason(t *testing.T) {
	required, replaced := parseModule(string(mustRead(t, "go.mod")))
	report(t, replaced)
	report(t, dependencyProblems(required, mustUses(t), dependencies))
}

func TestDependencyPolicyNoticesEveryBreach(t *testing.T) {
	required, replaced := parseModule(`module m
require one.example/a v1.0.0
require (
	two.example/b/v2 v2.0.0 // indirect
	three.example/c v1.0.0
)
replace one.example/a => ../a
replace (
	two.example/b/v2 => ../b
)
`)
	if len(required) != 3 || len(replaced) != 2 {
		t.Fatalf("parseModule = %v, %q; want 3 requirements and 2 replacements", required, replaced)
	}
	used := uses{"one.example/a/x": true, "three.example/c": false}
	for _, tt := range []struct {
		name    string
		used    uses
		reasons map[string]string
		want    int
	}{
		{"all said", used, map[string]string{"one.example/a": "parses", "three.example/c": "test: compares"}, 0},
		{"no reason", used, map[string]string{"one.example/a": "parses"}, 1},
		{"empty reason", used, map[string]string{"one.example/a": "", "three.example/c": "test: compares"}, 1},
		{"reason without module", used, map[string]string{"one.example/a": "parses", "three.example/c": "test: compares", "four.example/d": "was here"}, 1},
		{"test-only without its mark", used, map[string]string{"one.example/a": "parses", "three.example/c": "compares"}, 1},
		{"mark on a module of the program", used, map[string]string{"one.example/a": "test: parses", "three.example/c": "test: compares"}, 1},
		{"imported although indirect", uses{"one.example/a": true, "three.example/c": false, "two.example/b/v2": true},
			map[string]string{"one.example/a": "parses", "three.example/c": "test: compares"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := dependencyProblems(required, tt.used, tt.reasons); len(got) != tt.want {
				t.Errorf("dependencyProblems = %q, want %d", got, tt.want)
			}
		})
	}
}

// uses are the foreign packages that are imported; true where the program
// imports them, false where only tests do.
type uses map[string]bool

func dependencyProblems(required []requirement, used uses, reasons map[string]string) []string {
	var problems []string
	modules := make([]string, 0, len(required))
	for _, r := range required {
		modules = append(modules, r.path)
		inProgram, imported := used.of(r.path)
		reason := reasons[r.path]
		switch {
		case r.indirect && !imported:
		case reason == "" || reason == "test:":
			problems = append(problems, fmt.Sprintf("%s: a direct dependency needs a line of reason in deps_test.go", r.path))
		case imported && inProgram == strings.HasPrefix(reason, "test:"):
			problems = append(problems, fmt.Sprintf("%s: its reason in deps_test.go begins with \"test:\" if, and only if, nothing but tests imports it", r.path))
		}
	}
	for path := range reasons {
		if !slices.Contains(modules, path) {
			problems = append(problems, fmt.Sprintf("%s: has a reason in deps_test.go but go.mod does not require it; delete the line", path))
		}
	}
	return problems
}

// of tells whether a module is imported, and whether by the program.
func (u uses) of(module string) (inProgram, imported bool) {
	for path, program := range u {
		if within(path, module+"/...") {
			imported = true
			inProgram = inProgram || program
		}
	}
	return inProgram, imported
}

// mustUses reads which foreign packages the repository imports. Test helpers
// are tests.
func mustUses(t *testing.T) uses {
	t.Helper()
	used := uses{}
	for _, r := range mustPackages(t) {
		helper := r.path == "internal/testing/gatewaytest" || r.path == "internal/testing/dialecttest"
		for _, test := range []bool{true, false} {
			for _, name := range r.imports(test) {
				if foreign(name) {
					used[name] = used[name] || !test && !helper
				}
			}
		}
	}
	return used
}

// parseModule reads what a go.mod requires, and complains of what it replaces.
func parseModule(text string) (required []requirement, replaced []string) {
	block := ""
	for line := range strings.Lines(text) {
		line, note, _ := strings.Cut(strings.TrimSpace(line), "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case words[len(words)-1] == "(":
			block = words[0]
			continue
		case block != "":
			words = append([]string{block}, words...)
		}
		switch words[0] {
		case "require":
			required = append(required, requirement{words[1], strings.TrimSpace(note) == "indirect"})
		case "replace":
			replaced = append(replaced, fmt.Sprintf("go.mod replaces %s; a clone has to build from what go.mod requires", words[1]))
		}
	}
	return required, replaced
}

// poisoned are Python packages of which a version with malicious code was published.
// They are installed by hash.
var poisoned = []string{"litellm"}

func TestPoisonedPackagesAreInstalledByHash(t *testing.T) {
	found := false
	for _, name := range mustFiles(t) {
		if path.Base(name) != "requirements.txt" {
			continue
		}
		for line := range strings.Lines(string(mustRead(t, name))) {
			line = strings.TrimSpace(line)
			if pkg, _, _ := strings.Cut(line, "=="); !slices.Contains(poisoned, pkg) {
				continue
			}
			found = true
			hashed := path.Join(path.Dir(name), "hashed.txt")
			if !strings.Contains("\n"+string(mustRead(t, hashed)), "\n"+line+" --hash=sha256:") {
				t.Errorf("%s: %s has no hash in %s", name, line, hashed)
			}
		}
	}
	if !found {
		t.Error("no requirements name these packages; remove them from the list")
	}
}
