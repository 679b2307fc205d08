package bodytext_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/format/bodytext"
)

// What an object says about its text applies wherever it says so.
func TestMembersApplyToTextBeforeThem(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		form       bodytext.Form
		want       []string // role, kind and value
		uncovered  []string
	}{
		{"role", `{"messages":[{"content":"a","role":"user"},{"content":[{"text":"b","type":"text"}],"role":"assistant"},{"content":"c"}]}`,
			bodytext.Request, []string{"user text a", "assistant text b", " text c"}, nil},
		{"role of the inner object", `{"messages":[{"content":[{"content":"a","role":"tool"},{"text":"b"}],"role":"user"}]}`,
			bodytext.Request, []string{"tool text a", "user text b"}, nil},
		{"system prompt", `{"system":[{"text":"a"}],"messages":[{"content":"b","role":"user"}]}`,
			bodytext.Request, []string{"system text a", "user text b"}, nil},
		{"thinking", `{"content":[{"text":"a","type":"reasoning_text"},{"text":"b","thought":true},{"text":"c"}]}`,
			bodytext.Request, []string{" thinking a", " thinking b", " text c"}, nil},
		{"input of a call", `{"content":[{"input":"a","type":"custom_tool_call"},{"input":"b","type":"message"}]}`,
			bodytext.Request, []string{" arguments a", " text b"}, nil},
		{"input of a call inside thinking", `{"content":[{"content":[{"input":"a","type":"tool_use"}],"type":"thinking"}]}`,
			bodytext.Request, []string{" arguments a"}, nil},
		{"document", `{"content":[{"source":{"data":"a","type":"text"}},{"source":{"data":"b","type":"base64"}}]}`,
			bodytext.Request, []string{" text a"}, []string{"media"}},
		{"document of parts", `{"content":[{"source":{"data":{"text":"a"},"type":"other"}}]}`,
			bodytext.Request, []string{" text a"}, []string{"media"}},
		{"redacted thinking", `{"content":[{"data":"` + strings.Repeat("a", 100) + `","type":"redacted_thinking"}]}`, bodytext.Request, nil, []string{"encrypted"}},
		{"title of a schema", `{"content":[{"title":"a","text":"b","type":"object"},{"title":"c","type":"document"}]}`,
			bodytext.Request, []string{" text b", " text c"}, nil},
		{"last of several", `{"content":[{"text":"a","type":"thinking","type":"text"}]}`, bodytext.Request, []string{" text a"}, nil},
		{"names in capitals", `{"Messages":[{"CONTENT":[{"Type":"thinking","Text":"a"}],"Role":"user"}]}`, bodytext.Request, []string{"user thinking a"}, nil},
		{"escaped names", `{"mess\u0061ges":[{"c\u006fntent":"a","r\u006fle":"user"}]}`, bodytext.Request, []string{"user text a"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := bodytext.Find([]byte(tt.body), tt.form)
			var got []string
			for _, text := range body.Texts {
				got = append(got, fmt.Sprintf("%s %s %s", text.Role, text.Kind, text.Value))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("texts = %q, want %q", got, tt.want)
			}
			if !slices.Equal(body.Uncovered, tt.uncovered) {
				t.Errorf("uncovered = %q, want %q", body.Uncovered, tt.uncovered)
			}
		})
	}
}

// A hostile body may be as deep as JSON may be. It must not take more time than a flat
// one of its size, in any form.
func TestDeepBodiesTakeTheTimeOfFlatOnes(t *testing.T) {
	const depth = 250
	words := strings.Repeat("word ", 400)
	flat := `{"messages":[` + strings.Repeat(`{"content":"`+words+`"},`, depth) + `{}]}`
	for name, deep := range map[string]string{
		"objects":  strings.Repeat(`{"content":{"a":"`+words+`","content":`, depth) + `"x"` + strings.Repeat(`}}`, depth),
		"lists":    strings.Repeat(`{"choices":[{"text":"`+words+`","choices":[`, depth/2) + strings.Repeat(`]}]}`, depth/2),
		"sources":  strings.Repeat(`{"source":{"text":"`+words+`","data":`, depth) + `"x"` + strings.Repeat(`}}`, depth),
		"inputs":   strings.Repeat(`{"text":"`+words+`","input":[`, depth) + strings.Repeat(`]}`, depth),
		"systems":  strings.Repeat(`{"system":{"text":"`+words+`","role":"r","system":`, depth) + `"x"` + strings.Repeat(`}}`, depth),
		"unknown":  strings.Repeat(`{"unknown":"`+words+`","other":[`, depth) + strings.Repeat(`]}`, depth),
		"thinking": strings.Repeat(`{"reasoning":{"text":"`+words+`","type":"thinking","content":`, depth) + `"x"` + strings.Repeat(`}}`, depth),
	} {
		for form := bodytext.Request; form <= bodytext.AnyEvent; form++ {
			// A body that is read once for each level takes a hundred times as long.
			if got, want := fastest(deep, form), fastest(flat, form); got > 25*want {
				t.Errorf("%s in form %d take %s for %d bytes; a flat body of %d bytes takes %s", name, form, got, len(deep), len(flat), want)
			}
		}
	}
}

// fastest returns the shortest of several times for a body, which other work on the
// machine disturbs least.
func fastest(body string, form bodytext.Form) time.Duration {
	best := time.Hour
	for range 7 {
		start := time.Now()
		bodytext.Find([]byte(body), form)
		best = min(best, time.Since(start))
	}
	return best
}
