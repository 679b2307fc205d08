package policy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// wording is a turn of phrase that readers stumble over, and what to write instead.
type wording struct{ pattern, except, instead string }

// wordings are looked for in comments, in strings with a space, and in documents
// that are written by hand.
var wordings = []wording{
	{`\bwhat (becomes?|became|comes?|came) of\b`, ``, "what happens to X; how X is handled"},
	{`\bin the place of\b`, ``, "instead of; replaces"},
	{`\b(is|are|was|were|be|been) told\b`, `\btold (to|not to|otherwise)\b`, "is reported; is logged; receives"},
	{`\btells? of\b|\btells? apart\b|\btold (apart|of)\b`, ``, "reports; distinguishes"},
	{`\banew\b`, ``, "again; from scratch"},
	{`\bonce more\b`, ``, "again; a second time"},
	{`\bmeanwhile\b`, ``, "in the meantime; while X; concurrently"},
	{`\bbut for\b`, ``, "except for"},
	{`\bbeside\b`, ``, "next to; in addition to; along with"},
	{`\bbesides\b`, ``, "also; in addition"},
	{`\bto be had\b|\bbe had now\b|\bat hand\b`, ``, "available"},
	{`\b(time|day|days|moment) to come\b`, `come back`, "future"},
	{`\blets? go( of)?\b`, ``, "releases"},
	{`\bpass(es|ed)? over\b`, ``, "skips; ignores"},
	{`\b(keeps?|kept) account\b|\bthe books\b`, ``, "records; the ledger"},
	{`\bhow much is (to be )?kept\b`, ``, "logging level; retention"},
	{`\bout of use\b`, ``, "in cooldown; unavailable"},
	{`\bjudge(d|s)?\b`, `(?i)llm.as.a.judge|\b(the|a|model) judge\b|[/-]judge\b|model: judge\b`, "check; validate; classify"},
	{`\bst(ands?|ood|anding) (in|at|on|under|beside|below|behind|before|above|there|twice|alone|first|last|where|by|inside)\b`, `\bstands? in for\b`, "is in; appears in; is set in"},
	{`\bas (it|they) st(ands?|ood)\b`, ``, "unchanged; as received"},
	{`\b(is|are) left to\b`, ``, "is the job of; X does not do this"},
	{"\\b(objects?|lists?|arrays?|maps?) of texts\\b|\\b(is|takes|be|as|has|or) a text\\b|\\bempty texts?\\b|\\b(a|the) texts\\b", `\btext/`, "string"},
	{`\b(head|begin|beginning|end) of (the|an|its) answers?\b|\banswer's (head|begin)\b`, ``, "response headers; start or end of the response"},
	{`\bwhole (answer|number|file|body|object|time|line|message)s?\b|\b(is|are|be|was|comes?) whole\b`, `as a whole|Call it once, with the whole answer`, "complete; integer; entire"},
	{`\b(keys|them|it|these|those|ones|names|people|sessions|clients|models|workspaces|configs|members|requests|reads) alone\b`, `leave[sd]? (it|them|those) alone|left (it|them) alone|let (it|them) alone`, "only"},
	{`\b(to|for|by|of|from|with|and) who(ever)? (may|has|have|is|asks?|reads?|wants?|sees?|makes?|made|knows|signs?|gives?|gave|owns|sends?|waits?|administers?|can|could|writes?|calls?|needs?)\b`, `\b(those|people|someone|anyone|everyone|users|a person) who\b`, "the caller; the user; anyone who"},
	{`\b(of|for|with|at most|at least|by|after|keep|about|take|takes) so (many|much|long)\b`, ``, "a number: N, this many, up to limit"},
	{`\b(is|are|was|were) no [a-z]+\b`, `\bthere (is|are|was|were) no\b|\bno (longer|more|less|fewer|such|matter|one|better|different|good|further|need|way)\b|\bno \w+er\b`, "is not a"},
	{`\b(does not|do not|no longer) counts?\b|\bcounts (until|no more|no longer|on)\b`, ``, "is not valid; applies; is reset"},
	{`\bnot known\b`, ``, "unknown"},
	{`\b(stands?|given|there|named?|named) twice\b`, ``, "is duplicated; is set twice"},
	{`\bunless (it is |they are )?said\b|\b(is|are|was|were|be) said\b`, ``, "by default; unless set; is specified"},
	{`\bgiv(e|es|en|ing) (back|out|up|away)\b`, ``, "returns; emits; abandons; releases"},
	{`\b(each|this|every|one) rooms?\b|\brooms\b|\bthe house\b`, ``, "package; the repository"},
	{`\bfloors?\b`, `math|round`, "layer"},
	{`\bwish(es)?\b|\bdoors?\b|\bstrangers?\b`, ``, "option; route; another caller"},
	{`\bin (the|other|few|neutral|our|its own) words\b|\bin(to)? words\b`, ``, "in the terms or format of; as text"},
	{`\b(is|are|was|were) to be [a-z]+(ed|en|nt|ept|ut)\b`, ``, "must be; will be; should be"},
	{`\bby way of\b`, ``, "through"},
	{`\banswers [1-5]\d\d\b|\b(is|are) answered [1-5]\d\d\b`, ``, "returns 404"},
	{`\bthe present (one|minute|segment|group|member|master key|secret|day)\b`, ``, "the current"},
	{`\b(secrets?|values?|credentials?|keys?) (that are |which are )?kept elsewhere\b`, ``, "external secrets"},
	{`\blet loose\b|\bexported for nobody\b`, ``, "sends requests to; without a use"},
	{`\bneeds? \w+ alone\b|\bcollectors alone\b`, ``, "only"},
	{`\b(is|are|was|were) made (of|from)\b`, ``, "is built from; derives from"},
}

// around is how far from a hit its exception may be, in bytes.
const around = 30

// hit is a place at which a wording occurs.
type hit struct{ where, text string }

// find returns the places in list.
func (w *wording) find(list []passage) (hits []hit) {
	pattern := regexp.MustCompile(w.pattern)
	var except *regexp.Regexp
	if w.except != "" {
		except = regexp.MustCompile(w.except)
	}
	for _, p := range list {
		for _, at := range pattern.FindAllStringIndex(p.text, -1) {
			near := p.text[max(0, at[0]-around):min(len(p.text), at[1]+around)]
			if except == nil || !except.MatchString(near) {
				hits = append(hits, hit{p.where, near})
			}
		}
	}
	return hits
}

func TestTextsUseTheFieldsWords(t *testing.T) {
	checkWordings(t, passages(t))
}

// checkWordings reports the places of list that one of the wordings occurs in.
func checkWordings(t *testing.T, list []passage) {
	t.Helper()
	for i := range wordings {
		for _, h := range wordings[i].find(list) {
			t.Errorf("%s: …%s… write: %s", h.where, h.text, wordings[i].instead)
		}
	}
}

// testName finds the names of tests.
var testName = regexp.MustCompile(`(?m)^func (Test\w+)`)

func TestTestsUseTheFieldsWords(t *testing.T) {
	var list []passage
	for name, data := range mustTexts(t) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		list = append(list, goPassages(t, name, data)...)
		for _, m := range testName.FindAllSubmatch(data, -1) {
			words := capital.ReplaceAllStringFunc(string(m[1]), func(s string) string { return " " + strings.ToLower(s) })
			list = append(list, passage{name, words})
		}
	}
	checkWordings(t, list)
}

func TestScriptsUseTheFieldsWords(t *testing.T) {
	var list []passage
	for name, data := range mustTexts(t) {
		if base := path.Base(name); base == "Makefile" || path.Ext(base) == ".sh" {
			text := strings.ReplaceAll(string(data), "\n#", "\n") // a comment of several lines is one passage
			list = append(list, passage{name, spaces.ReplaceAllString(text, " ")})
		}
	}
	if len(list) < 5 {
		t.Errorf("found %d scripts, want the Makefile and those in tools", len(list))
	}
	checkWordings(t, list)
}

var capital = regexp.MustCompile(`[A-Z]`)

// passage is one comment, string or paragraph in one line.
type passage struct{ where, text string }

var read []passage // by passages, once

// passages returns the comments and strings of the program, and the paragraphs of
// documents that no program writes.
func passages(t *testing.T) []passage {
	if read != nil {
		return read
	}
	for name, data := range mustTexts(t) {
		switch {
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			read = append(read, goPassages(t, name, data)...)
		case strings.HasSuffix(name, ".md") && !generated(data) && !strings.HasPrefix(name, "changelog/"):
			read = append(read, documentPassages(name, string(data))...)
		}
	}
	if len(read) < 10_000 {
		t.Fatalf("only %d passages were found", len(read))
	}
	return read
}

func generated(data []byte) bool {
	return strings.Contains(string(data[:min(len(data), 1000)]), "enerated")
}

var spaces = regexp.MustCompile(`\s+`)

func goPassages(t *testing.T, name string, data []byte) (list []passage) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Comments {
		list = append(list, passage{files.Position(c.Pos()).String(), spaces.ReplaceAllString(c.Text(), " ")})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name == "wordings" {
			return false // they name what they look for
		}
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && strings.Contains(l.Value, " ") {
			if text, err := strconv.Unquote(l.Value); err == nil {
				list = append(list, passage{files.Position(l.Pos()).String(), spaces.ReplaceAllString(text, " ")})
			}
		}
		return true
	})
	return list
}

var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```")
	ends     = regexp.MustCompile(`\n\s*\n|\n(?:[-*|]|\d+\.) `)
	inQuotes = regexp.MustCompile("`[^`]*`")
)

func documentPassages(name, text string) (list []passage) {
	text = inQuotes.ReplaceAllString(fence.ReplaceAllString(text, ""), "``")
	for _, part := range ends.Split(text, -1) {
		list = append(list, passage{name, spaces.ReplaceAllString(part, " ")})
	}
	return list
}

// questions are headings that nobody searches for.
var questions = regexp.MustCompile(`(?m)^#{1,3} (What|Who|Which|Whose|How (much|long)|Why|As|Say|More|Looking)\b.*`)

func TestHeadingsNameWhatIsBelow(t *testing.T) {
	for name, data := range mustTexts(t) {
		if strings.HasSuffix(name, ".md") {
			for _, h := range questions.FindAll(data, -1) {
				t.Errorf("%s: %q: write a noun phrase or an imperative", name, h)
			}
		}
	}
}

// asked are names of tests that ask a question instead of saying what is true.
var asked = regexp.MustCompile(`(?m)^func (TestWh(at|o|ose)[A-Z]\w*)`)

func TestTestsAreCalledByWhatIsTrue(t *testing.T) {
	for name, data := range mustTexts(t) {
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range asked.FindAllSubmatch(data, -1) {
				t.Errorf("%s: %s: name the behaviour, such as TestRequestSkipsTargetWithProbeInFlight", name, m[1])
			}
		}
	}
}
