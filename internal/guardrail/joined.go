package guardrail

import "strings"

// JoinParts appends, to the parts of a conversation, what a model reads of its messages: the
// parts of one message after each other, and those of messages that follow each other and that a
// provider merges. A word that is divided between two parts is complete there. Parts
// without a neighbour have no such text.
func JoinParts(parts []Part) []Part {
	var run []int
	n := len(parts)
	for i := range n {
		p := &parts[i]
		if p.Kind != Text || p.Decoded || p.Text == "" {
			continue
		}
		if len(run) > 0 && !continues(&parts[run[len(run)-1]], p) {
			parts, run = appendRun(parts, run), nil
		}
		run = append(run, i)
	}
	return appendRun(parts, run)
}

// continues reports whether a model may read next as the continuation of p.
func continues(p, next *Part) bool {
	if p.Role != next.Role {
		return false
	}
	return p.Message == next.Message || p.Role == "user" || p.Role == "system" || p.Role == "developer"
}

// appendRun appends the joined text of parts, and that of the last message alone.
func appendRun(parts []Part, run []int) []Part {
	last := 0 // in run, of the last message
	for last < len(run) && parts[run[last]].Earlier {
		last++
	}
	if last > 0 && last < len(run) {
		parts = appendJoin(parts, run, true)
	}
	if last == len(run) {
		return appendJoin(parts, run, true)
	}
	return appendJoin(parts, run[last:], false)
}

func appendJoin(parts []Part, of []int, earlier bool) []Part {
	if len(of) < 2 {
		return parts
	}
	p := parts[of[len(of)-1]]
	p.Earlier, p.Joins = earlier, of
	p.Text = joinTexts(of, func(i int) string { return parts[i].Text })
	return append(parts, p)
}

func joinTexts(of []int, text func(int) string) string {
	var b strings.Builder
	for _, i := range of {
		b.WriteString(text(i))
	}
	return b.String()
}

// join sets what joins other parts, in the strings of a verdict, to the strings of these parts.
// It returns an error if the check changed one of them in another way, in text that begins in
// one part and ends in another.
func (in *Input) join(texts []string) error {
	for i := range in.Parts {
		p := &in.Parts[i]
		if p.Joins == nil {
			continue
		}
		joined := joinTexts(p.Joins, func(i int) string { return texts[i] })
		if texts[i] != p.Text && texts[i] != joined {
			return NewIncomplete("the check changes text that begins in one part of a message and ends in another, which the gateway cannot rewrite; send it in one part")
		}
		texts[i] = joined
	}
	return nil
}
