package grammar_test

import (
	"testing"

	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
)

var body = grammar.NewBody([]grammar.Member{
	{Name: "model", Rule: grammar.Text{NotEmpty: true}, Required: true},
	{Name: "heat", Rule: grammar.Number{Min: 0, Max: 2}},
	{Name: "turns", Rule: grammar.List{Min: 1, What: "turns", Each: grammar.Object{Members: []grammar.Member{
		{Name: "role", Rule: grammar.Words{"user", "model"}, Required: true},
	}}}},
	{Name: "bias", Rule: grammar.Map{Each: grammar.Integer{Min: 0, Max: 9}, What: "an object of numbers"}},
}, grammar.Relation{Of: "bias", Check: func(_ jsonedit.Value, d *jsonedit.Doc) *grammar.Fault {
	if _, ok := d.Find("heat"); ok {
		return nil
	}
	return &grammar.Fault{Problem: "needs heat"}
}})

const valid = `{"other":[1,{}],"model":"m","heat":1.5,"turns":[{"text":"a","role":"user"},{"role":"model"}],"bias":{"a":1}}`

func scan(t *testing.T, text string) *jsonedit.Doc {
	t.Helper()
	var d jsonedit.Doc
	if err := d.Scan([]byte(text)); err != nil {
		t.Fatalf("Scan(%s): %v", text, err)
	}
	return &d
}

func TestFaultNamesTheElementAndTheRule(t *testing.T) {
	for _, tt := range []struct{ body, param, code, message string }{
		{`{}`, "model", grammar.CodeMissing, `model is required: send a string that is not empty`},
		{`{"model":null}`, "model", grammar.CodeMissing, `model is required: send a string that is not empty`},
		{`{"model":""}`, "model", grammar.CodeValue, `model must be a string that is not empty, not an empty one`},
		{`{"model":[]}`, "model", grammar.CodeType, `model must be a string that is not empty, not an array`},
		{`{"model":"m","heat":3}`, "heat", grammar.CodeValue, `heat must be a number from 0 to 2, not 3`},
		{`{"model":"m","turns":[]}`, "turns", grammar.CodeValue, `turns must be an array of 1 or more turns, not one of 0`},
		{`{"model":"m","turns":[{"role":"user"},{}]}`, "turns[1].role", grammar.CodeMissing, `turns[1].role is required: send one of "user", "model"`},
		{`{"model":"m","turns":[{"role":"us"}]}`, "turns[0].role", grammar.CodeValue, `turns[0].role must be one of "user", "model", not "us"`},
		{`{"model":"m","heat":1,"bias":{"a":1.5}}`, "bias.a", grammar.CodeType, `bias.a must be an integer from 0 to 9, not 1.5`},
		{`{"model":"m","bias":{}}`, "bias", grammar.CodeValue, `bias needs heat`},
	} {
		err := body.Check(scan(t, tt.body)).Error(" ")
		if err == nil || err.Param != tt.param || err.Code != tt.code || err.Message != tt.message {
			t.Errorf("Check(%s) = %+v, want %s %s %q", tt.body, err, tt.param, tt.code, tt.message)
		}
	}
}

func TestEscapedNameIsTheNameItSpells(t *testing.T) {
	const text = `{"mod\u0065l":"m","turns":[{"\u0072ole":"user"}]}`
	if f := body.Check(scan(t, text)); f != nil {
		t.Errorf("Check(%s) = %+v, want nil", text, f)
	}
}

func TestCheckOfAValidBodyAllocatesNothing(t *testing.T) {
	d := scan(t, valid)
	if n := testing.AllocsPerRun(100, func() {
		if f := body.Check(d); f != nil {
			t.Fatalf("Check(%s) = %+v, want nil", valid, f)
		}
	}); n > 0 {
		t.Errorf("Check allocates %v times, want 0", n)
	}
}
