package dataplane

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/urlpath"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/identity/access"
	"modelgate/internal/model/catalog"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
)

// ExplainRequest is the body of POST /v1/explain: a request as a client would
// send it, and a config that replaces its config header.
type ExplainRequest struct {
	Request struct {
		Method  string          `json:"method"` // default POST
		Path    string          `json:"path"`   // default /v1/chat/completions
		Headers Headers         `json:"headers"`
		Body    json.RawMessage `json:"body"` // JSON, or other text as a JSON string
	} `json:"request"`
	Config json.RawMessage `json:"config"`
}

// ExplainResponse describes what would happen. Nothing was sent.
type ExplainResponse struct {
	Object    string            `json:"object"`
	Operation api.Operation     `json:"operation"`
	Tree      string            `json:"tree,omitempty"`
	Decisions []reqlog.Decision `json:"decisions"`
	Attempt   *Attempt          `json:"attempt"`
	Config    *ConfigRef        `json:"config,omitempty"` // nil unless it is saved
	Status    int               `json:"status"`           // 200, or that of Error
	Error     json.RawMessage   `json:"error,omitempty"`
	Cache     string            `json:"cache_status"`
	Estimate  Estimate          `json:"estimate"`

	// PromptCache is what the config does for the provider's prompt cache, nil if it
	// does nothing for this request.
	PromptCache *PromptCache `json:"prompt_cache,omitempty"`

	// AttemptLimit is the limit of attempts of the request; see
	// limits.attempts.
	AttemptLimit int `json:"attempt_limit"`

	// TimeoutMS is the time until the end of the response, zero if the request sets none.
	TimeoutMS int64 `json:"request_timeout_ms,omitempty"`
}

// ConfigRef names a saved config.
type ConfigRef struct {
	ID   string `json:"id,omitempty"` // empty for a config of a settings file
	Slug string `json:"slug"`
}

// Attempt is the first request that would be sent. It contains no credential.
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
	Limits    []Limit             `json:"limits"`
}

// Limit is a limit that the request would be checked against, as it is now. Amounts
// are requests, tokens or dollars.
type Limit struct {
	Holder   string     `json:"holder"` // kind of what has the limit
	ID       string     `json:"id"`
	Name     string     `json:"name,omitempty"` // of the holder: its name or slug
	Type     string     `json:"type"`           // requests, tokens or cost
	Unit     string     `json:"unit,omitempty"` // of a rate limit
	Limit    float64    `json:"limit"`
	Used     float64    `json:"used"`
	Reserved float64    `json:"reserved"` // by requests in progress
	Claimed  float64    `json:"claimed"`  // by this request
	Fits     bool       `json:"fits"`
	Reset    *time.Time `json:"reset_at"`          // null if never
	AtMost   *float64   `json:"overshoot_at_most"` // null while the store of counters fails
}

// PromptCache is the help of a config for the provider's prompt cache. Amounts are in
// dollars.
type PromptCache struct {
	Target string `json:"target"`        // the node that helps
	Tokens int64  `json:"prefix_tokens"` // estimate, as in [Estimate]

	// Read is what the request saves if the provider has its prefix, and Written what
	// it costs more if the provider stores it. Null if the price is unknown.
	Read    *float64 `json:"saved_if_read"`
	Written *float64 `json:"added_if_written"`

	// Recorded is what prompt caches have saved of the requests of the same gateway key
	// with the same saved config, or without one, in the last 30 days; negative if
	// writing cost more. Null if the log cannot be read.
	Recorded *float64 `json:"saved_in_30_days"`
}

// promptCacheOf returns what the config does for the prompt cache of an attempt.
func (x *roundTrip) promptCacheOf(ctx context.Context, plan *exchange.PromptCachePlan) *PromptCache {
	if plan == nil {
		return nil
	}
	out := &PromptCache{Target: plan.Path, Tokens: plan.Tokens, Read: dollars(plan.Read), Written: dollars(plan.Written)}
	if saved := x.admission.plane.PromptCacheSaved; saved != nil {
		if sum, err := saved(ctx, &x.entry); err == nil {
			out.Recorded = dollars(&sum)
		} else {
			x.admission.plane.Logger.Warn("reading the savings of prompt caches failed", "err", err)
		}
	}
	return out
}

// dollars returns an amount in dollars, nil if it is unknown.
func dollars(n *catalog.NanoDollars) *float64 {
	if n == nil {
		return nil
	}
	d := float64(*n) / 1e9
	return &d
}

// limitsOf returns limits for a response.
func limitsOf(list []exchange.LimitState) []Limit {
	out := make([]Limit, len(list))
	for i, s := range list {
		l := s.Limit
		out[i] = Limit{
			Holder: l.Holder.Kind, ID: l.Holder.ID, Name: l.Holder.Name, Type: l.Measure.String(), Unit: l.Unit(), Limit: l.Units(l.Max - l.Base),
			Used: l.Units(s.Used), Reserved: l.Units(s.Held), Claimed: l.Units(s.Claimed), Fits: s.Fits, AtMost: l.OvershootUnits(s.State),
		}
		if !s.Reset.IsZero() {
			out[i].Reset = &s.Reset
		}
	}
	return out
}

// Estimate is a rough estimate: four bytes of text per token, and a response as
// long as the request allows. The price is in dollars, null if the model's
// price is unknown.
type Estimate struct {
	PromptTokens     int64    `json:"prompt_tokens"`
	CompletionTokens int64    `json:"completion_tokens"`
	Price            *float64 `json:"price"`
}

// explain writes what would happen to a request from the caller's address, with
// the caller's key unless its headers have one.
func (p *Plane) explain(w http.ResponseWriter, r *http.Request, x *roundTrip) error {
	if err := p.bufferBody(r, &x.admission, p.MaxJSON); err != nil {
		return err
	}
	if err := checkExplainRequest(x.admission.request.Received.Body.Bytes()); err != nil {
		return err
	}
	var q ExplainRequest
	d := json.NewDecoder(bytes.NewReader(x.admission.request.Received.Body.Bytes()))
	d.DisallowUnknownFields() // a typo would explain another request
	if err := d.Decode(&q); err != nil {
		return explainError(err)
	}
	inner := q.httpRequest(r.Context())
	inner.RemoteAddr, inner.TLS = r.RemoteAddr, r.TLS
	if _, own := x.admission.snap.Credential(inner.Header); !own && x.admission.snap.CheckOneKey(inner.Header) == nil {
		key, _ := x.admission.snap.Credential(r.Header)
		inner.Header[api.HeaderKey] = []string{key}
	}
	out, err := p.dryRun(inner, nil)
	if err != nil {
		return err
	}
	return writeJSON(p, w, r, x, out)
}

func explainError(err error) error {
	return apierr.New(apierr.Invalid, "the body of POST /v1/explain must be {request: {method, path, headers, body}, config}: %v", err).WithCode("invalid_json")
}

// checkExplainRequest refuses members that decoding would silently drop or take for
// others: duplicates, and names in other capitals.
func checkExplainRequest(raw []byte) error {
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		return explainError(err)
	}
	if err := checkMembers(v, "", "request", "config"); err != nil {
		return err
	}
	request, _ := v.Get("request")
	return checkMembers(request, "request.", "method", "path", "headers", "body")
}

// checkMembers returns an error unless v, if it is an object, has only members with these
// names, each once.
func checkMembers(v jsonedit.Value, path string, names ...string) error {
	seen := make(map[string]bool)
	for key := range v.Fields() {
		name := key.String()
		switch {
		case !slices.Contains(names, name):
			err := apierr.New(apierr.Invalid, "%s%.60s is not a field of POST /v1/explain; use %s", path, name, strings.Join(names, ", "))
			return err.WithParam(path + name[:min(len(name), 60)]).WithCode("invalid_json")
		case seen[name]:
			return apierr.New(apierr.Invalid, "the key %q is duplicated; send it once", path+name).WithParam(path + name).WithCode("duplicate_key")
		}
		seen[name] = true
	}
	return nil
}

// Explain handles a request on behalf of id up to the point where it would be
// sent. It does not change state that requests write.
func (p *Plane) Explain(ctx context.Context, id *access.Identity, q ExplainRequest) ExplainResponse {
	out, err := p.dryRun(q.httpRequest(ctx), id)
	if err != nil {
		e := apierr.From(err)
		return ExplainResponse{Object: "explanation", Decisions: []reqlog.Decision{}, Status: e.Status(), Error: e.Body()}
	}
	return out
}

// dryRun explains r for id, or for the key in its headers if id is nil. It
// returns an error if there is nothing to explain.
func (p *Plane) dryRun(r *http.Request, id *access.Identity) (ExplainResponse, error) {
	path, query, marked := requestPath(r)
	canonical, refusal := urlpath.Canonical(path)
	if refusal == nil {
		if r.RequestURI = canonical; marked {
			r.RequestURI += "?" + query
		}
		var err error
		if r.URL, err = url.ParseRequestURI(r.RequestURI); err != nil {
			return ExplainResponse{}, apierr.New(apierr.Invalid, "path %.100q is not a path and query", path).WithParam("request.path")
		}
		if p.IsModelRoute != nil && !p.IsModelRoute(r) {
			return ExplainResponse{}, apierr.New(apierr.Invalid, "path %.100q is not a model route; only requests for models are explained", path).
				WithParam("request.path").WithCode("not_a_model_route")
		}
	}
	x := p.open(r)
	a := &x.admission
	defer a.releaseBody()
	defer x.targets.releaseTrees()
	a.request.Identity, x.trail.Explain, a.request.DryRun = id, true, true
	if refusal != nil {
		return p.explanation(r.Context(), x, nil, refusal), nil
	}
	err := p.prepare(r, x)
	if err == nil && a.request.Routing != nil {
		var res *exchange.Response
		if res, err = pipeline.Serve(r.Context(), p.Engine.Quota, &a.request, &x.trail); res != nil {
			res.Close()
		}
	}
	tree, _ := a.request.Routing.(*pipeline.Tree)
	return p.explanation(r.Context(), x, tree, p.earlierLimit(r.Context(), a, err)), nil
}

// explanation describes an exchange after its dry run. The tree is nil if the
// request has no config or an invalid one.
func (p *Plane) explanation(ctx context.Context, x *roundTrip, tree *pipeline.Tree, err error) ExplainResponse {
	out := ExplainResponse{Object: "explanation", Decisions: []reqlog.Decision{}, Status: http.StatusOK,
		Cache: x.entry.CacheStatus, AttemptLimit: p.Engine.Bounds.AttemptLimit(), TimeoutMS: x.admission.opts.timeout.Milliseconds()}
	if err != nil {
		e := apierr.From(err)
		out.Status, out.Error = e.Status(), x.admission.errorClient().Error(e)
	}
	if x.trail.Cache != "" {
		out.Cache = string(x.trail.Cache)
	}
	if tree != nil {
		out.Tree = tree.String()
	}
	out.Operation = x.admission.request.Operation
	if saved, ok := x.savedConfig(); ok {
		out.Config = &ConfigRef{saved.ID, saved.Slug}
	}
	out.Decisions = append(out.Decisions, x.trail.Decisions...)
	u := attempt.EstimateTokens(&x.admission.request)
	out.Estimate.PromptTokens, out.Estimate.CompletionTokens = u.Prompt(), u.Completion()
	if n := len(x.trail.Planned); n > 0 {
		out.Attempt = planned(x.trail.Planned[n-1])
		out.Estimate.Price = x.price(x.trail.Planned[n-1])
		out.PromptCache = x.promptCacheOf(ctx, x.trail.Planned[n-1].PromptCache)
	}
	return out
}

// price returns the estimated price of an attempt in dollars, nil if unknown.
func (x *roundTrip) price(a exchange.DryRunRequest) *float64 {
	if a.Price == nil || !a.Price.Covers(attempt.EstimateTokens(&x.admission.request)) {
		return nil
	}
	cost := a.Price.Cost(attempt.EstimateTokens(&x.admission.request), catalog.Standard)
	return dollars(&cost)
}

// httpRequest returns the request as a server would receive it.
func (q *ExplainRequest) httpRequest(ctx context.Context) *http.Request {
	body := []byte(q.Request.Body)
	var text string
	switch {
	case string(body) == "null":
		body = nil
	case json.Unmarshal(body, &text) == nil:
		body = []byte(text)
	}
	r := (&http.Request{
		Method:        cmp.Or(q.Request.Method, http.MethodPost),
		URL:           new(url.URL),
		RequestURI:    cmp.Or(q.Request.Path, api.BasePath+"/chat/completions"),
		Header:        make(http.Header),
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}).WithContext(ctx)
	maps.Copy(r.Header, q.Request.Headers)
	if _, typed := r.Header["Content-Type"]; !typed && len(body) > 0 {
		r.Header["Content-Type"] = jsonType
	}
	if len(q.Config) > 0 {
		r.Header.Set(api.HeaderConfig, configText(q.Config))
	}
	return r
}

// configText returns the config in the form of its header: an object, or the id
// in a JSON string.
func configText(raw json.RawMessage) string {
	var id string
	if json.Unmarshal(raw, &id) == nil {
		return id
	}
	return string(raw)
}

// savedConfig returns the saved config of the request.
func (x *roundTrip) savedConfig() (*snapshot.Config, bool) {
	if x.entry.Config == "" || x.admission.request.Identity == nil {
		return nil, false
	}
	return x.admission.snap.Config(x.admission.request.Identity.Workspace, x.entry.Config)
}

func planned(a exchange.DryRunRequest) *Attempt {
	out := &Attempt{
		Target: a.Path, Provider: a.Provider, Slug: a.Slug, Model: a.Model,
		Method: a.Method, URL: a.URL, Headers: a.Header, Params: a.Params, TimeoutMS: a.Timeout, Limits: limitsOf(a.Limits),
	}
	if json.Valid(a.Body) {
		out.Body = withoutCredentials(a.Body)
	}
	return out
}

// maxExplainedBody is the limit in bytes of the body in an explanation.
const maxExplainedBody = 1 << 20

// withoutCredentials masks strings of a body whose names indicate a credential:
// override_params of a saved config may contain them. A body that is too large
// to search is left out.
func withoutCredentials(body []byte) json.RawMessage {
	if len(body) > maxExplainedBody {
		return nil
	}
	text, _ := config.MaskParams(body) // nil on an error
	return text
}

// schema writes the JSON Schema of the config object.
func (p *Plane) schema(w http.ResponseWriter, r *http.Request, x *roundTrip) error {
	w.Header()["Content-Type"] = jsonType
	x.setGatewayHeaders(w.Header())
	x.writeBytes(w, r, &exchange.Response{Status: http.StatusOK, Bytes: config.Schema()})
	return nil
}
