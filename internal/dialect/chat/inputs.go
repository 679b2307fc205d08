package chat

import "fmt"

const inputForms = "a string, an array of strings, an array of tokens or an array of token arrays"

// prompt is the text of a completion in any of its four forms.
var prompt = byKind{text: text{}, array: inputs{any: true}, what: inputForms}

// inputs is an array of strings, of tokens, or of token arrays: the first
// element says of which.
type inputs struct {
	any      bool // any number of elements; else 1 to maxInputs
	notEmpty bool // strings and token arrays may not be empty
	tokens   int  // at most so many tokens each; zero is no bound
	bytes    int  // at most so many bytes of text each; zero is no bound
}

func (inputs) expected() string { return inputForms }

func (r inputs) check(c *cursor) *fault {
	if !c.enter('[') {
		return wrongType(c, r.expected())
	}
	each := r.each(c)
	n := 0
	for ; c.element(); n++ {
		if !r.any && n >= maxInputs {
			c.skip()
			continue
		}
		if f := each.check(c); f != nil {
			return f.at(n)
		}
	}
	if !r.any && (n == 0 || n > maxInputs) {
		return &fault{code: codeValue, want: fmt.Sprintf("a string or an array of 1 to %d elements", maxInputs), sent: fmt.Sprintf("one of %d", n)}
	}
	return nil
}

// each is the rule that the first element sets for all.
func (r inputs) each(c *cursor) rule {
	switch kindFrom(c.peek()) {
	case kindNumber:
		return token
	case kindArray:
		return r.tokenArray()
	}
	return text{notEmpty: r.notEmpty, bytes: r.bytes, why: ", which is more than 8192 tokens hold"}
}

var (
	token      = integer{0, 1<<32 - 1}
	tokenArray = list{each: token, what: "tokens"}
	fullArray  = list{min: 1, each: token, what: "tokens"}
)

func (r inputs) tokenArray() rule {
	switch {
	case r.tokens > 0:
		return list{min: 1, max: r.tokens, each: token, what: "tokens"}
	case r.notEmpty:
		return fullArray
	}
	return tokenArray
}
