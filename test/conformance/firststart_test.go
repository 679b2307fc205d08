package conformance

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

var (
	keyCommand = regexp.MustCompile(`(?m)^  (.* keys create .*)$`)
	servedRoot = regexp.MustCompile(`serves (\S+)/v1`)
)

// TestFirstStartPrintsACommandThatMakesAKey runs the very command that the first
// start prints, and asks the gateway with the key that it makes.
func TestFirstStartPrintsACommandThatMakesAKey(t *testing.T) {
	const password = "canary-of-a-password"
	withPassword := func(dsn string) string { return strings.Replace(dsn, "postgres@", "postgres:"+password+"@", 1) }
	for _, tt := range []struct {
		name       string
		env, flags func(dsn string) []string
		needs      bool // an environment variable that the operator has to set
	}{
		{"a file", nil, nil, false},
		{"an address without a password", nil, func(dsn string) []string { return []string{"--database-url", dsn} }, false},
		{"an address in the environment", func(dsn string) []string { return []string{"DATABASE_URL=" + withPassword(dsn), "DB_SSL=DISABLED"} }, nil, false},
		{"an address with a password", nil, func(dsn string) []string {
			return []string{"--database-url", withPassword(dsn), "--db-ssl", "DISABLED"}
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var env, flags []string
			var dsn string
			if tt.env != nil || tt.flags != nil {
				dsn, _, _ = strings.Cut(storetest.Postgres(t), "?")
			}
			if tt.env != nil {
				env = tt.env(dsn)
			}
			if tt.flags != nil {
				flags = tt.flags(dsn)
			}
			data := filepath.Join(t.TempDir(), "the gateway's data")
			text := startFirst(t, env, append(flags, "--data", data)...).String()
			if strings.Contains(text, password) {
				t.Errorf("the first start prints the password:\n%s", text)
			}
			found := keyCommand.FindStringSubmatch(text)
			if found == nil {
				t.Fatalf("the first start prints no command:\n%s", text)
			}
			if tt.needs {
				if out, err := inShell(found[1], env); err == nil || !strings.Contains(out, "DATABASE_URL") {
					t.Errorf("without the variable the command says %s, %v", out, err)
				}
				if !strings.Contains(text, "DATABASE_URL to the value of --database-url") {
					t.Errorf("the variable is not named:\n%s", text)
				}
				env = append(env, "DATABASE_URL="+withPassword(dsn))
			}
			out, err := inShell(found[1], env)
			if err != nil {
				t.Fatalf("%s: %v\n%s", found[1], err, out)
			}
			key, root := strings.TrimSpace(out), servedRoot.FindStringSubmatch(text)[1]
			waittest.Until(t, "the gateway takes the key of "+found[1], func() bool { return statusOf(t, root+"/v1/models", key) == http.StatusOK })
			if _, err := os.Stat(filepath.Join(data, "modelgate.db")); (err == nil) != (dsn == "") {
				t.Errorf("the file of the data folder: %v", err)
			}
		})
	}
}

func statusOf(t *testing.T, target, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", key)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// inShell runs a command as an operator does who pastes it.
func inShell(command string, env []string) (string, error) {
	cmd := exec.Command("sh", "-c", command)
	cmd.Env = programtest.Env(env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// printed is what a process printed so far. It is safe for concurrent use.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// startFirst starts a gateway without a key of its own, until the test ends, and
// returns what it prints. The greeting is complete: the claim link comes last.
func startFirst(t *testing.T, env []string, args ...string) *printed {
	t.Helper()
	out := new(printed)
	cmd := exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"}, args...)...)
	cmd.Env = programtest.Env(env...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			t.Errorf("serve ended with %v:\n%s", err, out)
		}
	})
	waittest.Until(t, "the gateway has greeted", func() bool {
		select {
		case err := <-ended:
			ended <- errors.Join(err, errors.New("at its start"))
			t.Fatalf("serve ended with %v:\n%s", err, out)
		default:
		}
		return strings.Contains(out.String(), "?token=")
	})
	return out
}
