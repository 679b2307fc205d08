package policy_test

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kinds are the endings of files in the repository. Others are by-products, which a
// program or a test has left, or need a row here.
var kinds = strings.Fields(".go .md .txtar .json .txt .mjs .js .ts .py .sh .sql .yaml .csv .tsv .sum .mod .html .toml .pem .xml .conf .tpl .npmrc .gitignore .gitattributes .editorconfig .yml .service")

// unusual are files without an ending.
var unusual = []string{".ci/run", "LICENSE", "Makefile", "deploy/image/Containerfile"}

// plainName is a path that every system and tool can take.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)

func TestFilesAreOfKnownKinds(t *testing.T) {
	for _, name := range mustFiles(t) {
		if problem := fileProblem(name); problem != "" {
			t.Errorf("%q: %s", name, problem)
		}
	}
}

func TestUnknownFilesAreFound(t *testing.T) {
	for _, name := range []string{"host=h password=p dbname=d", "a/data.db", "a/data.db-wal", "modelgate", "a/ b.go", "a/core", "testdata/fuzz"} {
		if fileProblem(name) == "" {
			t.Errorf("%q is accepted", name)
		}
	}
}

// rootEntries is the most that the root of the repository may show: it is the first
// page that a reader sees.
const rootEntries = 20

func TestTheRootShowsLittle(t *testing.T) {
	shown := map[string]bool{"bin": true} // which make run builds
	for _, name := range mustFiles(t) {
		first, _, _ := strings.Cut(name, "/")
		if !strings.HasPrefix(first, ".") {
			shown[first] = true
		}
	}
	if names := slices.Sorted(maps.Keys(shown)); len(names) > rootEntries {
		t.Errorf("the root has %d entries, want %d at most: %q", len(names), rootEntries, names)
	}
}

// fileProblem says what is wrong with the name of a file, "" for nothing.
func fileProblem(name string) string {
	switch {
	case !plainName.MatchString(name):
		return "a name has letters, digits, dots, dashes and underscores only; if a test made the file, let it use t.TempDir"
	case slices.Contains(unusual, name), strings.Contains(name, "/testdata/fuzz/"), slices.Contains(kinds, path.Ext(name)):
		return ""
	}
	return "a file of an unknown kind; remove it, or add the kind to files_test.go"
}
