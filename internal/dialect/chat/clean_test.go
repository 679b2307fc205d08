package chat_test

import (
	"strings"
	"testing"

	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/testing/dialecttest"
)

// Members of messages that other vendors or the gateway wrote, as each row of
// providers gets them.
func TestForeignMembersAreCleanedPerProvider(t *testing.T) {
	const (
		long     = "call_1111111111111111111111111111111111111111111111111111111111111111111111111111111111"
		before   = `{"model":"m","messages":[{"role":"user","content":"a"},`
		after    = `,{"role":"user","content":"b"}]}`
		thought  = `{"role":"assistant","reasoning_content":"hm","content":"c"}`
		reason   = `{"role":"assistant","reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}],"content":"c"}`
		markedUp = `{"role":"assistant","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"mg1.google.x"}],"content":"c"}`
		cited    = `{"role":"assistant","annotations":[{"type":"url_citation"}],"content":"c"}`
		blocks   = `{"role":"assistant","content_blocks":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"c"}],"content":"c"}`
		alone    = `{"role":"assistant","content_blocks":[{"type":"text","text":"c"},{"type":"text","text":"d"}]}`
		signed   = `{"role":"assistant","content":null,"tool_calls":[{"id":"1","extra_content":{"google":{"thought_signature":"c2ln"}},"function":{}}]}`
		foreign  = `{"role":"assistant","content":null,"tool_calls":[{"id":"1","extra_content":{"google":{"thought_signature":"mg1.anthropic.x"}},"function":{}}]}`
		named    = `{"role":"assistant","content":null,"tool_calls":[{"id":"` + long + `","function":{}}]},{"role":"tool","tool_call_id":"` + long + `","content":"r"}`
		plain    = `{"role":"assistant","content":"c"}`
		unsigned = `{"role":"assistant","tool_calls":[{"id":"1","function":{}}],"content":null}`
	)
	for _, tt := range []struct {
		name, sent string
		want       map[string]string // by provider; absent: unchanged
	}{
		{"reasoning_content", thought, map[string]string{"openai": plain, "groq": plain, "mistral-ai": plain, "vertex-ai": plain}},
		{"reasoning_details", reason, map[string]string{
			"openai": plain, "groq": plain, "mistral-ai": plain, "vertex-ai": plain, "deepseek": `{"role":"assistant","reasoning":"hm","content":"c"}`,
		}},
		{"a marked signature", markedUp, map[string]string{
			"openai": plain, "groq": plain, "mistral-ai": plain, "vertex-ai": plain, "deepseek": plain, "openrouter": plain, "openai-compatible": plain,
		}},
		{"annotations", cited, map[string]string{"groq": plain, "mistral-ai": plain}},
		{"content_blocks", blocks, all(plain)},
		{"text in content_blocks alone", alone, all(`{"role":"assistant","content":"cd"}`)},
		{"Google's signature", signed, map[string]string{
			"openai": unsigned, "groq": unsigned, "mistral-ai": unsigned, "deepseek": unsigned, "openrouter": unsigned,
		}},
		{"another vendor's signature", foreign, all(unsigned)},
		{"long ids of calls", named, map[string]string{
			"openai":     strings.ReplaceAll(named, long, "call_11111111111111111111111111111111111111111111111111_e002e798"),
			"mistral-ai": strings.ReplaceAll(named, long, "clR55JtEH"),
		}},
		{"nothing of others", plain, nil},
	} {
		for _, provider := range rows {
			t.Run(tt.name+" to "+provider, func(t *testing.T) {
				want, changed := tt.want[provider]
				if !changed {
					want = tt.sent
				}
				if got := cleaned(t, before+tt.sent+after, provider); got != before+want+after {
					t.Errorf("got  %s\nwant %s", got, before+want+after)
				}
			})
		}
	}
}

// rows are providers that differ in what messages may hold.
var rows = []string{"openai", "groq", "mistral-ai", "deepseek", "openrouter", "vertex-ai", "openai-compatible"}

func all(want string) map[string]string {
	m := map[string]string{}
	for _, provider := range rows {
		m[provider] = want
	}
	return m
}

func cleaned(t *testing.T, body, provider string) string {
	t.Helper()
	var d jsonedit.Doc
	if err := d.Scan([]byte(body)); err != nil {
		t.Fatal(err)
	}
	edits, _ := chat.Dialect{}.Clean(&d, dialecttest.TargetOf(provider, "m"))
	return string(d.Apply(nil, edits...))
}

// A picture that the assistant drew is shown to the next model with the user's
// next message.
func TestDrawnImagesMoveToTheNextMessageOfTheUser(t *testing.T) {
	const picture = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`
	body := `{"messages":[{"role":"assistant","content":"here","content_blocks":[` + picture + `]},{"role":"user","content":"larger"}]}`
	want := `{"messages":[{"role":"assistant","content":"here"},{"role":"user","content":[` + picture + `,{"type":"text","text":"larger"}]}]}`
	if got := cleaned(t, body, "openai"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Without a later message of the user, one is added.
func TestDrawnImagesAreKeptWithoutAMessageOfTheUser(t *testing.T) {
	const (
		picture = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`
		drawing = `{"role":"assistant","content":"here","content_blocks":[` + picture + `]}`
		drawn   = `{"role":"assistant","content":"here"}`
		result  = `{"role":"tool","tool_call_id":"a","content":"x"}`
		added   = `{"role":"user","content":[` + picture + `]}`
		images  = `{"role":"assistant","content":"here","images":[` + picture + `]}`
		both    = `{"role":"assistant","content":"here","images":[` + picture + `],"content_blocks":[` + picture + `]}`
	)
	for name, tt := range map[string]struct{ messages, want string }{
		"at the end":                     {drawing, drawn + "," + added},
		"in OpenRouter's member":         {images + `,{"role":"user","content":"bluer"}`, drawn + `,{"role":"user","content":[` + picture + `,{"type":"text","text":"bluer"}]}`},
		"in both members":                {both, drawn + "," + added},
		"not in a list":                  {`{"role":"assistant","content":"here","images":"x"}`, `{"role":"assistant","content":"here","images":"x"}`},
		"before a tool result":           {drawing + "," + result, drawn + "," + result + "," + added},
		"before a message without words": {drawing + `,{"role":"user"}`, drawn + `,{"role":"user"},` + added},
		"twice":                          {drawing + "," + drawing, drawn + "," + drawn + `,{"role":"user","content":[` + picture + "," + picture + `]}`},
	} {
		if got, want := cleaned(t, `{"messages":[`+tt.messages+`]}`, "openai"), `{"messages":[`+tt.want+`]}`; got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
	if body := `{"messages":[` + images + `]}`; cleaned(t, body, "openrouter") != body {
		t.Errorf("to the vendor of the member: %s", cleaned(t, body, "openrouter"))
	}
}
