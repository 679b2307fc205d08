package release

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// systemd starts what depends on the gateway when it serves, and knows when it reloads and ends.
func TestSystemdIsNotified(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "notify") // a short path: those of sockets have at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	cmd := exec.Command(file("modelgate-VERSION-PLATFORM"), "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--admin-listen", "off")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(dir, "s"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	next := func(want string) {
		t.Helper()
		var text [256]byte
		socket.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := socket.Read(text[:])
		if err != nil || !strings.HasPrefix(string(text[:n]), want) {
			t.Fatalf("systemd reads %q (%v), want %s", text[:n], err, want)
		}
	}
	next("READY=1")
	cmd.Process.Signal(syscall.SIGHUP)
	next("RELOADING=1")
	next("READY=1")
	cmd.Process.Signal(syscall.SIGTERM)
	next("STOPPING=1")
	if err := cmd.Wait(); err != nil {
		t.Errorf("the gateway ends with %v", err)
	}
}
