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
	out := guardrail.Run(context.Background(), []*guardrail.Hook{hook}, in, nil)
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
