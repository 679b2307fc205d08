// Package clients drives the built gateway with the official client libraries.
//
// It builds modelgate, starts `modelgate serve` with a settings file and
// `modelgate simulate` behind one of its providers, and lets the clients loose
// on it: npm packages, run by node on the scripts in node/, and the Go modules
// openai-go and anthropic-sdk-go in Go tests. Cases say what a client gets to see, and what
// arrived at the provider. What a single route promises in full is the subject of
// test/conformance.
package clients

import (
	"bufio"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/recorder"
)

// gatewayKey is the gateway key of the clients. providerKey is the credential
// that the provider asks for; @sim and @alone hold it, and clients that bring
// their own credential send it.
const (
	gatewayKey  = "mg-clients-bootstrap-0123456789abcdef"
	providerKey = "sk-clients-provider-0123456789"
)

// settings has @sim, a simulator in this process whose books the cases read, and
// @alone, a simulator that runs as a program of its own. The simulator of @sim
// is behind a provider of each further dialect too: @chat speaks nothing but
// chat, while a client of responses reaches @sim in its own dialect.
const settings = `
version: 1
providers:
  - {slug: sim, provider: openai, api_key: "${PROVIDER_KEY}", custom_host: "SIM/v1"}
  - {slug: alone, provider: openai, api_key: "${PROVIDER_KEY}", custom_host: "ALONE", models: [sim-1]}
  - {slug: chat, provider: cometapi, api_key: "${PROVIDER_KEY}", custom_host: "SIM/v1", models: [sim-1]}
  - {slug: ant, provider: anthropic, api_key: "${PROVIDER_KEY}", custom_host: "SIM/v1", models: [sim-1, sim-2, sim-3, sim-4, sim-5]}
  - {slug: gem, provider: google, api_key: "${PROVIDER_KEY}", custom_host: "SIM", models: [sim-1]}
  - {slug: aws, provider: bedrock, api_key: "${PROVIDER_KEY}", custom_host: "SIM", models: [sim-1, anthropic.claude-sim]}
  - {slug: coh, provider: cohere, api_key: "${PROVIDER_KEY}", custom_host: "SIM", models: [sim-1]}
  - {slug: oll, provider: ollama, api_key: "${PROVIDER_KEY}", custom_host: "SIM", models: [sim-1]}
`

// stage is everything that runs: the gateway, its providers and the ledger of @sim.
var stage struct {
	url        string // base URL of the gateway, ends in /v1
	sim        *recorder.Recorder
	simURL     string // base URL of @sim, ends in /v1
	booksURL   string
	factorsURL string // as peopleURL, where members have second factors
	peopleURL  string // the same settings and another data folder, where people sign in
	tlsURL     string // the same settings and another data folder, served over TLS
	caFile     string // the authority of its certificate

	program, settings string   // paths of modelgate and of the file with the settings
	env               []string // of a gateway
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	scratch, err := os.MkdirTemp("", "clients")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(scratch)
	program, err := programtest.Build(scratch, os.Stderr)
	if err != nil {
		return 1, err
	}

	stage.sim = recorder.New(recorder.Options{Options: simulator.Options{Key: providerKey}, Record: 4096})
	sim := httptest.NewServer(stage.sim)
	defer sim.Close()
	stage.simURL = sim.URL + "/v1"
	books := httptest.NewServer(booksOf(stage.sim))
	defer books.Close()
	stage.booksURL = books.URL

	alone, err := start(program, nil, "simulate", "--listen", "127.0.0.1:0", "--key", providerKey, "--pace", "0s")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, alone.stop()) }()

	file := filepath.Join(scratch, "modelgate.yaml")
	text := strings.NewReplacer("SIM", sim.URL, "ALONE", alone.url).Replace(settings)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return 1, err
	}
	env := []string{"MODELGATE_BOOTSTRAP_KEY=" + gatewayKey, "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of the clients", "PROVIDER_KEY=" + providerKey}
	stage.program, stage.settings, stage.env = program, file, slices.Clip(env)
	gateway, err := start(program, env, "serve", "--data", filepath.Join(scratch, "data"),
		"--listen", "127.0.0.1:0", "--admin-listen", "off", "--config", file)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, gateway.stop()) }()
	stage.url = gateway.url
	for name, url := range map[string]*string{"people-data": &stage.peopleURL, "factors-data": &stage.factorsURL} {
		people, err := startPeople(filepath.Join(scratch, name))
		if err != nil {
			return 1, err
		}
		defer people.stop()
		*url = people.url
	}

	secure, err := startTLS(program, scratch, text, env)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, secure.stop()) }()
	stage.tlsURL, stage.caFile = secure.url, filepath.Join(scratch, "cert.pem")
	return m.Run(), nil
}

// startPeople starts a gateway whose organisation has proved that example.com is its own.
func startPeople(data string) (*process, error) {
	p, err := start(stage.program, stage.env, "serve", "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "off",
		"--config", stage.settings)
	if err != nil {
		return nil, err
	}
	if err := verifyDomain(nil, "--data", data); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// startTLS starts a second gateway, over TLS, with the certificate of httptest, which
// is its own authority.
func startTLS(program, scratch, settings string, env []string) (*process, error) {
	borrowed := httptest.NewTLSServer(nil)
	defer borrowed.Close()
	cert := borrowed.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"tls.yaml": []byte(settings + "listener:\n  tls: {certificate: " + filepath.Join(scratch, "cert.pem") + ", key: " + filepath.Join(scratch, "key.pem") + "}\n"),
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(scratch, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	return start(program, env, "serve", "--data", filepath.Join(scratch, "tls-data"),
		"--listen", "127.0.0.1:0", "--admin-listen", "off", "--config", filepath.Join(scratch, "tls.yaml"))
}

// process is a running modelgate.
type process struct {
	name    string
	url     string // what it serves, ends in /v1
	cmd     *exec.Cmd
	errText strings.Builder // read after the end alone
	exited  chan error
}

// start runs the program and waits until it says where it serves.
func start(program string, env []string, args ...string) (*process, error) {
	p := &process{name: args[0], cmd: exec.Command(program, args...), exited: make(chan error, 1)}
	p.cmd.Env = programtest.Env(env...)
	p.cmd.Stderr = &p.errText
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	for p.url == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			p.cmd.Wait()
			return nil, fmt.Errorf("modelgate %s ended at its start: %s", p.name, p.errText.String())
		}
		if at := strings.Index(line, "http"); at >= 0 {
			p.url = strings.TrimSpace(line[at:])
		}
	}
	go func() {
		io.Copy(io.Discard, lines)
		p.exited <- p.cmd.Wait()
	}()
	return p, nil
}

// stop ends the program as an operator does. Every end but a signal's or a
// clean one is an error.
func (p *process) stop() error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.exited:
		if err != nil {
			return fmt.Errorf("modelgate %s ended with: %w\n%s", p.name, err, p.errText.String())
		}
		return nil
	case <-time.After(time.Minute):
		p.cmd.Process.Kill()
		<-p.exited
		return fmt.Errorf("modelgate %s did not end within a minute of SIGTERM", p.name)
	}
}
