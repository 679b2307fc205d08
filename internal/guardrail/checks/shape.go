package checks

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"modelgate/internal/guardrail"
)

func shapeChecks() []guardrail.Definition {
	return []guardrail.Definition{
		countCheck("default.sentenceCount", "Sentences", 99_999,
			"The number of sentences is within the limits. Each `.`, `!` and `?` ends a sentence.", countSentences),
		countCheck("default.wordCount", "Words", 99_999, "The number of words, separated by white space, is within the limits.", countWords),
		countCheck("default.characterCount", "Characters", 9_999_999, "The length in UTF-16 code units is within the limits.", countCharacters),
		caseCheck("default.alluppercase", []string{"allUppercase"}, "All letters from a to z are in upper case.",
			func(c byte) bool { return c >= 'a' && c <= 'z' }),
		caseCheck("default.alllowercase", []string{"allLowercase"}, "All letters from a to z are in lower case.",
			func(c byte) bool { return c >= 'A' && c <= 'Z' }),
		{
			ID: "default.endsWith", On: both, Kinds: guardrail.Prose, Compile: compileEndsWith,
			Summary: "The text ends with the suffix, or with the suffix and a full stop.",
			Params:  []guardrail.Param{required("suffix", guardrail.String, "End of the text."), not},
		},
		{
			ID: "default.notNull", On: after, Compile: compileNotNull,
			Summary: "The response has text that is not empty, or a tool call.",
			Params:  []guardrail.Param{not},
		},
		{
			ID: "default.containsCode", On: both, Kinds: guardrail.Prose, Compile: compileContainsCode,
			Summary: "The text has a fenced code block that is labelled with the language.",
			Params: []guardrail.Param{{Name: "format", Type: guardrail.String, Required: true, Enum: languages,
				Doc: "Language of the block."}, not},
		},
	}
}

// countCheck defines a check that counts something in the text.
func countCheck(id, what string, most int, summary string, count func(text string) (int, error)) guardrail.Definition {
	low, high := "min"+what, "max"+what
	return guardrail.Definition{
		ID: id, On: both, Kinds: guardrail.Prose, Summary: summary,
		Params: []guardrail.Param{
			param(low, guardrail.Integer, "0", "Minimum."),
			param(high, guardrail.Integer, number(most), "Maximum."), not,
		},
		Compile: func(p *guardrail.Params) (guardrail.Compiled, error) {
			least, most, inverted := int(p.Number(low)), int(p.Number(high)), p.Bool("not")
			if least < 0 || least > most {
				return guardrail.Compiled{}, &guardrail.ParamError{Path: low, Message: "must be from 0 to " + high}
			}
			run := func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
				if len(in.Parts) == 0 {
					return guardrail.Verdict{}, noText(least > 0 && !inverted)
				}
				text := in.Text()
				n, err := count(text)
				if err != nil {
					return guardrail.Verdict{}, noText(least > 0 && !inverted)
				}
				return verdict(n >= least && n <= most, inverted, text, "the number of "+strings.ToLower(what)+" is "+number(n),
					map[string]any{strings.ToLower(what[:len(what)-1]) + "Count": n, low: least, high: most}), nil
			}
			return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: true}}, nil
		},
	}
}

func countSentences(text string) (int, error) {
	n := 0
	for i := range len(text) {
		if c := text[i]; c == '.' || c == '!' || c == '?' {
			n++
		}
	}
	return n, nil
}

func countWords(text string) (n int, err error) {
	inside := false
	for _, r := range text {
		if unicode.IsSpace(r) {
			inside = false
		} else if !inside {
			inside = true
			n++
		}
	}
	if n == 0 {
		return 0, errNoText
	}
	return n, nil
}

func countCharacters(text string) (int, error) {
	n := 0
	for _, r := range text {
		n++
		if r > 0xffff {
			n++ // a surrogate pair
		}
	}
	return n, nil
}

// caseCheck defines a check that fails if the text has a letter of the other
// case.
func caseCheck(id string, aliases []string, summary string, wrong func(c byte) bool) guardrail.Definition {
	return guardrail.Definition{
		ID: id, On: both, Kinds: guardrail.Prose, Summary: summary, Params: []guardrail.Param{not},
		Compile: func(p *guardrail.Params) (guardrail.Compiled, error) {
			inverted := p.Bool("not")
			run := func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
				text := in.Text()
				if text == "" {
					return guardrail.Verdict{}, errNoText
				}
				passed := true
				for i := range len(text) {
					if wrong(text[i]) {
						passed = false
						break
					}
				}
				return verdict(passed, inverted, text, "letters of the other case were looked for", nil), nil
			}
			return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: inverted}}, nil
		},
	}
}

func compileEndsWith(p *guardrail.Params) (guardrail.Compiled, error) {
	suffix, inverted := p.String("suffix"), p.Bool("not")
	if suffix == "" {
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "suffix", Message: "must not be empty"}
	}
	run := func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		text := in.Text()
		if text == "" {
			return guardrail.Verdict{}, noText(!inverted)
		}
		passed := strings.HasSuffix(text, suffix) || strings.HasSuffix(text, suffix+".")
		return verdict(passed, inverted, text, "the end of the text was compared", map[string]any{"suffix": excerpt(suffix)}), nil
	}
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: true}}, nil
}

func compileNotNull(p *guardrail.Params) (guardrail.Compiled, error) {
	inverted := p.Bool("not")
	run := func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		text, call := "", false
		for _, part := range in.Parts {
			call = call || part.Kind == guardrail.ToolArguments
			if part.Kind != guardrail.Thinking && text == "" {
				text = strings.TrimSpace(part.Text)
			}
		}
		if call {
			return verdict(true, false, "", "the response has a tool call", nil), nil
		}
		return verdict(text != "", inverted, text, "the text of the response was looked for", nil), nil
	}
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: true}}, nil
}

// languages are the values of the parameter format of containsCode.
var languages = []string{"SQL", "Python", "TypeScript", "JavaScript", "Java", "C#", "C++", "C", "Ruby", "PHP", "Swift", "Kotlin",
	"Go", "Rust", "Scala", "R", "Perl", "Shell", "HTML", "CSS", "XML", "JSON", "YAML", "Markdown", "Dockerfile"}

// labels are the languages of further labels of code blocks.
var labels = map[string]string{
	"py": "python", "python3": "python", "ts": "typescript", "tsx": "typescript", "js": "javascript", "jsx": "javascript",
	"node": "javascript", "mjs": "javascript",
	"cs": "c#", "csharp": "c#", "cpp": "c++", "cc": "c++", "cxx": "c++", "h": "c", "rb": "ruby", "kt": "kotlin", "golang": "go", "rs": "rust",
	"pl": "perl", "sh": "shell", "bash": "shell", "zsh": "shell", "console": "shell", "htm": "html", "yml": "yaml", "md": "markdown",
	"docker":     "dockerfile",
	"postgresql": "sql", "mysql": "sql", "sqlite": "sql", "jsonc": "json", "json5": "json",
}

func compileContainsCode(p *guardrail.Params) (guardrail.Compiled, error) {
	format, inverted := p.String("format"), p.Bool("not")
	run := func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		text := in.Text()
		if text == "" {
			return guardrail.Verdict{}, noText(!inverted)
		}
		passed := false
		for _, b := range codeBlocks(text) {
			label := b.label
			if l := labels[label]; l != "" {
				label = l
			}
			passed = passed || label == strings.ToLower(format)
		}
		return verdict(passed, inverted, text, "fenced code blocks were searched", map[string]any{"format": format}), nil
	}
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: true}}, nil
}

// codeBlock is a fenced code block. label is in lower case, empty if there is
// none.
type codeBlock struct{ label, text string }

// maxBlocks is the maximum number of code blocks of a text that are read.
const maxBlocks = 1000

// codeBlocks returns the fenced code blocks of a text. A block without an end
// ends with the text.
// https://spec.commonmark.org/0.31.2/#fenced-code-blocks
func codeBlocks(text string) (list []codeBlock) {
	open, start, label := "", 0, ""
	for at := 0; at < len(text) && len(list) < maxBlocks; {
		end := strings.IndexByte(text[at:], '\n')
		next := at + end + 1
		if end < 0 {
			next = len(text)
		}
		line := strings.TrimSpace(text[at:next])
		switch {
		case open == "" && (strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")):
			fence := line[:len(line)-len(strings.TrimLeft(line, line[:1]))]
			label, _, _ = strings.Cut(strings.TrimSpace(line[len(fence):]), " ")
			if !strings.Contains(label, "`") {
				open, start, label = fence, next, strings.ToLower(label)
			}
		case open != "" && strings.HasPrefix(line, open) && strings.Trim(line, open[:1]) == "":
			list, open = append(list, codeBlock{label, text[start:at]}), ""
		}
		at = next
	}
	if open != "" {
		list = append(list, codeBlock{label, text[start:]})
	}
	return list
}

// firstRunes returns at most n bytes of text, cut between characters.
func firstRunes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
