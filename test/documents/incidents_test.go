package documents_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// nodes are two gateways on PostgreSQL behind nginx, as the page of operations says.
type nodes struct {
	database *storetest.Server
	a, b     *machine
	client   *http.Client
	served   int // requests with the status 200
}

// startNodes starts them with a version of the program.
func startNodes(t *testing.T, version string) *nodes {
	t.Helper()
	n := &nodes{database: storetest.NewServer(t), a: start(t, "node a"), b: start(t, "node b")}
	dsn := n.database.DSN()
	for i, m := range []*machine{n.a, n.b} {
		m.write(t, "/etc/modelgate/modelgate.yaml", "version: 1\ndrain: {min: 1s}\n")
		m.run(t, "ln -sfn "+version+" "+m.bin("modelgate"))
		m.node(t, []string{nodeA, nodeB}[i]+":8787", "DATABASE_URL="+dsn, "MODELGATE_ADMIN_LISTEN="+[]string{"127.0.0.1", "127.0.0.2"}[i]+":8788")
	}
	proxy := start(t, "nginx")
	certificate, key := trusted(t).Issue(t, "gateway.example.com")
	proxy.write(t, "/etc/ssl/gateway.pem", certificate)
	proxy.write(t, "/etc/ssl/gateway.key", key)
	conf := ""
	for _, s := range parse("operations.md", read(t, "operations.md")).sections {
		if s.heading == "nginx" {
			conf = strings.Replace(s.blocks[0].text, "listen 443", "listen "+front+":443", 1) // providers have the port at theirs
		}
	}
	proxy.write(t, "/etc/nginx/conf.d/modelgate.conf", conf)
	proxy.write(t, "/etc/nginx/nginx.conf", "pid /var/nginx.pid; events {}\nhttp { access_log off; include /etc/nginx/conf.d/*.conf; }")
	proxy.run(t, "nginx")
	n.client = httpClient(t)
	return n
}

func TestIncidents(t *testing.T) {
	of := internetOf(t, "api.openai.com", "api.anthropic.com")
	n := startNodes(t, program)
	p := open(t, "incidents.md")
	m := start(t, "an operator")
	m.write(t, "admin.key", adminKey)
	m.do(t, p, "Incidents")
	m.run(t, `
modelgate workspaces create Search
echo sk-1 | modelgate integrations create OpenAI --slug openai-main --ai-provider openai --workspace Search --credential @-
echo sk-2 | modelgate integrations create Anthropic --slug anthropic-spare --ai-provider anthropic --workspace Search --credential @-
modelgate configs create Main --workspace Search --config '{"provider": "@openai-main"}'
KEY=$(modelgate keys create search-app --workspace Search --scopes completions.write --config Main)
`)
	n.provider(t, m, p, of["api.openai.com"])
	n.leak(t, m, p)
	n.bill(t, m, p)
	n.outage(t, m, p)
	fillDisk(t, p)
}

// provider lets a provider fail and return.
func (n *nodes) provider(t *testing.T, m *machine, p *page, openai *provider) {
	key := m.variable(t, "KEY")
	wantStatus := func(want int, when string) {
		t.Helper()
		waittest.Until(t, when, func() bool { return n.chat(t, "https://gateway.example.com", key) == want })
	}
	openai.status.Store(http.StatusServiceUnavailable)
	for range 4 {
		wantStatus(http.StatusServiceUnavailable, "the provider fails")
	}
	out := m.do(t, p, "A provider is down", 1)
	wants(t, "a failing provider", out, "degraded", "503", "openai-main")
	m.do(t, p, "A provider is down", 1)
	wantStatus(http.StatusOK, "requests go elsewhere")
	openai.status.Store(0)
	before := openai.requests.Load()
	waittest.Until(t, "the provider is asked again", func() bool {
		return n.chat(t, "https://gateway.example.com", key) == http.StatusOK && openai.requests.Load() > before
	})
	m.until(t, p, "A provider is down", "200", "openai-main") // its node writes the entry within a second
}

// leak cuts a key off.
func (n *nodes) leak(t *testing.T, m *machine, p *page) {
	key := m.variable(t, "KEY")
	for _, node := range []string{nodeA, nodeB} {
		if got := n.chat(t, "http://"+node+":8787", key); got != http.StatusOK {
			t.Fatalf("the key gets %d", got)
		}
	}
	p.replace("LEAKED=mg-...", "LEAKED="+key)
	m.do(t, p, "A key leaked", 1)
	m.do(t, p, "A key leaked", 1)
	for _, node := range []string{nodeA, nodeB} {
		waittest.Until(t, node+" refuses the key", func() bool { return n.chat(t, "http://"+node+":8787", key) == http.StatusUnauthorized })
	}
	wants(t, "what the key did", m.do(t, p, "A key leaked", 1), "gpt-4o-mini", "200", "503")
	m.do(t, p, "A key leaked")
	n.introduce(t, m.variable(t, "KEY"))
}

// introduce waits until both nodes know a new key.
func (n *nodes) introduce(t *testing.T, key string) {
	t.Helper()
	for _, node := range []string{nodeA, nodeB} {
		waittest.Until(t, node+" accepts a new key", func() bool { return n.chat(t, "http://"+node+":8787", key) == http.StatusOK })
	}
}

// chat sends a request with a key and returns the status of the response.
func (n *nodes) chat(t *testing.T, url, key string) int {
	t.Helper()
	return n.ask(t, url, key, "gpt-4o-mini")
}

// ask sends a request for a model.
func (n *nodes) ask(t *testing.T, url, key, model string) int {
	t.Helper()
	return n.send(t, url, key, model, "hello")
}

// send sends a request with a text and further headers.
func (n *nodes) send(t *testing.T, url, key, model, text string, header ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{"model":"`+model+`","messages":[{"role":"user","content":"`+text+`"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Gateway-Api-Key", key)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0
	}
	if resp.StatusCode == http.StatusOK {
		n.served++
	}
	return resp.StatusCode
}

// bill finds a key that spends too much, and limits it.
func (n *nodes) bill(t *testing.T, m *machine, p *page) {
	p.replace("20/1d", "1/1d")
	m.run(t, "SPENDER=$(modelgate keys create batch --workspace Search --scopes completions.write --config Main)")
	key := m.variable(t, "SPENDER")
	n.introduce(t, key)
	for range 3 {
		if got := n.ask(t, "https://gateway.example.com", key, "o1-pro"); got != http.StatusOK {
			t.Fatalf("the key gets %d", got)
		}
	}
	m.until(t, p, "The bill is too high", "Search", "batch", "o1-pro")
	m.do(t, p, "The bill is too high", 1)
	waittest.Until(t, "the limit is reached", func() bool {
		return n.ask(t, "https://gateway.example.com", key, "o1-pro") == http.StatusPreconditionFailed
	})
	m.until(t, p, "The bill is too high", "412", "key    cost")
}

// outage stops PostgreSQL while requests go on.
func (n *nodes) outage(t *testing.T, m *machine, p *page) {
	key := m.variable(t, "KEY")
	n.database.Stop()
	n.a.until(t, p, "The database is gone", "ready, degraded: the database can't be reached")
	for range 10 {
		if got := n.chat(t, "https://gateway.example.com", key); got != http.StatusOK {
			t.Errorf("without the database a request gets %d", got)
		}
	}
	if out, ok := m.attempt(t, "modelgate keys create other --workspace Search --scopes completions.write"); ok || !strings.Contains(out, "database is unavailable") {
		t.Errorf("without the database a key is made: %s", out)
	}
	n.database.Start(t)
	n.a.run(t, "export MODELGATE_URL=https://gateway.example.com MODELGATE_BOOTSTRAP_KEY="+adminKey)
	n.a.until(t, p, "The database is gone", "\nready\n", "all  ", "of them estimates 0")
	waittest.Until(t, "the log has every request once", func() bool {
		return m.run(t, "modelgate logs list --workspace Search --status 200 --all -o name | sort -u | wc -l") == fmt.Sprintln(n.served)
	})
}

// fillDisk fills the disk of a gateway of its own, with the log and with another file.
func fillDisk(t *testing.T, p *page) {
	if os.Getenv("MODELGATE_TEST_MOUNT") == "off" { // tools/test.sh says so
		return
	}
	m := start(t, "a gateway on a small disk")
	m.run(t, "mount -t tmpfs -o size=320m tmpfs /var/lib/modelgate")
	m.write(t, "/etc/modelgate/modelgate.yaml", "version: 1\nlogs: {level: full, body_size: 1 MB}\n")
	m.node(t, "127.0.0.1:8787", "MODELGATE_ADMIN_LISTEN=127.0.0.3:8788")
	m.run(t, `
export MODELGATE_URL=http://127.0.0.1:8787 MODELGATE_BOOTSTRAP_KEY=$(cat admin.key)
echo sk-1 | modelgate integrations create OpenAI --slug openai-main --ai-provider openai --workspace default --credential @-
KEY=$(modelgate keys create app --workspace default --scopes completions.write)`)
	key := m.variable(t, "KEY")
	n := &nodes{client: httpClient(t)}
	ask := func(size int) int {
		raw := make([]byte, size)
		rand.Read(raw)
		return n.send(t, "http://127.0.0.1:8787", key, "gpt-4o-mini", base64.StdEncoding.EncodeToString(raw), "X-Gateway-Provider", "@openai-main")
	}
	for range 250 {
		if got := ask(200 << 10); got != http.StatusOK {
			t.Fatalf("a request gets %d", got)
		}
	}
	waittest.Until(t, "the log has all entries, which can be removed from it", func() bool {
		return strings.Contains(m.run(t, "curl -s http://127.0.0.3:8788/metrics"), "\nmodelgate_log_queue_depth 0\n")
	})
	m.run(t, "head -c 400M /dev/zero >/var/lib/modelgate/filler 2>/dev/null || true")
	waittest.Until(t, "requests are refused", func() bool { return ask(1) == http.StatusServiceUnavailable })
	out, _ := m.attempt(t, p.find(t, "The disk fills").scripts()[0].text)
	p.find(t, "The disk fills").ran++
	wants(t, "a full disk", out, "not ready: the ledger can't be written (the disk of the data folder is full", "logs.db")
	p.replace("2GB", "64MB", "2 GB", "64 MB")
	m.run(t, "truncate -s -80M /var/lib/modelgate/filler") // as the page says: SQLite needs room to remove
	m.do(t, p, "The disk fills", 1)
	m.write(t, "/etc/modelgate/modelgate.yaml", "version: 1\n") // the page adds logs
	waittest.Until(t, "requests are served", func() bool { return ask(1) == http.StatusOK })
	wants(t, "the end", m.do(t, p, "The disk fills"), "ready")
}
