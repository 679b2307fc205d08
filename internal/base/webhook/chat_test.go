package webhook_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"modelgate/internal/base/webhook"
)

// hostile is text that would notify people, hide a link or change what is around it.
const hostile = "<!channel> <https://evil.example|invoice> <@U1> *b* [x](https://evil.example) @here & \u202Egnp\x00\n\xff"

// texts returns all strings of a JSON value by the type of the object that they are in.
func texts(v any, of string, list map[string][]string) {
	switch v := v.(type) {
	case map[string]any:
		if t, ok := v["type"].(string); ok {
			of = t
		}
		for k, part := range v {
			if text, ok := part.(string); ok && k == "text" {
				list[of] = append(list[of], text)
			}
			texts(part, of, list)
		}
	case []any:
		for _, part := range v {
			texts(part, of, list)
		}
	}
}

func encode(t *testing.T, n *webhook.Note, f webhook.Format) (body []byte, by map[string][]string) {
	t.Helper()
	body = n.Encode(f)
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	by = map[string][]string{}
	texts(v, "", by)
	return body, by
}

func TestSlackShowsHostileTextAsItIs(t *testing.T) {
	n := &webhook.Note{Title: hostile, Text: hostile, Facts: []webhook.Fact{{Name: hostile, Value: hostile}}}
	_, by := encode(t, n, webhook.Slack)
	if len(by["plain_text"]) != 3 || len(by[""]) != 1 {
		t.Fatalf("the strings are %q", by)
	}
	for kind, list := range by {
		for _, text := range list {
			if kind != "" && kind != "plain_text" { // others are formatted
				t.Errorf("a text of the kind %s", kind)
			}
			if strings.ContainsAny(text, "<>\n\x00\u202E") || !strings.Contains(text, "&lt;!channel&gt;") || !strings.Contains(text, "@here &amp; ") {
				t.Errorf("the text is %q", text)
			}
		}
	}
}

func TestTeamsShowsHostileTextAsItIs(t *testing.T) {
	n := &webhook.Note{Title: hostile, Text: hostile, Facts: []webhook.Fact{{Name: hostile, Value: hostile}}}
	body, by := encode(t, n, webhook.Teams)
	if len(by) != 1 || len(by["TextRun"]) != 4 { // TextBlock and FactSet would read Markdown
		t.Errorf("the strings are %q", by)
	}
	for _, text := range by["TextRun"] {
		if strings.ContainsAny(text, "\n\x00\u202E") || !strings.Contains(text, "<!channel>") {
			t.Errorf("the text is %q", text)
		}
	}
	var sent struct {
		Type        string
		Attachments []struct {
			ContentType string
			Content     struct{ Type, Version string }
		}
	}
	if err := json.Unmarshal(body, &sent); err != nil || sent.Type != "message" || len(sent.Attachments) != 1 ||
		sent.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" || sent.Attachments[0].Content.Type != "AdaptiveCard" {
		t.Errorf("the message is %s, %v", body, err)
	}
}

// Slack rejects a message with a longer header or more fields, Teams one of more than 28 KB.
func TestLongNotesFit(t *testing.T) {
	n := &webhook.Note{Title: strings.Repeat("<ä", 5000), Text: strings.Repeat("😀", 5000)}
	for i := range 100 {
		n.Facts = append(n.Facts, webhook.Fact{Name: fmt.Sprint("fact ", i), Value: strings.Repeat("<😀", 5000)})
	}
	body, _ := encode(t, n, webhook.Teams)
	if len(body) > 28<<10 {
		t.Errorf("%d bytes for Teams", len(body))
	}
	var sent struct {
		Blocks []struct {
			Type   string
			Text   struct{ Text string }
			Fields []struct{ Text string }
		}
	}
	body, by := encode(t, n, webhook.Slack)
	if err := json.Unmarshal(body, &sent); err != nil || len(by["plain_text"]) != 18 {
		t.Fatalf("%d texts, %v", len(by["plain_text"]), err)
	}
	for _, b := range sent.Blocks {
		if b.Type == "header" && utf8.RuneCountInString(strings.NewReplacer("&lt;", "<").Replace(b.Text.Text)) > 150 || len(b.Fields) > 10 {
			t.Errorf("%s has %d characters and %d fields", b.Type, utf8.RuneCountInString(b.Text.Text), len(b.Fields))
		}
		for _, f := range b.Fields {
			if utf8.RuneCountInString(f.Text) > 2000 {
				t.Errorf("a field has %d characters", utf8.RuneCountInString(f.Text))
			}
		}
	}
}
