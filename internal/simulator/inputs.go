package simulator

import "net/http"

// An input is one string, or one list of tokens, of a request.
type input struct {
	raw    []byte // raw JSON; of a string, the text between its quotes
	tokens int
	text   bool
}

func textInput(raw []byte) input {
	return input{raw: raw, tokens: tokensOf(textLen(raw)), text: true}
}

// inputsOf reads a string, an array of strings, of tokens, of arrays of tokens,
// or of parts with text. Anything else is recorded in wrong.
func (s *scanner) inputsOf(param string, wrong *providerError) (list []input) {
	refuse := func() {
		*wrong = mistyped(param, "a string, or an array of strings, of tokens or of arrays of tokens")
		s.skip()
	}
	switch s.peek() {
	case '"':
		return []input{textInput(s.text())}
	case '[':
	case 'n':
		s.skip()
		return nil
	default:
		refuse()
		return nil
	}
	s.peek()
	start, numbers := s.pos, 0
	s.array(func() {
		switch c := s.peek(); {
		case c == '"':
			list = append(list, textInput(s.text()))
		case c == '[':
			list = append(list, s.tokenList())
		case c == '{':
			list = append(list, s.textPart())
		case c >= '0' && c <= '9':
			numbers++
			s.skip()
		default:
			refuse()
		}
	})
	if numbers > 0 && !s.bad {
		list = append(list, input{raw: s.data[start:s.pos], tokens: numbers})
	}
	return list
}

func (s *scanner) tokenList() input {
	start, n := s.pos, 0
	s.array(func() {
		s.skip()
		n++
	})
	if s.bad {
		return input{}
	}
	return input{raw: s.data[start:s.pos], tokens: n}
}

func (s *scanner) textPart() (in input) {
	s.object(func(key []byte) {
		if string(key) == "text" && s.peek() == '"' {
			in = textInput(s.text())
			return
		}
		s.skip()
	})
	return in
}

func sumTokens(list []input) (sum int) {
	for _, in := range list {
		sum += in.tokens
	}
	return sum
}

// readObject reads the body as one object, member by member, and begins the
// exchange with the model. It returns false if the request is over; needed
// returns the error for what is missing once the body has been read.
func (x *exchange) readObject(wrong *providerError, member func(s *scanner, key []byte), needed func() providerError) bool {
	if !x.readBody() {
		return false
	}
	var model []byte
	s := scanner{data: x.in}
	s.object(func(key []byte) {
		if string(key) == "model" {
			model = s.stringOf("model", wrong)
			return
		}
		member(&s, key)
	})
	if !s.end() {
		*wrong = unreadable(&s)
	} else if wrong.kind == "" {
		*wrong = needed()
	}
	if wrong.kind != "" {
		x.refuse(http.StatusBadRequest, *wrong)
		return false
	}
	return x.begin(model)
}

// needsModel sends an error for a request without a model, and reports whether
// it did.
func (x *exchange) needsModel() bool {
	if len(x.model) == 0 {
		x.refuse(http.StatusBadRequest, missing("model"))
		return false
	}
	return true
}
