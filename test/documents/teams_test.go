package documents_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// TestFortyTeams follows the page of forty teams.
func TestFortyTeams(t *testing.T) {
	internetOf(t, "api.openai.com")
	p := open(t, "forty-teams.md")
	m := start(t, "a gateway of forty teams")
	m.serve(t, "")
	var names strings.Builder
	for i := range 40 {
		names.WriteString(fmt.Sprintf("team-%02d\n", i+1))
	}
	m.write(t, "teams.txt", names.String())
	m.write(t, "openai.key", "sk-1\n")
	m.do(t, p, "Forty teams")
	if made := strings.Count(m.do(t, p, "Make the workspaces"), "created workspace"); made != 40 {
		t.Errorf("%d workspaces were made", made)
	}
	m.do(t, p, "Let them use a provider")
	m.do(t, p, "Give each team a key")
	n := &nodes{client: httpClient(t)}
	chat := func(team string) int {
		key := strings.TrimSpace(m.run(t, "cat keys/"+team))
		return n.send(t, "https://gateway.example.com", key, "gpt-4o-mini", "hello", "X-Gateway-Provider", "@openai")
	}
	for _, team := range []string{"team-01", "team-17", "team-40"} {
		if got := chat(team); got != http.StatusOK {
			t.Errorf("a request of %s gets %d", team, got)
		}
	}
	wants(t, "an invite", m.do(t, p, "Invite their managers"), "amina@example.com")
	wants(t, "sums", m.until(t, p, "See what they spend", "team-40", "gpt-4o-mini"), "team-01", "team-17")
	m.do(t, p, "Change all of them")
	wants(t, "a budget", m.run(t, "modelgate workspaces show team-17 -o json"), "800")
	m.do(t, p, "Remove a team")
	waittest.Until(t, "the last team is refused", func() bool { return chat("team-40") != http.StatusOK })
	if got := chat("team-01"); got != http.StatusOK {
		t.Errorf("a request of another team gets %d", got)
	}
}
