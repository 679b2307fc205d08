package tools_test

import (
	"strings"
	"testing"

	"modelgate/internal/provider/toolserver"
)

// TestProgramsWithOneKeyAreAskedWhatTheyDeclare calls a server of the legacy era as two programs
// of the modern era: its session with each begins with what that program can be asked.
func TestProgramsWithOneKeyAreAskedWhatTheyDeclare(t *testing.T) {
	up := legacyServer(t)
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
	sessions := map[string]string{}
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`, `{}`, `{"elicitation":{"form":{}}}`} {
		g.modern("/mcp/one", "tools/call", `"name":"echo","arguments":{}`, capabilities, "X-Gateway-Api-Key", aliceKey)
		all := up.Requests("tools/call")
		id, asked := all[len(all)-1].Header.Get("Mcp-Session-Id"), strings.Contains(capabilities, "elicitation")
		begun := up.Requests("initialize")
		if sessions[id] == "" && strings.Contains(string(begun[len(begun)-1].Message.Params), `"elicitation"`) != asked {
			t.Errorf("a session for %s begins with %s", capabilities, begun[len(begun)-1].Message.Params)
		}
		if before := sessions[id]; before != "" && strings.Contains(before, "elicitation") != asked {
			t.Errorf("%s uses the session that began with %s", capabilities, before)
		}
		sessions[id] = capabilities
	}
	if len(sessions) != 2 {
		t.Errorf("%d sessions, want 2", len(sessions))
	}
}
