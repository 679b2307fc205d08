package pipeline

import (
	"cmp"
	"context"
	"net/http"

	"modelgate/api"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/tokens"
)

// mediaBytes is the number of bytes of forms, audio, images and files per token; see
// docs/ledger.md. Estimates of JSON are in package tokens.
const mediaBytes = 1000

// sentRequest is the part of a sent request that an estimate needs.
type sentRequest struct {
	op     api.Operation
	method string
	body   *bytepool.Buffer // retained; nil if there is none or it streams through
	size   int64            // of the body; -1 if unknown
	json   bool             // body is a JSON document

	upload  *Upload // a body that streams through; nil otherwise
	input   int64   // tokens, once estimated
	counted bool    // input is an estimate by the tokenizer
}

// sentBy returns the sentRequest of r. The caller releases it.
func sentBy(r *Request) sentRequest {
	s := sentRequest{op: r.Operation, method: r.Received.Method, body: r.Received.Body, size: r.Received.Length, json: r.Received.Doc != nil, upload: r.Received.Upload}
	if s.body != nil {
		s.body.Retain()
		s.size = int64(s.body.Len())
	}
	return s
}

// largestSize returns the size of the body, or its bound if the size is unknown.
func (s *sentRequest) largestSize() int64 {
	if s.size < 0 && s.upload != nil {
		return s.upload.Limit
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
func (s *sentRequest) tokens(a *Attempt) int64 {
	switch {
	case s.input > 0:
	case s.upload != nil:
		return s.uploadTokens(s.upload.sent.Load())
	case s.body == nil:
		s.input = tokens.SizeText(max(s.size, 0))
	default:
		s.input = a.inputSize(s.body.Bytes())
	}
	return s.input
}

// uploadTokens returns an estimate of n bytes of the body that streams through.
func (s *sentRequest) uploadTokens(n int64) int64 {
	return perUnit(n, cmp.Or(s.upload.TokenBytes, mediaBytes))
}

// inputSize returns an estimate of the tokens of a JSON body by its bytes.
func (a *Attempt) inputSize(body []byte) int64 {
	return tokens.SizeRequest(a.Target.ID, a.Target.BaseModelOf(a.Model), body)
}

// count estimates the input of the attempt by the tokenizer of its model, which can take
// milliseconds: the response has ended when it is called. A body that passes through may not
// be a prompt.
func (s *sentRequest) count(a *Attempt) {
	if s.counted || !s.json || s.body == nil || s.op == api.Proxy {
		return
	}
	s.input, s.counted = a.countTokens(a.sentDoc().Bytes()), true
}

// countTokens estimates the tokens of a JSON body by the tokenizer of the model. It takes
// more time than inputSize.
func (a *Attempt) countTokens(body []byte) int64 {
	return tokens.EstimateRequest(a.Target.ID, a.Target.BaseModelOf(a.Model), body)
}

// perUnit returns n divided by unit, rounded up.
func perUnit(n, unit int64) int64 { return (n + unit - 1) / unit }

// Usage returns the usage of the response, which has ended: as reported by the
// provider, or an estimate if it reported none or the response broke off. The zero
// value means unknown.
func (r *Response) Usage() llm.Usage {
	if a := &r.account; a.open && r.cut == nil && !r.Tap.Info().Usage.Known && a.sent.uses() && r.Raw.StatusCode <= 299 {
		a.sent.count(a.of)
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
	if a.of == nil || !a.sent.uses() || r.Raw.StatusCode > 299 {
		if !u.Known {
			u = llm.Usage{}
		}
		return u
	}
	if u.Known && (seen.Finished || seen.Terminated || r.complete()) {
		return u
	}
	output := r.written()
	if a.runsOn && !seen.Finished {
		largest, _ := a.of.largestOutput(a.of.sentFields(), a.of.sentDoc())
		output = max(output, largest)
	}
	if !u.Known {
		return u.Estimate(a.sent.tokens(a.of), output)
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
	if _, err := a.wire.estimates.DecodeCountRequest(r.Received.Doc.Bytes()); err != nil {
		return nil, err
	}
	body := a.wire.estimates.EncodeCountResponse(nil, a.countTokens(r.Received.Doc.Bytes()))
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
		n := r.size()
		if r.Bytes != nil {
			n = llm.TextSize(r.Bytes)
		}
		return tokens.Approximate(a.Target.ID, a.Target.BaseModelOf(a.Model), n)
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
