package documents_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// elsewhere are pages whose commands run, without a number of commands, here or in other tests.
var elsewhere = map[string]string{
	"limits.md":                           "TestLimits",
	"administer-from-the-command-line.md": "cmd/modelgate/admin TestDocumentWorks",
	"command-line.md":                     "cmd/modelgate TestExamplesOfCommandsParse; the page is generated",
}

// TestEveryBlockRuns parses the commands of all pages, and counts those that a test runs: of the
// others each is an exemption, and each exemption is one of them.
func TestEveryBlockRuns(t *testing.T) {
	all, left := 0, map[exemption]int{}
	for _, name := range pages(t) {
		for _, s := range parse(name, read(t, name)).sections {
			for _, b := range s.scripts() {
				if name != "command-line.md" { // which is generated from examples that a test of theirs parses
					all++
				}
				if e := exempted(name, b); e != nil {
					left[*e]++
				}
				c := exec.Command("bash", "-n")
				c.Stdin = strings.NewReader(b.text)
				if out, err := c.CombinedOutput(); err != nil {
					t.Errorf("%s:%d: %v\n%s", name, b.line, err, out)
				}
			}
		}
	}
	for _, e := range exemptions {
		if left[e] != 1 || e.reason == "" {
			t.Errorf("%s: %d blocks begin with %q, which is an exemption with the reason %q", e.page, left[e], e.first, e.reason)
		}
		if _, used := elsewhere[e.page]; used && e.page != "limits.md" || isTask(e.page) {
			t.Errorf("%s: a test of its own runs the page, so that its exemption has no effect", e.page)
		}
	}
	run := all - len(exemptions)
	t.Logf("%d of %d blocks of commands run", run, all)
	if run*100 < all*85 || all < 200 {
		t.Errorf("%d of %d blocks of commands run, less than 85 %%", run, all)
	}
	for name := range guides {
		if !slices.Contains(pages(t), name) {
			t.Errorf("there is no page %s", name)
		}
	}
}

// isTask reports whether a page is one of the pages of tasks.
func isTask(name string) bool {
	return slices.Contains(tasks, name)
}

// Uses and settings of variables in a script.
var (
	quotedText = regexp.MustCompile(`'[^']*'`)
	use        = regexp.MustCompile(`\$\{?([A-Z][A-Z0-9_]*)`)
	setting    = regexp.MustCompile(`(?:^|[\s;(])([A-Z][A-Z0-9_]*)=|\bread -r ([A-Z]+)|\bfor ([A-Z]+) in`)
)

// TestPagesSetEveryVariableThatTheyUse reads all pages from top to bottom.
func TestPagesSetEveryVariableThatTheyUse(t *testing.T) {
	words, found := read(t, "README.md"), map[string]bool{}
	for _, name := range pages(t) {
		if name == "command-line.md" { // examples that belong to no sequence
			continue
		}
		set := map[string]bool{}
		for _, s := range parse(name, read(t, name)).sections {
			for _, b := range s.scripts() {
				text := quotedText.ReplaceAllString(b.text, "")
				for _, m := range setting.FindAllStringSubmatch(text, -1) {
					set[m[1]+m[2]+m[3]] = true
				}
				for _, m := range use.FindAllStringSubmatch(text, -1) {
					if !set[m[1]] {
						t.Errorf("%s:%d: $%s is used before it is set on the page", name, b.line, m[1])
					}
				}
			}
		}
		for v := range set {
			found[v] = true
			if !strings.Contains(words, "`$"+v+"`") && own[v] != name && !isSetting(v) {
				t.Errorf("%s: the variable %s is neither in docs/README.md nor a page's own", name, v)
			}
		}
	}
	for v := range own {
		if !found[v] {
			t.Errorf("no page sets the variable %s", v)
		}
	}
}

// isSetting reports whether a program reads a variable: the gateway, or another one in the examples.
func isSetting(name string) bool {
	return slices.ContainsFunc(programs, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// programs are what variables begin with that programs read.
var programs = []string{
	"MODELGATE_", "DATABASE_URL", "DB_SSL", "MCP_INTEGRATION_", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_DIR", // of the gateway
	"ANTHROPIC_", "AWS_", "GEMINI_API_KEY", "GOOGLE_GEMINI_", "OPENAI_API_BASE", // of agents
	"ARGS", "ENGINE", "GOARCH", "GOOS", "IMAGE", // of make, go and compose
}

// own are variables of one page, for a thing that others do not speak of.
var own = map[string]string{
	"LINK": "administration.md", "MAKER": "administration.md",
	"LAKERA_KEY": "guardrails.md", "NEW_KEY": "guardrails.md", "RESULT": "guardrails.md", "SECRET": "guardrails.md",
	"BODY": "headers.md", "MODELS_KEY": "headers.md",
	"SCHEDULE":     "exports.md",
	"LEAKED":       "incidents.md",
	"NEXT":         "logs.md",
	"CODE":         "second-factors.md",
	"NEW":          "settings.md",
	"ISSUER":       "tools-sign-in.md",
	"CONVERSATION": "responses.md",
	"PREVIOUS":     "upgrades.md", "VERSION": "upgrades.md",
	"DELIVERY": "webhooks.md", "ENDPOINT": "webhooks.md",
}
