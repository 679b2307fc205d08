package documents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// elsewhere are pages whose commands run, without a number of commands, here or in other tests.
var elsewhere = map[string]string{
	"limits.md":                           "TestLimits",
	"administer-from-the-command-line.md": "cmd/modelgate/admin TestDocumentWorks",
	"command-line.md":                     "cmd/modelgate TestExamplesOfCommandsParse; the page is generated",
}

// TestEveryScriptIsOne parses the commands of all documents and reports how many of them run.
func TestEveryScriptIsOne(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	all, run := 0, 0
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		for _, s := range parse(name, string(text)).sections {
			for _, b := range s.scripts() {
				all++
				if isTask(name) || elsewhere[name] != "" {
					run++
				}
				c := exec.Command("bash", "-n")
				c.Stdin = strings.NewReader(b.text)
				if out, err := c.CombinedOutput(); err != nil {
					t.Errorf("%s:%d: %v\n%s", name, b.line, err, out)
				}
			}
		}
	}
	t.Logf("%d of %d blocks of commands run", run, all)
	if all < 280 {
		t.Errorf("%d blocks of commands were found", all)
	}
}

// isTask reports whether a page is one of the pages of tasks.
func isTask(name string) bool {
	return slices.Contains(tasks, name)
}

// Uses and settings of variables in a script.
var (
	quotedText = regexp.MustCompile(`'[^']*'`)
	use        = regexp.MustCompile(`\$\{?([A-Z][A-Z0-9_]*)`)
	setting    = regexp.MustCompile(`(?:^|[\s;(])([A-Z][A-Z0-9_]*)=|\bread -r ([A-Z]+)|\bfor ([A-Z]+) in`)
)

// TestTasksSetEveryVariableThatTheyUse reads the pages of tasks from top to bottom.
func TestTasksSetEveryVariableThatTheyUse(t *testing.T) {
	words := read(t, "README.md")
	for _, name := range append([]string{"limits.md"}, tasks...) {
		set := map[string]bool{}
		for _, s := range parse(name, read(t, name)).sections {
			for _, b := range s.scripts() {
				text := quotedText.ReplaceAllString(b.text, "")
				for _, m := range setting.FindAllStringSubmatch(text, -1) {
					set[m[1]+m[2]+m[3]] = true
				}
				for _, m := range use.FindAllStringSubmatch(text, -1) {
					if !set[m[1]] {
						t.Errorf("%s: $%s is used before it is set on the page", name, m[1])
					}
				}
			}
		}
		for v := range set {
			if !strings.Contains(words, "`$"+v+"`") && !own[v] {
				t.Errorf("%s: the variable %s is neither in docs/README.md nor a page's own", name, v)
			}
		}
	}
}

// own are variables that one page has for a thing that others do not speak of.
var own = map[string]bool{
	"MODELGATE_MASTER_KEY": true, "OPENAI_API_KEY": true, // first-day.md
	"POLICY":  true,                   // limits.md
	"LEAKED":  true,                   // incidents.md
	"VERSION": true, "PREVIOUS": true, // upgrades.md
}
