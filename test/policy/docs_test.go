package policy_test

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// link finds the target of a link in Markdown.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// entry is the first line of a file in changelog/unreleased.
var entry = regexp.MustCompile(`^(added|changed|fixed|removed|security): [A-Z].*\.\n`)

func TestArchitectureDocumentShowsTheLayers(t *testing.T) {
	const name = "docs/architecture.md"
	if !strings.Contains(string(mustRead(t, name)), "```text"+layers+"```") {
		t.Errorf("%s does not show the layers of layers_test.go; copy their lines into its block of text", name)
	}
}

func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	for name, data := range mustTexts(t) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, found := range link.FindAllSubmatch(data, -1) {
			target, anchor, _ := strings.Cut(string(found[1]), "#")
			if strings.Contains(target, ":") {
				continue
			}
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", name, target)
				continue
			}
			if anchor != "" && strings.HasSuffix(file, ".md") && !anchors(mustRead(t, file))[anchor] {
				t.Errorf("%s: %s has no heading for #%s", name, file, anchor)
			}
		}
	}
}

// anchors returns the names by which links reach the headings of a page.
func anchors(page []byte) map[string]bool {
	all := map[string]bool{}
	code := false
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if code || !strings.HasPrefix(line, "#") {
			continue
		}
		name := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		name = notInAnchors.ReplaceAllString(name, "")
		name = strings.ReplaceAll(name, " ", "-")
		for base, n := name, 1; all[name]; n++ {
			name = base + "-" + strconv.Itoa(n)
		}
		all[name] = true
	}
	return all
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

func TestAnchorsAreThoseOfHeadings(t *testing.T) {
	got := anchors([]byte("# The `keys` of a, b\n\n```sh\n# no heading\n```\n## Notes\n## Notes\n"))
	for _, want := range []string{"the-keys-of-a-b", "notes", "notes-1"} {
		if !got[want] {
			t.Errorf("anchors = %v, want %s", got, want)
		}
	}
	if len(got) != 3 {
		t.Errorf("anchors = %v, want 3", got)
	}
}

func TestEveryDocumentIsListed(t *testing.T) {
	for list, folder := range map[string]string{"docs/README.md": "docs", "docs/adr/README.md": "docs/adr"} {
		text := string(mustRead(t, list))
		for _, name := range mustFiles(t) {
			base := path.Base(name)
			if path.Dir(name) == folder && base != "README.md" && !strings.Contains(text, "]("+base+")") {
				t.Errorf("%s: is not listed in %s", name, list)
			}
		}
	}
}

func TestChangelogEntriesHaveTheForm(t *testing.T) {
	const folder = "changelog/unreleased/"
	for name, data := range mustTexts(t) {
		if strings.HasPrefix(name, folder) && path.Base(name) != "README.md" && !entry.Match(data) {
			t.Errorf("%s: the first line does not have the form that %sREADME.md describes", name, folder)
		}
	}
}

// What a page promises to list in full, and where the words come from. A word
// is in the page as code.
func TestDocumentsNameWhatTheCodeHas(t *testing.T) {
	for _, tt := range []struct {
		page, source string
		word         *regexp.Regexp
		least        int // a pattern that finds less than this has gone blind
	}{
		{"docs/errors.md", "internal/", regexp.MustCompile(`WithCode\("(\w+)"\)`), 18},
		{"docs/operations.md", "internal/server/metrics.go", regexp.MustCompile(`"(modelgate_\w+)"`), 14},
		{"docs/operations.md", "cmd/modelgate/", regexp.MustCompile(`"(MODELGATE_[A-Z_]+)"`), 8},
		{"docs/settings.md", "internal/settings/settings.go", regexp.MustCompile("json:\"(\\w+)"), 30},
		{"docs/declarative.md", "internal/settings/state.go", regexp.MustCompile("json:\"(\\w+)"), 60},
		{"docs/logs.md", "internal/records/reqlog/json.go", regexp.MustCompile(`(?:\(w, |w\.Name\()"(\w+)"`), 50},
		{"docs/logs.md", "internal/controlplane/log_filter.go", regexp.MustCompile(`"(\w+)": +func\(q`), 12},
		{"docs/headers.md", "api/header.go", regexp.MustCompile(`= "(X-Gateway-[\w-]+\w)"`), 20},
	} {
		page := codeIn(string(mustRead(t, tt.page)))
		found := map[string]bool{}
		for name, data := range mustTexts(t) {
			if !strings.HasPrefix(name, tt.source) || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, m := range tt.word.FindAllSubmatch(data, -1) {
				found[strings.ToLower(string(m[1]))] = true
			}
		}
		if len(found) < tt.least {
			t.Errorf("%s: found %d words for %s, want at least %d", tt.source, len(found), tt.page, tt.least)
		}
		for word := range found {
			if !regexp.MustCompile(`\b` + word + `\b`).MatchString(page) {
				t.Errorf("%s: does not name %s, which %s has", tt.page, word, tt.source)
			}
		}
	}
}

// codeIn returns the text in a page between backticks, in lower case.
func codeIn(page string) string {
	var code strings.Builder
	for line := range strings.Lines(page) {
		for i, part := range strings.Split(strings.ToLower(line), "`") {
			if i%2 == 1 {
				code.WriteString(part + "\n")
			}
		}
	}
	return code.String()
}

// TestExamplesSayThatTheirBodyIsJSON finds calls of curl that send a body as a form,
// which the gateway refuses.
func TestExamplesSayThatTheirBodyIsJSON(t *testing.T) {
	calls := 0
	for _, name := range mustFiles(t) {
		if path.Ext(name) != ".md" {
			continue
		}
		for i, block := range strings.Split(string(mustRead(t, name)), "\n```") {
			if i%2 == 0 {
				continue
			}
			for _, call := range strings.Split(block, "curl ")[1:] {
				calls++
				if data.MatchString(call) && !strings.Contains(strings.ToLower(call), "content-type") {
					t.Errorf("%s: curl %.80q sends a form; use --json or the header content-type", name, call)
				}
			}
		}
	}
	if calls < 20 {
		t.Errorf("%d calls of curl were found, want the examples of the documents", calls)
	}
}

// data finds an option of curl with a body.
var data = regexp.MustCompile(`\s(-d|--data|--data-binary|--data-raw)\s`)

// variables of the gateway in calls of curl, by what precedes them; docs/README.md
// defines them.
var variables = []struct {
	use  *regexp.Regexp
	want []string
}{
	{regexp.MustCompile(`curl [^|]*?"?\$([A-Z_]+)/`), []string{"BASE"}},
	{regexp.MustCompile(`(?i)x-gateway-api-key: \$([A-Z_]+)`), []string{"KEY", "MAKER"}}, // MAKER is made by its example
	{regexp.MustCompile(`(?i)authorization: Bearer \$([A-Z]+)"`), []string{"KEY", "TOKEN"}},
	{regexp.MustCompile(`--key "?\$([A-Z_]+)`), []string{"KEY", "LEAKED"}},
	{regexp.MustCompile(`(?m)^(?:export )?([A-Z]+)=(?:https?://[^ \n]*:8787\S*|mg-\.\.\.)`), []string{"BASE", "KEY", "LEAKED", "MAKER"}},
}

func TestExamplesHaveOneVocabulary(t *testing.T) {
	defined := string(mustRead(t, "docs/README.md"))
	for _, name := range []string{"BASE", "KEY", "TOKEN"} {
		if !strings.Contains(defined, "| `$"+name+"` |") {
			t.Errorf("docs/README.md does not define $%s", name)
		}
	}
	found := 0
	for _, name := range mustFiles(t) {
		if path.Ext(name) != ".md" {
			continue
		}
		for i, block := range strings.Split(string(mustRead(t, name)), "\n```") {
			if i%2 == 0 || !strings.HasPrefix(block, "sh") {
				continue
			}
			for _, v := range variables {
				for _, m := range v.use.FindAllStringSubmatch(block, -1) {
					found++
					if !slices.Contains(v.want, m[1]) {
						t.Errorf("%s: %q has the variable %s, want one of %q", name, m[0], m[1], v.want)
					}
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("%d variables were found, want those of the documents", found)
	}
}
