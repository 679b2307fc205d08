package policy_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// codeSpan finds code within a line of Markdown.
var codeSpan = regexp.MustCompile("`([^`\n]+)`")

// word finds the names in a piece of code.
var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]+`)

// placeholder finds names that mean others, such as FAMILY.
var placeholder = regexp.MustCompile(`\b[A-Z]{4,}\b|acme|^Test`)

// names is what code can be named by: packages by their paths and every identifier and
// string of the sources.
type names struct {
	packages map[string]map[string]bool // what each package declares or has as methods and fields, by its last folder
	words    map[string]bool
}

func TestArchitectureNamesWhatExists(t *testing.T) {
	known := mustNames(t)
	for _, page := range []string{"docs/architecture.md", "AGENTS.md", "CONTRIBUTING.md"} {
		text := withoutBlocks(string(mustRead(t, page)))
		for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
			if problem := known.problem(m[1]); problem != "" {
				t.Errorf("%s: `%s`: %s", page, m[1], problem)
			}
		}
	}
}

func TestUnknownNamesAreFound(t *testing.T) {
	known := names{packages: map[string]map[string]bool{"pipeline": {"Request": true}}, words: map[string]bool{"Request": true, "pipeline": true, "handle": true}}
	for span, want := range map[string]bool{
		"pipeline.Request": false, "pipeline.Requests": true, "handle": false, "handles": true,
		"internal/nowhere": true, "internal/base": false, "go.mod": true, "modelgate.yaml": true, "x…": false, "internal/FAMILY": false, "net/http": false,
	} {
		if got := known.problem(span) != ""; got != want {
			t.Errorf("%q is reported: %t, want %t", span, got, want)
		}
	}
}

// problem says which part of a piece of code is unknown, "" if all of it is known.
func (n names) problem(span string) string {
	if strings.ContainsAny(span, "…*<{$:=\" ") || strings.HasPrefix(span, "/") || placeholder.MatchString(span) {
		return "" // a pattern, a command, a path of a route or an example
	}
	if strings.Contains(span, "/") {
		for _, base := range []string{"", "internal/", "internal/controlplane/", "docs/", build.Default.GOROOT + "/src/"} {
			if _, err := os.Stat(base + span); err == nil {
				return ""
			}
		}
		return "there is no such file or folder"
	}
	if pkg, name, ok := strings.Cut(span, "."); ok && n.packages[pkg] != nil && !n.packages[pkg][name] && !slices.Contains(kinds, "."+name) && name != "db" {
		return "package " + pkg + " does not declare it"
	}
	for _, w := range word.FindAllString(span, -1) {
		if !n.words[w] {
			return "nothing is named " + w
		}
	}
	return ""
}

// withoutBlocks removes fenced blocks, whose code is not of this program alone.
func withoutBlocks(page string) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inside = !inside
			continue
		}
		if !inside {
			b.WriteString(line)
		}
	}
	return b.String()
}

func mustNames(t *testing.T) names {
	t.Helper()
	n := names{packages: map[string]map[string]bool{}, words: map[string]bool{}}
	for name, data := range mustTexts(t) {
		for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '/' || r == '.' || r == '-' }) {
			n.words[part] = true
		}
		if !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".sh") && !strings.HasSuffix(name, "akefile") && !strings.HasSuffix(name, ".mod") {
			continue
		}
		for _, w := range word.FindAll(data, -1) {
			n.words[string(w)] = true
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			n.declare(t, name, data)
		}
	}
	return n
}

// declare adds what a file declares to its package.
func (n names) declare(t *testing.T, name string, data []byte) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, data, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	pkg := path.Base(path.Dir(name))
	if n.packages[pkg] == nil {
		n.packages[pkg] = map[string]bool{}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			n.packages[pkg][d.Name.Name] = true
			if d.Recv != nil {
				n.packages[pkg][receiver(d)+"."+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					n.packages[pkg][s.Name.Name] = true
				case *ast.ValueSpec:
					for _, id := range s.Names {
						n.packages[pkg][id.Name] = true
					}
				}
			}
		}
	}
}

// receiver is the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
