// Package documents_test runs the commands of the documents as they are printed.
//
// It guarantees that each page of tasks works from its first line to its last, that each task
// takes as many commands as the page says, and that incidents end as the page says. The pages
// run on machines of their own: file systems, processes and addresses that nothing else on this
// machine sees. Only what cannot exist there is replaced: providers by the simulator, and by the
// scripts in testdata the service manager and the installer of packages.
package documents_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/storetest"
)

// isolated is set in the process that has a network of its own. It names the program to test.
const isolated = "MODELGATE_TEST_ISOLATED"

// Addresses of the network of the tests, all on loopback.
const (
	nodeA     = "10.0.0.1"
	nodeB     = "10.0.0.2"
	front     = "10.0.0.9"
	providers = "93.184.216.34" // public, so that no rule for private addresses refuses it
)

// internet are the names that are resolved, with their addresses.
var internet = map[string]string{
	"localhost": "127.0.0.1", "db.internal": "127.0.0.1", "gateway.example.com": front,
	"api.openai.com": providers, "api.anthropic.com": providers, "api.groq.com": providers, "api.fireworks.ai": providers,
	"models.example.com": providers, "tracker.example.com": providers, "notes.example.com": providers, "pets.example.com": providers,
	"travel.example.com": providers, "vault.example.com": providers, "hooks.example.com": providers, "checks.example.com": providers,
	"example.okta.com": providers, "id.example.com": providers,
}

var (
	program   string // that is tested
	authority *storetest.Authority
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "documents:", err)
		code = 1
	}
	os.Exit(code)
}

// run runs the tests in a process with a network of its own, so that every address and port of a
// page is free.
func run(m *testing.M) (int, error) {
	if program = os.Getenv(isolated); program != "" {
		if err := openNetwork(); err != nil {
			return 1, err
		}
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "documents")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if program, err = programtest.Build(dir, os.Stdout); err != nil {
		return 1, err
	}
	previous, err := programtest.BuildPrevious(dir) // here, where modules can be fetched
	if err != nil {
		return 1, err
	}
	c := exec.Command(os.Args[0], os.Args[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.Env = append(os.Environ(), isolated+"="+program, programtest.Previous+"="+previous)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err = c.Run()
	if errors.Is(err, os.ErrPermission) {
		return 1, errors.New("the commands of documents run on machines of their own: run the tests as root")
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// openNetwork gives loopback the addresses of the tests, and the file system their names.
func openNetwork() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	for i, address := range []string{"127.0.0.1", nodeA, nodeB, front, providers} {
		name := "lo"
		if i > 0 {
			name = fmt.Sprintf("lo:%d", i)
		}
		if err := addAddress(name, address); err != nil {
			return fmt.Errorf("address %s: %w", address, err)
		}
	}
	var hosts strings.Builder
	for name, address := range internet {
		hosts.WriteString(address + " " + name + "\n")
	}
	file, err := os.CreateTemp("", "hosts")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // stays as long as it is mounted
	if err := errors.Join(os.WriteFile(file.Name(), []byte(hosts.String()), 0o644), os.Chmod(file.Name(), 0o644), file.Close()); err != nil {
		return err
	}
	return syscall.Mount(file.Name(), "/etc/hosts", "", syscall.MS_BIND, "")
}

// addAddress adds an IPv4 address to an interface and raises it.
// https://man7.org/linux/man-pages/man7/netdevice.7.html
func addAddress(name, address string) error {
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(s)
	var octets [4]byte
	if _, err := fmt.Sscanf(address, "%d.%d.%d.%d", &octets[0], &octets[1], &octets[2], &octets[3]); err != nil {
		return err
	}
	type request struct {
		name  [16]byte
		value [24]byte
	}
	var set, raise request
	copy(set.name[:], name)
	binary.NativeEndian.PutUint16(set.value[:], syscall.AF_INET)
	copy(set.value[4:], octets[:])
	copy(raise.name[:], name)
	binary.NativeEndian.PutUint16(raise.value[:], syscall.IFF_UP|syscall.IFF_LOOPBACK|syscall.IFF_RUNNING)
	if err := control(s, syscall.SIOCSIFADDR, &set); err != nil {
		return err
	}
	return control(s, syscall.SIOCSIFFLAGS, &raise)
}

// read returns a document by its name in docs.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
