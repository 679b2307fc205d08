package guarding

import (
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
)

const (
	// minCopy is the length in bytes from which a value of structured content is looked for in
	// other text. A shorter one is found everywhere.
	minCopy = 4
	// maxCopyWork limits the bytes that are searched.
	maxCopyWork = 1 << 28
	// redacted replaces a value whose copy in a text was removed together with text around it.
	redacted = "[redacted]"
)

// alignCopies changes, in the parts of a result that hooks have changed, the copies of what
// they have changed: servers repeat their structured content as text. A check may find a
// value in one of the two alone, such as a pattern that needs the name before the value, or
// nothing around it.
func alignCopies(texts []bodytext.Text, after []guardrail.Part) error {
	c := copies{texts: texts, after: after}
	for i := range texts {
		if t := &texts[i]; t.Data && !t.Decoded && len(t.Value) >= minCopy {
			if after[i].Text != t.Value {
				c.replace(i)
			} else {
				c.redactMissing(i)
			}
		}
	}
	if c.work > maxCopyWork {
		return apierr.New(apierr.Denied, "a guardrail changes the result, which has too many values to find their copies; remove the guardrail's change, or make the tool return less").
			WithCode(codeResponseUnchecked)
	}
	return nil
}

// copies are the strings of a result, before and after hooks changed them.
type copies struct {
	texts []bodytext.Text
	after []guardrail.Part
	work  int
}

// spend counts the search of a text, and returns false if there were too many.
func (c *copies) spend(n int) bool {
	c.work += n
	return c.work <= maxCopyWork
}

// replace replaces the copies of value i, which was changed.
func (c *copies) replace(i int) {
	before, now := c.texts[i].Value, c.after[i].Text
	for j := range c.texts {
		if p := &c.after[j]; !c.texts[j].Data && c.spend(len(p.Text)) {
			p.Text = strings.ReplaceAll(p.Text, before, now)
			if escaped := escapedText(before); escaped != before {
				p.Text = strings.ReplaceAll(p.Text, escaped, escapedText(now))
			}
		}
	}
}

// redactMissing redacts value i, which was not changed, if its copy was removed from a text.
func (c *copies) redactMissing(i int) {
	value, escaped := c.texts[i].Value, escapedText(c.texts[i].Value)
	has := func(text string) bool { return strings.Contains(text, value) || strings.Contains(text, escaped) }
	for j := range c.texts {
		t, p := &c.texts[j], &c.after[j]
		if !t.Data && p.Text != t.Value && c.spend(2*len(t.Value)+2*len(p.Text)) && has(t.Value) && !has(p.Text) {
			c.after[i].Text = redacted
			return
		}
	}
}

// escapedText returns a text as it is within a string of JSON.
func escapedText(text string) string {
	quoted := jsonedit.AppendString(nil, text)
	return string(quoted[1 : len(quoted)-1])
}
