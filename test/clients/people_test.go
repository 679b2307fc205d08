package clients

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/storetest"
)

// verifyDomain records that example.com is the organisation's.
func verifyDomain(env []string, args ...string) error {
	verify := exec.Command(stage.program, append([]string{"domains", "verify", "--name", "example.com"}, args...)...)
	verify.Env = programtest.Env(env...)
	if out, err := verify.CombinedOutput(); err != nil {
		return fmt.Errorf("verifying a domain: %w: %s", err, out)
	}
	return nil
}

// cluster is gateways on one database, behind the address that people know. Requests go to
// them in turn, unless a script chooses: POST /cluster?node=1 sends those that follow to the
// second, node=any to all again, and kill=0 kills the first. The requests that a killed one
// has, and the next, fail with 502; then it gets no more.
type cluster struct {
	*httptest.Server
	t testing.TB

	mu    sync.Mutex
	nodes []*clusterNode // guarded by mu, like what follows
	last  int            // node of the last request
	fixed bool           // and of the next
}

type clusterNode struct {
	*process
	proxy        *httputil.ReverseProxy
	killed, gone bool // gone: it gets no requests
}

// startCluster starts n gateways on one PostgreSQL database whose organisation has proved that
// example.com is its own. Host is the one that people know, which is 127.0.0.1 or a name of it.
func startCluster(t *testing.T, n int, host string) *cluster {
	t.Helper()
	c := &cluster{t: t}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Server.Close)
	env := append(stage.env, "DATABASE_URL="+storetest.Postgres(t), "MODELGATE_PUBLIC_URL="+strings.Replace(c.URL, "127.0.0.1", host, 1))
	t.Cleanup(c.stop)
	for i := range n {
		p, err := start(stage.program, env, "serve", "--data", filepath.Join(t.TempDir(), strconv.Itoa(i)), "--listen", "127.0.0.1:0",
			"--admin-listen", "off", "--config", stage.settings)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(strings.TrimSuffix(p.url, "/v1"))
		if err != nil {
			t.Fatal(err)
		}
		node := &clusterNode{process: p, proxy: httputil.NewSingleHostReverseProxy(u)}
		node.proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			node.gone = node.killed
			w.WriteHeader(http.StatusBadGateway)
		}
		c.mu.Lock()
		c.nodes = append(c.nodes, node)
		c.mu.Unlock()
	}
	if err := verifyDomain(env); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) stop() {
	for _, n := range c.nodes {
		if n.killed {
			continue
		}
		if err := n.stop(); err != nil {
			c.t.Error(err)
		}
	}
}

// ServeHTTP implements http.Handler.
func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/cluster" {
		c.choose().ServeHTTP(w, r)
	} else if err := c.control(r.URL.Query()); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// choose returns the node of a request.
func (c *cluster) choose() http.Handler {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range c.nodes {
		if !c.fixed {
			c.last = (c.last + 1) % len(c.nodes)
		}
		if !c.nodes[c.last].gone {
			break
		}
	}
	return c.nodes[c.last].proxy
}

// control does what a script asks for.
func (c *cluster) control(q url.Values) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := q.Get("kill") + q.Get("node")
	if c.fixed = text != "any"; !c.fixed {
		return nil
	}
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i >= len(c.nodes) {
		return errors.New("no such node")
	}
	if c.last = i; q.Has("node") {
		return nil
	}
	c.fixed, c.nodes[i].killed = false, true
	return c.nodes[i].cmd.Process.Kill()
}

// TestPeopleOnTwoNodes runs scripts that also run on one node with SQLite.
func TestPeopleOnTwoNodes(t *testing.T) {
	node, idp := mustNode(t), mustProvider(t)
	for name, host := range map[string]string{
		"signin.test.mjs": "127.0.0.1", "saml.test.mjs": "127.0.0.1", "device.test.mjs": "127.0.0.1",
		"toolsignin.test.mjs": "127.0.0.1", "toolconnect.test.mjs": "localhost",
		"factors.test.mjs": "localhost", // passkeys need a name
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 2, host)
			address := c.URL + "/v1"
			runScript(t, node, filepath.Join("node", name), append(slices.Clip(idp), "PEOPLE_URL="+address, "FACTORS_URL="+address, "PEOPLE_NODES=2")...)
		})
	}
}

// TestDirectoryOfAYear simulates a year of a company's directory, in the middle of which a
// node is killed.
func TestDirectoryOfAYear(t *testing.T) {
	c := startCluster(t, 2, "127.0.0.1")
	runPython(t, mustPython(t, ".venv"), "year_test.py", 1, "PEOPLE_URL="+c.URL+"/v1")
}
