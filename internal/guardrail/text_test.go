package guardrail_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/guardrail"
)

// reading is a check that records the joined text and the body that it reads.
func reading() guardrail.Definition {
	return plain("t.read", guardrail.Compiled{Run: func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		body, err := in.JSON()
		return guardrail.Verdict{Passed: true, Data: &guardrail.Data{TextExcerpt: in.Text(), More: map[string]any{"body": string(body)}}}, err
	}})
}

// listed is a document whose body lists its texts and the messages to add.
type listed struct{}

func (listed) JSON(parts []guardrail.Part, add []guardrail.Message) (json.RawMessage, error) {
	return json.RawMessage(fmt.Sprintf("%s+%v", textsOf(parts), add)), nil
}

func (listed) Replace(body json.RawMessage) (guardrail.Document, []guardrail.Part, error) {
	return listed{}, []guardrail.Part{{Kind: guardrail.Text, Earlier: true}, {Kind: guardrail.Text, Text: "replaced"}}, nil
}

func TestChecksReadWhatThoseBeforeChanged(t *testing.T) {
	add := guardrail.Compiled{Transforms: true, Run: func(context.Context, *guardrail.Input) (guardrail.Verdict, error) {
		return guardrail.Verdict{Passed: true, Add: []guardrail.Message{{Role: "system", Text: "added"}}}, nil
	}}
	body := guardrail.Compiled{Transforms: true, Run: func(context.Context, *guardrail.Input) (guardrail.Verdict, error) {
		return guardrail.Verdict{Passed: true, Body: json.RawMessage(`{}`)}, nil
	}}
	from := guardrail.NewTable(reading(), plain("t.a", appending("a")), plain("t.add", add), plain("t.body", body))
	hook := hookOf(t, from, `{"id":"h","sequential":true,"checks":[`+strings.Join(strings.Fields(`
		{"id":"t.read","parameters":{}}, {"id":"t.read","parameters":{"scope":"all"}},
		{"id":"t.a","parameters":{}}, {"id":"t.read","parameters":{}}, {"id":"t.read","parameters":{"scope":"all"}},
		{"id":"t.add","parameters":{}}, {"id":"t.read","parameters":{}},
		{"id":"t.body","parameters":{}}, {"id":"t.read","parameters":{}}`), "")+`]}`)
	in := input("old", "new", "", "{}")
	in.Parts[0].Earlier, in.Document = true, listed{}
	out := guardrail.Run(context.Background(), []*guardrail.Hook{hook}, in)
	var got []string
	for _, c := range out.Results[0].Checks {
		if c.ID == "t.read" {
			got = append(got, fmt.Sprintf("%q %s", c.Data.TextExcerpt, c.Data.More["body"]))
		}
	}
	want := `"new\n{}" old|new||{}+[]
"old\nnew\n{}" old|new||{}+[]
"newa\na\n{}a" old|newa|a|{}a+[]
"old\nnewa\na\n{}a" old|newa|a|{}a+[]
"newa\na\n{}a" old|newa|a|{}a+[{system added}]
"replaced" |replaced+[]`
	if strings.Join(got, "\n") != want {
		t.Errorf("checks read\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

func TestDataIsOneObject(t *testing.T) {
	full := &guardrail.Data{Verdict: true, Not: true, Explanation: `a "b"`, TextExcerpt: "c\n", More: map[string]any{"index": 7, "matchedText": "d"}}
	for _, tt := range []struct {
		data *guardrail.Data
		want string
	}{
		{full, `{"verdict":true,"not":true,"explanation":"a \"b\"","textExcerpt":"c\n","index":7,"matchedText":"d"}`},
		{full.WithoutText(), `{"verdict":true,"not":true,"index":7}`},
		{new(guardrail.Data), `{"verdict":false,"not":false}`},
		{nil, `null`},
		{(*guardrail.Data)(nil).WithoutText(), `null`},
	} {
		got, err := json.Marshal(tt.data)
		if err != nil || string(got) != tt.want {
			t.Errorf("%+v is %s (%v), want %s", tt.data, got, err, tt.want)
		}
		var fields map[string]any
		if err := json.Unmarshal(got, &fields); err != nil || len(fields) != len(tt.data.Fields()) {
			t.Errorf("Fields() = %v, want those of %s (%v)", tt.data.Fields(), got, err)
		}
	}
	if _, err := json.Marshal(&guardrail.Data{More: map[string]any{"x": func() {}}}); err == nil {
		t.Error("a value that cannot be written as JSON was accepted")
	}
}
