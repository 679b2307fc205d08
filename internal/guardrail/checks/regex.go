package checks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"

	"modelgate/config"
	"modelgate/internal/guardrail"
)

// maxProgram is the maximum number of instructions of a compiled pattern.
// Matching takes at most this number of steps for each byte of a text.
const maxProgram = 5000

// unboundedMatch is the look-behind of patterns whose matches have no maximum
// length. Longer matches can be missed at the border of a window.
const unboundedMatch = 1024

// pattern is a compiled regular expression.
type pattern struct {
	re    *regexp.Regexp
	size  int // instructions
	bytes int // length of the longest match, at most unboundedMatch
	// partial matches the end of a text that may be the beginning of a match. Nil
	// if it would be too large.
	partial *regexp.Regexp
	literal literal // in every match
}

// compilePattern compiles the regular expression of a parameter.
func compilePattern(name, rule string) (*pattern, error) {
	if len(rule) > config.MaxPattern {
		return nil, &guardrail.ParamError{Path: name, Message: fmt.Sprintf("must be at most %d bytes long", config.MaxPattern)}
	}
	if rule == "" {
		return nil, &guardrail.ParamError{Path: name, Message: "must not be empty"}
	}
	parsed, err := syntax.Parse(rule, syntax.Perl)
	if err != nil {
		var detail *syntax.Error
		if errors.As(err, &detail) {
			return nil, &guardrail.ParamError{Path: name,
				Message: fmt.Sprintf("must be a regular expression in RE2 syntax: %s: %.60q", detail.Code, detail.Expr)}
		}
		return nil, &guardrail.ParamError{Path: name, Message: "must be a regular expression in RE2 syntax"}
	}
	longest := longestMatch(parsed)
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, &guardrail.ParamError{Path: name,
			Message: fmt.Sprintf("must compile to at most %d instructions; use smaller repetitions", maxProgram)}
	}
	re, err := regexp.Compile(rule)
	if err != nil {
		return nil, &guardrail.ParamError{Path: name, Message: "must be a regular expression in RE2 syntax"}
	}
	return &pattern{re: re, size: len(program.Inst), bytes: longest, partial: compilePartial(parsed), literal: requiredLiteral(parsed)}, nil
}

// hold returns the index from which text may be the beginning of a match.
func (p *pattern) hold(text string) int {
	if p.partial == nil {
		return max(0, len(text)-p.bytes)
	}
	from := max(0, len(text)-p.bytes)
	return from + p.partial.FindStringIndex(text[from:])[0] // matches at least the empty end
}

// longestMatch returns the length of the longest match in bytes, at most
// unboundedMatch.
func longestMatch(re *syntax.Regexp) int {
	n := 0
	switch re.Op {
	case syntax.OpLiteral:
		n = 4 * len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		n = 4
	case syntax.OpStar, syntax.OpPlus:
		return unboundedMatch
	case syntax.OpQuest, syntax.OpCapture:
		n = longestMatch(re.Sub[0])
	case syntax.OpRepeat:
		if re.Max < 0 {
			return unboundedMatch
		}
		n = re.Max * longestMatch(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			n += longestMatch(sub)
		}
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			n = max(n, longestMatch(sub))
		}
	case syntax.OpWordBoundary, syntax.OpNoWordBoundary, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText:
		n = 4 // looks at the next character
	}
	return min(n, unboundedMatch)
}

// check returns an error if matching the text could take more than a number of steps.
func (p *pattern) check(text string, most int64) error {
	if int64(len(text))*int64(p.size) > most {
		return guardrail.NewIncomplete("the text has %d bytes, and the regular expression can read %d of them; shorten the text or simplify the expression", len(text), most/int64(p.size))
	}
	return nil
}

// maxSteps is the maximum number of steps of a pattern on a text, some seconds:
// 10 MB with a pattern of 100 instructions.
const maxSteps = 1_000_000_000

// find returns the first match with its groups, nil if there is none, and an error once
// ctx has ended.
func (p *pattern) find(ctx context.Context, text string) ([]int, error) {
	if p.isQuick(text) {
		return p.re.FindStringSubmatchIndex(text), nil
	}
	found := p.re.FindReaderSubmatchIndex(&endingReader{ctx: ctx, text: strings.NewReader(text)})
	return found, ctx.Err()
}

// quickSteps is the number of steps, some hundred milliseconds, up to which a search need
// not be interrupted.
const quickSteps = 10_000_000

// isQuick reports whether a search need not be interrupted.
func (p *pattern) isQuick(text string) bool { return len(text)*p.size <= quickSteps }

// findAll returns the places of the first n matches, and an error once ctx has ended. A search
// for several matches cannot be interrupted, and can read the rest of the text for each.
// So it is made again for twice as many as before, which takes about twice as long.
func (p *pattern) findAll(ctx context.Context, text string, n int) ([][]int, error) {
	if len(text) <= quickText && p.isQuick(text) {
		return p.re.FindAllStringIndex(text, n), nil
	}
	for some := 1; ; some *= 2 {
		found := p.re.FindAllStringIndex(text, min(some, n))
		if ctx.Err() != nil || len(found) < some || some >= n {
			return found, ctx.Err()
		}
	}
}

// quickText is the length of a text up to which all matches may be searched for at once.
const quickText = 4 << 10

// endingReader reads a text until a context ends: a search in a string cannot be
// interrupted.
type endingReader struct {
	ctx  context.Context // for one search
	text *strings.Reader
	read int
}

// ReadRune implements io.RuneReader.
func (r *endingReader) ReadRune() (rune, int, error) {
	if r.read++; r.read%quickText == 0 && r.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	return r.text.ReadRune()
}

func compileRegexMatch(p *guardrail.Params) (guardrail.Compiled, error) {
	rule, err := compilePattern("rule", p.String("rule"))
	if err != nil {
		return guardrail.Compiled{}, err
	}
	inverted := p.Bool("not")
	reach := guardrail.Reach{Complete: true}
	if inverted {
		reach = guardrail.Reach{Bytes: rule.bytes}
	}
	run := func(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		text := in.Text()
		if text == "" {
			return guardrail.Verdict{}, noText(!inverted)
		}
		if err := rule.check(text, maxSteps); err != nil {
			return guardrail.Verdict{}, err
		}
		var found []int
		var err error
		if rule.literal.in(text) {
			if found, err = rule.find(ctx, text); err != nil {
				return guardrail.Verdict{}, err
			}
		}
		if found == nil {
			return verdict(false, inverted, text, "the pattern was not found", nil), nil
		}
		groups := map[string]any{}
		for i, name := range rule.re.SubexpNames() {
			if name != "" && found[2*i] >= 0 {
				groups[name] = excerpt(text[found[2*i]:found[2*i+1]])
			}
		}
		v := verdict(true, inverted, text, "the pattern was found", map[string]any{
			"matchedText": excerpt(text[found[0]:found[1]]), "index": found[0], "groups": groups})
		if len(text) <= window { // places of a longer text would be a second search
			v.Spans = rule.spans(ctx, in.Parts)
		}
		return v, nil
	}
	return guardrail.Compiled{Run: run, Reach: reach, Hold: rule.hold}, nil
}

// spans returns the places of the pattern, at most maxSpans, and fewer if ctx ends.
func (p *pattern) spans(ctx context.Context, parts []guardrail.Part) (spans []guardrail.Span) {
	for i, part := range parts {
		found, _ := p.findAll(ctx, part.Text, maxSpans-len(spans))
		for _, at := range found {
			spans = append(spans, guardrail.Span{Part: i, From: at[0], To: at[1]})
		}
	}
	return spans
}
