package policy_test

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// sentenceEnd is where a sentence of a comment ends.
var sentenceEnd = regexp.MustCompile(`[.!?]["')\]]*(\s|$)`)

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, r := range mustPackages(t) {
		report(t, commentProblems(r))
	}
}

func TestCommentPolicyNoticesEveryBreach(t *testing.T) {
	good := "Package p counts.\n\nIt promises to count on.\n"
	for _, tt := range []struct {
		name     string
		comments []string
		want     int
	}{
		{"two sentences", []string{good, ""}, 0},
		{"none", []string{"", ""}, 1},
		{"two comments", []string{good, good}, 1},
		{"one sentence", []string{"Package p counts.\n"}, 1},
		{"another name", []string{"Package q counts.\n\nIt promises to count on.\n"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := packageDir{path: "p"}
			for _, text := range tt.comments {
				r.files = append(r.files, source{name: "p/p.go", syntax: &ast.File{Name: ast.NewIdent("p"), Doc: comment(text)}})
			}
			if got := commentProblems(r); len(got) != tt.want {
				t.Errorf("commentProblems = %q, want %d", got, tt.want)
			}
		})
	}
}

// commentProblems returns what is wrong with the comment of a package. If the package
// has more than tests, comments of its tests are ignored.
func commentProblems(r packageDir) []string {
	var names, texts, openings []string
	for _, s := range r.files {
		if s.test && !r.testOnly() || s.syntax.Doc == nil {
			continue
		}
		names = append(names, s.name)
		texts = append(texts, s.syntax.Doc.Text())
		openings = append(openings, opening(r.path, s.syntax.Name.Name))
	}
	if len(texts) != 1 {
		return []string{fmt.Sprintf("%s: want one file with a package comment, have %d %q", r.path, len(names), names)}
	}
	var problems []string
	if n := len(sentenceEnd.FindAllString(texts[0], -1)); n < 2 {
		problems = append(problems, fmt.Sprintf("%s: a package comment says what the package provides, promises and leaves to others; %d sentences are too few", names[0], n))
	}
	if want := openings[0]; !strings.HasPrefix(texts[0], want) {
		problems = append(problems, fmt.Sprintf("%s: the package comment has to begin with %q", names[0], want))
	}
	return problems
}

// opening is how the comment of a package has to begin.
func opening(folder, name string) string {
	if name == "main" {
		return "Command " + path.Base(folder) + " "
	}
	return "Package " + name + " "
}

func comment(text string) *ast.CommentGroup {
	if text == "" {
		return nil
	}
	group := &ast.CommentGroup{}
	for line := range strings.Lines(text) {
		group.List = append(group.List, &ast.Comment{Text: "// " + strings.TrimSpace(line)})
	}
	return group
}
