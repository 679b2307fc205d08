package documents_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/waittest"
)

// TestUpgrade follows the page of upgrades with two nodes of the version before under load, then
// kills one.
func TestUpgrade(t *testing.T) {
	internetOf(t, "api.openai.com")
	previous := os.Getenv(programtest.Previous)
	n := startNodes(t, previous)
	p := open(t, "upgrades.md")
	m := start(t, "an operator")
	m.write(t, "admin.key", adminKey)
	m.do(t, p, "Upgrade and roll back")
	m.run(t, `
echo sk-1 | modelgate integrations create OpenAI --slug openai --ai-provider openai --workspace default --credential @-
modelgate configs create Main --workspace default --config '{"provider": "@openai"}'
KEY=$(modelgate keys create app --workspace default --scopes completions.write,models.list --config Main)`)
	key := m.variable(t, "KEY")
	n.introduce(t, key)
	for _, node := range []*machine{n.a, n.b} {
		for version, file := range map[string]string{"1.2.0": previous, "1.3.0": program} {
			node.run(t, fmt.Sprintf("ln -s %s $VERSIONS/%s", file, version))
		}
		node.run(t, "export VERSION=1.3.0 PREVIOUS=1.2.0 DATABASE_URL='"+n.database.DSN()+"'")
	}
	load := n.load(t, key)
	chats := func(when string) {
		t.Helper()
		for range 10 {
			if got := n.chat(t, "https://gateway.example.com", key); got != http.StatusOK {
				t.Errorf("%s: a request gets %d", when, got)
			}
		}
	}
	each := func(heading string) {
		for _, node := range []*machine{n.a, n.b} {
			s := p.find(t, heading)
			s.ran = 0
			node.do(t, p, heading)
			chats(heading)
		}
	}
	chats("before")
	each("Upgrade")
	wants(t, "a backup", n.a.do(t, p, "Make a backup"), ".backup") // which the version before does not have yet
	wants(t, "nodes", m.do(t, p, "Check it"), "ready")
	n.wantLog(t, m)
	each("Roll back")
	n.wantLog(t, m)
	p.find(t, "Upgrade").ran = 0
	each("Upgrade")
	n.a.run(t, "systemctl kill modelgate")
	// nginx does not send a request again that it sent on a connection of the killed node, unless it
	// only reads.
	waittest.Until(t, "nginx has left its connections to the killed node", func() bool {
		for range 20 {
			if n.chat(t, "https://gateway.example.com", key) != http.StatusOK {
				return false
			}
		}
		return true
	})
	chats("a node is killed")
	n.a.run(t, "systemctl start modelgate")
	chats("a node is back")
	load(t)
	n.wantLog(t, m)
	// The read that the kill interrupted may be an estimate: there was one at a time.
	if out := n.a.run(t, "modelgate ledger verify --data /var/lib/modelgate"); !regexp.MustCompile(`of them estimates [01]\n`).MatchString(out) {
		t.Errorf("the ledger of a node that was killed has\n%s", out)
	}
}

// wantLog waits until the log has every request that was served, each once.
func (n *nodes) wantLog(t *testing.T, m *machine) {
	t.Helper()
	waittest.Until(t, "the log has every request once", func() bool {
		return m.run(t, "modelgate logs list --operation chat --status 200 --all -o name | sort -u | wc -l") == fmt.Sprintln(n.served)
	})
}

// load reads the list of models through nginx until the returned function is called, which checks
// that no read was lost.
func (n *nodes) load(t *testing.T, key string) func(*testing.T) {
	var reads, lost atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	read := func() int {
		req, err := http.NewRequest(http.MethodGet, "https://gateway.example.com/v1/models", nil)
		if err != nil {
			return 0
		}
		req.Header.Set("X-Gateway-Api-Key", key)
		resp, err := n.client.Do(req)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if read() == http.StatusOK {
				reads.Add(1)
			} else {
				lost.Add(1)
			}
		}
	}()
	return func(t *testing.T) {
		t.Helper()
		close(stop)
		waittest.Receive(t, done, "the last read")
		if reads.Load() == 0 || lost.Load() > 0 {
			t.Errorf("%d reads succeeded and %d were lost", reads.Load(), lost.Load())
		}
	}
}
