package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"time"
)

// An innerResponse is the response to a request that the simulator makes to
// itself, such as a line of a batch. Its zero status means that a fault broke
// off the request.
type innerResponse struct {
	status int
	header http.Header
	body   []byte
	limit  int64 // of the body
}

// Header returns the headers.
func (w *innerResponse) Header() http.Header { return w.header }

// WriteHeader keeps the first status.
func (w *innerResponse) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK && w.limit > 0 {
		w.status = status
	}
}

// Write appends to the body, up to the limit.
func (w *innerResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if int64(len(w.body)+len(b)) > w.limit {
		w.status, w.body = 0, nil
		w.limit = 0
		return 0, errors.New("the response is too large")
	}
	w.body = append(w.body, b...)
	return len(b), nil
}

// call serves a request of the simulator itself, without its key. Nothing waits:
// a fault that delays a response breaks it off.
func (s *Simulator) call(path string, body []byte, header http.Header) (w *innerResponse) {
	w = &innerResponse{header: http.Header{}, limit: s.opts.MaxBody}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		w.status, w.body = http.StatusNotFound, []byte(`{"error":{"message":"the path is not valid"}}`)
		return w
	}
	maps.Copy(r.Header, header)
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			w.status, w.body = 0, nil
		}
	}()
	s.serve(w, r, true)
	return w
}

// tokenUsage are the tokens in the usage of a response, in any protocol.
type tokenUsage struct {
	input, cached, output, reasoning int
}

// add adds the usage of a response of the chat or responses protocol.
func (u *tokenUsage) add(body []byte) {
	var got struct {
		Usage struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
			Input      int `json:"input_tokens"`
			Output     int `json:"output_tokens"`
			Cached     struct {
				Tokens int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
			InputCached struct {
				Tokens int `json:"cached_tokens"`
			} `json:"input_tokens_details"`
			Reasoning struct {
				Tokens int `json:"reasoning_tokens"`
			} `json:"output_tokens_details"`
		} `json:"usage"`
	}
	if json.Unmarshal(body, &got) != nil {
		return
	}
	u.input += got.Usage.Prompt + got.Usage.Input
	u.output += got.Usage.Completion + got.Usage.Output
	u.cached += got.Usage.Cached.Tokens + got.Usage.InputCached.Tokens
	u.reasoning += got.Usage.Reasoning.Tokens
}

func (u *tokenUsage) describe() object {
	return object{
		"input_tokens": u.input, "input_tokens_details": object{"cached_tokens": u.cached},
		"output_tokens": u.output, "output_tokens_details": object{"reasoning_tokens": u.reasoning}, "total_tokens": u.input + u.output,
	}
}

// stampOf returns a time as text of RFC 3339, or nil for the zero time.
func stampOf(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}
