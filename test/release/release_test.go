// Package release tests what a release consists of: it builds one for this platform, and installs it
// in every way that it can be installed. It checks that nothing is missing and that the same tree
// gives the same bytes. Images and charts are tested in test/deploy.
package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// made is the release of this tree.
var made struct {
	root, folder, version string
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	scratch, err := os.MkdirTemp("", "release")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(scratch)
	if made.root, err = filepath.Abs(filepath.Join("..", "..")); err != nil {
		return 1, err
	}
	made.folder = filepath.Join(scratch, "dist")
	before := changes()
	if err := build(made.folder); err != nil {
		return 1, err
	}
	if after := changes(); after != before { // the next build would have another version
		return 1, fmt.Errorf("building a release changes the sources:\n%s", after)
	}
	version, err := exec.Command(filepath.Join(made.root, "tools", "version.sh")).Output()
	if err != nil {
		return 1, err
	}
	made.version = strings.TrimSpace(string(version))
	return m.Run(), nil
}

// changes returns the changed files of the tree.
func changes() string {
	cmd := exec.Command("git", "status", "--short")
	cmd.Dir = made.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// build builds the release for this platform into a folder.
func build(folder string, env ...string) error {
	cmd := exec.Command("go", "run", "./tools/release", "-platforms", runtime.GOOS+"/"+runtime.GOARCH, "-out", folder)
	cmd.Dir, cmd.Env = made.root, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// file returns the path of a file of the release, whose name may have VERSION and PLATFORM in it.
func file(name string) string {
	name = strings.ReplaceAll(name, "VERSION", made.version)
	return filepath.Join(made.folder, strings.ReplaceAll(name, "PLATFORM", runtime.GOOS+"-"+runtime.GOARCH))
}

// mustRun runs a command and returns what it prints.
func mustRun(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// checkProgram runs an installed program.
func checkProgram(t *testing.T, path string) {
	t.Helper()
	if got, want := mustRun(t, t.TempDir(), path, "version"), "modelgate "+made.version+"\n"; got != want {
		t.Errorf("%s prints %q, want %q", path, got, want)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestChecksumsAreOfEveryFile(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(string(mustRead(t, file("SHA256SUMS")))), "\n")
	listed := map[string]string{}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		listed[name] = sum
		got := sha256.Sum256(mustRead(t, file(name)))
		if hex.EncodeToString(got[:]) != sum {
			t.Errorf("the checksum of %s is wrong", name)
		}
	}
	entries, err := os.ReadDir(made.folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(lines)+2 { // and the checksums, and the statement of origin
		t.Errorf("%d files are listed of %d", len(lines), len(entries)-2)
	}
	var origin struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct {
					Digest map[string]string
				}
			}
		}
	}
	if err := json.Unmarshal(mustRead(t, file("provenance.json")), &origin); err != nil {
		t.Fatal(err)
	}
	for _, s := range origin.Subject {
		if listed[s.Name] != s.Digest["sha256"] {
			t.Errorf("the statement of origin has another checksum of %s", s.Name)
		}
	}
	commit := strings.TrimSpace(mustRun(t, made.root, "git", "rev-parse", "HEAD"))
	if d := origin.Predicate.BuildDefinition.ResolvedDependencies; len(origin.Subject) != len(lines) || d[0].Digest["gitCommit"] != commit {
		t.Errorf("the statement of origin is of %d files and of %v", len(origin.Subject), d)
	}
}

// Everything in the binary is in the list of components and has its terms in LICENSES.txt.
func TestComponentsAndLicencesAreComplete(t *testing.T) {
	t.Parallel()
	var sbom struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct {
			Name, Version string
			Evidence      struct{ Licenses []any }
		}
	}
	text := mustRead(t, file("sbom.cdx.json"))
	if err := json.Unmarshal(text, &sbom); err != nil {
		t.Fatal(err)
	}
	components := map[string]bool{}
	for _, c := range sbom.Components {
		components[c.Name+" "+c.Version] = true
		if len(c.Evidence.Licenses) == 0 && c.Name != "std" {
			t.Errorf("the component %s has no licence", c.Name)
		}
	}
	terms := mustRead(t, file("LICENSES.txt"))
	binary := mustRun(t, made.root, "go", "version", "-m", file("modelgate-VERSION-PLATFORM"))
	modules := regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`).FindAllStringSubmatch(binary, -1)
	if len(modules) < 20 || sbom.BOMFormat != "CycloneDX" {
		t.Fatalf("the binary has %d modules, and the list is of %q", len(modules), sbom.BOMFormat)
	}
	for _, m := range modules {
		if name := m[1] + " " + m[2]; !components[name] || !bytes.Contains(terms, []byte("\n"+name+" (")) {
			t.Errorf("%s is in the list of components: %t, and its terms are there: %t", name, components[name], bytes.Contains(terms, []byte("\n"+name+" (")))
		}
	}
}

// The same tree gives the same bytes, whatever the user, the zone and the umask are.
func TestReleasesAreReproducible(t *testing.T) {
	t.Parallel()
	again := filepath.Join(t.TempDir(), "another", "place")
	if err := build(again, "TZ=Asia/Tokyo", "LC_ALL=C", "USER=nobody", "HOME="+t.TempDir(), "GOCACHE="+goEnv(t, "GOCACHE"), "GOMODCACHE="+goEnv(t, "GOMODCACHE")); err != nil {
		t.Fatal(err)
	}
	if got, want := mustRead(t, filepath.Join(again, "SHA256SUMS")), mustRead(t, file("SHA256SUMS")); !bytes.Equal(got, want) {
		t.Errorf("the second build has\n%s\nthe first\n%s", got, want)
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(mustRun(t, made.root, "go", "env", name))
}

func TestInstallScript(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.FileServer(http.Dir(made.folder)))
	defer server.Close()
	script := file("install.sh")
	for _, from := range []string{server.URL, made.folder} {
		to := filepath.Join(t.TempDir(), "bin")
		if out := mustRun(t, t.TempDir(), "sh", script, "--from", from, "--to", to); !strings.Contains(out, "installed "+to+"/modelgate "+made.version) {
			t.Errorf("it prints %s", out)
		}
		checkProgram(t, filepath.Join(to, "modelgate"))
	}

	changed := t.TempDir()
	if err := os.CopyFS(changed, os.DirFS(made.folder)); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(changed, filepath.Base(file("modelgate-VERSION-PLATFORM")))
	if err := os.WriteFile(binary, append(mustRead(t, binary), 0), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--from", changed}, "is not the file that SHA256SUMS describes; nothing was installed"},
		{[]string{"--from", server.URL + "/missing"}, "cannot be read"},
		{nil, "give its address with --from"},
		{[]string{"--what"}, "Usage:"},
	} {
		to := t.TempDir()
		out, err := exec.CommandContext(t.Context(), "sh", append([]string{script, "--to", to}, tt.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("%q: %v, %s", tt.args, err, out)
		}
		if entries, err := os.ReadDir(to); err != nil || len(entries) > 0 {
			t.Errorf("%q: something was installed: %v %v", tt.args, entries, err)
		}
	}
}

func TestNodePackage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	archive := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	mustRun(t, dir, "npm", "install", "--offline", "--no-audit", "--no-fund", file("npm-modelgate-linux-"+archive+"-VERSION.tgz"), file("npm-modelgate-VERSION.tgz"))
	program := filepath.Join(dir, "node_modules", ".bin", "modelgate")
	checkProgram(t, program)
	if err := exec.CommandContext(t.Context(), program, "nothing").Run(); err == nil || err.Error() != "exit status 2" {
		t.Errorf("a wrong command ends with %v, want the exit code of the binary", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "node_modules", "@modelgate")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "version").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is not installed; install modelgate without --omit=optional") {
		t.Errorf("without the binary: %v %s", err, out)
	}
}

func TestPythonPackage(t *testing.T) {
	t.Parallel()
	wheels, err := filepath.Glob(filepath.Join(made.folder, "*.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("the wheels are %q (%v)", wheels, err)
	}
	dir := t.TempDir()
	mustRun(t, dir, "python3", "-m", "venv", "venv")
	pip := filepath.Join(dir, "venv", "bin", "pip")
	mustRun(t, dir, pip, "--disable-pip-version-check", "install", "--no-index", wheels[0])
	checkProgram(t, filepath.Join(dir, "venv", "bin", "modelgate"))
	if out := mustRun(t, dir, pip, "--disable-pip-version-check", "show", "--files", "modelgate"); !strings.Contains(out, "License-Expression: Apache-2.0") &&
		!strings.Contains(out, "bin/modelgate") {
		t.Errorf("pip says %s", out)
	}
}
