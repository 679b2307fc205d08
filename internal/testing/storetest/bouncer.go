package storetest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Bouncer starts PgBouncer in front of the server of dsn, and returns the address of the same
// database through it. It gives one of two connections of the server to each transaction, so
// that what a client leaves on a connection reaches others. It ends with the test, which fails
// if PgBouncer is not installed and cannot be.
func Bouncer(t testing.TB, dsn string) (through string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	program, err := bouncerProgram()
	if err != nil {
		t.Fatal(err)
	}
	as, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "modelgate-pgbouncer-") // the folder of testing is not accessible to its user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	for try := 0; ; try++ {
		port, err := freePort()
		if err == nil {
			err = startBouncer(t, bouncer{program, dir, as, port, u})
		}
		if err == nil {
			u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			u.RawQuery = "sslmode=disable&pool_mode=transaction"
			return u.String()
		}
		if try == 4 { // another program may have taken the port
			t.Fatalf("starting PgBouncer: %v", err)
		}
	}
}

// bouncer is what a process of PgBouncer needs.
type bouncer struct {
	program, dir string
	as           *syscall.Credential
	port         int
	server       *url.URL
}

func startBouncer(t testing.TB, b bouncer) error {
	settings := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 500
server_lifetime = 3600
`, b.server.Hostname(), b.server.Port(), b.server.User.Username(), b.port)
	file := filepath.Join(b.dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(b.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	run := exec.Command(b.program, file)
	run.Dir, run.Stdout, run.Stderr = b.dir, log, log
	run.SysProcAttr = &syscall.SysProcAttr{Credential: b.as}
	if err := run.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); run.Wait() }()
	t.Cleanup(func() {
		run.Process.Kill()
		<-ended
	})
	deadline := time.After(time.Minute)
	for {
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("it ended: %s", text)
		case <-deadline:
			return errors.New("it accepts no connection after a minute")
		case <-time.After(10 * time.Millisecond):
		}
		if conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port))); err == nil {
			conn.Close()
			return nil
		}
	}
}

// bouncerProgram returns the path of PgBouncer, and installs Debian's if possible.
func bouncerProgram() (string, error) {
	const remedy = "install it (apt-get install --no-install-recommends pgbouncer)"
	find := func() string {
		for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
			if path, err := exec.LookPath(name); err == nil {
				return path
			}
		}
		return ""
	}
	if path := find(); path != "" {
		return path, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		return "", errors.New("PgBouncer is not installed; " + remedy)
	}
	out, err := aptInstall("pgbouncer")
	if path := find(); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("PgBouncer cannot be installed (%v: %s); %s", err, last(out), remedy)
}
