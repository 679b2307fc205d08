package simulator

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// A chatRequest is the part of a chat completion request that the simulator
// uses. Its byte slices are raw JSON of the body.
type chatRequest struct {
	model, lastUser, lastRole                    []byte
	tools, choice, functions, call, format, stop []byte
	effort                                       string
	stream, logprobs, serial, hasMessages        bool
	options, usage                               bool // stream_options was sent, and asks for usage
	topLogprobs, n, limit                        int
	messages, prompt                             int // number of messages and of their tokens
	wrong                                        providerError
}

// serveChat answers POST /chat/completions.
func serveChat(x *exchange) {
	var q chatRequest
	x.chat(&q)
}

func (x *exchange) chat(q *chatRequest) {
	if !x.readBody() || !x.readChat(q) || !x.begin(q.model) {
		return
	}
	if wrong := misplaced(x.in, x.plan.turns); wrong != "" {
		x.refuse(http.StatusBadRequest, providerError{kind: invalidRequest, param: "messages", message: wrong})
		return
	}
	if x.plan.noPrefill && string(q.lastRole) == "assistant" {
		x.refuse(http.StatusBadRequest, prefilled)
		return
	}
	x.bill(q.prompt)
	a := x.compose(q)
	if x.plan.streams(q.stream) {
		x.streamChat(q, &a)
		return
	}
	x.out = x.appendChat(x.out[:0], q, &a)
	x.served = a.tokens
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// readChat reads the body. It returns false after an error response.
func (x *exchange) readChat(q *chatRequest) bool {
	s := scanner{data: x.in}
	q.n = 1
	s.object(func(key []byte) { x.readChatMember(&s, q, key) })
	switch {
	case !s.end():
		q.wrong = unreadable(&s)
	case q.wrong.kind != "":
	case len(q.model) == 0:
		q.wrong = missing("model")
	case !q.hasMessages:
		q.wrong = missing("messages")
	case q.messages == 0:
		q.wrong = mistyped("messages", "an array of at least one message")
	case q.n < 1 || q.n > 128:
		q.wrong = mistyped("n", "an integer from 1 to 128")
	case q.options && !q.stream:
		q.wrong = optionsWithoutStream
	case q.topLogprobs < 0 || q.topLogprobs > 20:
		q.wrong = mistyped("top_logprobs", "an integer from 0 to 20")
	default:
		q.wrong = checkModel(string(q.model), q.limit, q.effort, 0)
	}
	if q.wrong.kind == "" {
		x.asked = q.stream
		return true
	}
	x.refuse(http.StatusBadRequest, q.wrong)
	return false
}

func (x *exchange) readChatMember(s *scanner, q *chatRequest, key []byte) {
	switch string(key) {
	case "model":
		q.model = s.stringOf("model", &q.wrong)
	case "messages":
		q.hasMessages = true
		x.readMessages(s, q)
	case "stream":
		q.stream = s.boolOf("stream", &q.wrong)
	case "stream_options":
		q.options, q.usage = s.streamOptions()
	case "n":
		q.n = s.integerOf("n", 1, &q.wrong)
	case "max_tokens", "max_completion_tokens":
		q.limit = max(q.limit, s.integerOf(string(key), 0, &q.wrong))
	case "logprobs":
		q.logprobs = s.boolOf("logprobs", &q.wrong)
	case "top_logprobs":
		q.topLogprobs = s.integerOf("top_logprobs", 0, &q.wrong)
	case "parallel_tool_calls":
		q.serial = !s.boolOf("parallel_tool_calls", &q.wrong)
	default:
		q.readRaw(s, key)
	}
}

// readRaw stores the parameters that are read later if they are set.
func (q *chatRequest) readRaw(s *scanner, key []byte) {
	raw := s.raw()
	switch string(key) {
	case "tools":
		q.tools = raw
		q.prompt += tokensOf(len(raw))
	case "functions":
		q.functions = raw
		q.prompt += tokensOf(len(raw))
	case "tool_choice":
		q.choice = raw
	case "function_call":
		q.call = raw
	case "response_format":
		q.format = raw
	case "stop":
		q.stop = raw
	case "reasoning_effort":
		q.effort = strings.Trim(string(raw), `"`)
	case "user", "safety_identifier", "prompt_cache_key":
		q.short(string(key), raw)
	}
}

// short checks the length of a string.
// https://platform.openai.com/docs/api-reference/chat/create
func (q *chatRequest) short(name string, raw []byte) {
	var text string
	if json.Unmarshal(raw, &text) == nil && len([]rune(text)) > 64 {
		q.wrong = mistyped(name, "a string with maximum length 64")
	}
}

// tokensPerMessage is added to the tokens of a message's text.
const tokensPerMessage = 4

func (x *exchange) readMessages(s *scanner, q *chatRequest) {
	if s.peek() != '[' {
		q.wrong = mistyped("messages", "an array of at least one message")
		s.skip()
		return
	}
	s.array(func() {
		if s.peek() != '{' {
			q.wrong = mistyped("messages", "an array of objects")
			s.skip()
			return
		}
		x.readMessage(s, q)
	})
}

func (x *exchange) readMessage(s *scanner, q *chatRequest) {
	var role, content []byte
	s.object(func(key []byte) {
		switch string(key) {
		case "role":
			role = s.stringOf("messages.role", &q.wrong)
		case "content":
			content = x.readContent(s)
		case "tool_call_id", "tool_calls":
			q.checkCallIDs(s)
		default:
			s.skip()
		}
	})
	q.messages++
	q.prompt += tokensPerMessage + tokensOf(textLen(content))
	q.lastRole = role
	if string(role) == "user" {
		q.lastUser = content
	}
}

// checkCallIDs reads the id of a call, or calls, and checks the length of ids.
// https://platform.openai.com/docs/api-reference/responses/create
func (q *chatRequest) checkCallIDs(s *scanner) {
	if s.peek() == '[' {
		s.array(func() {
			if s.peek() != '{' {
				s.skip()
				return
			}
			s.object(func(key []byte) {
				if string(key) == "id" {
					q.checkCallIDs(s)
					return
				}
				s.skip()
			})
		})
		return
	}
	q.short("messages.tool_call_id", s.raw())
}

// readContent returns the text of a message as raw JSON: a string, or the
// concatenated text parts of an array.
func (x *exchange) readContent(s *scanner) []byte {
	switch s.peek() {
	case '"':
		return s.text()
	case '[':
		start := len(x.text)
		s.array(func() {
			if s.peek() != '{' {
				s.skip()
				return
			}
			s.object(func(key []byte) {
				if string(key) == "text" && s.peek() == '"' {
					x.text = append(x.text, s.text()...)
					return
				}
				s.skip()
			})
		})
		return x.text[start:len(x.text):len(x.text)]
	}
	s.skip()
	return nil
}

// stringOf reads a string. Another type is recorded in wrong; null is the empty
// string.
func (s *scanner) stringOf(param string, wrong *providerError) []byte {
	c := s.peek()
	if c == '"' {
		return s.text()
	}
	if c != 'n' {
		*wrong = mistyped(param, "a string")
	}
	s.skip()
	return nil
}

func (s *scanner) boolOf(param string, wrong *providerError) bool {
	c := s.peek()
	if c != 't' && c != 'f' && c != 'n' {
		*wrong = mistyped(param, "a boolean")
	}
	s.skip()
	return c == 't'
}

// integerOf reads an integer; null and errors return otherwise.
func (s *scanner) integerOf(param string, otherwise int, wrong *providerError) int {
	raw := s.raw()
	if len(raw) == 0 || string(raw) == "null" {
		return otherwise
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		*wrong = mistyped(param, "an integer")
		return otherwise
	}
	return n
}

// streamOptions reads stream_options, which may be null.
func (s *scanner) streamOptions() (sent, usage bool) {
	if s.peek() != '{' {
		s.skip()
		return false, false
	}
	s.object(func(key []byte) {
		if string(key) == "include_usage" {
			usage = s.peek() == 't'
		}
		s.skip()
	})
	return true, usage
}
