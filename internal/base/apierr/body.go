package apierr

import (
	"bytes"
	"encoding/json"
)

// body is the error body of the chat dialect with additional fields that older clients
// read.
type body struct {
	Error   detail `json:"error"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

type detail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
	Source  string  `json:"source"`
}

// Body returns the JSON body of e in the chat dialect, without the cause.
func (e *Error) Body() []byte {
	b := body{
		Error:   detail{Message: e.Message, Type: e.Type(), Code: e.CodeOrDefault(), Source: "gateway"},
		Status:  "failure",
		Message: e.Message,
	}
	if e.Param != "" {
		b.Error.Param = &e.Param
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)              // people read it: <key> must not become \u003ckey\u003e
	if err := enc.Encode(b); err != nil { // strings always encode
		panic(err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
