// Package policy_test holds the policies of this repository as tests.
//
// They read the source tree itself, inside the test, so that go test notices
// every changed file and never serves a stale pass. Each failure says what to
// change. What the program does is tested next to its packages, not here.
package policy_test

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the path that begins every import of our own.
const module = "modelgate"

// packageDir is one package folder. Its path is relative to the root and has slashes.
type packageDir struct {
	path  string
	files []source
}

// source is the head of one Go file: comments, package clause and imports.
type source struct {
	name    string // relative to the root
	test    bool
	syntax  *ast.File
	imports []string
}

// otherModule is a module of its own in the repository, which nothing of the program imports.
const otherModule = "tools/deploy/"

// mustPackages reads every package folder of the program's module, in order of path.
func mustPackages(t *testing.T) []packageDir {
	t.Helper()
	byPath := map[string]*packageDir{}
	for _, name := range mustFiles(t) {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "testdata/") || strings.HasPrefix(name, otherModule) {
			continue
		}
		dir := path.Dir(name)
		if byPath[dir] == nil {
			byPath[dir] = &packageDir{path: dir}
		}
		byPath[dir].files = append(byPath[dir].files, mustSource(t, name))
	}
	packages := make([]packageDir, 0, len(byPath))
	for _, p := range byPath {
		packages = append(packages, *p)
	}
	slices.SortFunc(packages, func(a, b packageDir) int { return strings.Compare(a.path, b.path) })
	return packages
}

func mustSource(t *testing.T, name string) source {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, mustRead(t, name), parser.ParseComments|parser.ImportsOnly)
	if err != nil {
		t.Fatalf("reading imports: %v", err)
	}
	s := source{name: name, test: strings.HasSuffix(name, "_test.go"), syntax: file}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatalf("%s: import %s: %v", name, spec.Path.Value, err)
		}
		s.imports = append(s.imports, imported)
	}
	return s
}

// testOnly reports whether the package has only tests.
func (r packageDir) testOnly() bool {
	return !slices.ContainsFunc(r.files, func(s source) bool { return !s.test })
}

// imports returns what the files of the package import, each once: its tests, or the
// others.
func (r packageDir) imports(test bool) []string {
	var all []string
	for _, s := range r.files {
		if s.test == test {
			all = append(all, s.imports...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// mustFiles lists the files of the repository: everything in the folder but
// what .gitignore names.
func mustFiles(t *testing.T) []string {
	t.Helper()
	ignored := mustIgnored(t)
	var names []string
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case entry.IsDir() && (entry.Name() == ".git" || ignored(name)):
			return filepath.SkipDir
		case entry.Type().IsRegular() && entry.Name() != ".git" && !ignored(name): // .git is a file in a linked worktree
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// mustIgnored reads .gitignore, of which it knows three forms: "/folder/" at
// the root, and "folder/" and "*.suffix" anywhere.
func mustIgnored(t *testing.T) func(name string) bool {
	t.Helper()
	var rooted, anywhere []string
	lines := bufio.NewScanner(bytes.NewReader(mustRead(t, ".gitignore")))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern := strings.Trim(line, "/")
		if _, err := path.Match(pattern, ""); err != nil || strings.HasPrefix(line, "!") || strings.Contains(pattern, "/") {
			t.Fatalf(".gitignore: %q is not understood by the policy tests; write it as /name/, name/ or *.suffix", line)
		}
		if strings.HasPrefix(line, "/") {
			rooted = append(rooted, pattern)
			continue
		}
		anywhere = append(anywhere, pattern)
	}
	return func(name string) bool {
		matches := func(name string) func(string) bool {
			return func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }
		}
		return slices.ContainsFunc(rooted, matches(name)) || slices.ContainsFunc(anywhere, matches(path.Base(name)))
	}
}

func mustRead(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// report fails the test once for each problem.
func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}
