package quotatest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Redis is a private Redis server without persistence. It must be used by one
// goroutine only.
type Redis struct {
	Port int

	program string
	args    []string
	run     *exec.Cmd
	ended   chan struct{} // closed when run has ended
}

// NewRedis starts a server for one test, from installed programs, which are
// installed if possible. Args are additional arguments, such as --requirepass. It
// fails the test if no server is available. The server is stopped with the test.
func NewRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	program, err := redisProgram()
	if err != nil {
		t.Fatalf("a Redis server for tests: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Redis{Port: l.Addr().(*net.TCPAddr).Port, program: program, args: args}
	l.Close()
	t.Cleanup(r.Kill)
	r.Start(t)
	return r
}

// URL returns the address of the server.
func (r *Redis) URL() string { return fmt.Sprintf("redis://127.0.0.1:%d", r.Port) }

// Start starts a killed server, empty, on the same port.
func (r *Redis) Start(t testing.TB) {
	t.Helper()
	args := append([]string{"--port", strconv.Itoa(r.Port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", os.TempDir()}, r.args...)
	r.run = exec.Command(r.program, args...)
	var log bytes.Buffer
	r.run.Stdout, r.run.Stderr = &log, &log
	r.run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.run.Start(); err != nil {
		t.Fatal(err)
	}
	run, ended := r.run, make(chan struct{})
	go func() { defer close(ended); run.Wait() }()
	r.ended = ended
	for began := time.Now(); ; {
		select {
		case <-ended:
			t.Fatalf("redis-server ended: %s", log.String())
		case <-time.After(10 * time.Millisecond):
		}
		reply, err := r.Command("PING\r\n")
		if err == nil && (reply[0] == '+' || reply[0] == '-') { // a password is required
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("redis-server does not answer: %v", err)
		}
	}
}

// Command sends a command in a line and returns the first bytes of the reply.
func (r *Redis) Command(line string) (string, error) {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port))
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, line); err != nil {
		return "", err
	}
	b := make([]byte, 1<<16)
	n, err := c.Read(b)
	if n == 0 && err == nil {
		err = io.ErrUnexpectedEOF
	}
	return string(b[:n]), err
}

// Kill kills the server and waits for its end.
func (r *Redis) Kill() {
	if r.run == nil {
		return
	}
	r.run.Process.Kill()
	<-r.ended
	r.run = nil
}

// Pause stops the server's process while on is set.
func (r *Redis) Pause(t testing.TB, on bool) {
	t.Helper()
	signal := syscall.SIGCONT
	if on {
		signal = syscall.SIGSTOP
	}
	if err := r.run.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// redisProgram returns the path of a server, and installs Debian's if possible.
var redisProgram = sync.OnceValues(func() (string, error) {
	const remedy = "install one: apt-get install --no-install-recommends redis-server"
	if path := installedRedis(); path != "" {
		return path, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		return "", errors.New("neither redis-server nor valkey-server is installed; " + remedy)
	}
	install := func() ([]byte, error) {
		c := exec.Command("apt-get", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", "redis-server")
		c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		return c.CombinedOutput()
	}
	out, err := install()
	if err != nil {
		exec.Command("apt-get", "update").Run()
		out, err = install()
	}
	if path := installedRedis(); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("redis-server cannot be installed (%v: %s); %s", err, bytes.TrimSpace(out), remedy)
})

func installedRedis() string {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		for _, dir := range []string{"/usr/bin", "/usr/local/bin"} {
			if path := filepath.Join(dir, name); executable(path) {
				return path
			}
		}
	}
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0
}
