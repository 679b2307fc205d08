package checks

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"modelgate/internal/guardrail"
)

func transformChecks() []guardrail.Definition {
	return []guardrail.Definition{
		{
			ID: "default.regexReplace", On: both, Transforms: true, Compile: compileRegexReplace,
			Summary: "Always passes, unless `failOnDetection` is set and the pattern is found. Matches are replaced in each text.",
			Params: []guardrail.Param{
				required("rule", guardrail.String,
					"Regular expression in RE2 syntax, or `/pattern/flags` with the flags `g`, `i`, `m` and `s`; with flags but without `g` only the first match of each text is replaced."),
				param("redactText", guardrail.String, `"[REDACTED]"`, "Replacement."),
				param("failOnDetection", guardrail.Boolean, "false", "`true` fails the check if the pattern is found."),
			},
		},
		{
			ID: "default.addPrefix", On: before, All: true, Kinds: guardrail.Text, Transforms: true, Compile: compileAddPrefix,
			Summary: "Always passes. The prefix is put in front of the last message of the user, or of the first message of another role.",
			Params: []guardrail.Param{
				required("prefix", guardrail.String, "Text to add."),
				one("applyToRole", "Role of the message.", "user", "system", "assistant"),
				param("addToExisting", guardrail.Boolean, "true", "`false` adds a separate message."),
				param("onlyIfEmpty", guardrail.Boolean, "false",
					"`true` adds the prefix only if there is no message of the role, or if its text is empty."),
			},
		},
	}
}

// flagged is a pattern with the flags of JavaScript.
var flagged = regexp.MustCompile(`(?s)\A/(.+)/([a-z]*)\z`)

func compileRegexReplace(p *guardrail.Params) (guardrail.Compiled, error) {
	rule, first := p.String("rule"), false
	if m := flagged.FindStringSubmatch(rule); m != nil {
		flags := strings.NewReplacer("g", "", "u", "").Replace(m[2])
		if strings.Trim(flags, "ims") != "" {
			return guardrail.Compiled{}, &guardrail.ParamError{Path: "rule", Message: "must have only the flags g, i, m, s and u"}
		}
		first, rule = !strings.Contains(m[2], "g"), m[1]
		if flags != "" {
			rule = "(?" + flags + ")" + rule
		}
	}
	re, err := compilePattern("rule", rule)
	if err != nil {
		return guardrail.Compiled{}, err
	}
	if re.re.MatchString("") {
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "rule", Message: "must not match the empty string"}
	}
	replacement, failing := p.String("redactText"), p.Bool("failOnDetection")
	if len(replacement) > maxRedactText {
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "redactText", Message: fmt.Sprintf("must have at most %d bytes", maxRedactText)}
	}
	run := func(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		if len(in.Parts) == 0 {
			return guardrail.Verdict{}, errNoText
		}
		var spans []guardrail.Span
		matches := 0 // outside of joined parts
		for i, part := range in.Parts {
			if ctx.Err() != nil {
				return guardrail.Verdict{}, ctx.Err()
			}
			if err := re.check(part.Text, maxSteps/4); err != nil { // a single search cannot be interrupted
				return guardrail.Verdict{}, guardrail.NewIncomplete("text %d of %d: %v", i+1, len(in.Parts), err)
			}
			if !re.literal.in(part.Text) {
				continue
			}
			n := maxMatches + 1 - len(spans)
			if first {
				n = 1
			}
			found, err := re.findAll(ctx, part.Text, n)
			if err != nil {
				return guardrail.Verdict{}, err
			}
			for _, at := range found {
				spans = append(spans, guardrail.Span{Part: i, From: at[0], To: at[1]})
				if part.Joins == nil {
					matches++
				}
			}
			if len(spans) > maxMatches {
				break
			}
		}
		if err := holdReplaced(ctx, in, spans, len(replacement)); err != nil {
			return guardrail.Verdict{}, err
		}
		v := verdict(len(spans) == 0 || !failing, false, "", "matches were replaced", map[string]any{"matches": matches})
		v.Texts = replaceSpans(in.Parts, spans, func(guardrail.Span) string { return replacement })
		v.Spans = spans[:min(len(spans), maxSpans)]
		return v, nil
	}
	// With first, what was replaced in an earlier window matters.
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: first, Bytes: re.bytes}, Hold: re.hold, Transforms: true,
		History: !failing}, nil
}

// Limits of the replacements of a check.
const (
	maxRedactText = 4 << 10  // bytes of a replacement
	maxMatches    = 100_000  // that are replaced
	maxReplaced   = 32 << 20 // bytes after the replacements
	countedText   = 64 << 10 // bytes after the replacements from which they count as memory
)

// holdReplaced counts the memory of all parts with each span replaced by at most n bytes,
// before it is used. It returns an error if there are too many spans, too many
// bytes or no memory.
func holdReplaced(ctx context.Context, in *guardrail.Input, spans []guardrail.Span, n int) error {
	size := len(spans) * n
	for _, p := range in.Parts {
		size += len(p.Text)
	}
	for _, s := range spans {
		size -= s.To - s.From
	}
	switch {
	case len(spans) > maxMatches, size > maxReplaced:
		return guardrail.NewIncomplete("the text has more than %d matches, or more than %d bytes after they are replaced; send less text",
			maxMatches, maxReplaced)
	case len(spans) == 0, size <= countedText:
		return nil
	}
	if err := in.HoldMore(ctx, size); err != nil {
		return guardrail.NewIncomplete("there is no memory for the text after replacements: %v", err)
	}
	return nil
}

// replaceSpans returns the text of parts with their spans replaced, nil if there
// are none. The spans of a part are in order and do not overlap.
func replaceSpans(parts []guardrail.Part, spans []guardrail.Span, with func(guardrail.Span) string) []string {
	if len(spans) == 0 {
		return nil
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		n := 0
		for n < len(spans) && spans[n].Part == i {
			n++
		}
		if n == 0 {
			texts[i] = p.Text
			continue
		}
		var b strings.Builder
		past := 0
		for _, s := range spans[:n] {
			b.WriteString(p.Text[past:s.From])
			b.WriteString(with(s))
			past = s.To
		}
		b.WriteString(p.Text[past:])
		texts[i], spans = b.String(), spans[n:]
	}
	return texts
}

func compileAddPrefix(p *guardrail.Params) (guardrail.Compiled, error) {
	prefix, role, existing, ifEmpty := p.String("prefix"), p.String("applyToRole"), p.Bool("addToExisting"), p.Bool("onlyIfEmpty")
	if prefix == "" {
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "prefix", Message: "must not be empty"}
	}
	run := func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		at := -1
		for i, part := range in.Parts {
			if !hasRole(part.Role, role) {
				continue
			}
			// The first text of a message: of the last one for users.
			if at < 0 || role == "user" && part.Message != in.Parts[at].Message {
				at = i
			}
		}
		v := verdict(true, false, "", "the prefix was added", map[string]any{"role": role})
		switch {
		case in.Again && existing && at >= 0 && strings.HasPrefix(in.Parts[at].Text, prefix):
		case in.Again && !existing &&
			slices.ContainsFunc(in.Parts, func(p guardrail.Part) bool { return hasRole(p.Role, role) && strings.HasPrefix(p.Text, prefix) }):
		case at >= 0 && ifEmpty && strings.TrimSpace(in.Parts[at].Text) != "":
			v.Data.Explanation = "the message is not empty"
		case at >= 0 && existing:
			v.Texts = textsOf(in.Parts)
			v.Texts[at] = prefix + v.Texts[at]
		default:
			v.Add = []guardrail.Message{{Role: role, Text: prefix}}
		}
		return v, nil
	}
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: true}, Transforms: true}, nil
}

// hasRole compares roles. A text without a role, such as a prompt, is of the
// user; developer is another name of system.
func hasRole(of, want string) bool {
	return of == want || of == "" && want == "user" || of == "developer" && want == "system"
}

func textsOf(parts []guardrail.Part) []string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Text
	}
	return texts
}
