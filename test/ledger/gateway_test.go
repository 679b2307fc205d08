// Package ledger tests what the gateway records, from outside.
//
// It kills the built program in the middle of streams and compares what the
// ledger, the log, the clients and the simulator know. Attempts of every kind
// are made against a whole gateway, and counted. How segments are written is
// the subject of the tests of package ledger itself.
package ledger

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/testing/programtest"
)

// key is the gateway key of every gateway of the suite.
const key = "mg-ledger-bootstrap-0123456789abcdef"

// countersURL is the environment variable with the address of the store of counters, for
// settings that use it.
const countersURL = "MODELGATE_TEST_COUNTERS_URL"

// program is the path of the binary under test.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "modelgate-ledger-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if program, err = programtest.Build(dir, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		return 1
	}
	return m.Run()
}

// gateway is a running modelgate.
type gateway struct {
	url     string // ends in /v1
	process *exec.Cmd
	errText *bytes.Buffer
	exited  chan error
	client  *http.Client
	keys    []string // of the requests of [gateway.stream], in turn by model; empty is key
}

// keyOf returns the gateway key of requests for a model.
func (g *gateway) keyOf(model string) string {
	if len(g.keys) == 0 {
		return key
	}
	sum := 0
	for _, c := range model {
		sum += int(c)
	}
	return g.keys[sum%len(g.keys)]
}

// start starts a gateway on a data folder, with a provider @sim at base.
func start(t *testing.T, data, base string, settings ...string) *gateway {
	t.Helper()
	file := filepath.Join(data, "modelgate.yaml")
	text := "providers:\n  - {slug: sim, provider: openai-compatible, custom_host: \"" + base + "/v1\"}\n" + strings.Join(settings, "\n")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gateway{errText: new(bytes.Buffer), exited: make(chan error, 1), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}}
	g.process = exec.Command(program, "serve", "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "off", "--config", file, "--trusted-hosts", "127.0.0.1")
	g.process.Env = programtest.Env("MODELGATE_BOOTSTRAP_KEY="+key, countersURL+"="+os.Getenv(countersURL))
	g.process.Stderr = g.errText
	out, err := g.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.process.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for g.url == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			g.process.Wait()
			t.Fatalf("modelgate serve ended at its start: %s", g.errText)
		}
		for word := range strings.FieldsSeq(line) {
			if strings.HasSuffix(word, "/v1") {
				g.url = word
			}
		}
	}
	go func() {
		io.Copy(io.Discard, lines)
		g.exited <- g.process.Wait()
	}()
	t.Cleanup(func() { g.process.Process.Kill() })
	return g
}

// kill ends the gateway as kill -9 does.
func (g *gateway) kill() {
	g.process.Process.Kill()
	<-g.exited
}

// stop ends the gateway as an operator does.
func (g *gateway) stop(t *testing.T) {
	t.Helper()
	g.process.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-g.exited:
		if err != nil {
			t.Errorf("modelgate serve ended with %v: %s", err, g.errText)
		}
	case <-time.After(60 * time.Second):
		t.Error("modelgate serve did not end within a minute of SIGTERM")
	}
}
