package storetest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Server is a private PostgreSQL server with its data in a temporary folder. It must be
// used by one goroutine only.
type Server struct {
	Dir  string // contains everything; owned by the server's user
	Port int

	bin      string // folder of PostgreSQL's programs
	as       *syscall.Credential
	settings []string // name=value
	run      *exec.Cmd
	ended    chan struct{} // closed when run has ended
	reaper   *os.File      // closing it ends the server and removes Dir
}

// NewServer starts a server for one test. Settings are additional configuration lines
// of the form name=value. It is stopped with the test.
func NewServer(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := prepare(settings)
	if err != nil {
		t.Fatalf("a PostgreSQL server for tests: %v", err)
	}
	t.Cleanup(func() {
		s.Stop()
		s.reaper.Close()
	})
	s.Start(t)
	return s
}

// DSN returns the address of the server's first database.
func (s *Server) DSN() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=prefer", s.Port)
}

// Start starts a stopped server on the same port.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatalf("starting PostgreSQL: %v", err)
	}
}

// Stop kills the server as a crash would and waits for its end.
func (s *Server) Stop() {
	if s.run == nil {
		return
	}
	s.run.Process.Signal(syscall.SIGQUIT) // at once, without notifying clients
	<-s.ended
	s.run = nil
}

// Pause stops all processes of the server until the returned function is called, at the
// latest at the end of the test: connections stay open and nothing answers.
func (s *Server) Pause(t testing.TB) (resume func()) {
	t.Helper()
	postmaster := s.run.Process.Pid
	pids := []int{postmaster} // first, so that it starts no others
	send := func(signal syscall.Signal) {
		for _, pid := range pids {
			if err := syscall.Kill(pid, signal); err != nil && pid == postmaster {
				t.Errorf("signal %v for PostgreSQL: %v", signal, err)
			}
		}
	}
	send(syscall.SIGSTOP)
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", postmaster, postmaster))
	for text := range strings.FieldsSeq(string(raw)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	resume = sync.OnceFunc(func() { send(syscall.SIGCONT) })
	t.Cleanup(resume)
	if err != nil || len(pids) == 1 {
		t.Fatalf("PostgreSQL's processes: %v", err)
	}
	send(syscall.SIGSTOP)
	return resume
}

// Write writes a file to the server's folder, readable only by the server, and returns
// its path.
func (s *Server) Write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(s.Dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.as != nil {
		if err := os.Chown(path, int(s.as.Uid), int(s.as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// prepare creates the data folder of a server that is not running.
func prepare(settings []string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, settings: settings}
	if s.as, err = unprivileged(); err != nil {
		return nil, err
	}
	// The folder of testing is not accessible to the server's user.
	if s.Dir, err = os.MkdirTemp("", "modelgate-postgres-"); err != nil {
		return nil, err
	}
	if s.as != nil {
		if err := os.Chown(s.Dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return nil, err
		}
	}
	if err := s.reap(); err != nil {
		return nil, err
	}
	made := s.command("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := made.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// command returns a command that runs one of PostgreSQL's programs as its user.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir = s.Dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	c.Env = append(os.Environ(), "LC_ALL=C", "HOME="+s.Dir)
	return c
}

// reap starts a process that cleans up when the test's process ends for any reason: it
// waits for the end of its input.
func (s *Server) reap() error {
	const script = `
		read _
		pid=$(head -n 1 data/postmaster.pid 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null
		n=0
		while [ -e data/postmaster.pid ] && [ $n -lt 50 ]; do sleep 0.1; n=$((n+1)); done
		rm -rf "$PWD"`
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	c := exec.Command("/bin/sh", "-c", script)
	c.Dir, c.Stdin = s.Dir, read
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true} // not interrupted by Ctrl-C
	if err := c.Start(); err != nil {
		return err
	}
	go c.Wait()
	s.reaper = write
	return nil
}

// start starts the server and waits until it accepts connections.
func (s *Server) start() error {
	for try := 0; ; try++ {
		if s.Port == 0 || try > 0 {
			port, err := freePort()
			if err != nil {
				return err
			}
			s.Port = port
		}
		err := s.startAt()
		if err == nil || try == 4 { // another program may have taken the port
			return err
		}
	}
}

func (s *Server) startAt() error {
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=200"}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	run := s.command("postgres", args...)
	run.Stdout, run.Stderr = log, log
	if err := run.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); run.Wait() }()
	s.run, s.ended = run, ended
	if err := s.awaitReady(); err != nil {
		s.Stop()
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w: %s", err, text)
	}
	return nil
}

// awaitReady waits until the server accepts connections. It believes only the server's own
// folder: another program may have taken the port, and answer there.
func (s *Server) awaitReady() error {
	deadline := time.After(time.Minute)
	for {
		select {
		case <-s.ended:
			return errors.New("the server ended")
		case <-deadline:
			return errors.New("the server is not ready after a minute")
		case <-time.After(10 * time.Millisecond):
		}
		if s.ready() {
			return nil
		}
	}
}

// ready reports whether the running server says that it accepts connections, as pg_ctl
// does: its process is in line 1 and its state in line 8 of a file.
// https://doxygen.postgresql.org/pidfile_8h.html
func (s *Server) ready() bool {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	return err == nil && len(lines) >= 8 && lines[0] == strconv.Itoa(s.run.Process.Pid) && strings.TrimSpace(lines[7]) == "ready"
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// unprivileged returns the user that runs the server for root, because PostgreSQL
// refuses to run as root.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(nobody.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(nobody.Gid)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// remedy says what to do if no server is available.
const remedy = "install it (apt-get install --no-install-recommends postgresql-15), or name a server in TEST_POSTGRES as postgres://user:password@host:5432/database, with the right to make databases"

// programs returns the folder of the newest installed PostgreSQL, and installs Debian's
// if possible.
func programs() (string, error) {
	if bin := installed(); bin != "" {
		return bin, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		return "", errors.New("no PostgreSQL is installed; " + remedy)
	}
	out, err := aptInstall("postgresql-15")
	if bin := installed(); bin != "" {
		return bin, nil
	}
	return "", fmt.Errorf("PostgreSQL cannot be installed (%v: %s); %s", err, last(out), remedy)
}

// aptInstall installs a package of Debian, and returns what apt-get printed.
func aptInstall(name string) ([]byte, error) {
	install := func() ([]byte, error) {
		c := exec.Command("apt-get", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", name)
		c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		return c.CombinedOutput()
	}
	out, err := install()
	if err != nil {
		exec.Command("apt-get", "update").Run()
		out, err = install()
	}
	return out, err
}

// installed returns the folder with the newest initdb and postgres.
func installed() string {
	best, newest := "", -1
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if path, err := exec.LookPath("initdb"); err == nil {
		folders = append(folders, filepath.Dir(path))
	}
	for _, bin := range folders {
		if _, err := os.Stat(filepath.Join(bin, "postgres")); err != nil {
			continue
		}
		if v, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin))); v > newest {
			best, newest = bin, v
		}
	}
	return best
}

// last returns the last line of an output.
func last(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
