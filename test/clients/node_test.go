package clients

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/samltest"
)

// leastNode is the oldest major version of node that the npm packages run on.
const leastNode = 22

// TestNodeClients runs every script in node/, each as a test.
func TestNodeClients(t *testing.T) {
	node, idp := mustNode(t), mustProvider(t)
	scripts, err := filepath.Glob(filepath.Join("node", "*.test.mjs"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("there are no scripts in node/: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".test.mjs"), func(t *testing.T) {
			t.Parallel()
			runScript(t, node, script, idp...)
		})
	}
}

// mustProvider makes a key and a certificate for an identity provider with SAML, which node
// cannot. It returns the variables with their files.
func mustProvider(t *testing.T) []string {
	t.Helper()
	p := samltest.New(t, "https://login.example.com")
	dir := t.TempDir()
	var variables []string
	for name, block := range map[string]*pem.Block{
		"IDP_KEY":         {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(p.Key)},
		"IDP_CERTIFICATE": {Type: "CERTIFICATE", Bytes: p.Certificate},
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		variables = append(variables, name+"="+file)
	}
	return variables
}

// runScript runs a script with further variables, which replace those of the stage.
func runScript(t *testing.T, node, script string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "--test", "--test-reporter=tap", script)
	cmd.Env = programtest.Env(append([]string{"GATEWAY_URL=" + stage.url, "GATEWAY_KEY=" + gatewayKey,
		"PROVIDER_URL=" + stage.simURL, "PROVIDER_KEY=" + providerKey, "BOOKS_URL=" + stage.booksURL, "PEOPLE_URL=" + stage.peopleURL,
		"FACTORS_URL=" + stage.factorsURL, "PEOPLE_NODES=1"}, env...)...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		err = tapProblem(string(out))
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	t.Logf("%d cases passed", tapCount(string(out), "pass"))
}

// tapProblem says what is wrong with a run that ended well: a case that was left
// out, or no case at all.
func tapProblem(out string) error {
	if tapCount(out, "pass") < 1 {
		return errors.New("no case ran")
	}
	for _, word := range []string{"fail", "cancelled", "skipped", "todo"} {
		if n := tapCount(out, word); n != 0 {
			return fmt.Errorf("%d cases %s", n, word)
		}
	}
	return nil
}

// tapCount reads a figure of the summary, -1 when it is not there.
func tapCount(out, word string) int {
	m := regexp.MustCompile(`(?m)^# ` + word + ` (\d+)$`).FindStringSubmatch(out)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1]) // the pattern takes digits alone
	return n
}

func TestARunOfScriptsThatProvesNothingIsNoticed(t *testing.T) {
	summary := func(pass, skipped string) string {
		return "1..2\n# pass " + pass + "\n# fail 0\n# cancelled 0\n# skipped " + skipped + "\n# todo 0\n"
	}
	for _, tt := range []struct {
		name string
		out  string
		ok   bool
	}{
		{"two passed", summary("2", "0"), true},
		{"nothing ran", summary("0", "0"), false},
		{"one was left out", summary("1", "1"), false},
		{"no summary", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tapProblem(tt.out); (err == nil) != tt.ok {
				t.Errorf("tapProblem = %v, want ok %t", err, tt.ok)
			}
		})
	}
}

// mustNode installs the packages of the lock file when they are absent or older
// than it, and returns the path of a node that they run on: the one among them,
// or that of the machine.
func mustNode(t *testing.T) string {
	t.Helper()
	if stale() {
		install(t)
	}
	node, err := filepath.Abs(filepath.Join("node_modules", ".bin", "node"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(node); err != nil {
		if node, err = exec.LookPath("node"); err != nil {
			t.Fatalf("node is missing: install Node.js %d or later, with npm", leastNode)
		}
	}
	out, err := exec.CommandContext(t.Context(), node, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v; install Node.js %d or later", node, err, leastNode)
	}
	version := strings.TrimSpace(string(out))
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < leastNode {
		t.Fatalf("node %s is too old for the npm packages: install Node.js %d or later", version, leastNode)
	}
	t.Logf("node %s", version)
	return node
}

// stale reports whether node_modules is absent or older than its sources.
func stale() bool {
	made, err := os.Stat(filepath.Join("node_modules", ".package-lock.json"))
	if err != nil {
		return true
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		if from, err := os.Stat(name); err != nil || from.ModTime().After(made.ModTime()) {
			return true
		}
	}
	return false
}

func install(t *testing.T) {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Fatalf("npm is missing, and the client libraries are not installed in test/clients: install Node.js %d or later, with npm", leastNode)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, npm, "ci", "--no-audit", "--no-fund").CombinedOutput(); err != nil {
		t.Fatalf("npm ci in test/clients: %v\n%s", err, out)
	}
}

// A lock file that names where packages are fetched from ties a clone to one
// registry.
func TestLockFileNamesNoRegistry(t *testing.T) {
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lock)) {
		if strings.Contains(line, `"resolved"`) {
			t.Errorf("package-lock.json: %s: install with the .npmrc of this folder, which leaves it out", strings.TrimSpace(line))
		}
	}
}
