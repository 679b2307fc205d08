package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/waittest"
)

// bootstrapKey is the gateway key of every gateway that the suite starts, and
// credential what its clients send for the provider.
const (
	bootstrapKey = "mg-conformance-bootstrap-0123456789"
	credential   = "sk-provider-credential-987"
	storedKey    = "sk-stored-credential-654"
	operatorsKey = "sk-of-the-operator"
)

// patience is how long a case waits for what has to come.
const patience = time.Minute

// gateway is a running modelgate.
type gateway struct {
	url   string // ends in /v1
	root  string
	admin string
	data  string

	process *exec.Cmd
	errText *printed
	exited  chan error
}

// launch starts `modelgate serve` with a settings file and further environment.
func launch(settings string, env ...string) (*gateway, error) {
	data, err := os.MkdirTemp(scratch, "data")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(data, "modelgate.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	g := &gateway{data: data}
	return g, g.begin(env)
}

// begin starts a process on the folder of g.
func (g *gateway) begin(env []string) error {
	g.url, g.admin, g.errText, g.exited = "", "", new(printed), make(chan error, 1)
	g.process = exec.Command(program, "serve", "--data", g.data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config", filepath.Join(g.data, "modelgate.yaml"))
	g.process.Env = programtest.Env("MODELGATE_BOOTSTRAP_KEY="+bootstrapKey, "STORED_KEY="+storedKey, "OPERATORS_KEY="+operatorsKey)
	g.process.Env = append(g.process.Env, env...)
	g.process.Stderr = g.errText
	out, err := g.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := g.process.Start(); err != nil {
		return err
	}
	return g.greeted(out)
}

// again stops a gateway that launchFor started and starts another on its folder.
func (g *gateway) again(t *testing.T, env ...string) {
	t.Helper()
	if err := g.stop(); err != nil {
		t.Fatalf("stopping the gateway: %v\n%s", err, g.errText)
	}
	if err := g.begin(env); err != nil {
		t.Fatal(err)
	}
}

// greeted reads from the greeting where the gateway serves.
func (g *gateway) greeted(out io.Reader) error {
	lines := bufio.NewReader(out)
	for g.url == "" || g.admin == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			g.process.Wait()
			return fmt.Errorf("modelgate serve ended at its start: %s", g.errText)
		}
		for word := range strings.FieldsSeq(line) {
			switch word = strings.TrimSuffix(word, ","); {
			case strings.HasSuffix(word, "/v1"):
				g.url, g.root = word, strings.TrimSuffix(word, "/v1")
			case strings.HasSuffix(word, "/metrics"):
				g.admin = strings.TrimSuffix(word, "/metrics")
			}
		}
	}
	go func() {
		io.Copy(io.Discard, lines)
		g.exited <- g.process.Wait()
	}()
	return nil
}

// stop ends the gateway as an operator does.
func (g *gateway) stop() error {
	g.process.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-g.exited:
		return err
	case <-time.After(patience):
		g.process.Process.Kill()
		<-g.exited
		return errors.New("modelgate serve did not end within a minute of SIGTERM")
	}
}

// shared is the gateway that most cases use, with the provider behind its
// managed entries. It trusts 127.0.0.1.
var shared struct {
	once    sync.Once
	gateway *gateway
	stored  *provider
	close   func()
	err     error
}

const sharedSettings = `
version: 1
providers:
  - {slug: stored, provider: openai, api_key: "${STORED_KEY}", custom_host: "BASE/v1"}
  - {slug: native, provider: anthropic, api_key: "${STORED_KEY}", custom_host: "BASE/v1"}
`

// start returns the shared gateway and the provider of its entries @stored and
// @native. Cases that look at that provider do not run in parallel.
func start(t *testing.T) (*gateway, *provider) {
	t.Helper()
	shared.once.Do(func() {
		p, srv := startProvider(nil)
		shared.stored, shared.close = p, srv.Close
		shared.gateway, shared.err = launch(strings.ReplaceAll(sharedSettings, "BASE", p.root), "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.gateway, shared.stored
}

func stopShared() {
	if shared.gateway != nil && shared.gateway.process.Process != nil {
		shared.gateway.stop()
	}
	if shared.close != nil {
		shared.close()
	}
	if simulated.process != nil {
		simulated.process.Process.Signal(syscall.SIGTERM)
		simulated.process.Wait()
	}
}

// launchFor starts a gateway of its own for t.
func launchFor(t *testing.T, settings string, env ...string) *gateway {
	t.Helper()
	g, err := launch(settings, env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.stop(); err != nil {
			t.Errorf("stopping the gateway: %v\n%s", err, g.errText)
		}
	})
	return g
}

// response is a response of the gateway. err is how reading the body ended.
type response struct {
	status  int
	header  http.Header
	body    []byte
	err     error
	trailer http.Header // complete once the body was read
}

// client follows nothing, adds nothing and waits long enough for every case.
var client = &http.Client{
	Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 8},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       patience,
}

// request returns a request whose target and header names go out exactly as
// written. header holds names and values in turn.
func (g *gateway) request(t *testing.T, method, target string, body io.Reader, header ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.root, body)
	if err != nil {
		t.Fatal(err)
	}
	path, query, asked := strings.Cut(target, "?")
	req.URL = &url.URL{Scheme: "http", Host: req.URL.Host, Opaque: path, RawQuery: query, ForceQuery: asked}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header[header[i]] = append(req.Header[header[i]], header[i+1])
	}
	if _, given := req.Header["User-Agent"]; !given {
		req.Header["User-Agent"] = []string{"conformance"}
	}
	return req
}

// do sends a request and reads the response. A body is JSON unless the header
// says otherwise.
func (g *gateway) do(t *testing.T, method, target, body string, header ...string) response {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req := g.request(t, method, target, r, header...)
	if _, given := req.Header["Content-Type"]; body != "" && !given {
		req.Header["Content-Type"] = []string{"application/json"}
	}
	return send(t, req)
}

func send(t *testing.T, req *http.Request) response {
	t.Helper()
	res, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return response{res.StatusCode, res.Header, b, err, res.Trailer}
}

// to are the headers of a request for p: the gateway key, provider and bearer
// credential, and p as custom host.
func to(p *provider, more ...string) []string {
	return append([]string{
		"x-gateway-api-key", bootstrapKey,
		"x-gateway-provider", "openai-compatible",
		"x-gateway-custom-host", p.url,
		"Authorization", "Bearer " + credential,
	}, more...)
}

// managed are the headers of a request for a managed provider.
func managed(slug string, more ...string) []string {
	return append([]string{"x-gateway-api-key", bootstrapKey, "x-gateway-provider", slug}, more...)
}

// object decodes the body of a reply.
func (r response) object(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(r.body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("status %d, the body is no JSON object: %v: %.300s", r.status, err, r.body)
	}
	return v
}

// wantOK fails the test unless the reply is a complete 200.
func (r response) wantOK(t *testing.T) response {
	t.Helper()
	if r.status != http.StatusOK || r.err != nil {
		t.Fatalf("status %d (%v), want 200: %.400s", r.status, r.err, r.body)
	}
	return r
}

// refused fails the test unless the gateway itself refused with this status and
// body of its own form. It returns the error object.
func (r response) refused(t *testing.T, status int) map[string]any {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %.400s", r.status, status, r.body)
	}
	if ct := r.header.Get("Content-Type"); !strings.HasPrefix(ct, "application/json") {
		t.Errorf("content type of an error = %q, want application/json", ct)
	}
	body := r.object(t)
	e, _ := body["error"].(map[string]any)
	if body["status"] != "failure" || e["source"] != "gateway" {
		t.Errorf("error body = %.400s, want status failure and source gateway", r.body)
	}
	message, _ := e["message"].(string)
	if message == "" || body["message"] != message {
		t.Errorf("error body = %.400s, want the same message inside and outside of error", r.body)
	}
	for _, name := range []string{"type", "code"} {
		if text, _ := e[name].(string); text == "" {
			t.Errorf("error body = %.400s, want a word for %s", r.body, name)
		}
	}
	if _, ok := e["param"]; !ok {
		t.Errorf("error body = %.400s, want param, if only null", r.body)
	}
	return e
}

// refusedFor also wants the error to name the parameter or one inside it.
func (r response) refusedFor(t *testing.T, param string) {
	t.Helper()
	e := r.refused(t, http.StatusBadRequest)
	got, _ := e["param"].(string)
	if rest, ok := strings.CutPrefix(got, param); !ok || rest != "" && rest[0] != '.' && rest[0] != '[' {
		t.Errorf("param = %q, want %q or one of its elements", got, param)
	}
}

// entry returns what was recorded of a reply. Recording is done after the last
// byte was sent, so it may take a moment.
func (g *gateway) entry(t *testing.T, r response) map[string]any {
	t.Helper()
	id := r.header.Get("x-gateway-request-id")
	if id == "" {
		t.Fatal("the response has no x-gateway-request-id")
	}
	var log response
	reader := bootstrapKey
	if r.status == http.StatusUnauthorized { // it belongs to no organisation
		out, errText, code := command(t, "keys", "create", "--data", g.data, "--name", "operator", "--all-organisations")
		if code != 0 {
			t.Fatalf("keys create: exit %d: %s", code, errText)
		}
		reader = strings.TrimSpace(out)
	}
	waittest.Until(t, "the exchange "+id+" is in the log", func() bool {
		log = g.do(t, "GET", "/v1/logs/"+id, "", "x-gateway-api-key", reader)
		return log.status != http.StatusNotFound && log.status != http.StatusUnauthorized
	})
	return log.wantOK(t).object(t)
}

// command runs modelgate and returns what it printed and its exit code.
func command(t *testing.T, args ...string) (out, errText string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = programtest.Env("OPERATORS_KEY=" + operatorsKey)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return o.String(), e.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return o.String(), e.String(), 0
}

// simulated is the simulator of the run, started by its first case.
var simulated struct {
	once    sync.Once
	process *exec.Cmd
	root    string
	err     error
}

// simulate returns the address of a running `modelgate simulate`.
func simulate(t *testing.T) (root string) {
	t.Helper()
	simulated.once.Do(func() {
		cmd := exec.Command(program, "simulate", "--listen", "127.0.0.1:0")
		cmd.Env = programtest.Env()
		out, err := cmd.StdoutPipe()
		if simulated.err = err; err != nil {
			return
		}
		if simulated.err = cmd.Start(); simulated.err != nil {
			return
		}
		simulated.process = cmd
		line, err := bufio.NewReader(out).ReadString('\n')
		words := strings.Fields(line)
		if err != nil || len(words) == 0 {
			simulated.err = fmt.Errorf("modelgate simulate said %q: %v", line, err)
			return
		}
		simulated.root = strings.TrimSuffix(words[len(words)-1], "/v1")
	})
	if simulated.err != nil {
		t.Fatal(simulated.err)
	}
	return simulated.root
}
