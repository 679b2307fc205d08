package prompt

import (
	"strings"

	"modelgate/internal/base/apierr"
)

const (
	maxNesting = 32  // sections inside sections
	maxName    = 255 // bytes of a variable's or partial's name
)

// kind is what a node of a template does.
type kind byte

const (
	literal  kind = 't'
	variable kind = 'v'
	section  kind = '#'
	inverted kind = '^'
	partial  kind = '>'
	named    kind = 'n' // the partial that a variable names
)

// node is a piece of a template. Text is a literal's text or a name.
type node struct {
	kind  kind
	text  string
	inner []node // of sections
}

// template is a parsed text. It is immutable.
type template []node

// parse reads a template: Mustache without a change of delimiters. An error is
// an *apierr.Error that says where the text goes wrong.
func parse(text string) (template, error) {
	p := parser{text: text, levels: []level{{}}}
	for p.at < len(text) {
		if err := p.step(); err != nil {
			return nil, err
		}
	}
	if open := p.levels[len(p.levels)-1]; len(p.levels) > 1 {
		return nil, p.fault(open.from, "the section %.60q is not closed", open.name)
	}
	return p.levels[0].nodes, nil
}

type parser struct {
	text   string
	at     int
	levels []level // sections that are open, the innermost last
}

type level struct {
	kind  kind
	name  string
	from  int
	nodes []node
}

func (p *parser) fault(at int, format string, args ...any) error {
	line := 1 + strings.Count(p.text[:at], "\n")
	return apierr.New(apierr.Invalid, "line %d of a template: "+format, append([]any{line}, args...)...).WithCode("invalid_template")
}

// step takes the text up to the next tag, and the tag.
func (p *parser) step() error {
	rest := p.text[p.at:]
	i := strings.Index(rest, "{{")
	if i < 0 {
		p.add(literal, rest)
		p.at = len(p.text)
		return nil
	}
	from := p.at + i
	sigil, name, end, err := p.tag(from)
	if err != nil {
		return err
	}
	before := rest[:i]
	if strings.IndexByte("#^/!", sigil) >= 0 {
		if start, next, alone := p.alone(from, end); alone {
			before, end = p.text[p.at:start], next
		}
	}
	p.add(literal, before)
	p.at = end
	return p.take(sigil, name, from)
}

// tag reads the tag that begins at from: its sigil, zero for a variable, its
// name and where it ends.
func (p *parser) tag(from int) (sigil byte, name string, end int, err error) {
	inner, closing := p.text[from+2:], "}}"
	if strings.HasPrefix(inner, "{") {
		inner, closing = inner[1:], "}}}"
	}
	n := strings.Index(inner, closing)
	if n < 0 {
		return 0, "", 0, p.fault(from, "a tag is not closed with %s", closing)
	}
	end = len(p.text) - len(inner) + n + len(closing)
	name = strings.TrimSpace(inner[:n])
	if name != "" && strings.IndexByte("#^/>!&=", name[0]) >= 0 {
		sigil, name = name[0], strings.TrimSpace(name[1:])
	}
	switch {
	case sigil == '!':
		return sigil, "", end, nil
	case sigil == '=':
		return 0, "", 0, p.fault(from, "other delimiters than {{ and }} are not offered")
	case name == "" || strings.Contains(name, "{{"):
		return 0, "", 0, p.fault(from, "a tag has no name or is not closed")
	case len(name) > maxName:
		return 0, "", 0, p.fault(from, "a name has more than %d bytes", maxName)
	}
	return sigil, name, end, nil
}

// alone reports whether a tag is the only text on its line, which is then removed with the
// tag: from start to next.
func (p *parser) alone(from, end int) (start, next int, alone bool) {
	start = len(strings.TrimRight(p.text[:from], " \t"))
	rest := strings.TrimLeft(p.text[end:], " \t\r")
	next = len(p.text) - len(rest)
	if start < p.at || start > 0 && p.text[start-1] != '\n' || rest != "" && rest[0] != '\n' {
		return 0, 0, false
	}
	return start, min(next+1, len(p.text)), true
}

func (p *parser) add(k kind, text string) {
	if text == "" {
		return
	}
	top := &p.levels[len(p.levels)-1]
	top.nodes = append(top.nodes, node{kind: k, text: text})
}

func (p *parser) take(sigil byte, name string, from int) error {
	switch sigil {
	case 0, '&':
		p.add(variable, name)
	case '>':
		if inner, ok := strings.CutPrefix(name, ">"); ok {
			if name = strings.TrimSpace(inner); name == "" {
				return p.fault(from, "a tag has no name")
			}
			p.add(named, name)
			return nil
		}
		p.add(partial, name)
	case '#', '^':
		if len(p.levels) > maxNesting {
			return p.fault(from, "sections are nested more than %d deep", maxNesting)
		}
		p.levels = append(p.levels, level{kind: kind(sigil), name: name, from: from})
	case '/':
		return p.close(name, from)
	}
	return nil
}

// close ends the innermost section.
func (p *parser) close(name string, from int) error {
	open := p.levels[len(p.levels)-1]
	if len(p.levels) == 1 || open.name != name {
		return p.fault(from, "the section %.60q is closed where it is not open", name)
	}
	p.levels = p.levels[:len(p.levels)-1]
	above := &p.levels[len(p.levels)-1]
	above.nodes = append(above.nodes, node{open.kind, open.name, open.nodes})
	return nil
}
