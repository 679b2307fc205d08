package dataplane

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/catalog"
	"modelgate/internal/pipeline"
	"modelgate/internal/reqlog"
)

// Question is the body of POST /v1/explain: a request as a client would send
// it, and a config that takes the place of its config header.
type Question struct {
	Request struct {
		Method  string            `json:"method"` // default POST
		Path    string            `json:"path"`   // default /v1/chat/completions
		Headers map[string]string `json:"headers"`
		Body    json.RawMessage   `json:"body"`
	} `json:"request"`
	Config json.RawMessage `json:"config"`
}

// Explanation is the answer: what would happen, and nothing was sent.
type Explanation struct {
	Object    string            `json:"object"`
	Operation api.Operation     `json:"operation"`
	Tree      string            `json:"tree,omitempty"`
	Decisions []reqlog.Decision `json:"decisions"`
	Attempt   *Attempt          `json:"attempt"`
	Status    int               `json:"status"` // 200, or that of Error
	Error     json.RawMessage   `json:"error,omitempty"`
	Cache     string            `json:"cache_status"`
	Estimate  Estimate          `json:"estimate"`

	// AttemptLimit is how many attempts the request may make; see limits.attempts.
	AttemptLimit int `json:"attempt_limit"`
}

// Attempt is the request that would go out first. It holds no credential.
type Attempt struct {
	Target    string              `json:"target"`
	Provider  string              `json:"provider"`
	Slug      string              `json:"provider_slug,omitempty"`
	Model     string              `json:"model"`
	Method    string              `json:"method"`
	URL       string              `json:"url"`
	Headers   map[string][]string `json:"headers"`
	Body      json.RawMessage     `json:"body,omitempty"`
	Params    []string            `json:"params"`
	TimeoutMS int64               `json:"request_timeout_ms,omitempty"`
}

// Estimate is rough: a token of text is taken to be four bytes, and an answer
// as long as the request allows. The price is in dollars, null where the
// model's is not known.
type Estimate struct {
	PromptTokens     int64    `json:"prompt_tokens"`
	CompletionTokens int64    `json:"completion_tokens"`
	Price            *float64 `json:"price"`
}

// explain answers what would become of a request.
func (p *Plane) explain(w http.ResponseWriter, r *http.Request, x *exchange) error {
	if err := p.hold(r, x, p.MaxJSON); err != nil {
		return err
	}
	var q Question
	d := json.NewDecoder(bytes.NewReader(x.Body.Bytes()))
	d.DisallowUnknownFields() // a slip would explain another request
	if err := d.Decode(&q); err != nil {
		return apierr.New(apierr.Invalid, "POST /v1/explain takes {request: {method, path, headers, body}, config}: %v", err).WithCode("invalid_json")
	}
	return p.answerJSON(w, x, p.Explain(r.Context(), x.Identity, q))
}

// Explain takes a request its own way up to the point where it would be sent,
// on behalf of id. It changes nothing that requests write.
func (p *Plane) Explain(ctx context.Context, id *access.Identity, q Question) Explanation {
	dry := p.dry(ctx, id, q)
	defer dry.releaseBody()
	defer p.releaseTrees(dry)
	out := Explanation{Object: "explanation", Decisions: []reqlog.Decision{}, Status: http.StatusOK, Cache: dry.entry.CacheStatus, AttemptLimit: p.Engine.AttemptLimit()}
	tree, err := p.rehearse(dry)
	if err != nil {
		e := apierr.From(err)
		out.Status, out.Error = e.Status(), dry.Client.Error(e)
	}
	if tree != nil {
		out.Tree = tree.String()
	}
	out.Operation = dry.Operation
	out.Decisions = append(out.Decisions, dry.Decisions...)
	u := dry.Tokens()
	out.Estimate.PromptTokens, out.Estimate.CompletionTokens = u.Prompt(), u.Completion()
	if n := len(dry.Plan.Attempts); n > 0 {
		out.Attempt = planned(dry.Plan.Attempts[n-1])
		out.Estimate.Price = dry.price(dry.Plan.Attempts[n-1])
	}
	return out
}

// price estimates what the attempt costs in dollars, nil where no price is known.
func (x *exchange) price(a pipeline.Planned) *float64 {
	if a.Price == nil {
		return nil
	}
	dollars := float64(a.Price.Cost(x.Tokens(), catalog.Standard)) / 1e9
	return &dollars
}

// dry returns the exchange that q describes, for id.
func (p *Plane) dry(ctx context.Context, id *access.Identity, q Question) *exchange {
	method, path := q.Request.Method, q.Request.Path
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = api.BasePath + "/chat/completions"
	}
	inner := (&http.Request{
		Method:        method,
		URL:           new(url.URL),
		RequestURI:    path,
		Header:        http.Header{"Content-Type": jsonType},
		Body:          io.NopCloser(bytes.NewReader(q.Request.Body)),
		ContentLength: int64(len(q.Request.Body)),
	}).WithContext(ctx)
	for k, v := range q.Request.Headers {
		inner.Header.Set(k, v)
	}
	if len(q.Config) > 0 {
		inner.Header.Set(api.HeaderConfig, configText(q.Config))
	}
	d := p.open(inner)
	d.setIdentity(id)
	d.identify()
	d.ownKey = true
	d.Explain, d.Plan = true, new(pipeline.Plan)
	d.request = inner
	return d
}

// configText is the config as its header has it: an object, or the id that a
// JSON string holds.
func configText(raw json.RawMessage) string {
	var id string
	if json.Unmarshal(raw, &id) == nil {
		return id
	}
	return string(raw)
}

// rehearse takes the dry exchange as far as it goes. The tree is nil where the
// request has no config or an invalid one.
func (p *Plane) rehearse(x *exchange) (*pipeline.Tree, error) {
	if err := x.readWishes(); err != nil {
		return nil, err
	}
	if x.noRoute != nil {
		return nil, x.noRoute
	}
	x.Operation = x.route.op
	if err := p.readBody(x.request, x, x.route); err != nil {
		return nil, err
	}
	if x.route.renders {
		return nil, nil // nothing would be sent
	}
	h, err := p.handler(x)
	if err != nil {
		return nil, err
	}
	tree, _ := h.(*pipeline.Tree)
	res, err := h.Handle(x.request.Context(), &x.Exchange)
	if res != nil {
		res.Close()
	}
	return tree, err
}

func planned(a pipeline.Planned) *Attempt {
	out := &Attempt{
		Target: a.Path, Provider: a.Provider, Slug: a.Slug, Model: a.Model,
		Method: a.Method, URL: a.URL, Headers: a.Header, Params: a.Params, TimeoutMS: a.Timeout,
	}
	if json.Valid(a.Body) {
		out.Body = withoutCredentials(a.Body)
	}
	return out
}

// maxExplainedBody bounds the body that an explanation shows, in bytes.
const maxExplainedBody = 1 << 20

// withoutCredentials masks strings of a body whose names say that they hold a
// credential: override_params of a saved config may have put them there. A body
// that is too large to look through is not shown.
func withoutCredentials(body []byte) json.RawMessage {
	if len(body) > maxExplainedBody {
		return nil
	}
	text, err := config.MaskParams(body)
	if err != nil {
		return nil
	}
	return text
}

// schema answers the JSON Schema of the config object.
func (p *Plane) schema(w http.ResponseWriter, x *exchange) error {
	w.Header()["Content-Type"] = jsonType
	x.sign(w.Header())
	x.writeBytes(w, &pipeline.Response{Status: http.StatusOK, Bytes: config.Schema()})
	return nil
}
