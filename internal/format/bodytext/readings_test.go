package bodytext_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"modelgate/internal/format/bodytext"
)

// quoted returns text as a string of JSON.
func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

func TestReadingsDecodeTheEscapesOfJSONInStrings(t *testing.T) {
	const escaped = `{"q":"Blue\u0062ird\t\"x\""}`
	for _, tt := range []struct {
		name, text string
		kind       bodytext.Kind
		want       []string
	}{
		{"no escapes", `{"q":"x"}`, bodytext.Content, nil},
		{"quotes only", `{"q":"\"x\\"}`, bodytext.Content, nil},
		{"prose", `say "Blue\u0062ird"`, bodytext.Content, nil},
		{"prose in brackets", `[Note] C:\new`, bodytext.Content, nil},
		{"an object", escaped, bodytext.Content, []string{"{\"q\":\"Bluebird\t\\\"x\\\"\"}"}},
		{"a string", `"\u0042luebird"`, bodytext.Content, []string{`"Bluebird"`}},
		{"a pair of surrogates", `["\ud83d\ude00"]`, bodytext.Content, []string{"[\"\U0001F600\"]"}},
		{"half a pair", `["\ud83dx"]`, bodytext.Content, []string{"[\"\ufffdx\"]"}},
		{"an escaped backslash", `["C:\\u0062"]`, bodytext.Content, nil},
		{"a name", `{"Blue\u0062ird":1}`, bodytext.Content, []string{`{"Bluebird":1}`}},
		{"lines", "{\"a\":1}\n" + escaped, bodytext.Content, []string{"{\"a\":1}\n{\"q\":\"Bluebird\t\\\"x\\\"\"}"}},
		{"arguments that are cut", `{"q":"Blue\u0062i`, bodytext.Arguments, []string{`{"q":"Bluebi`}},
		{"content that is cut", `{"q":"Blue\u0062i`, bodytext.Content, []string{`{"q":"Bluebi`}},
		{"single quotes", `{'q':'Blue\u0062ird'}`, bodytext.Content, []string{`{'q':'Bluebird'}`}},
		{"bytes", `['Blue\x62ird', '\x27\x5c\x0a']`, bodytext.Content, []string{`['Bluebird', '\x27\x5c\x0a']`}},
		{"arguments in single quotes", `{'q':'Blue\u0062ird'}`, bodytext.Arguments, []string{`{'q':'Bluebird'}`}},
		{"no quotes", `{q: Blue\u0062ird}`, bodytext.Content, []string{`{q: Bluebird}`}},
		{"an escaped backslash before u", `{'q':'Blue\\u0062ird'}`, bodytext.Content, nil},
		{"a comment", `{"q":"Blue\u0062ird"} // x`, bodytext.Content, []string{`{"q":"Bluebird"} // x`}},
		{"single quotes in JSON", `{"a":"{'q':'Blue\\u0062ird'}"}`, bodytext.Content, []string{`{"a":"{'q':'Bluebird'}"}`}},
		{"a surrogate alone", `{'q':'\ud83d'}`, bodytext.Content, nil},
		{"JSON in JSON", `{"a":` + quoted(`{"b":"\u0062"}`) + `}`, bodytext.Content, []string{`{"a":"{\"b\":\"b\"}"}`}},
		{"both depths", `{"\u0061":` + quoted(`{"b":"\u0062"}`) + `}`, bodytext.Content, []string{`{"a":` + quoted(`{"b":"\u0062"}`) + `}`, `{"a":"{\"b\":\"b\"}"}`}},
		{"four deep", `[` + quoted(`[`+quoted(`[`+quoted(`["\u0062"]`)+`]`)+`]`) + `]`, bodytext.Content, []string{`[` + quoted(`[`+quoted(`[`+quoted(`["b"]`)+`]`)+`]`) + `]`}},
	} {
		var got []string
		for _, r := range bodytext.Readings(tt.text, tt.kind) {
			got = append(got, r.Text)
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: Readings(%s) = %q, want %q", tt.name, tt.text, got, tt.want)
		}
	}
}

// values draws JSON with JSON in its strings.
func values(depth int) *rapid.Generator[any] {
	word := rapid.SampledFrom([]any{"b", "a\tb", "\u00e9\n", `"`, `\`, "\x01", "{", "[x", 7, nil})
	return rapid.Custom(func(t *rapid.T) any {
		if depth == 0 {
			return word.Draw(t, "word")
		}
		inner := values(depth - 1)
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return map[string]any{"k\u00e9\t": inner.Draw(t, "member"), "q": word.Draw(t, "word")}
		case 1:
			return []any{inner.Draw(t, "element")}
		case 2:
			b, _ := json.Marshal(inner.Draw(t, "text"))
			return escapeLetters(string(b))
		}
		return word.Draw(t, "word")
	})
}

// escapeLetters writes the letter b in strings of JSON as an escape.
func escapeLetters(text string) string { return strings.ReplaceAll(text, `"b"`, `"\u0062"`) }

// A reading is written back as JSON with the same values.
func TestReadingsAreWrittenBackWithTheirValues(t *testing.T) {
	written := 0
	rapid.Check(t, func(t *rapid.T) {
		b, _ := json.Marshal(values(4).Draw(t, "value"))
		text := escapeLetters(string(b))
		var want any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, r := range bodytext.Readings(text, bodytext.Content) {
			var got any
			if err := json.Unmarshal([]byte(r.Unread(r.Text)), &got); err != nil {
				t.Fatalf("%s was read as %q and written back as %s: %v", text, r.Text, r.Unread(r.Text), err)
			}
			if !reflect.DeepEqual(deepValues(got), deepValues(want)) {
				t.Fatalf("%s was read as %q and written back as %s", text, r.Text, r.Unread(r.Text))
			}
			written++
		}
	})
	if written == 0 {
		t.Error("no text had another reading")
	}
}

// deepValues returns a value with the JSON in its strings parsed.
func deepValues(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, e := range v {
			out[name] = deepValues(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = deepValues(v[i])
		}
		return out
	case string:
		var inner any
		if json.Unmarshal([]byte(v), &inner) == nil {
			return []any{"JSON", deepValues(inner)}
		}
	}
	return v
}

// A change of a reading replaces the text, wherever its escapes are.
func TestChangedReadingsReplaceTheText(t *testing.T) {
	arguments := `{"a":"Blue\u0062ird and Bluebird","b":` + quoted(`["\tBlue\u0062ird"]`) + `}`
	raw := []byte(`{"messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":` + quoted(arguments) + `}}]}]}`)
	body := bodytext.Find(raw, bodytext.Request)
	changed := make([]string, len(body.Texts))
	for i, text := range body.Texts {
		changed[i] = strings.ReplaceAll(text.Value, "Bluebird", "[gone]")
	}
	var out struct {
		Messages []struct {
			Calls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(body.Replace(nil, changed), &out); err != nil {
		t.Fatal(err)
	}
	got := out.Messages[0].Calls[0].Function.Arguments
	if want := `{"a":"[gone] and [gone]","b":"[\"\\u0009[gone]\"]"}`; got != want {
		t.Errorf("arguments are %s, want %s", got, want)
	}
	if unchanged := body.Replace(nil, valuesOf(body)); string(unchanged) != string(raw) {
		t.Errorf("without a change the body is %s", unchanged)
	}
}

func valuesOf(b bodytext.Body) (list []string) {
	for _, text := range b.Texts {
		list = append(list, text.Value)
	}
	return list
}

// Text with many quotes deep in JSON takes time in proportion to its length.
func TestReadingsOfDeepJSONAreBounded(t *testing.T) {
	text := `["\u0062"]`
	for len(text) < 1<<20 {
		text = `[` + quoted(text) + `]`
	}
	list := bodytext.Readings(text, bodytext.Content)
	if len(list) == 0 || len(list) > 3 || !strings.Contains(list[len(list)-1].Text, `"b`) {
		t.Errorf("%d readings", len(list))
	}
}
