package chat

import (
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// detail is an element of reasoning_details.
// https://openrouter.ai/docs/use-cases/reasoning-tokens#preserving-reasoning-blocks
type detail struct {
	kind      string // last segment of the type: text, summary, encrypted
	text      string
	signature string
	id        string
	vendor    llm.Vendor
}

func readDetail(v jsonedit.Value) detail {
	word := func(name string) string { m, _ := v.Get(name); text, _ := m.Text(); return text }
	d := detail{kind: strings.TrimPrefix(word("type"), "reasoning."), id: word("id"), vendor: formatVendor(word("format"))}
	switch d.kind {
	case "text":
		d.text, d.signature = word("text"), word("signature")
	case "summary":
		d.text = word("summary")
	case "encrypted":
		d.signature = word("data")
	}
	return d
}

// formatVendor returns the vendor whose models accept a format. Older responses
// without a format come from Anthropic's models.
func formatVendor(format string) llm.Vendor {
	switch {
	case format == "", strings.HasPrefix(format, "anthropic"):
		return llm.Anthropic
	case strings.HasPrefix(format, "google"):
		return llm.Google
	case strings.HasPrefix(format, "openai"), strings.HasPrefix(format, "azure"):
		return llm.OpenAI
	}
	head, _, _ := strings.Cut(format, "-")
	return llm.Vendor(head)
}

func vendorFormat(v llm.Vendor) string {
	switch v {
	case llm.Anthropic:
		return "anthropic-claude-v1"
	case llm.Google:
		return "google-gemini-v1"
	case llm.OpenAI:
		return "openai-responses-v1"
	}
	return string(v) + "-responses-v1"
}

// opens reports whether d begins a new part. If not, it extends last, which is
// thinking unless fresh.
func (d *detail) opens(last *llm.Thinking) bool {
	switch {
	case last == nil || last.Redacted:
		return true
	case d.kind == "encrypted": // a summary by the vendor's model
		return !last.Summary || last.Signature.Value != ""
	}
	return last.Summary != (d.kind == "summary") || last.Signature.Value != "" && d.text != ""
}

func (d *detail) sign() llm.Signature {
	if d.signature == "" {
		return llm.Signature{}
	}
	return llm.Signature{Vendor: d.vendor, Value: d.signature}
}

// part returns d as a new part.
func (d *detail) part() llm.Thinking {
	return llm.Thinking{Text: d.text, Signature: d.sign(), ID: d.id, Summary: d.kind == "summary", Redacted: d.kind == "encrypted"}
}

// readDetails returns all thinking of a message. Pieces of a part are joined.
func readDetails(v jsonedit.Value) []llm.Part {
	var parts []llm.Part
	var last *llm.Thinking
	var text strings.Builder
	flush := func() {
		if last != nil {
			last.Text = text.String()
			parts = append(parts, *last)
			text.Reset()
		}
	}
	for e := range v.Elements() {
		d := readDetail(e)
		if d.text == "" && d.signature == "" {
			continue
		}
		if d.opens(last) {
			flush()
			last = &llm.Thinking{ID: d.id, Summary: d.kind == "summary", Redacted: d.kind == "encrypted"}
		}
		text.WriteString(d.text)
		if s := d.sign(); s.Vendor != "" {
			last.Signature = llm.Signature{Vendor: s.Vendor, Value: last.Signature.Value + s.Value}
		}
	}
	flush()
	return parts
}
