package responses

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/tokens"
	"modelgate/internal/provider"
	"modelgate/internal/store"
)

// operation serves a request that is about the input of a response and makes none: to count
// its tokens, or to compact it. References to what the gateway keeps are replaced by its
// items.
func (q *request) operation(name string) error {
	body, err := io.ReadAll(io.LimitReader(q.HTTP.Body, q.From.MaxJSON+1))
	if err != nil {
		return apierr.New(apierr.Invalid, "the request body is incomplete; send it again").WithCode("body_incomplete").WithCause(err)
	}
	if int64(len(body)) > q.From.MaxJSON {
		return apierr.New(apierr.TooLarge, "the request body is larger than the limit of %d bytes", q.From.MaxJSON)
	}
	var doc jsonedit.Doc
	if err := doc.Scan(body); err != nil {
		return apierr.New(apierr.Invalid, "the request body is not a JSON object: %v", err).WithCode("invalid_json")
	}
	t, err := q.keeper.Begin(q.HTTP.Context(), &dataplane.TurnRequest{Identity: q.From.Identity, Time: q.From.Time, Body: &doc,
		MaxBody: q.From.MaxJSON, Retains: true})
	if err != nil {
		return err
	}
	if t != nil && len(t.Edits) > 0 {
		body = doc.Apply(nil, t.Edits...)
		if err := doc.Scan(body); err != nil {
			return err
		}
	}
	target, model := q.target(&doc)
	switch isManaged := target != nil; {
	case isManaged && t != nil && t.Missing != nil:
		return t.Missing
	case !isManaged || target.DialectFor(api.DialectResponses, model) == api.DialectResponses:
		return q.forward(body)
	case name == "input_tokens":
		return q.estimate(target, model, body)
	}
	return apierr.New(apierr.Unsupported, "%s does not offer %s of responses; send the request to a provider that does", target.Label(), name).
		WithCode("unsupported_operation")
}

// target returns the managed provider and the model that a request names, nil if it names
// none.
func (q *request) target(doc *jsonedit.Doc) (*provider.Target, string) {
	name, model := q.From.Provider, textOf(doc, "model")
	if rest, ok := strings.CutPrefix(model, "@"); ok && !q.Names() {
		if slug, after, ok := strings.Cut(rest, "/"); ok {
			name, model = "@"+slug, after
		}
	}
	if name == "" {
		return nil, model
	}
	t, _, _ := q.Deps.Managed(q.From.Identity.Workspace, strings.TrimPrefix(name, "@"))
	return t, model
}

// forward passes the request on with a body.
func (q *request) forward(body []byte) error {
	r := q.HTTP.Clone(q.HTTP.Context())
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	q.From.Relay(q.W, r, q.From.ClientCall())
	return nil
}

// estimate responds with an estimate of the tokens of a body, and says that it is one.
func (q *request) estimate(t *provider.Target, model string, body []byte) error {
	n := tokens.EstimateRequest(t.ID, model, body)
	q.W.Header().Set(api.HeaderParams, "input_tokens;adapted;note=estimated")
	return q.JSON(http.StatusOK, struct {
		Object string `json:"object"`
		Tokens int64  `json:"input_tokens"`
	}{"response.input_tokens", n})
}

// stopWork ends the job of a response in the background, if it has one that has not ended.
func (q *request) stopWork(o *store.Object) error {
	ctx := context.WithoutCancel(q.HTTP.Context())
	err := q.Change(func(tx *store.Tx) error {
		j, err := tx.JobOf(ctx, store.JobResponse, o.ID)
		if err != nil || j.Ended() {
			return err
		}
		next := j
		next.State, next.EndedAt = store.JobCancelled, q.Deps.Now()
		return tx.MoveJob(ctx, j, next)
	})
	if stop, ok := q.keeper.running.Load(o.ID); ok {
		stop.(context.CancelFunc)()
	}
	q.keeper.changes.announce()
	if apierr.IsNotFound(err) {
		return nil
	}
	return err
}
