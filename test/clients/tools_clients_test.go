package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/programtest"
)

// newMergedTools starts a gateway with a tool server of each era, and returns its address for
// clients.
func newMergedTools(t *testing.T, node string) string {
	t.Helper()
	g := newToolGateway(t, node)
	g.add("new", fmt.Sprintf(`"transport":"http","url":%q`, newSDKServer(t, true)))
	g.add("old", fmt.Sprintf(`"transport":"http","url":%q`, newSDKServer(t, false)))
	return strings.TrimSuffix(g.url, "/v1") + "/mcp"
}

// TestOfficialNodeClientsUseServersOfBothEras uses the older and the newer official package.
func TestOfficialNodeClientsUseServersOfBothEras(t *testing.T) {
	t.Parallel()
	node := mustNode(t)
	runScript(t, node, filepath.Join("node", "toolclients.mjs"), "TOOLS_URL="+newMergedTools(t, node))
}

// TestPythonClientsUseServersOfBothEras uses the official client and that of fastmcp.
func TestPythonClientsUseServersOfBothEras(t *testing.T) {
	t.Parallel()
	runPython(t, mustPython(t, ".venv"), "tools_test.py", 4, "TOOLS_URL="+newMergedTools(t, mustNode(t)))
}

// TestInspectorUsesServersOfBothEras uses the command line of the official inspector.
func TestInspectorUsesServersOfBothEras(t *testing.T) {
	t.Parallel()
	node := mustNode(t)
	address, home := newMergedTools(t, node), t.TempDir()
	inspect := func(era string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join("node_modules", ".bin", "mcp-inspector"), "--cli", address, "--transport", "http",
			"--header", "Authorization: Bearer " + gatewayKey, "--protocol-era", era}, args...)...)
		cmd.Env = append(programtest.Env(), "HOME="+home)
		out, err := cmd.Output()
		return string(out), err
	}
	for _, era := range []string{"legacy", "auto", "modern"} {
		out, err := inspect(era, "--method", "tools/list", "--strict")
		var list struct{ Tools []struct{ Name string } }
		if json.Unmarshal([]byte(out), &list) != nil || err != nil || len(list.Tools) != 4 || list.Tools[1].Name != "new__greet" {
			t.Errorf("%s: the list is %.500s, %v", era, out, err)
		}
		for _, tool := range []string{"new__greet", "old__greet"} {
			if out, err := inspect(era, "--method", "tools/call", "--tool-name", tool, "--tool-arg", "name=Ada"); err != nil || !strings.Contains(out, "Hello, Ada") {
				t.Errorf("%s: %s returns %.500s, %v", era, tool, out, err)
			}
		}
		if out, err := inspect(era, "--method", "tools/call", "--tool-name", "new__nothing"); err == nil {
			t.Errorf("%s: an unknown tool returns %.500s", era, out)
		}
	}
}
