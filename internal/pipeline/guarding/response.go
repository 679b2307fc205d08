package guarding

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/contentcoding"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
)

// ResponseGuard runs the hooks of a leaf on its responses.
type ResponseGuard struct {
	Bounds *exchange.Bounds
	Path   string
	Leaf   int
	Next   exchange.Handler
}

// Handle returns an error if a hook denies the response. Only successful
// responses are checked.
func (h *ResponseGuard) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	res, err := h.Next.Handle(ctx, r, t)
	g := r.GuardsOf(h.Leaf)
	if t.Continuer != nil && res != nil && res.Events != nil {
		t.Continuer.Continue(t, res)
	}
	if err != nil || g == nil || len(g.After) == 0 || res.Status < 200 || res.Status > 299 || r.DryRun {
		return res, err
	}
	if r.Checking.Continued != nil { // the guardrails of the stream check it
		return res, nil
	}
	run := &responseRun{guard: h, ctx: ctx, request: r, log: checkLog(t, h.Bounds), res: res, hooks: g.After}
	if err := run.check(); err != nil {
		res.Close()
		return nil, err
	}
	return res, nil
}

// responseRun is the run of the hooks of one response.
type responseRun struct {
	guard   *ResponseGuard
	ctx     context.Context
	request *exchange.Request
	log     *CheckLog
	res     *exchange.Response
	hooks   []*guardrail.Hook
	facts   *guardrail.Request // once they are needed
	sniffed bool               // the body looks like text, whatever its type
}

// check checks the response, or wraps its stream so that it is checked as it
// passes.
func (run *responseRun) check() error {
	if err := run.checkHead(); err != nil {
		return err
	}
	res := run.res
	switch {
	case res.Events != nil:
		return run.guardStream()
	case run.mayHaveRows():
		return run.guardRows()
	case res.Body != nil && run.request.Operation == api.Proxy:
		return run.checkPassThrough()
	case res.Body != nil && (framing.IsJSON(framing.MediaType(res.Header.Get("Content-Type"))) || run.isText()):
		return run.readBody(res.Body)
	case res.Bytes != nil:
		return run.checkBytes()
	}
	run.log.notCovered("response body")
	return run.runFacts()
}

// maxChecked is the limit in bytes of a complete response that is checked. A
// larger one is denied if a hook may deny.
const maxChecked = exchange.MaxTranslated

// readBody reads a response that would stream through, and checks it.
func (run *responseRun) readBody(body io.Reader) error {
	buf, err := run.guard.Bounds.Pool.ReadShare(body, max(run.res.Length, -1), maxChecked, run.request.Memory)
	switch {
	case bytepool.IsFull(err):
		return apierr.BodyMemoryFull(err)
	case errors.Is(err, bytepool.ErrTooLarge):
		return apierr.New(apierr.Denied, "the response is larger than %d bytes, so it could not be checked by guardrails", maxChecked).WithCode("response_unchecked")
	case err != nil:
		return err
	}
	run.res.Hold(buf)
	run.res.Body = nil
	run.res.Bytes = buf.Bytes()
	run.res.Length = int64(buf.Len())
	return run.checkBytes()
}

// checkPassThrough checks the response of an unknown API: JSON, JSON values, text or a stream of
// server-sent events.
func (run *responseRun) checkPassThrough() error {
	kind := framing.MediaType(run.res.Header.Get("Content-Type"))
	if isMedium(kind) || !acts(run.hooks) && !isValues(kind) && (kind == "" || !framing.MayHoldText(kind)) {
		run.log.notCovered("response body")
		return run.runFacts()
	}
	body, err := run.plainBody()
	if err != nil {
		return run.handleCoding(err)
	}
	return run.checkPlain(body)
}

// checkPlain checks the body of a response of an unknown API without its content coding.
func (run *responseRun) checkPlain(body io.Reader) error {
	kind := framing.MediaType(run.res.Header.Get("Content-Type"))
	problem := charsetProblem(run.res.Header["Content-Type"])
	switch {
	case problem != "":
		run.res.Body = body
		return run.runUnreadable(errors.New("the response " + problem))
	case kind == framing.MediaEvents:
		return run.guardBodyEvents(body)
	case isValues(kind):
		return run.guardValues(body)
	case kind != "" && framing.IsJSON(kind), run.isText():
		return run.readBody(body)
	}
	ahead := bufio.NewReaderSize(body, peekSize)
	head, _ := ahead.Peek(peekSize) // reading returns errors
	switch {
	case startsEvents(head):
		return run.guardBodyEvents(ahead)
	case mayBeJSON(head), mayBeText("", head):
		run.sniffed = true
		return run.readBody(ahead)
	}
	run.log.notCovered("response body")
	run.res.Body = ahead
	return run.runFacts()
}

// isMedium reports whether a media type is one of content without text.
func isMedium(media string) bool {
	kind, _, _ := strings.Cut(media, "/")
	return kind == "image" && media != "image/svg+xml" || kind == "audio" || kind == "video" ||
		kind == "font" || media == "application/pdf" || media == "application/zip"
}

// startsEvents reports whether a body without a content type begins as server-sent events do.
func startsEvents(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), "\r\n")
	return slices.ContainsFunc([]string{"data:", "event:", "id:", "retry:", ":"},
		func(field string) bool { return bytes.HasPrefix(head, []byte(field)) })
}

// plainBody returns the body without its content coding, and an error for an unknown coding or
// one that the body is not in.
func (run *responseRun) plainBody() (io.Reader, error) {
	res := run.res
	coding := res.Header.Get("Content-Encoding")
	if contentcoding.IsIdentity(coding) {
		return res.Body, nil
	}
	plain, err := contentcoding.NewReader(coding, res.Body, run.guard.Bounds.MaxDecoded)
	if err != nil {
		return nil, err
	}
	res.After = append(res.After, func() { plain.Close() })
	res.Edited()
	return codedBody{plain, run}, nil
}

// handleCoding handles a body whose content coding cannot be decoded.
func (run *responseRun) handleCoding(err error) error {
	if errors.Is(err, contentcoding.ErrUnknown) {
		return run.runUnreadable(errUnknownCoding)
	}
	return run.readFailure(err)
}

// readFailure returns the error for clients for an error of reading the body.
func (run *responseRun) readFailure(err error) error {
	if !framing.Unreadable(err) {
		return err
	}
	provider := "the provider"
	if a := run.res.Attempt; a != nil {
		provider = a.Target.Label()
	}
	return apierr.New(apierr.UpstreamFailed, "%s: %v", provider, err).WithCode("upstream_unreadable")
}

// codedBody is a body in a content coding, whose errors are those of the provider.
type codedBody struct {
	io.Reader
	run *responseRun
}

func (b codedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = b.run.readFailure(err)
	}
	return n, err
}

// checkBytes checks a complete response.
func (run *responseRun) checkBytes() error {
	doc, plain, err := run.document()
	if err != nil && run.request.Operation == api.Proxy && bodytext.IsSequence(run.res.Bytes) {
		body := bytes.NewReader(run.res.Bytes)
		run.res.Bytes = nil
		return run.guardValues(body)
	}
	if err != nil {
		return run.runUnreadable(errNotReadable)
	}
	run.log.notCovered(doc.body.Uncovered...)
	out, err := run.run(guardrail.Input{Parts: doc.parts, Document: doc})
	if err != nil || !out.Transformed {
		return err
	}
	raw := json.RawMessage(out.Body)
	if out.Err == nil && raw == nil {
		raw, out.Err = doc.JSON(out.Parts, out.Add)
	}
	if out.Err == nil && plain.encode != nil {
		raw, out.Err = plain.encode(raw)
	}
	if out.Err != nil {
		return apierr.New(apierr.Denied, "a guardrail could not change the response: %v", out.Err).WithCause(out.Err)
	}
	run.res.Edited()
	run.res.Bytes = bytes.Clone(raw)
	return nil
}

// isText reports whether the response is text that hooks which act read: they wait for all
// of it.
func (run *responseRun) isText() bool {
	return !run.sniffed && isTextMedia(framing.MediaType(run.res.Header.Get("Content-Type"))) && acts(run.hooks)
}

// document returns the document of a complete response.
func (run *responseRun) document() (*document, plainForm, error) {
	text, media := run.res.Bytes, framing.MediaType(run.res.Header.Get("Content-Type"))
	if problem := charsetProblem(run.res.Header["Content-Type"]); problem != "" {
		return nil, plainForm{}, errors.New("the response " + problem)
	}
	if run.isText() {
		return plainDocument(run.request, bodytext.Response, media, text)
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	_, err := jsonedit.ParseValue(text)
	switch {
	case err == nil:
		return newDocument(run.request, bodytext.Response, text), plainForm{}, nil
	case run.sniffed && !bodytext.IsSequence(text):
		return plainDocument(run.request, bodytext.Response, media, text)
	}
	return nil, plainForm{}, err
}

// runFacts runs the hooks on a response without readable text.
func (run *responseRun) runFacts() error {
	_, err := run.run(guardrail.Input{})
	return err
}

// Reasons why the text of a response cannot be read.
var (
	errUnknownCoding = errors.New("the response has a content coding that the gateway cannot read")
	errNotReadable   = errors.New("the response is neither valid JSON nor text in UTF-8")
)

// runUnreadable runs the hooks on a response whose text cannot be read, which is an error
// of every check that reads texts. If one of them acts, the response is denied.
func (run *responseRun) runUnreadable(problem error) error {
	run.log.notCovered("response body")
	if _, err := run.run(guardrail.Input{Unreadable: problem}); err != nil || !acts(run.hooks) {
		return err
	}
	return apierr.New(apierr.Denied, "%v, so it could not be checked by guardrails", problem).WithCode("response_unchecked")
}

// run runs all hooks on all text of a complete response.
func (run *responseRun) run(in guardrail.Input) (*guardrail.Outcome, error) {
	in.Event, in.Status, in.Request = guardrail.After, run.res.Status, run.requestFacts()
	out, err := run.runHooks(run.hooks, in)
	run.addResults(out.Results)
	return out, err
}

// runHooks runs hooks. An error says that the response does not pass.
func (run *responseRun) runHooks(hooks []*guardrail.Hook, in guardrail.Input) (*guardrail.Outcome, error) {
	out := guardrail.Run(run.ctx, hooks, &in, run.log.backgroundRuns(run.ctx, run.guard.Path, run.request.Memory))
	switch {
	case run.ctx.Err() != nil:
		return new(guardrail.Outcome), apierr.New(apierr.ClientGone, "the client closed the request").WithCause(context.Cause(run.ctx))
	case out.Denied:
		hideTexts(guardrail.After, out.Results)
		return out, denied(exchange.HookResults{Before: run.request.Checking.Passed, After: out.Results})
	}
	return out, notRun(out)
}

// notRun returns the error of hooks that did not run, for want of memory; nil if they did.
func notRun(out *guardrail.Outcome) error {
	if e, ok := errors.AsType[*apierr.Error](out.Err); ok {
		return e
	}
	return nil
}

// observe runs hooks on a stream that has passed: they can only report.
func (run *responseRun) observe(hooks []*guardrail.Hook, in guardrail.Input) {
	out := guardrail.Run(run.ctx, hooks, &in, run.log.backgroundRuns(run.ctx, run.guard.Path, run.request.Memory))
	if notRun(out) != nil {
		run.log.notCovered("streamed text") // it has passed
	}
	for i := range out.Results {
		out.Results[i].Deny = false
	}
	run.addResults(out.Results)
}

// requestFacts returns what checks may know about the request.
func (run *responseRun) requestFacts() *guardrail.Request {
	if run.facts == nil {
		run.facts = run.log.facts(run.request, checkedBody(run.request))
	}
	return run.facts
}

// addResults records results for the response and the log.
func (run *responseRun) addResults(results []guardrail.HookResult) {
	run.res.Hooks.After = append(run.res.Hooks.After, results...)
	hideTexts(guardrail.After, run.res.Hooks.After) // results share their checks
	run.log.record(guardrail.After, run.guard.Path, results)
}

// checkedBody returns the document of the request, nil if it has none.
func checkedBody(r *exchange.Request) guardrail.Document {
	if r.Checking.Checked == nil && r.Received.Doc != nil {
		return newDocument(r, bodytext.Request, r.Received.Body.Bytes())
	}
	return r.Checking.Checked
}
