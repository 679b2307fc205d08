package chat

import (
	"cmp"
	"fmt"
	"math"

	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
)

const inputForms = "a string, an array of strings, an array of tokens or an array of token arrays"

// prompt is the prompt of a text completion in any of its four forms.
var prompt = grammar.ByKind{Text: grammar.Text{}, Array: inputs{any: true}, What: inputForms}

// inputs is an array of strings, of tokens, or of token arrays; the first
// element decides which.
type inputs struct {
	any      bool // any number of elements; else 1 to maxInputs
	notEmpty bool // strings and token arrays may not be empty
	tokens   int  // limit of tokens each; zero means unlimited
	bytes    int  // limit of bytes of text each; zero means unlimited
}

func (inputs) Expected() string { return inputForms }

func (r inputs) Check(c *jsonedit.Cursor) *grammar.Fault {
	if !c.Enter('[') {
		return grammar.WrongType(r.Expected(), c.Raw())
	}
	each, most := r.each(c), maxInputs
	if c.Kind() == jsonedit.Number { // one input, as tokens
		most = cmp.Or(r.tokens, math.MaxInt)
	}
	n := 0
	for ; c.Element(); n++ {
		if !r.any && n >= most {
			c.Skip()
			continue
		}
		if f := each.Check(c); f != nil {
			return f.At(n)
		}
	}
	if !r.any && (n == 0 || n > most) {
		return &grammar.Fault{Code: grammar.CodeValue, Want: fmt.Sprintf("a string or an array of 1 to %d elements", most),
			Sent: fmt.Sprintf("one of %d", n)}
	}
	return nil
}

// each returns the rule for all elements, chosen by the first one.
func (r inputs) each(c *jsonedit.Cursor) grammar.Rule {
	switch c.Kind() {
	case jsonedit.Number:
		return token
	case jsonedit.Array:
		return r.tokenArray()
	}
	return grammar.Text{NotEmpty: r.notEmpty, Bytes: r.bytes, Why: ", which is more than 8192 tokens hold"}
}

var (
	token      = grammar.Integer{Min: 0, Max: 1<<32 - 1}
	tokenArray = grammar.List{Each: token, What: "tokens"}
	fullArray  = grammar.List{Min: 1, Each: token, What: "tokens"}
)

func (r inputs) tokenArray() grammar.Rule {
	switch {
	case r.tokens > 0:
		return grammar.List{Min: 1, Max: r.tokens, Each: token, What: "tokens"}
	case r.notEmpty:
		return fullArray
	}
	return tokenArray
}
