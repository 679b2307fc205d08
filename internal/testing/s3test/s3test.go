// Package s3test runs a real S3-compatible server, versitygw, for tests.
//
// It guarantees that the server verifies signatures, keeps its files in a temporary
// folder and ends with the test. The server is built by the go command from
// tools/s3.mod, which keeps its modules out of the program; later builds are cached. If
// it cannot be built, tests are skipped loudly. It does not know package blob.
package s3test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/base/secret"
)

// modeVariable is the environment variable that, if "off", skips tests with a real server, and if
// "required", fails them if there is none.
const modeVariable = "MODELGATE_TEST_S3"

// Server is a running server with one bucket.
type Server struct {
	Endpoint  string // base address; buckets are in the path
	Region    string
	Bucket    string
	AccessKey secret.String
	SecretKey secret.String
	Dir       string // folder of the bucket's files
}

// NewServer starts a server for one test, or skips the test if there is none.
func NewServer(t testing.TB) *Server {
	t.Helper()
	path := program(t)
	s := &Server{
		Region: "eu-test-1", Bucket: "modelgate", AccessKey: secret.New("TESTACCESS0123456789"), SecretKey: secret.New(rand.Text()),
		Dir: filepath.Join(t.TempDir(), "buckets", "modelgate"),
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 5 { // another program may take the port
		if err = s.start(t, path); err == nil {
			return s
		}
	}
	t.Fatalf("an S3 server for tests: %v", err)
	return nil
}

// start starts the server on a free port and waits until it serves requests.
func (s *Server) start(t testing.TB, path string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	at := l.Addr().String()
	l.Close()
	health := "/health-" + rand.Text() // no other program has it
	metadata := t.TempDir()            // not every file system has attributes
	run := exec.Command(path, "--port", at, "--region", s.Region, "--health", health, "--keep-alive", "--quiet",
		"posix", "--sidecar", metadata, filepath.Dir(s.Dir))
	run.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + metadata, "TMPDIR=" + os.TempDir(),
		"ROOT_ACCESS_KEY_ID=" + s.AccessKey.Reveal(), "ROOT_SECRET_ACCESS_KEY=" + s.SecretKey.Reveal(),
	}
	var log bytes.Buffer
	run.Stdout, run.Stderr = &log, &log
	run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := run.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		run.Wait() // it is killed
		close(ended)
	}()
	end := func() {
		run.Process.Kill()
		<-ended
	}
	if err := waitReady("http://"+at+health, ended); err != nil {
		end()
		return fmt.Errorf("%w: %s", err, log.String())
	}
	t.Cleanup(end)
	s.Endpoint = "http://" + at
	return nil
}

// waitReady waits until an address is served, for at most a minute.
func waitReady(address string, ended <-chan struct{}) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if resp, err := http.Get(address); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ended:
			return errors.New("the server ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
	return errors.New("the server is not ready after a minute")
}

// program returns the path of the server, or skips the test.
func program(t testing.TB) string {
	t.Helper()
	mode := os.Getenv(modeVariable)
	switch {
	case mode == "off":
		t.Skipf("NO REAL S3 SERVER IS TESTED: %s is off", modeVariable)
	case testing.Short() && mode != "required":
		t.Skip("NO REAL S3 SERVER IS TESTED in the short form")
	}
	path, err := build()
	if err == nil {
		return path
	}
	const remedy = "its modules are downloaded once, from the Go module proxy"
	if mode == "required" {
		t.Fatalf("versitygw cannot be built (%v); %s", err, remedy)
	}
	fmt.Fprintf(os.Stderr, "NO REAL S3 SERVER IS TESTED: versitygw cannot be built (%v); %s\n", err, remedy)
	t.Skipf("NO REAL S3 SERVER IS TESTED: %v", err)
	return ""
}

// build returns the path of the server in Go's build cache, where it is built if it is
// not there.
var build = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "modelgate").Output()
	if err != nil {
		return "", explain(err)
	}
	mod := filepath.Join(strings.TrimSpace(string(root)), "tools", "s3.mod")
	path, err := exec.Command("go", "tool", "-modfile="+mod, "-n", "versitygw").Output()
	if err != nil {
		return "", explain(err)
	}
	return strings.TrimSpace(string(path)), nil
})

// explain returns the last line that a failed command wrote.
func explain(err error) error {
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		lines := strings.Split(strings.TrimSpace(string(e.Stderr)), "\n")
		return fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return err
}
