package guarding

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline/exchange"
)

// RequestGuard runs the hooks of a leaf on requests. Hooks that several leaves
// share run once for a request.
type RequestGuard struct {
	Bounds *exchange.Bounds
	Path   string
	Leaf   int                    // in Request.Leaves
	Params *exchange.ConfigParams // of the leaf, if they change bodies; nil otherwise
	Next   exchange.Handler
}

// Handle returns an error if a hook denies the request. Otherwise it passes on the
// request as the hooks changed it.
func (h *RequestGuard) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	g := r.GuardsOf(h.Leaf)
	if g == nil {
		return h.Next.Handle(ctx, r, t)
	}
	if r.Checking.Continued != nil && !r.Checking.Continued.CheckedBy(g.After) {
		return nil, apierr.From(exchange.ErrOtherGuardrails)
	}
	if r.DryRun {
		decideGuards(t, h.Path, g)
		return h.Next.Handle(ctx, r, t)
	}
	run := checkLog(t, h.Bounds).runRequest(ctx, h, r, g)
	if run.err != nil {
		return nil, run.err
	}
	res, err := h.Next.Handle(ctx, run.apply(r, h.Leaf), t)
	if res != nil {
		res.Hooks.Before = run.results
	}
	return res, err
}

// requestRun is the result of the hooks of a request.
type requestRun struct {
	once    sync.Once
	results []guardrail.HookResult
	err     error // why the request is not sent
	checked *document

	body       *bytepool.Buffer // after the changes of hooks, or configured; nil without changes
	doc        *jsonedit.Doc    // of body; nil if it is not an object
	configured bool             // body has the parameters of the config
	header     http.Header      // that hooks add
	fields     []string         // of the header that only hooks set
	plain      plainForm        // of a body that is not JSON
	rows       *rowUpload       // checks the rows of an upload; nil for other requests
}

// runRequest runs the hooks in g on r, unless they have run.
func (l *CheckLog) runRequest(ctx context.Context, h *RequestGuard, r *exchange.Request, g *exchange.Guards) *requestRun {
	key := requestRunKey{guards: g, body: r.Received.Body}
	if h.changesText(r) {
		key.params = h.Params
	}
	if len(r.Edits) > 0 {
		key.edits = &r.Edits[0]
	}
	prompt := promptOf(r, h.Leaf)
	key.prompt = prompt
	l.mu.Lock()
	run := l.runs[key]
	if run == nil {
		if l.runs == nil {
			l.runs = make(map[requestRunKey]*requestRun)
		}
		run = new(requestRun)
		l.runs[key] = run
	}
	l.mu.Unlock()
	run.once.Do(func() { run.runHooks(ctx, h, r, l) })
	return run
}

// promptOf returns the prompt of a leaf whose edits are part of the request, nil if
// there is none.
func promptOf(r *exchange.Request, leaf int) *exchange.PromptEdits {
	if leaf >= len(r.Leaves) || r.Leaves[leaf].Prompt == nil || r.Leaves[leaf].Prompt.Err != nil || r.Leaves[leaf].Prompt.Edits == nil {
		return nil
	}
	return r.Leaves[leaf].Prompt
}

// runHooks runs the hooks.
func (run *requestRun) runHooks(ctx context.Context, h *RequestGuard, r *exchange.Request, l *CheckLog) {
	g, prompt := r.GuardsOf(h.Leaf), promptOf(r, h.Leaf)
	if run.fields = guardrail.Fields(g.Before); r.Received.Upload != nil {
		maps.DeleteFunc(r.Received.Upload.Trailer, func(key string, _ []string) bool { return guardrail.IsField(key, run.fields) })
	}
	in := guardrail.Input{Event: guardrail.Before, Request: l.facts(r, nil)}
	outside := outsideTexts(r)
	if run.err = checkEncoding(r, outside, g, l); run.err != nil {
		return
	}
	switch {
	case r.Received.Doc != nil:
		raw := r.Received.Body.Bytes()
		if edits := editsWith(r, prompt); h.changesText(r) {
			if run.err = run.configure(h, r, prompt, l); run.err != nil {
				return
			}
			raw = run.body.Bytes()
		} else if len(edits) > 0 {
			raw = r.Received.Doc.Apply(nil, edits...)
		}
		run.checked = newDocument(r, bodytext.Request, raw)
		in.Request = l.facts(r, run.checked)
		in.Parts, in.Document = run.checked.parts, run.checked
		if run.err = checkTokens(run.checked, g.Before); run.err != nil {
			return
		}
		l.notCovered(run.checked.body.Uncovered...)
		if _, file := r.Received.Doc.Find("input_file_id"); file && (r.Operation == api.Batches || r.Operation == api.Proxy) {
			l.notCovered("batch file")
		}
	case rowUploadOf(r) != "" && (hasRows(r.Operation) || acts(g.Before)):
		checks := rowChecks{ctx: ctx, pool: h.Bounds.Pool, path: h.Path, request: r, log: l, hooks: g.Before, on: guardrail.Before}
		run.rows = &rowUpload{checks: newRowChecks(checks), boundary: rowUploadOf(r)}
		run.err = run.rows.checks.checkAside(outside)
		return
	case r.Received.Upload != nil || r.Received.Body != nil && r.Received.Body.Len() > 0:
		if run.checked, run.err = run.checkText(ctx, h, r, g, l); run.err != nil {
			return
		}
		if run.checked != nil {
			in.Request = l.facts(r, run.checked)
			in.Parts, in.Document = run.checked.parts, run.checked
			l.notCovered(run.checked.body.Uncovered...)
		}
	}
	aside := asideParts(outside)
	if len(aside) > 0 {
		in.Parts = slices.Concat(in.Parts, aside)
	}
	out := guardrail.Run(ctx, g.Before, &in, l.backgroundRuns(ctx, h.Path, r.Memory))
	if err := ctx.Err(); err != nil {
		run.err = apierr.New(apierr.ClientGone, "the client closed the request").WithCause(context.Cause(ctx))
		return
	}
	hideTexts(guardrail.Before, out.Results)
	run.results = out.Results
	l.record(guardrail.Before, h.Path, out.Results)
	switch {
	case out.Denied:
		run.err = denied(exchange.HookResults{Before: out.Results})
	case out.Err != nil:
		run.err = apierr.From(out.Err)
	case out.Transformed:
		if run.err = checkUnchanged(aside, out); run.err == nil {
			run.err = run.change(h.Bounds, r, out, l)
		}
	}
	run.header = out.Header
}

// changesText reports whether the config of the leaf changes text of the request.
// Hooks must read the text that is sent.
func (h *RequestGuard) changesText(r *exchange.Request) bool {
	return h.Params != nil && r.Received.Doc != nil && (h.Params.ChangesText || r.Operation == api.Proxy)
}

// configure sets the body that the leaf's config makes of the request: its defaults,
// its prompt, its overrides and its drops. The attempts do not apply them again.
func (run *requestRun) configure(h *RequestGuard, r *exchange.Request, prompt *exchange.PromptEdits, l *CheckLog) error {
	var edits []jsonedit.Edit
	if prompt != nil {
		edits = prompt.Edits
	}
	doc, err := h.Params.Apply(r, edits)
	if err != nil {
		return err
	}
	run.configured = true
	return run.hold(h.Bounds, r, doc.Bytes(), l)
}

// hold copies a body into memory that is released with the request.
func (run *requestRun) hold(b *exchange.Bounds, r *exchange.Request, raw []byte, l *CheckLog) error {
	buf, err := b.Pool.GetShare(len(raw)+64, r.Memory)
	if err != nil {
		return apierr.BodyMemoryFull(err)
	}
	l.release(buf)
	buf.Fill(func(dst []byte) []byte { return append(dst, raw...) })
	run.body, run.doc = buf, nil
	if r.Received.Doc == nil {
		return nil
	}
	run.doc = new(jsonedit.Doc)
	return run.doc.Scan(buf.Bytes())
}

// release releases a body when the request ends.
func (l *CheckLog) release(b *bytepool.Buffer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies = append(l.bodies, b)
}

// editsWith returns the edits of the request and of a leaf's prompt.
func editsWith(r *exchange.Request, p *exchange.PromptEdits) []jsonedit.Edit {
	if p == nil {
		return r.Edits
	}
	return slices.Concat(r.Edits, p.Edits)
}

// backgroundRuns returns what runs hooks that do not delay the request, on copies of its
// texts. Their memory is reserved first: a request whose hooks cannot run is not served.
func (l *CheckLog) backgroundRuns(ctx context.Context, path string, share *bytepool.Share) guardrail.Background {
	return func(hooks []*guardrail.Hook, in guardrail.Input) error {
		release, err := share.HoldBehind(in.Memory(hooks) + copiesBehind*in.Size())
		if err != nil {
			return apierr.BodyMemoryFull(err)
		}
		facts := *in.Request
		if d, ok := facts.Body.(*document); ok { // bodies are released with the request
			facts.Body = d.clone()
		}
		in.Request = &facts
		if d, ok := in.Document.(*document); ok {
			own := d.clone()
			in.Document, in.Parts = own, slices.Concat(own.parts, in.Parts[len(d.parts):])
		}
		in.Held = true
		l.inBackground(ctx, func(ctx context.Context) {
			defer release()
			out := guardrail.Run(ctx, hooks, &in, nil)
			l.record(in.Event, path, out.Results)
		})
		return nil
	}
}

// copiesBehind is the number of copies of bodies for hooks that do not delay the request:
// the body, and its texts.
const copiesBehind = 2

// change sets the body that the hooks produced. They cannot change the model or
// whether the response is streamed, which were checked before.
func (run *requestRun) change(b *exchange.Bounds, r *exchange.Request, out *guardrail.Outcome, l *CheckLog) error {
	raw := json.RawMessage(out.Body)
	if run.checked == nil {
		return apierr.New(apierr.Denied, "a guardrail could not change the request, which has no text in its body")
	}
	if raw == nil {
		var err error
		if raw, err = run.checked.JSON(out.Parts, out.Add); err != nil {
			return apierr.New(apierr.Denied, "a guardrail could not change the request: %v", err).WithCause(err)
		}
	}
	var doc jsonedit.Doc
	if err := doc.Scan(raw); err != nil && r.Received.Doc != nil {
		return apierr.New(apierr.Denied, "a guardrail returned a request that is not a JSON object").WithCause(err)
	}
	if edits := fixedFields(run.checked, &doc); len(edits) > 0 {
		raw = doc.Apply(nil, edits...)
	}
	if run.plain.encode != nil {
		plain, err := run.plain.encode(raw)
		if err != nil {
			return apierr.New(apierr.Denied, "a guardrail could not change the request: %v", err).WithCause(err)
		}
		raw = plain
	}
	run.checked = nil // checks of the response see the request as it is sent
	return run.hold(b, r, raw, l)
}

// fixedFields returns the edits that restore members which hooks must not change.
func fixedFields(before *document, after *jsonedit.Doc) (edits []jsonedit.Edit) {
	var old jsonedit.Doc
	if old.Scan(before.raw) != nil {
		return nil
	}
	for _, name := range [...]string{"model", "stream"} {
		was, had := old.Find(name)
		now, has := after.Find(name)
		switch {
		case had && !bytes.Equal(was.Raw(), now.Raw()):
			edits = append(edits, jsonedit.Edit{Name: name, Value: was.Raw()})
		case !had && has:
			edits = append(edits, jsonedit.Edit{Name: name})
		}
	}
	return edits
}

// apply returns r as the hooks changed it.
func (run *requestRun) apply(r *exchange.Request, leaf int) *exchange.Request {
	out := *r
	out.Checking.Passed, out.Checking.Checked = run.results, nil
	if run.checked != nil {
		out.Checking.Checked = run.checked
	}
	if run.rows != nil {
		out.Checking.Rows, out.Received.Length = run.rows.wrap, -1
	}
	out.Received.Header, out.Received.Query = guardrail.WithoutFields(r.Received.Header, run.fields),
		withoutFields(r.Received.Query, run.fields)
	if len(run.header) > 0 {
		out.Received.Header, out.Checking.Claims = maps.Clone(out.Received.Header), run.header
		maps.Copy(out.Received.Header, run.header)
	}
	if run.body == nil {
		return &out
	}
	out.Received.Upload = nil
	out.Received.Body, out.Received.Doc, out.Edits, out.Received.Length, out.Checking.Configured = run.body,
		run.doc, nil, int64(run.body.Len()), run.configured
	if p := promptOf(r, leaf); p != nil { // its edits are in the body
		out.Leaves = slices.Clone(r.Leaves)
		out.Leaves[leaf].Prompt = &exchange.PromptEdits{Prompt: p.Prompt, Edits: []jsonedit.Edit{}, Model: p.Model}
	}
	return &out
}

// endpoints are the names of operations that checks know.
var endpoints = map[api.Operation]string{
	api.Chat: "chatComplete", api.Completions: "complete", api.Embeddings: "embed", api.Images: "imageGenerate", api.ImageEdits: "imageEdit",
	api.AudioSpeech: "createSpeech", api.AudioTranscriptions: "createTranscription", api.AudioTranslations: "createTranslation",
	api.Moderations: "moderate", api.Rerank: "rerank", api.Responses: "createModelResponse", api.Messages: "messages",
	api.CountTokens: "messagesCountTokens", api.Generate: "chatComplete", api.Converse: "chatComplete", api.GenerateEmbed: "embed",
	api.GenerateEmbedBatch: "embed", api.Realtime: "realtime", api.Proxy: "proxy",
}

// facts returns what checks may know about the request. body is its document, nil
// if it has none.
func facts(r *exchange.Request, body guardrail.Document) *guardrail.Request {
	f := &guardrail.Request{
		Operation: endpoints[r.Operation], Dialect: string(r.Dialect), Model: r.Received.RequestedModel, Stream: r.Stream, TraceID: r.TraceID,
		Metadata: r.Metadata, Header: r.Received.Header, Egress: r.Checking.Egress,
	}
	if f.Operation == "" {
		f.Operation = string(r.Operation)
	}
	f.Tools = r.Operation.IsTools()
	if body != nil {
		f.Body = body
	}
	id := r.Owner()
	f.Organisation, f.Workspace = id.Organisation, id.Workspace
	f.StoredCredentials = r.Cache.Config != "" || id.May(access.ScopeGuardrailsCreate)
	return f
}
