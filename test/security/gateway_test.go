package security

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/testing/programtest"
)

// rootKey is the bootstrap key of every gateway of the suite, masterKey what it
// seals credentials with.
const (
	rootKey   = "mg-security-bootstrap-0123456789"
	masterKey = "the master key of the security suite"
)

// patience is how long a test waits for progress before it fails.
const patience = time.Minute

// options say how a gateway is started. The zero value is a gateway on SQLite
// with default settings that trusts 127.0.0.1 as a custom host.
type options struct {
	settings string   // modelgate.yaml; empty means `version: 1`
	env      []string // further environment variables
	flags    []string // further flags of `modelgate serve`
	database string   // address of a PostgreSQL database; empty means SQLite
	noTrust  bool     // 127.0.0.1 is not a trusted host
	data     string   // data folder; empty means a new one
}

// gateway is a running modelgate.
type gateway struct {
	root  string // http://host:port of the API
	url   string // root with /v1
	admin string // http://host:port of metrics and health
	data  string // data folder

	options options
	process *exec.Cmd
	output  *lockedBuffer // what the process printed, both streams
	exited  chan error
}

// lockedBuffer is a bytes.Buffer for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// launch starts a gateway that ends with the test.
func launch(t *testing.T, o options) *gateway {
	t.Helper()
	g, err := newGateway(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.stop(); err != nil {
			t.Errorf("stopping the gateway: %v\n%s", err, g.output)
		}
	})
	return g
}

func newGateway(o options) (*gateway, error) {
	if o.data == "" {
		dir, err := os.MkdirTemp(scratch, "data")
		if err != nil {
			return nil, err
		}
		o.data = dir
	}
	if o.settings == "" {
		o.settings = "version: 1\n"
	}
	if err := os.WriteFile(filepath.Join(o.data, "modelgate.yaml"), []byte(o.settings), 0o600); err != nil {
		return nil, err
	}
	g := &gateway{data: o.data, options: o}
	return g, g.start()
}

// start starts a process on the data folder of g.
func (g *gateway) start() error {
	g.root, g.url, g.admin, g.output, g.exited = "", "", "", new(lockedBuffer), make(chan error, 1)
	args := []string{"serve", "--data", g.data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config", filepath.Join(g.data, "modelgate.yaml")}
	g.process = exec.Command(program, append(args, g.options.flags...)...)
	g.process.Env = programtest.Env("MODELGATE_BOOTSTRAP_KEY="+rootKey, "MODELGATE_MASTER_KEY="+masterKey)
	if !g.options.noTrust {
		g.process.Env = append(g.process.Env, "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	}
	if g.options.database != "" {
		g.process.Env = append(g.process.Env, "DATABASE_URL="+g.options.database)
	}
	g.process.Env = append(g.process.Env, g.options.env...)
	g.process.Stderr = g.output
	out, err := g.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := g.process.Start(); err != nil {
		return err
	}
	return g.readAddresses(out)
}

// readAddresses reads from the greeting where the gateway serves.
func (g *gateway) readAddresses(out io.Reader) error {
	lines := bufio.NewReader(out)
	for g.url == "" || g.admin == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			g.process.Wait()
			return fmt.Errorf("modelgate serve ended at its start: %s", g.output)
		}
		io.WriteString(g.output, line)
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
		io.Copy(g.output, lines)
		g.exited <- g.process.Wait()
	}()
	return nil
}

// restart stops the process and starts another on the same folder.
func (g *gateway) restart(t *testing.T) {
	t.Helper()
	if err := g.stop(); err != nil {
		t.Fatalf("stopping the gateway: %v\n%s", err, g.output)
	}
	if err := g.start(); err != nil {
		t.Fatal(err)
	}
}

// stop ends the process as an operator does. An end that came before is an error.
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

// memory returns the resident memory of the process in bytes.
func (g *gateway) memory(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.process.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no VmRSS in the status of process %d", g.process.Process.Pid)
	return 0
}

// peakMemory runs f and returns by how many bytes the resident memory rose above
// what it was before, at its highest of the samples taken every 5 ms.
func (g *gateway) peakMemory(t *testing.T, f func()) int64 {
	t.Helper()
	before, peak := g.memory(t), int64(0)
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	for {
		peak = max(peak, g.memory(t)-before)
		select {
		case <-done:
			return peak
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// disk returns the size of all files in the data folder in bytes.
func (g *gateway) disk(t *testing.T) int64 {
	t.Helper()
	var sum int64
	err := filepath.WalkDir(g.data, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreMissing(err)
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return ignoreMissing(err)
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// files returns the contents of all files in the data folder by path.
func (g *gateway) files(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(g.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreMissing(err)
		}
		text, err := os.ReadFile(path)
		all[path] = text
		return ignoreMissing(err)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ignoreMissing turns the error of a file that was removed in the meantime into nil.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// command runs modelgate with the master key of the suite and returns what it
// printed and its exit code.
func command(t *testing.T, args ...string) (out, errText string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = programtest.Env("MODELGATE_MASTER_KEY=" + masterKey)
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

// shared is the gateway that cases use which leave nothing behind, and the
// provider of its managed provider @stored.
var shared struct {
	once     sync.Once
	gateway  *gateway
	provider *provider
	err      error
}

// start returns the shared gateway and its provider: @stored is a managed
// provider of kind openai at the provider's address, with the credential storedKey.
func start(t *testing.T) (*gateway, *provider) {
	t.Helper()
	shared.once.Do(func() {
		shared.provider = startProvider(nil)
		shared.gateway, shared.err = newGateway(options{
			settings: "version: 1\nproviders:\n  - {slug: stored, provider: openai, api_key: \"${STORED_KEY}\", custom_host: \"" + shared.provider.url + "\"}\n",
			env:      []string{"STORED_KEY=" + storedKey},
		})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.gateway, shared.provider
}

func stopShared() {
	if shared.gateway != nil && shared.gateway.process.Process != nil {
		if err := shared.gateway.stop(); err != nil {
			fail(fmt.Errorf("the shared gateway did not survive its attacks: %w\n%s", err, shared.gateway.output))
		}
	}
	if shared.provider != nil {
		shared.provider.server.Close()
	}
}
