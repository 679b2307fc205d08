package quotatest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	r := &Redis{program: program, args: args}
	t.Cleanup(r.Kill)
	if err := r.startOn(func() int { return freePort(t) }); err != nil {
		t.Fatal(err)
	}
	return r
}

// startOn starts the server on a port that is free, and on another one if a program takes
// that before the server does.
func (r *Redis) startOn(freePort func() int) (err error) {
	for range 5 {
		r.Port = freePort()
		if err = r.start(); err == nil {
			return nil
		}
	}
	return err
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// URL returns the address of the server.
func (r *Redis) URL() string { return fmt.Sprintf("redis://127.0.0.1:%d", r.Port) }

// Start starts a killed server, empty, on the same port.
func (r *Redis) Start(t testing.TB) {
	t.Helper()
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
}

// start starts the server and waits until it accepts connections. It believes only what
// this server writes: another program may have taken the port, and answer there.
func (r *Redis) start() error {
	args := append([]string{"--port", strconv.Itoa(r.Port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", os.TempDir()},
		r.args...)
	run := exec.Command(r.program, args...)
	run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := run.StdoutPipe()
	if err != nil {
		return err
	}
	run.Stderr = run.Stdout
	if err := run.Start(); err != nil {
		return err
	}
	var log strings.Builder
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		accept := sync.OnceFunc(func() { close(ready) })
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadString('\n')
			log.WriteString(line)
			if strings.Contains(line, "Ready to accept connections") {
				accept()
			}
			if err != nil {
				break
			}
		}
		run.Wait()
	}()
	r.run, r.ended = run, ended
	select {
	case <-ready:
		return nil
	case <-ended:
		r.run = nil
		return fmt.Errorf("redis-server ended: %s", log.String())
	case <-time.After(time.Minute):
		r.Kill()
		return fmt.Errorf("redis-server is not ready after a minute: %s", log.String())
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
