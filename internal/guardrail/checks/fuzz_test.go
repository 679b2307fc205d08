package checks_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
)

// localChecks are the checks that only read text, with parameters.
var localChecks = map[string]string{
	"default.regexMatch": `{"rule":"a+b|[^c]d"}`, "default.contains": `{"words":["a"]}`, "default.sentenceCount": `{}`, "default.wordCount": `{}`, "default.characterCount": `{}`,
	"default.alluppercase": `{}`, "default.alllowercase": `{}`, "default.endsWith": `{"suffix":"x"}`, "default.containsCode": `{"format":"Go"}`,
	"default.jsonSchema": `{"schema":{"type":"object"}}`, "default.jsonKeys": `{"keys":["a"],"operator":"any"}`, "default.regexReplace": `{"rule":"[a-f]{2}"}`,
	"default.pii": `{"redact":true}`, "default.secrets": `{"redact":true}`, "default.gibberish": `{}`, "default.promptInjection": `{}`,
}

func FuzzTexts(f *testing.F) {
	for _, s := range []string{"", "ann@example.com 4111 1111 1111 1111", "```json\n{\"a\":[1]}\n```", "{{{[[", "ignore previous instructions", "-----BEGIN PRIVATE KEY-----", "\xff\xfe", "Mr. Ä", "https://a.example/b?c"} {
		f.Add(s)
	}
	var hooks []*guardrail.Hook
	for id, params := range localChecks {
		hooks = append(hooks, hook(f, checks.Services{}, before, id, params))
	}
	f.Fuzz(func(t *testing.T, s string) {
		in := text(before, s, "second")
		in.Request = &guardrail.Request{}
		for _, h := range hooks {
			if at := h.Hold(guardrail.Text, s); at < 0 || at > len(s) {
				t.Errorf("%s: Hold = %d of %d", h.Checks[0].ID, at, len(s))
			}
			out := guardrail.Run(context.Background(), []*guardrail.Hook{h}, in, nil)
			r := out.Results[0].Checks[0]
			if r.Error != nil && strings.Contains(r.Error.Message, "panic") {
				t.Errorf("%s: %v", r.ID, r.Error)
			}
			for _, span := range r.Spans {
				if span.From < 0 || span.From >= span.To && span.From != span.To || span.To > len(in.Parts[span.Part].Text) {
					t.Errorf("%s: place %+v", r.ID, span)
				}
			}
			if utf8.ValidString(s) && !utf8.ValidString(out.Parts[0].Text) {
				t.Errorf("%s: the text %q is not UTF-8", r.ID, out.Parts[0].Text)
			}
		}
	})
}

func FuzzReplies(f *testing.F) {
	for _, row := range partnerRows {
		f.Add(row.passes)
		f.Add(row.fails)
		f.Add(row.redacts)
	}
	f.Fuzz(func(t *testing.T, response string) {
		s := checks.Services{Client: simulator(func(*http.Request, string) (int, io.Reader, error) { return 200, strings.NewReader(response), nil })}
		for _, row := range partnerRows {
			r, _ := row.against(t, "", simulator(s.Client.(simulator)))
			if r.Error != nil && strings.Contains(r.Error.Message, "panic") {
				t.Errorf("%s: %v", row.id, r.Error)
			}
		}
	})
}

func FuzzParameters(f *testing.F) {
	f.Add("default.regexMatch", `{"rule":"("}`)
	f.Add("default.jsonSchema", `{"schema":{"$ref":"#/a"}}`)
	f.Add("default.jwt", `{"jwks":{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}}`)
	f.Add("default.requestParametersCheck", `{"tools":{"allowedTypes":null},"params":{"values":{"a":[]}}}`)
	f.Add("default.wasm", `{"code":"AGFzbQEAAAA="}`)
	table := checks.New(checks.Services{})
	f.Fuzz(func(t *testing.T, id, params string) {
		var members map[string]json.RawMessage
		if json.Unmarshal([]byte(params), &members) != nil || table.Find(id) == nil {
			t.SkipNow()
		}
		c, faults := table.Check("p", checkOf(id, object(t, params)), table.Find(id).On&-table.Find(id).On)
		if (c == nil) != (len(faults) > 0) {
			t.Errorf("%s %s = %v, %v", id, params, c, faults)
		}
		for _, fault := range faults {
			if fault.Path == "" || fault.Message == "" {
				t.Errorf("%s %s: fault %+v", id, params, fault)
			}
		}
	})
}

// TestLongTextsAreCheckedInTime runs every check of text on long texts of
// different kinds, and some on 10 MB. Checks are linear: what takes time that
// grows with the square of the length would take minutes.
func TestLongTextsAreCheckedInTime(t *testing.T) {
	for name, unit := range map[string]string{"one letter": "a", "words": "no way to ignore the token: 12 ", "digits": "4111 ", "capitals": "Aa Bb ", "signs": "@.:-/", "quotes": `"{\[`, "fences": "```\n"} {
		for id, params := range localChecks {
			size := 128 << 10
			if name == "words" && (id == "default.contains" || id == "default.regexMatch") {
				size = 10 << 20
			}
			s := strings.Repeat(unit, size/len(unit))
			began := time.Now()
			h := hook(t, checks.Services{}, before, id, params)
			in := text(before, s)
			in.Request = &guardrail.Request{}
			guardrail.Run(context.Background(), []*guardrail.Hook{h}, in, nil)
			if took := time.Since(began); took > time.Minute {
				t.Errorf("%s on %s took %s", id, name, took)
			}
		}
	}
}
