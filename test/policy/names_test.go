package policy_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// declaration is a function, method or type outside of tests.
type declaration struct {
	where, pkg, name string
	doc              string
	fails            bool // a function whose only result is an error
	function         bool
}

// naming is a rule for names.
type naming struct {
	rule   string
	broken func(d declaration) bool
	except []string // package.Name of what breaks it for a reason
}

// participles do not say what a thing is or what a function does.
var participles = regexp.MustCompile(`^(told|tell|telling|said|says|say|spoken|kept|held|wanted|wishes|asked|asking|given|shown|seen|known|lent|wholly|whole|owned|own|rest|others|elsewhere|beside|within|without|once|done|made|judged?|settled|gone|away|spent|paid|arriving|wrapped|unpacked|gathered|joined|drawn|carried|stands|doors?|tired|brief|late|un(offered|told|thought|tooled|fit|held))$`)

// claims begin the name of a condition.
var claims = regexp.MustCompile(`^([a-z]+(ed|able)|[a-z]*[a-rt-z]s|may|left|own|known|lent)$`)

var namings = []naming{
	{rule: "a type is called by a noun and a function by a verb, not by a participle, adverb or pronoun",
		broken: func(d declaration) bool {
			words := wordsOf(d.name)
			return participles.MatchString(words[len(words)-1])
		}, except: []string{"bench.startOnce", "blob.sendOnce"}},
	{rule: `the comment of a function goes on with what it does ("returns", "reports", "writes"), not with "is", "are" or "has"`,
		broken: func(d declaration) bool {
			after, ok := strings.CutPrefix(d.doc, d.name+" ")
			verb, rest, _ := strings.Cut(after, " ")
			return d.function && ok && slices.Contains([]string{"is", "are", "has"}, verb) && !strings.HasPrefix(rest, "[")
		}},
	{rule: "a function that returns an error alone is called by what it does, such as checkX, not like a condition",
		broken: func(d declaration) bool {
			return d.fails && claims.MatchString(wordsOf(d.name)[0])
		}, except: []string{
			"secretref.statusError", "secretref.awsError", "store.unavailableError", // make an error
		}},
}

func TestNamesSayWhatThingsAre(t *testing.T) {
	all := declarations(t)
	if len(all) < 5000 {
		t.Fatalf("only %d declarations were found", len(all))
	}
	for _, n := range namings {
		var broken []string
		excepted := slices.Clone(n.except)
		for _, d := range all {
			if !n.broken(d) {
				continue
			}
			if i := slices.Index(excepted, d.pkg+"."+d.name); i >= 0 || slices.Contains(n.except, d.pkg+"."+d.name) {
				if i >= 0 {
					excepted = slices.Delete(excepted, i, i+1)
				}
				continue
			}
			broken = append(broken, fmt.Sprintf("%s: %s", d.where, d.name))
		}
		slices.Sort(broken)
		if len(broken) > 0 {
			t.Errorf("%s; these names break the rule:\n%s", n.rule, strings.Join(broken, "\n"))
		}
		for _, e := range excepted {
			t.Errorf("%s: the exception %s breaks nothing: delete it", n.rule, e)
		}
	}
}

// declarations returns the functions, methods and types outside of tests.
func declarations(t *testing.T) (all []declaration) {
	for name, data := range mustTexts(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		add := func(id *ast.Ident, doc *ast.CommentGroup) *declaration {
			all = append(all, declaration{where: files.Position(id.Pos()).String(), pkg: file.Name.Name, name: id.Name, doc: doc.Text()})
			return &all[len(all)-1]
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				f := add(d.Name, d.Doc)
				f.function = true
				if r := d.Type.Results; r != nil && len(r.List) == 1 && len(r.List[0].Names) < 2 {
					id, ok := r.List[0].Type.(*ast.Ident)
					f.fails = ok && id.Name == "error"
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						add(s.Name, s.Doc)
					}
				}
			}
		}
	}
	return all
}

// wordsOf splits a name at its capitals, in lower case.
func wordsOf(name string) (words []string) {
	start := 0
	letters := []rune(name)
	for i := 1; i < len(letters); i++ {
		if unicode.IsUpper(letters[i]) && (!unicode.IsUpper(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1])) {
			words = append(words, strings.ToLower(string(letters[start:i])))
			start = i
		}
	}
	return append(words, strings.ToLower(string(letters[start:])))
}
