package documents_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/waittest"
)

// machine is a shell with a file system of its own: what it writes to /etc and /var is its own, and
// so are its processes. They end with the test.
type machine struct {
	name    string
	dir     string // its folder for commands, and of the scripts that it runs
	home    string // where commands run
	scripts int
	in      io.WriteCloser
	results chan string
	env     []string
}

// boot makes a file system and begins to read commands. The first argument is the folder of the
// machine; commands are read from standard input and their results written to 3.
const boot = `
set -eu
mount -t tmpfs -o mode=755 tmpfs "$1/disk"
for name in etc usr var; do
	mkdir "$1/disk/$name" "$1/disk/$name.work"
	mount -t overlay -o "lowerdir=/$name,upperdir=$1/disk/$name,workdir=$1/disk/$name.work" overlay "/$name"
done
cat "$1/hosts" >/etc/hosts
mkdir -p /etc/modelgate /var/lib/modelgate /var/backups/modelgate
: >/etc/modelgate/environment
cd "$1/home"
exec bash`

// start starts a machine with variables.
func start(t *testing.T, name string, env ...string) *machine {
	t.Helper()
	m := &machine{name: name, dir: t.TempDir(), results: make(chan string, 1)}
	m.home = filepath.Join(m.dir, "home")
	m.prepare(t)
	m.env = programtest.Env(append([]string{"VERSIONS=" + filepath.Join(m.dir, "versions"), "SERVICE_LOG=" + filepath.Join(m.dir, "service.log"), "SSL_CERT_FILE=" + filepath.Join(m.dir, "authority.pem")}, env...)...)
	for i, v := range m.env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			m.env[i] = "PATH=" + m.bin("") + ":" + path
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", boot, "sh", m.dir)
	c.Env, c.ExtraFiles = m.env, []*os.File{write}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log := &strings.Builder{}
	c.Stdout, c.Stderr = log, log
	if m.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	go func() {
		defer close(m.results)
		defer read.Close()
		lines := bufio.NewScanner(read)
		for lines.Scan() {
			m.results <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		if t.Failed() {
			t.Logf("%s: %s", name, log)
		}
	})
	m.run(t, "set -eu -o pipefail")
	return m
}

// prepare makes the folder of the machine.
func (m *machine) prepare(t *testing.T) {
	t.Helper()
	var hosts strings.Builder
	for name, address := range internet {
		hosts.WriteString(address + " " + name + "\n")
	}
	for _, name := range []string{"disk", "home", "bin", "versions"} {
		if err := os.Mkdir(filepath.Join(m.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"hosts": hosts.String(), "authority.pem": trusted(t).PEM} {
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	link := func(from, to string) {
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	link(program, m.bin("modelgate"))
	for _, name := range []string{"systemctl", "journalctl", "apt", "sudo", "curl"} {
		link(filepath.Join(files, name+".sh"), m.bin(name))
	}
}

// bin returns the path of a command of the machine.
func (m *machine) bin(name string) string { return filepath.Join(m.dir, "bin", name) }

// try runs a script in the shell of the machine and returns what it prints, and whether all of its
// commands succeeded. If not, the shell has ended.
func (m *machine) try(t *testing.T, script string) (out string, ok bool) {
	t.Helper()
	m.scripts++
	file := filepath.Join(m.dir, fmt.Sprintf("script-%d", m.scripts))
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(m.in, ". %[1]s </dev/null >%[1]s.out 2>&1 3>&-; echo ran >&3\n", file); err != nil {
		t.Fatalf("%s runs no commands any more: %v", m.name, err)
	}
	said := waittest.Receive(t, m.results, "the end of a script on "+m.name+":\n"+script)
	text, err := os.ReadFile(file + ".out")
	if err != nil {
		t.Fatal(err)
	}
	return string(text), said == "ran"
}

// run runs a script that succeeds, and returns what it prints.
func (m *machine) run(t *testing.T, script string) string {
	t.Helper()
	out, ok := m.try(t, script)
	if !ok {
		t.Fatalf("%s: a command failed:\n%s\nIt printed:\n%s\n%s", m.name, script, out, m.log())
	}
	return out
}

// log returns the end of the log of the service of the machine.
func (m *machine) log() string {
	text, _ := os.ReadFile(filepath.Join(m.dir, "service.log"))
	return string(text[max(0, len(text)-3000):])
}

// do runs the next n blocks of commands of a section of a page, without n all that are left, and
// returns what they print.
func (m *machine) do(t *testing.T, p *page, heading string, n ...int) string {
	t.Helper()
	s := p.find(t, heading)
	todo := s.scripts()[s.ran:]
	if len(n) > 0 {
		todo = todo[:n[0]]
	}
	out := ""
	for _, b := range todo {
		ran := m.run(t, background(p.edit.Replace(b.text)))
		t.Logf("%s: %s\n%s", m.name, b.text, ran)
		s.ran, out = s.ran+1, out+ran
	}
	return out
}

// until runs the next block of commands of a section until it prints all of some words, as a reader
// does who waits for them, and returns what it printed.
func (m *machine) until(t *testing.T, p *page, heading string, words ...string) string {
	t.Helper()
	s := p.find(t, heading)
	script, out := p.edit.Replace(s.scripts()[s.ran].text), ""
	s.ran++
	for end := time.Now().Add(waittest.Bound); ; {
		out = m.run(t, script)
		missing := slices.IndexFunc(words, func(w string) bool { return !strings.Contains(out, w) })
		if missing < 0 {
			t.Logf("%s: %s\n%s", m.name, script, out)
			return out
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %q is not printed by\n%s\nIt prints:\n%s", heading, words[missing], script, out)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// attempt runs a script that may fail, in a shell of its own, and returns what it prints.
func (m *machine) attempt(t *testing.T, script string) (out string, ok bool) {
	t.Helper()
	out = m.run(t, "if (set +e\n"+strings.TrimRight(script, "\n")+"\n); then echo SUCCEEDED; fi")
	return strings.CutSuffix(out, "SUCCEEDED\n")
}

// variable returns the value of a variable of the shell.
func (m *machine) variable(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(m.run(t, "echo \"$"+name+"\""))
}

// wants fails if one of the words is not in an output.
func wants(t *testing.T, what, out string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("%s: %q is not in:\n%s", what, w, out)
		}
	}
}

// endless matches commands that run until they are ended.
var endless = regexp.MustCompile(`^(.*[ /])?modelgate (serve|demo|simulate|tail --status)\b`)

// background adds to a script whose last command runs until it is ended that it runs in the
// background, as a reader does who continues in another terminal.
func background(script string) string {
	lines := strings.Split(strings.TrimRight(script, "\n"), "\n")
	last := lines[len(lines)-1]
	if endless.MatchString(last) {
		code, _, _ := strings.Cut(last, "#")
		if !strings.HasSuffix(strings.TrimSpace(code), "&") {
			lines[len(lines)-1] = code + " &"
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
