package security

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPageNamesEveryTestThatThereIs holds docs/security.md against the tree: each
// test that it names exists, and each test of this suite is named.
func TestPageNamesEveryTestThatThereIs(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	exists, ours := map[string]bool{}, map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			exists[string(m[1])] = true
			ours[string(m[1])] = filepath.Dir(path) == filepath.Join(root, "test", "security") || ours[string(m[1])]
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(page, -1) {
		named[string(m[1])] = true
	}
	if len(named) == 0 {
		t.Fatal("docs/security.md names no test")
	}
	for name := range named {
		if !exists[name] {
			t.Errorf("docs/security.md names %s, which does not exist", name)
		}
	}
	for name, inSuite := range ours {
		if inSuite && !named[name] && name != t.Name() && name != "TestMain" {
			t.Errorf("docs/security.md does not name %s: say which promise it shows", name)
		}
	}
}
