package apierr

import "encoding/json"

// body is the error body of the chat dialect with the fields that older
// clients of the gateway read beside it. Settled readings, number 6.
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

// Body returns the JSON body of e in the chat dialect. The cause is not in it.
func (e *Error) Body() []byte {
	b := body{
		Error:   detail{Message: e.Message, Type: e.Type(), Code: e.CodeOrDefault(), Source: "gateway"},
		Status:  "failure",
		Message: e.Message,
	}
	if e.Param != "" {
		b.Error.Param = &e.Param
	}
	out, err := json.Marshal(b)
	if err != nil { // strings always marshal
		panic(err)
	}
	return out
}
