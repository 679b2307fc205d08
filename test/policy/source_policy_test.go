package policy_test

import (
	"bytes"
	"fmt"
	"go/format"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxLines is how long a file may be that is not a test. A longer one holds
// more than one idea.
const maxLines = 400

// longFiles are the files that may be longer, and why. The rows of the provider
// table are free: a row is data.
var longFiles = map[string]string{}

const providerTable = "internal/provider/table/"

// forbidden are words that say something about a machine and not about us. The
// patterns are written so that they don't find themselves. SCIM has paths of users too, of one
// segment only.
var forbidden = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"a path of somebody's machine", regexp.MustCompile("(?m)(^|[\\s\"'`(=,])/((wor[k]|tm[p]|hom[e]|roo[t])/|User[s]/[A-Za-z][\\w.-]*/)")},
	{"the host of a package registry", regexp.MustCompile(`\b(proxy|sum)[.]golang[.]org\b|\bregistry[.](npmjs[.]org|yarnpkg[.]com)\b|\bfiles[.]pythonhosted[.]org\b`)},
}

// openEnd finds marks of unfinished work; namedEnd is the form that is allowed.
var (
	openEnd  = regexp.MustCompile(`\b(TOD[O]|FIXM[E]|XX[X])\b.?`)
	namedEnd = regexp.MustCompile(`^TOD[O]\($`)
)

// skip finds tests that leave themselves out.
var skip = regexp.MustCompile(`\b(t|tb|b|f)\.Ski[p](f|Now)?\(.*`)

func TestNoFileSpeaksOfMachines(t *testing.T) {
	for name, data := range mustTexts(t) {
		for _, f := range forbidden {
			if at := f.pattern.FindIndex(data); at != nil {
				t.Errorf("%s:%d: holds %s: %q", name, lineOf(data, at[0]), f.what, bytes.TrimSpace(data[at[0]:at[1]]))
			}
		}
	}
}

func TestOpenEndsCarryAName(t *testing.T) {
	for name, data := range mustTexts(t) {
		for _, at := range openEnd.FindAllIndex(data, -1) {
			if !namedEnd.Match(data[at[0]:at[1]]) {
				t.Errorf("%s:%d: finish it, or write %s(name): and what is open", name, lineOf(data, at[0]), "TO"+"DO")
			}
		}
	}
}

// A test that leaves itself out silently is not a test. Two may: the recorded
// provider traffic lies outside the repository and may be absent, and a fuzz
// target skips inputs that are not its subject, without a word.
func TestOnlyTestsOfRecordingsMayBeLeftOut(t *testing.T) {
	texts := mustTexts(t)
	fuzzed := map[string]bool{} // folders with a fuzz target
	for name, data := range texts {
		if strings.HasSuffix(name, "_test.go") && bytes.Contains(data, []byte("\nfunc Fuzz")) {
			fuzzed[path.Dir(name)] = true
		}
	}
	for name, data := range texts {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, at := range skip.FindAllIndex(data, -1) {
			call := string(data[at[0]:at[1]])
			passesOver := fuzzed[path.Dir(name)] && strings.HasSuffix(call, "Now()")
			if !passesOver && !strings.Contains(call, "recordings") {
				t.Errorf("%s:%d: %s: fail with the remedy instead of leaving the test out", name, lineOf(data, at[0]), call)
			}
		}
	}
}

func TestEveryGoFileIsFormatted(t *testing.T) {
	for name, data := range mustTexts(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		formatted, err := format.Source(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !bytes.Equal(formatted, data) {
			t.Errorf("%s: not formatted; run gofmt -w %s", name, name)
		}
	}
}

func TestFilesHoldOneIdea(t *testing.T) {
	lengths := map[string]int{}
	for name, data := range mustTexts(t) {
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, providerTable) {
			lengths[name] = bytes.Count(data, []byte("\n"))
		}
	}
	report(t, lengthProblems(lengths, longFiles))
}

func TestWordPolicyNoticesEveryBreach(t *testing.T) {
	slash := "/"
	for _, tt := range []struct {
		name    string
		pattern *regexp.Regexp
		text    string
		want    bool
	}{
		{"path at the start", forbidden[0].pattern, slash + "work/main", true},
		{"path in quotes", forbidden[0].pattern, `open("` + slash + `home/ann/x")`, true},
		{"path of an address", forbidden[0].pattern, "https://example.com" + slash + "work/x", false},
		{"registry", forbidden[1].pattern, "https://registry." + "npmjs.org/x", true},
		{"package site", forbidden[1].pattern, "https://www.npmjs.com/package/x", false},
		{"open end", openEnd, "// FIX" + "ME later", true},
		{"skipped test", skip, "\tt.Skip" + `("no gcc")`, true},
		{"another method", skip, "\tdecoder.Skip" + "()", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.pattern.MatchString(tt.text); got != tt.want {
				t.Errorf("found in %q = %t, want %t", tt.text, got, tt.want)
			}
		})
	}
	lengths := map[string]int{"long.go": maxLines + 1, "allowed.go": maxLines + 1, "short.go": maxLines}
	allowed := map[string]string{"allowed.go": "one table", "short.go": "was long once"}
	if got := lengthProblems(lengths, allowed); len(got) != 2 {
		t.Errorf("lengthProblems = %q, want one of long.go and one of the allowance of short.go", got)
	}
}

func lengthProblems(lengths map[string]int, allowed map[string]string) []string {
	var problems []string
	for name, lines := range lengths {
		if lines > maxLines && allowed[name] == "" {
			problems = append(problems, fmt.Sprintf("%s: %d lines, %d are allowed; cut it by idea, or say in words_test.go why not", name, lines, maxLines))
		}
	}
	for name := range allowed {
		if lengths[name] <= maxLines {
			problems = append(problems, fmt.Sprintf("%s: no longer long; delete its allowance in words_test.go", name))
		}
	}
	return problems
}

// mustTexts reads every text file of the repository.
func mustTexts(t *testing.T) map[string][]byte {
	t.Helper()
	texts := map[string][]byte{}
	for _, name := range mustFiles(t) {
		if data := mustRead(t, name); utf8.Valid(data) && !bytes.ContainsRune(data, 0) {
			texts[name] = data
		}
	}
	return texts
}

func lineOf(data []byte, at int) int {
	return 1 + bytes.Count(data[:at], []byte("\n"))
}
