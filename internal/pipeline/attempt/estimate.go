package attempt

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
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
	"modelgate/internal/pipeline/metering"
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
	talks  bool             // the connection changes its protocol

	manages bool // see [exchange.Request.Manages]
	begins  bool // see [exchange.Request.Begins]
	json    bool // body is a JSON document

	upload  *exchange.Upload // a body that streams through; nil otherwise
	input   int64            // tokens, once estimated
	counted bool             // input is an estimate by the tokenizer
}

// sentBy returns the sentRequest of r. The caller releases it.
func sentBy(r *exchange.Request) sentRequest {
	s := sentRequest{op: r.Operation, method: r.Received.Method, body: r.Received.Body, size: r.Received.Length,
		json: r.Received.Doc != nil, upload: r.Received.Upload, talks: r.Upgrade != nil, manages: r.Manages,
		begins: r.Begins}
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
	return !s.manages && (s.talks || metering.UsesTokens(s.op, s.method, s.size))
}

// tokens returns an estimate of the input by its size, or by the tokenizer once count
// was called. It may be called after release.
func (s *sentRequest) tokens(a *attempt) int64 {
	switch {
	case s.input > 0:
	case s.upload != nil:
		return s.uploadTokens(s.upload.Sent.Load())
	case s.body == nil:
		s.input = tokens.SizeText(max(s.size, 0))
	default:
		s.input = a.plan.inputSize(s.body.Bytes())
	}
	return s.input
}

// uploadTokens returns an estimate of n bytes of the body that streams through.
func (s *sentRequest) uploadTokens(n int64) int64 {
	return perUnit(n, cmp.Or(s.upload.TokenBytes, mediaBytes))
}

// inputSize returns an estimate of the tokens of a JSON body by its bytes.
func (p *plan) inputSize(body []byte) int64 {
	return tokens.SizeRequest(p.record.Target.ID, p.record.Target.BaseModelOf(p.record.Model), body)
}

// count estimates the input of the attempt by the tokenizer of its model, which can take
// milliseconds: the response has ended when it is called. A body that passes through may not
// be a prompt.
func (s *sentRequest) count(a *attempt) {
	if s.counted || !s.json || s.body == nil || s.op == api.Proxy {
		return
	}
	s.input, s.counted = a.plan.countTokens(a.plan.sentDoc().Bytes()), true
}

// countTokens estimates the tokens of a JSON body by the tokenizer of the model. It takes
// more time than inputSize.
func (p *plan) countTokens(body []byte) int64 {
	return tokens.EstimateRequest(p.record.Target.ID, p.record.Target.BaseModelOf(p.record.Model), body)
}

// perUnit returns n divided by unit, rounded up.
func perUnit(n, unit int64) int64 { return (n + unit - 1) / unit }

// Usage implements [exchange.Source].
func (a *attempt) Usage() llm.Usage {
	r, acc := &a.response, &a.account
	if acc.open && a.cut == nil && !r.Tap.Info().Usage.Known && acc.sent.uses() && r.Raw.StatusCode <= 299 {
		acc.sent.count(a)
	}
	return usageSoFar(a)
}

// usageSoFar returns the usage of a response that may go on.
func usageSoFar(a *attempt) llm.Usage {
	if a.cut != nil {
		return *a.cut
	}
	r, acc := &a.response, &a.account
	switch {
	case acc.sent.manages:
		return llm.Usage{}
	case acc.sent.begins:
		return llm.Usage{Known: true}
	}
	seen := r.Tap.Info()
	u := seen.Usage
	if acc.attempt == nil || !acc.sent.uses() || r.Raw.StatusCode > 299 {
		if !u.Known {
			u = llm.Usage{}
		}
		return u
	}
	if u.Known && (seen.Finished || seen.Terminated || complete(a)) {
		return u
	}
	output := written(a)
	if acc.survivesClient && !seen.Finished {
		largest, _ := a.plan.largestOutput(a.plan.sentFields(), a.plan.sentDoc())
		output = max(output, largest)
	}
	if !u.Known {
		return u.Estimate(acc.sent.tokens(a), output)
	}
	if more := output - u.Completion(); more > 0 {
		u.Output, u.Estimated = u.Output+more, true
	}
	return u
}

// survivesClient reports whether the provider goes on with its response when the request has ended:
// the client reads it later.
// https://platform.openai.com/docs/guides/background
func (p *plan) survivesClient() bool {
	if p.request.Operation != api.Responses || p.wire.translates() {
		return false
	}
	doc := p.sentDoc()
	if doc == nil {
		return false
	}
	v, ok := doc.Find("background")
	yes, is := v.Bool()
	return ok && !v.IsNull() && (yes || !is)
}

// reserveEstimate counts a token count that the gateway answers itself for the limits of
// requests of its client. The provider receives none.
func reserveEstimate(a *attempt, ctx context.Context) error {
	bill := a.plan.trail.Bill()
	limits := metering.Reservation{Store: a.plan.handler.Engine.Quota, Request: a.plan.request,
		Record: &a.plan.record, Also: a.plan.also, Quota: &bill.Quota, Local: true,
		By: &attemptAccount{attempt: a}}
	if err := limits.Reserve(ctx); err != nil {
		return err
	}
	bill.Quota.Sent.Add(1)
	return nil
}

// estimateCount returns the response to a token count that the target does not
// offer, and announces that it is an estimate. A body that no target could read
// is an error all the same.
func estimateCount(a *attempt) (*exchange.Response, error) {
	r := a.plan.request
	if _, err := a.plan.wire.estimates.DecodeCountRequest(r.Received.Doc.Bytes()); err != nil {
		return nil, err
	}
	body := a.plan.wire.estimates.EncodeCountResponse(nil, a.plan.countTokens(r.Received.Doc.Bytes()))
	var doc jsonedit.Doc
	if err := doc.Scan(body); err != nil {
		return nil, err
	}
	for field := range doc.Members() {
		a.plan.record.Params = append(a.plan.record.Params, dialect.ParamChange{Name: field.String(), Outcome: dialect.Adapted,
			Note: dialect.TokensEstimated})
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &exchange.Response{Status: http.StatusOK, Header: header, Attempt: &a.plan.record,
		Tap: r.Client.NewTap(r.Operation), Bytes: body}, nil
}

// complete reports whether a response that is not a stream has arrived
// completely.
func complete(a *attempt) bool {
	r := &a.response
	return r.Bytes != nil || r.Events == nil && a.arriving.ended && framing.MediaType(r.Header.Get("Content-Type")) != framing.MediaEvents
}

// written returns an estimate of the output.
func written(a *attempt) int64 {
	r := &a.response
	if n := r.Tap.Info().Written; n > 0 {
		return tokens.Approximate(a.plan.record.Target.ID, a.plan.record.Target.BaseModelOf(a.plan.record.Model), n)
	}
	switch op := a.account.sent.op; {
	case writesNothing(op):
		return 0
	case op == api.AudioTranscriptions, op == api.AudioTranslations:
		n := received(a)
		if r.Bytes != nil {
			n = llm.TextSize(r.Bytes)
		}
		return tokens.Approximate(a.plan.record.Target.ID, a.plan.record.Target.BaseModelOf(a.plan.record.Model), n)
	}
	if r.Events != nil {
		return 0 // nothing of the response has arrived
	}
	return perUnit(received(a), mediaBytes)
}

// writesNothing reports whether responses to op have no output tokens.
func writesNothing(op api.Operation) bool {
	switch op {
	case api.Embeddings, api.GenerateEmbed, api.GenerateEmbedBatch, api.Moderations, api.Rerank:
		return true
	}
	return false
}

// received returns the number of bytes received of the response.
func received(a *attempt) int64 {
	r := &a.response
	if r.Bytes != nil {
		return int64(len(r.Bytes))
	}
	return a.arriving.read
}
