package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/waittest"
)

// toolGateway is a gateway with tool servers.
type toolGateway struct {
	t     *testing.T
	url   string // ends in /v1
	keyed string // the root of the gateway, for clients that send no key
}

// newToolGateway starts a gateway with the programs of some official tool servers, which it
// runs with node.
func newToolGateway(t *testing.T, node string) *toolGateway {
	t.Helper()
	folder := t.TempDir()
	module := func(name string) string {
		path, err := filepath.Abs(filepath.Join("node_modules", "@modelcontextprotocol", name, "dist", "index.js"))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := filepath.Join(folder, "modelgate.yaml")
	text := fmt.Sprintf("version: 1\ntools:\n  commands:\n    files: {path: %q, args: [%q, %q]}\n    memory: {path: %q, args: [%q], env: {MEMORY_FILE_PATH: %q}}\n    everything: {path: %q, args: [%q]}\n",
		node, module("server-filesystem"), folder, node, module("server-memory"), filepath.Join(folder, "memory.jsonl"), node, module("server-everything"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := start(stage.program, stage.env, "serve", "--data", filepath.Join(folder, "data"), "--listen", "127.0.0.1:0", "--admin-listen", "off", "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	})
	g := &toolGateway{t: t, url: p.url}
	root, err := url.Parse(strings.TrimSuffix(p.url, "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	keyed := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(root)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("X-Gateway-Api-Key", gatewayKey)
	}})
	t.Cleanup(keyed.Close)
	g.keyed = keyed.URL
	return g
}

// do sends a request to the control plane.
func (g *toolGateway) do(method, path, body string) []byte {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.url+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("X-Gateway-Api-Key", gatewayKey)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		g.t.Fatalf("%s %s: %d %s, %v", method, path, res.StatusCode, out, err)
	}
	return out
}

// add adds a server. fields are those of its integration.
func (g *toolGateway) add(slug, fields string) {
	g.t.Helper()
	g.do("POST", "/mcp-integrations", fmt.Sprintf(`{"name":%q,"slug":%q,"auth_type":"none",%s}`, slug, slug, fields))
	g.do("PUT", "/mcp-integrations/"+slug+"/workspaces", `{"workspaces":[{"id":"default","enabled":true}]}`)
	g.do("POST", "/mcp-servers", fmt.Sprintf(`{"name":%q,"slug":%q,"mcp_integration_id":%q,"workspace_id":"default"}`, slug, slug, slug))
}

// startEverything starts the server of the official Go SDK that its conformance is tested
// with, and returns its address.
func startEverything(t *testing.T, program string, args ...string) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	free.Close()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"-http", at}, args...)...)
	cmd.Env = programtest.Env()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Wait() })
	waittest.Until(t, "the tool server listens", func() bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "http://" + at + "/mcp"
}

var scenarioLine = regexp.MustCompile(`(?m)^([✓✗]) ([a-z0-9-]+): (\d+) passed, (\d+) failed`)

// scenarios runs the conformance suite for a revision against an address, and returns which
// of its scenarios failed, by name.
func scenarios(t *testing.T, node, address, revision string) (failed map[string]bool, printed []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, filepath.Join("node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js"),
		"server", "--url", address, "--requirements", revision)
	cmd.Env = programtest.Env()
	printed, _ = cmd.CombinedOutput() // its exit code is that of scenarios which the SDK itself fails
	failed = make(map[string]bool)
	for _, m := range scenarioLine.FindAllStringSubmatch(string(printed), -1) {
		failed[m[2]] = m[1] == "✗"
	}
	if len(failed) < 20 {
		t.Fatalf("%d scenarios:\n%s", len(failed), printed)
	}
	return failed, printed
}

// lost returns the scenarios that pass directly and not through the gateway.
func lost(direct, through map[string]bool) (names []string) {
	for name, failed := range direct {
		if failedThere, ran := through[name]; !failed && (failedThere || !ran) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestToolServersConformThroughTheGateway runs the official conformance suite of both eras
// against the server of the official SDK, directly and through the gateway. No scenario may
// be lost: not twice, since some of the suite's own are lost on a busy machine when one of the two runs
// is slow.
func TestToolServersConformThroughTheGateway(t *testing.T) {
	node := mustNode(t)
	g := newToolGateway(t, node)
	program := filepath.Join(t.TempDir(), "everything")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, tt := range []struct {
		slug, revision string
		args           []string
	}{
		{"modern", "2026-07-28", nil},
		{"legacy", "2025-11-25", []string{"-stateless=false"}},
	} {
		address := startEverything(t, program, tt.args...)
		g.add(tt.slug, fmt.Sprintf(`"transport":"http","url":%q`, address))
		direct, _ := scenarios(t, node, address, tt.revision)
		through, printed := scenarios(t, node, g.keyed+"/mcp/"+tt.slug, tt.revision)
		missing := lost(direct, through)
		if len(missing) > 0 {
			t.Logf("%s: lost %q at first:\n%s", tt.revision, missing, printed)
			again, _ := scenarios(t, node, g.keyed+"/mcp/"+tt.slug, tt.revision)
			missing = slices.DeleteFunc(missing, func(name string) bool { return !slices.Contains(lost(direct, again), name) })
		}
		if len(missing) > 0 {
			t.Errorf("%s: the scenarios %q pass directly and not through the gateway", tt.revision, missing)
		}
		t.Logf("%s: %d of %d scenarios run through the gateway", tt.revision, len(through), len(direct))
	}
}

// TestOfficialToolServersRunAsPrograms calls tools of official servers that the gateway
// runs, merged behind one address.
func TestOfficialToolServersRunAsPrograms(t *testing.T) {
	node := mustNode(t)
	g := newToolGateway(t, node)
	for _, name := range []string{"files", "memory", "everything"} {
		g.add(name, fmt.Sprintf(`"transport":"stdio","command":%q`, name))
	}
	ask := func(method, params string) string {
		return string(g.do("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)))
	}
	list := ask("tools/list", "{}")
	for _, name := range []string{"files__list_allowed_directories", "memory__read_graph", "everything__echo"} {
		if !strings.Contains(list, `"`+name+`"`) {
			t.Errorf("%s is missing in %.2000s", name, list)
		}
	}
	for _, tt := range []struct{ name, arguments, want string }{
		{"everything__echo", `{"message":"hello"}`, "hello"},
		{"memory__create_entities", `{"entities":[{"name":"gateway","entityType":"program","observations":["relays"]}]}`, "gateway"},
		{"memory__read_graph", `{}`, "relays"},
		{"files__list_allowed_directories", `{}`, os.TempDir()},
		{"files__read_text_file", `{"path":"/etc/passwd"}`, "isError"},
	} {
		if got := ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tt.name, tt.arguments)); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %.500s, want %s", tt.name, got, tt.want)
		}
	}
	var log struct {
		Data []struct {
			Operation string
			Slug      string `json:"provider_slug"`
			Model     string
		}
	}
	waittest.Until(t, "the log has the calls", func() bool {
		if err := json.Unmarshal(g.do("GET", "/logs", ""), &log); err != nil {
			t.Fatal(err)
		}
		calls := 0
		for _, e := range log.Data {
			if e.Operation == "tools.call" {
				calls++
			}
		}
		return calls == 5
	})
}
