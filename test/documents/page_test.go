package documents_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// page is a document whose blocks are run.
type page struct {
	name     string
	sections []*section
	edit     *strings.Replacer // what a reader fills in
}

// section is a heading with what is below it, up to the next heading.
type section struct {
	heading string
	text    string // without blocks
	blocks  []block
	ran     int // of its scripts
}

// block is a fenced block.
type block struct {
	language string // sh, yaml and so on
	text     string
	line     int // of its first line
}

// parse returns a document with its sections. Blocks may be indented in a list.
func parse(name, text string) *page {
	p := &page{name: name, sections: []*section{{}}, edit: strings.NewReplacer()}
	var open *block
	indent := ""
	for i, line := range strings.Split(text, "\n") {
		last := p.sections[len(p.sections)-1]
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case strings.HasPrefix(trimmed, "```") && open == nil:
			indent = line[:len(line)-len(trimmed)]
			open = &block{language: strings.TrimSpace(trimmed[3:]), line: i + 2}
		case strings.HasPrefix(trimmed, "```"):
			last.blocks = append(last.blocks, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		case strings.HasPrefix(line, "#"):
			p.sections = append(p.sections, &section{heading: strings.TrimSpace(strings.TrimLeft(line, "#"))})
		default:
			last.text += line + "\n"
		}
	}
	return p
}

// open reads a document of docs, and checks at the end of the test that all of it ran.
func open(t *testing.T, name string) *page {
	t.Helper()
	p := parse(name, read(t, name))
	t.Cleanup(func() {
		for _, s := range p.sections {
			if left := s.scripts()[s.ran:]; !t.Failed() && len(left) > 0 {
				t.Errorf("%s: %d blocks of commands below %q were not run", name, len(left), s.heading)
			}
		}
	})
	return p
}

// replace fills in what the page leaves to its reader.
func (p *page) replace(pairs ...string) { p.edit = strings.NewReplacer(pairs...) }

// find returns a section by its heading.
func (p *page) find(t *testing.T, heading string) *section {
	t.Helper()
	for _, s := range p.sections {
		if s.heading == heading {
			return s
		}
	}
	t.Fatalf("%s is without the heading %q", p.name, heading)
	return nil
}

// scripts returns the blocks that are commands.
func (s *section) scripts() (list []block) {
	for _, b := range s.blocks {
		if b.language == "sh" {
			list = append(list, b)
		}
	}
	return list
}

// Parts of commands: what continues a line, and what begins a document inside of a command.
var (
	heredoc = regexp.MustCompile(`<<-?'?(\w+)'?`)
	opens   = regexp.MustCompile(`(^|[;|&] *)(for|while|until|if|case|\{)( |$)|^\($`)
	closes  = regexp.MustCompile(`(^|[;|&] *)(done|fi|esac|\})( |$|;|<|>|\|)|^\)`)
	comment = regexp.MustCompile(`(^|\s)#.*`)
)

// commands returns the commands of a script as they are typed: a loop, a line that is continued and
// a document that a command reads are part of one command.
func commands(script string) (list []string) {
	end, depth, quoted := "", 0, false
	more := false
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if end != "" {
			if strings.TrimSpace(line) == end {
				end = ""
			}
			continue
		}
		code := line
		if !quoted {
			code = comment.ReplaceAllString(line, "")
		}
		if strings.TrimSpace(code) == "" {
			continue
		}
		if !more && depth == 0 && !quoted {
			list = append(list, strings.TrimSpace(code))
		}
		if strings.Count(code, "'")%2 == 1 {
			quoted = !quoted
		}
		depth += len(opens.FindAllString(code, -1)) - len(closes.FindAllString(code, -1))
		more = strings.HasSuffix(strings.TrimSpace(code), `\`) || strings.HasSuffix(strings.TrimSpace(code), "|")
		if m := heredoc.FindStringSubmatch(code); m != nil {
			end = m[1]
		}
	}
	return list
}

// count returns the number of commands of a section.
func (s *section) count() (n int) {
	for _, b := range s.scripts() {
		n += len(commands(b.text))
	}
	return n
}

// figure is how a page says how many commands a task takes.
var figure = regexp.MustCompile(`(?m)^\*(\d+) commands?[,.]`)

// promised returns the number of commands that a section says that its task takes.
func (s *section) promised() (n int, ok bool) {
	m := figure.FindStringSubmatch(s.text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// tasks are the pages whose sections say how many commands they take.
var tasks = []string{"first-day.md", "forty-teams.md", "incidents.md", "upgrades.md"}

func TestPagesSayHowManyCommandsTheirTasksTake(t *testing.T) {
	found := 0
	for _, name := range append([]string{"install.md", "kubernetes.md", "logs.md"}, tasks...) {
		for i, s := range parse(name, read(t, name)).sections {
			n, ok := s.promised()
			switch {
			case !ok && i < 2 || len(s.scripts()) == 0: // the variables of the page
			case !ok:
				t.Errorf("%s: the section %q does not begin with the number of its commands, such as *%d commands.*", name, s.heading, s.count())
			case n != s.count():
				t.Errorf("%s: the section %q says that it takes %d commands, and has %d", name, s.heading, n, s.count())
			default:
				found++
			}
		}
	}
	if found < 15 {
		t.Errorf("%d tasks have a number", found)
	}
}

func TestCommandsAreCountedAsTheyAreTyped(t *testing.T) {
	const script = `# a comment
export A=1    # the first
for I in 1 2; do
  echo "$I" |
    cat
done
cat >file <<END
not a command
END
curl x \
  -d '{"a":
  "b"}'

if true; then echo; fi; echo same line
modelgate serve &
`
	if got := commands(script); len(got) != 6 {
		t.Errorf("%d commands: %q", len(got), got)
	}
	p := parse("x.md", "# A\n\n*2 commands.* Do it.\n\n```sh\na\n```\n\n1. x\n\n   ```sh\n   b\n   ```\n## B\n```yaml\n# c\n```\n")
	if n, ok := p.sections[1].promised(); n != 2 || !ok || p.sections[1].count() != 2 || p.sections[1].scripts()[1].text != "b\n" || len(p.sections) != 3 {
		t.Errorf("%d %v %+v", n, ok, p.sections[1])
	}
}
