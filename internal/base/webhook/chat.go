package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Format is the form of a message. The zero value is that of the sender, signed as Standard
// Webhooks describes.
type Format string

// Formats of chat programs. They are signed too if there is a secret, but the programs do not
// verify it: the address is what keeps others from posting.
const (
	Slack Format = "slack"
	Teams Format = "teams"
)

// CheckFormat returns an error for an unknown format.
func CheckFormat(f Format) error {
	if f != "" && f != Slack && f != Teams {
		return fmt.Errorf("must be %s or %s, or left out for JSON", Slack, Teams)
	}
	return nil
}

// Limits of a [Note]: of a string in characters, and of the number of facts. They are below those of
// Slack (150 of a header, 2000 of a field, 10 fields of a section) and keep a message for Teams
// below its 28 KB.
const (
	maxTitle = 140
	maxText  = 300
	maxFacts = 16
	perPart  = 10
)

// Note is a message for people. Its strings may be hostile: they are shown as they are, and
// cannot be a mention, a link or formatting.
type Note struct {
	Title string
	Text  string // a sentence; may be empty
	Facts []Fact
}

// Fact is a line of a [Note].
type Fact struct{ Name, Value string }

// NameWithID returns a name and its id in brackets, or the id if the name is empty.
func NameWithID(name, id string) string {
	if name == "" || id == "" {
		return id
	}
	return name + " (" + id + ")"
}

// Encode returns the JSON that a chat program takes. The format must be one of the constants.
func (n *Note) Encode(f Format) []byte {
	short := Note{Title: clip(n.Title, maxTitle), Text: clip(n.Text, maxText)}
	for _, fact := range n.Facts[:min(len(n.Facts), maxFacts)] {
		short.Facts = append(short.Facts, Fact{clip(fact.Name, maxText), clip(fact.Value, maxText)})
	}
	body := short.slack()
	if f == Teams {
		body = short.teams()
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // which would make texts six times as long
	if err := e.Encode(body); err != nil {
		panic(err) // maps of strings
	}
	return bytes.TrimSpace(b.Bytes())
}

// clip returns at most n characters of a text on one line, without characters that do not
// show or change the direction of others.
func clip(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == unicode.ReplacementChar, !unicode.IsPrint(r): // control and format characters too
			return '\uFFFD'
		}
		return r
	}, text)
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}

type object = map[string]any

// escapeSlack escapes what begins a mention, a link or a command of Slack.
// https://docs.slack.dev/messaging/formatting-message-text#escaping
var escapeSlack = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slack returns the message for an incoming webhook of Slack. Its blocks have plain text, in
// which nothing is formatted; the other text is for notifications.
// https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
func (n *Note) slack() object {
	plain := func(text string) object {
		return object{"type": "plain_text", "text": escapeSlack.Replace(text), "emoji": false}
	}
	blocks := []object{{"type": "header", "text": plain(n.Title)}}
	if n.Text != "" {
		blocks = append(blocks, object{"type": "section", "text": plain(n.Text)})
	}
	for part := range slices.Chunk(n.Facts, perPart) {
		fields := make([]object, len(part))
		for i, f := range part {
			fields[i] = plain(f.Name + ": " + f.Value)
		}
		blocks = append(blocks, object{"type": "section", "fields": fields})
	}
	return object{"text": escapeSlack.Replace(n.Title), "unfurl_links": false, "unfurl_media": false, "blocks": blocks}
}

// teams returns the message for a workflow of Teams that posts a card. Text runs are not
// formatted, as the text of other elements would be.
// https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using
func (n *Note) teams() object {
	block := func(runs ...object) object { return object{"type": "RichTextBlock", "inlines": runs} }
	run := func(text string) object { return object{"type": "TextRun", "text": text} }
	title := run(n.Title)
	title["weight"], title["size"] = "Bolder", "Medium"
	body := []object{block(title)}
	if n.Text != "" {
		body = append(body, block(run(n.Text)))
	}
	for _, f := range n.Facts {
		name := run(f.Name + ": ")
		name["isSubtle"] = true
		body = append(body, block(name, run(f.Value)))
	}
	return object{"type": "message", "attachments": []object{{
		"contentType": "application/vnd.microsoft.card.adaptive",
		"contentUrl":  nil,
		"content": object{
			"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": body,
		},
	}}}
}
