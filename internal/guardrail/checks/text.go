package checks

import (
	"context"
	"errors"
	"strings"

	"modelgate/internal/guardrail"
)

var (
	errNoText = errors.New("there is no text to check")
	// errNoRequired is the error of a check that would fail without text. A client could choose
	// that there is none, by sending it in another form.
	errNoRequired = guardrail.NewIncomplete("there is no text to check, and the check requires some; send it as text")
)

// noText returns the error of a check without text, which is required or not.
func noText(required bool) error {
	if required {
		return errNoRequired
	}
	return errNoText
}

// excerpt returns the beginning of a text for the data of a result: at most 100
// characters and an ellipsis.
func excerpt(text string) string {
	n := 0
	for i := range text {
		if n == 100 {
			return text[:i] + "…"
		}
		n++
	}
	return text
}

// verdict returns the verdict of a check with its data. inverted is the parameter
// not, and more has the fields that only this kind of check has.
func verdict(passed, inverted bool, text, explanation string, more map[string]any) guardrail.Verdict {
	passed = passed != inverted
	return guardrail.Verdict{Passed: passed, Data: &guardrail.Data{
		Verdict: passed, Not: inverted, Explanation: explanation, TextExcerpt: excerpt(text), More: more,
	}}
}

func textChecks() []guardrail.Definition {
	return []guardrail.Definition{
		{
			ID: "default.regexMatch", On: both, Compile: compileRegexMatch,
			Summary: "The pattern is found anywhere in the text.",
			Params:  []guardrail.Param{required("rule", guardrail.String, "Regular expression in RE2 syntax."), not},
		},
		{
			ID: "default.contains", On: both, Compile: compileContains,
			Summary: "The text contains any, all or none of the words; case matters.",
			Params: []guardrail.Param{required("words", guardrail.StringList, "Words or phrases."),
				one("operator", "How many of the words must occur.", "any", "all", "none"), not},
		},
	}
}

func compileContains(p *guardrail.Params) (guardrail.Compiled, error) {
	words, operator, inverted := p.Strings("words"), p.String("operator"), p.Bool("not")
	if len(words) == 0 {
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "words", Message: "must have at least one word"}
	}
	longest := 0
	for _, w := range words {
		longest = max(longest, len(w))
	}
	reach := guardrail.Reach{Complete: true}
	if operator == "none" && !inverted || operator == "any" && inverted {
		reach = guardrail.Reach{Bytes: longest}
	}
	starts := wordsByStart(words)
	run := func(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		if len(in.Parts) == 0 {
			return guardrail.Verdict{}, noText(inverted == (operator == "none"))
		}
		text := in.Text()
		if len(text) > maxSearched/len(words) {
			return guardrail.Verdict{},
				guardrail.NewIncomplete("the text has %d bytes, and %d words can be looked for in %d; send less text", len(text), len(words),
					maxSearched/len(words))
		}
		found, missing := []string{}, []string{}
		for _, w := range words {
			if ctx.Err() != nil {
				return guardrail.Verdict{}, ctx.Err()
			}
			if strings.Contains(text, w) {
				found = append(found, w)
			} else {
				missing = append(missing, w)
			}
		}
		var passed bool
		switch operator {
		case "any":
			passed = len(found) > 0
		case "all":
			passed = len(missing) == 0
		default:
			passed = len(found) == 0
		}
		v := verdict(passed, inverted, text, "operator "+operator+
			" of the words", map[string]any{"foundWords": found, "missingWords": missing, "operator": operator})
		for _, w := range found {
			v.Spans = appendSpans(v.Spans, in.Parts, w)
		}
		return v, nil
	}
	return guardrail.Compiled{Run: run, Reach: reach, Hold: func(text string) int { return holdWords(text, starts, longest) }}, nil
}

// maxSearched is the maximum of the bytes of a text times the number of words that are
// looked for in it, about a second.
const maxSearched = 4 << 30

// wordsByStart returns words by their first byte.
func wordsByStart(words []string) (starts [256][]string) {
	for _, w := range words {
		if w != "" {
			starts[w[0]] = append(starts[w[0]], w)
		}
	}
	return starts
}

// holdWords returns the index of the longest end of text that begins a word.
func holdWords(text string, starts [256][]string, longest int) int {
	for at := max(0, len(text)-longest); at < len(text); at++ {
		for _, w := range starts[text[at]] {
			if strings.HasPrefix(w, text[at:]) {
				return at
			}
		}
	}
	return len(text)
}

// maxSpans is the maximum number of places in a verdict.
const maxSpans = 1000

// appendSpans appends the places of a word.
func appendSpans(spans []guardrail.Span, parts []guardrail.Part, word string) []guardrail.Span {
	for i, p := range parts {
		for at := 0; len(spans) < maxSpans && word != ""; {
			n := strings.Index(p.Text[at:], word)
			if n < 0 {
				break
			}
			spans = append(spans, guardrail.Span{Part: i, From: at + n, To: at + n + len(word)})
			at += n + len(word)
		}
	}
	return spans
}
