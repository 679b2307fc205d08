package pipeline

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"

	"modelgate/api"
	"modelgate/internal/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
	"modelgate/internal/provider"
	"modelgate/internal/tokens"
)

// The factors of estimates; see docs/ledger.md.
const (
	textBytes   = 4       // bytes of text per token
	mediaBytes  = 1000    // bytes of audio, images and files per token
	mediaTokens = 1000    // tokens per image or file in a JSON request
	longWord    = 1 << 10 // a JSON string of this many bytes without a space is a file
)

// sentRequest is the part of a sent request that an estimate needs.
type sentRequest struct {
	op     api.Operation
	method string
	body   *bytepool.Buffer // retained; nil if there is none or it streams through
	size   int64            // of the body; -1 if unknown
	json   bool             // body is a JSON document

	upload  *atomic.Int64 // bytes sent of a body that streams through; nil otherwise
	limit   int64         // of the bytes of a body that streams through
	input   int64         // tokens, once estimated
	counted bool          // input is an estimate by the tokenizer
}

// sentBy returns the sentRequest of r. The caller releases it.
func sentBy(r *Request) sentRequest {
	s := sentRequest{op: r.Operation, method: r.Method, body: r.Body, size: r.Length, json: r.Doc != nil}
	if r.Upload != nil {
		s.upload, s.limit = &r.Upload.sent, r.Upload.Limit
	}
	if s.body != nil {
		s.body.Retain()
		s.size = int64(s.body.Len())
	}
	return s
}

// largestSize returns the size of the body, or its bound if the size is unknown.
func (s *sentRequest) largestSize() int64 {
	if s.size < 0 {
		return s.limit
	}
	return s.size
}

// release releases the body.
func (s *sentRequest) release() {
	if s.body != nil {
		s.body.Release()
		s.body = nil
	}
}

// uses reports whether the request may have used tokens. Requests that only
// read or delete use none.
func (s *sentRequest) uses() bool {
	switch s.op {
	case "", api.Models:
		return false
	case api.Proxy:
		return s.size != 0 && s.method != http.MethodGet && s.method != http.MethodDelete
	}
	return !s.op.CountsTokens()
}

// tokens returns an estimate of the input by its size, or by the tokenizer once count
// was called. It may be called after release.
func (s *sentRequest) tokens() int64 {
	switch {
	case s.input > 0:
	case s.upload != nil:
		return perUnit(s.upload.Load(), mediaBytes)
	case !s.json:
		s.input = perUnit(max(s.size, 0), mediaBytes)
	case s.body == nil:
		s.input = perUnit(s.size, textBytes)
	default:
		s.input = jsonTokens(s.body.Bytes())
	}
	return s.input
}

// count estimates the input of a request for a model of t by the tokenizer, which can
// take milliseconds: the response has ended when it is called. What passes through may be no
// prompt.
func (s *sentRequest) count(t *provider.Target, model string) {
	if s.counted || !s.json || s.body == nil || s.op == api.Proxy {
		return
	}
	s.input, s.counted = requestTokens(t, model, s.body.Bytes()), true
}

// requestTokens estimates the tokens of a JSON request by the tokenizer of a model,
// with mediaTokens for each image or file. It takes more time than jsonTokens.
func requestTokens(t *provider.Target, model string, body []byte) int64 {
	media := int64(0)
	n := tokens.EstimateRequest(t.ID, t.BaseModelOf(model), body, func(s []byte) bool {
		is := isMedia(s)
		if is {
			media++
		}
		return is
	})
	return n + media*mediaTokens
}

// perUnit returns n divided by unit, rounded up.
func perUnit(n, unit int64) int64 { return (n + unit - 1) / unit }

// jsonTokens estimates the tokens of a JSON request: one for textBytes bytes of
// text, and mediaTokens for each image or file, which is a URL, a data: URL or
// a long string without spaces.
func jsonTokens(b []byte) int64 {
	size, media := int64(len(b)), int64(0)
	c := jsonedit.NewCursor(b)
	for text, ok := c.NextText(); ok; text, ok = c.NextText() {
		if isMedia(text) {
			size -= int64(len(text))
			media++
		}
	}
	return perUnit(size, textBytes) + media*mediaTokens
}

func isMedia(s []byte) bool {
	switch {
	case len(s) > longWord:
		return bytes.IndexByte(s, ' ') < 0
	case len(s) < len("http://x"):
		return false
	}
	address := bytes.HasPrefix(s, []byte("https://")) || bytes.HasPrefix(s, []byte("http://")) ||
		bytes.HasPrefix(s, []byte("data:")) || bytes.HasPrefix(s, []byte("gs://")) || bytes.HasPrefix(s, []byte("s3://"))
	return address && bytes.IndexByte(s, ' ') < 0
}

// Usage returns the usage of the response, which has ended: as reported by the
// provider, or an estimate if it reported none or the response broke off. The zero
// value means unknown.
func (r *Response) Usage() llm.Usage {
	if a := &r.account; a.open && r.cut == nil && !r.Tap.Info().Usage.Known && a.sent.uses() && r.Raw.StatusCode <= 299 {
		a.sent.count(a.of.Target, a.of.Model)
	}
	return r.usageSoFar()
}

// usageSoFar returns the usage of a response that may go on.
func (r *Response) usageSoFar() llm.Usage {
	switch {
	case r.free:
		return llm.Usage{Known: true}
	case r.shared != nil:
		return r.shared.usage()
	case r.cut != nil:
		return *r.cut
	}
	seen, a := r.Tap.Info(), &r.account
	u := seen.Usage
	if !u.Known {
		u = llm.Usage{}
	}
	if a.of == nil || !a.sent.uses() || r.Raw.StatusCode > 299 {
		return u
	}
	if u.Known && (seen.Finished || seen.Terminated || r.complete()) {
		return u
	}
	output := r.written()
	if a.runsOn && !seen.Finished {
		largest, _ := a.of.largestOutput(a.of.sentDoc())
		output = max(output, largest)
	}
	if !u.Known {
		return llm.Usage{Known: true, Estimated: true, Input: a.sent.tokens(), Output: output}
	}
	if more := output - u.Completion(); more > 0 {
		u.Output, u.Estimated = u.Output+more, true
	}
	return u
}

// runsOn reports whether the provider goes on with its response when the request has ended:
// the client reads it later.
// https://platform.openai.com/docs/guides/background
func (a *Attempt) runsOn() bool {
	if a.request.Operation != api.Responses || a.wire.translates() {
		return false
	}
	doc := a.sentDoc()
	if doc == nil {
		return false
	}
	v, ok := doc.Find("background")
	yes, is := v.Bool()
	return ok && !v.IsNull() && (yes || !is)
}

// reserveEstimate counts a token count that the gateway answers itself for the limits of
// requests of its client. The provider receives none.
func (a *Attempt) reserveEstimate(ctx context.Context) error {
	acc := attemptAccount{bill: a.trail.bill(), of: a, local: true}
	if err := acc.reserve(ctx); err != nil {
		return err
	}
	acc.bill.quota.sent.Add(1)
	return nil
}

// estimateCount returns the response to a token count that the target does not
// offer, and announces that it is an estimate. A body that no target could read
// is an error all the same.
func (a *Attempt) estimateCount() (*Response, error) {
	r := a.request
	if _, err := a.wire.estimates.DecodeCountRequest(r.Doc.Bytes()); err != nil {
		return nil, err
	}
	body := a.wire.estimates.EncodeCountResponse(nil, requestTokens(a.Target, a.Model, r.Doc.Bytes()))
	var doc jsonedit.Doc
	if err := doc.Scan(body); err != nil {
		return nil, err
	}
	for field := range doc.Members() {
		a.Params = append(a.Params, dialect.ParamChange{Name: field.String(), Outcome: dialect.Adapted, Note: "an estimate: the provider offers no token count"})
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &Response{Status: http.StatusOK, Header: header, Attempt: a, Tap: r.Client.NewTap(r.Operation), Bytes: body}, nil
}

// complete reports whether a response that is not a stream has arrived
// completely.
func (r *Response) complete() bool {
	return r.Bytes != nil || r.Events == nil && r.arriving.ended && mediaType(r.Header.Get("Content-Type")) != mediaEvents
}

// written returns an estimate of the output.
func (r *Response) written() int64 {
	a := r.account.of
	if n := r.Tap.Info().Written; n > 0 {
		return tokens.Approximate(a.Target.ID, a.Target.BaseModelOf(a.Model), n)
	}
	switch op := r.account.sent.op; {
	case writesNothing(op):
		return 0
	case op == api.AudioTranscriptions, op == api.AudioTranslations:
		return tokens.Approximate(a.Target.ID, a.Target.BaseModelOf(a.Model), r.size())
	}
	if r.Events != nil {
		return 0 // nothing of the response has arrived
	}
	return perUnit(r.size(), mediaBytes)
}

// writesNothing reports whether responses to op have no output tokens.
func writesNothing(op api.Operation) bool {
	switch op {
	case api.Embeddings, api.GenerateEmbed, api.GenerateEmbedBatch, api.Moderations, api.Rerank:
		return true
	}
	return false
}

// size returns the number of bytes received of the response.
func (r *Response) size() int64 {
	if r.Bytes != nil {
		return int64(len(r.Bytes))
	}
	return r.arriving.read
}
