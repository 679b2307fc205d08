package dataplane

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/metering"
	"modelgate/internal/provider"
	"modelgate/internal/provider/health"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/upstream"
)

// Time limits of the trial of a provider.
const (
	trialTime      = 18 * time.Second // less than a route may take
	trialListTime  = 6 * time.Second
	trialReplyTime = 12 * time.Second
)

// ProviderTrial tries a provider without a request of a client, as requests would use it.
type ProviderTrial struct {
	Target   *provider.Target // of this trial only
	Identity *access.Identity // whose egress policies and limits apply, and who pays

	// Model gets a completion of a few tokens, which costs money. Empty sends none.
	Model string
}

// TrialState is the result of a step.
type TrialState string

// Results.
const (
	TrialOK      TrialState = "ok"
	TrialFailed  TrialState = "failed"
	TrialSkipped TrialState = "skipped"
)

// TrialCredential is the step that says whether the provider accepts the credential.
const TrialCredential = "credential"

// TrialStep is a step of a trial. Its message has no credential.
type TrialStep struct {
	Name    string // of an upstream.Step, or credential, models or completion
	State   TrialState
	Took    time.Duration
	Status  int    // of the provider's response; zero without one
	Message string // in plain words; empty if there is nothing to say
}

// ProviderTrialResult is what the steps of a trial found.
type ProviderTrialResult struct {
	Steps      []TrialStep
	Models     []string // that the provider lists
	RateLimits []health.RateLimit
	LogID      string // of the completion's log entry; empty if none was sent
}

// providerTrial is a trial in progress.
type providerTrial struct {
	*ProviderTrial
	plane *Plane
	seen  health.Recent
	out   ProviderTrialResult
}

// TryProvider tries a provider step by step and stops at the first step that fails. The
// completion is recorded and paid as a request of the identity. It takes 18 seconds at most.
func (p *Plane) TryProvider(ctx context.Context, t *ProviderTrial) *ProviderTrialResult {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	x := &providerTrial{ProviderTrial: t, plane: p}
	x.Target.Health = &x.seen
	if x.reach(ctx) {
		listed := x.list(ctx)
		if listed && x.Model != "" {
			x.complete(ctx)
		}
	}
	x.addSkipped()
	now := time.Now()
	x.out.RateLimits = x.seen.Report(now, now).RateLimits
	return &x.out
}

// add adds a step.
func (x *providerTrial) add(s TrialStep) { x.out.Steps = append(x.out.Steps, s) }

// trialSteps are all steps, in their order.
var trialSteps = [...]string{string(upstream.StepAddress), string(upstream.StepResolve), string(upstream.StepConnect),
	string(upstream.StepTLS), TrialCredential, "models", "completion"}

// addSkipped adds the steps that were not tried.
func (x *providerTrial) addSkipped() {
	message := "not tried, because an earlier step failed"
	if n := len(x.out.Steps); n == len(trialSteps)-1 && x.out.Steps[n-1].State != TrialFailed && x.Model == "" {
		message = "name a model to send it a completion of a few tokens, which costs money"
	}
	for _, name := range trialSteps[len(x.out.Steps):] {
		x.add(TrialStep{Name: name, State: TrialSkipped, Message: message})
	}
}

// reach checks the address and connects to it.
func (x *providerTrial) reach(ctx context.Context) bool {
	rs := &x.plane.newRoundTrip(reqlog.Entry{Time: time.Now()}).targets
	rs.admission.request.Identity = x.Identity
	if err := rs.checkEgress(x.Target); err != nil {
		x.add(TrialStep{Name: string(upstream.StepAddress), State: TrialFailed, Message: apierr.From(err).Message})
		return false
	}
	for _, s := range x.plane.Engine.Client.Reach(ctx, x.Target.Base, x.Target.Guarded) {
		step := TrialStep{Name: string(s.Kind), State: TrialOK, Took: s.Took, Message: s.Skipped}
		switch {
		case s.Failure != nil:
			step.State, step.Message = TrialFailed, s.Failure.Reason()
		case s.Skipped != "":
			step.State = TrialSkipped
		}
		x.add(step)
		if s.Failure != nil {
			return false
		}
	}
	return true
}

// noList says that the list of models tells nothing of the credential.
const noList = "the provider has no list of models; name a model to check the credential with a completion"

// list asks for the list of models, which shows whether the credential is accepted. It
// reports whether nothing failed.
func (x *providerTrial) list(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, trialListTime)
	defer cancel()
	began := time.Now()
	res, err := sendModels(x.plane, ctx, x.Target)
	credential, models := TrialStep{Name: TrialCredential, Took: time.Since(began)}, TrialStep{Name: "models"}
	switch e, ok := errors.AsType[*apierr.Error](err); {
	case errors.Is(err, errNoModelList):
		credential.State, credential.Message, models.State, models.Message = TrialSkipped, noList, TrialSkipped, noList
	case ok: // building or signing the request
		credential.State, credential.Message = TrialFailed, e.Message
	case err != nil:
		credential.State, credential.Message = TrialFailed, reasonOf(err)
	default:
		defer res.Body.Close()
		x.seen.ReadHeaders(res.Header, res.StatusCode, time.Now())
		x.readList(res, &credential, &models)
	}
	x.add(credential)
	if credential.State == TrialFailed {
		return false
	}
	x.add(models)
	return models.State != TrialFailed
}

// reasonOf returns why a request had no response.
func reasonOf(err error) string {
	if f, ok := errors.AsType[*upstream.Failure](err); ok {
		return f.Reason()
	}
	return "the provider did not respond properly"
}

// readList reads the response to the request for models.
func (x *providerTrial) readList(res *http.Response, credential, models *TrialStep) {
	credential.Status, models.Status = res.StatusCode, res.StatusCode
	credential.State = TrialOK
	switch res.StatusCode {
	case http.StatusOK:
		began := time.Now()
		list, err := readModels(io.LimitReader(res.Body, maxModels))
		if models.Took = time.Since(began); err != nil {
			models.State, models.Message = TrialFailed, "the list of models is not JSON in a known form; check the address (custom_host)"
			return
		}
		models.State, models.Message = TrialOK, strconv.Itoa(len(list))+" models found"
		for _, m := range list {
			x.out.Models = append(x.out.Models, m.id)
		}
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		credential.State, credential.Message, models.State, models.Message = TrialSkipped, noList, TrialSkipped, noList
	case http.StatusUnauthorized, http.StatusForbidden:
		credential.State, credential.Message = TrialFailed, "the provider does not accept the credential: "+x.quote(res)
	default:
		credential.State, credential.Message = TrialSkipped, "unknown, because the provider did not list its models"
		models.State, models.Message = TrialFailed, x.quote(res)
	}
}

// maxQuote is the limit of what a step quotes of a provider, in bytes.
const maxQuote = 400

// quote returns the status of an error response and what the provider says, without the
// credential.
func (x *providerTrial) quote(res *http.Response) string {
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	raw = attempt.HideCredentials(raw, x.Target, res.Request)
	client := x.plane.Clients[api.DialectChat]
	return quoteError(res.StatusCode, client.ProviderError(nil, raw, x.Target.ID, res.StatusCode))
}

// quoteError returns a status with the message of an error in the chat dialect.
func quoteError(status int, body []byte) string {
	text := "status " + strconv.Itoa(status)
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &e) != nil || e.Error.Message == "" {
		return text
	}
	return text + ", " + reqlog.Cut(e.Error.Message, maxQuote)
}

// body returns the body of the completion. Some models refuse fewer tokens.
func (x *providerTrial) body() (*bytepool.Buffer, error) {
	text := append(jsonedit.AppendString([]byte(`{"model":`), x.Model), `,"max_tokens":16,"messages":[{"role":"user","content":"ping"}]}`...)
	pool := x.plane.Engine.Bounds.Pool
	buf, err := pool.GetShare(len(text), pool.Organisation(x.Identity.Organisation))
	if err != nil {
		return nil, apierr.BodyMemoryFull(err)
	}
	buf.Fill(func(dst []byte) []byte { return append(dst, text...) })
	return buf, nil
}

// complete sends a completion and records it.
func (x *providerTrial) complete(ctx context.Context) {
	now := time.Now()
	rt := x.plane.newRoundTrip(reqlog.Entry{
		ID: reqlog.NewID(now), Time: now, Input: reqlog.Input{Method: http.MethodPost, Path: api.BasePath + "/integrations/test"},
		Origin: reqlog.Origin{CacheStatus: "DISABLED"},
	})
	x.out.LogID = rt.admission.id
	body, err := x.body()
	if err == nil {
		defer body.Release() // after the response is closed
	}
	var res *exchange.Response
	if err == nil {
		res, err = x.send(ctx, rt, body)
	}
	step := TrialStep{Name: "completion", State: TrialOK, Message: "a completion was paid for and logged"}
	switch {
	case err != nil:
		step.State, step.Message = TrialFailed, apierr.From(err).Message
	default:
		step.Status = res.Status
		if res.Status >= http.StatusMultipleChoices {
			step.State, step.Message = TrialFailed, quoteError(res.Status, res.Bytes)
		}
		res.Close()
	}
	step.Took = time.Since(now)
	x.judgeCredential(step)
	x.add(step)
	x.record(rt, res, err)
}

// judgeCredential corrects the step of the credential by the completion: a list of models
// may be public or missing.
func (x *providerTrial) judgeCredential(completion TrialStep) {
	for i := range x.out.Steps {
		s := &x.out.Steps[i]
		switch {
		case s.Name != TrialCredential:
		case completion.Status == http.StatusUnauthorized || completion.Status == http.StatusForbidden:
			s.State, s.Status, s.Message = TrialFailed, completion.Status, "the provider does not accept the credential: "+completion.Message
		case completion.State == TrialOK && s.State == TrialSkipped:
			s.State, s.Status, s.Message = TrialOK, completion.Status, ""
		}
	}
}

// send passes the completion to the pipeline as a request without a config.
func (x *providerTrial) send(ctx context.Context, rt *roundTrip, body *bytepool.Buffer) (res *exchange.Response, err error) {
	p, a := x.plane, &rt.admission
	rt.targets.guards = noGuards // the text is the gateway's own
	rt.entry.TraceID, rt.entry.Model = a.id, x.Model
	a.setIdentity(x.Identity)
	a.route = unifiedRoutes["POST "+api.BasePath+"/chat/completions"]
	base := exchange.Request{ID: rt.entry.ID, Time: rt.entry.Time, TraceID: a.id, Identity: x.Identity,
		Memory: p.Engine.Bounds.Pool.Organisation(x.Identity.Organisation)}
	a.request = base
	base.Limiting = exchange.Limiting{Limits: a.limits(), Policies: a.snap.Policies, Facts: a.facts(), Prices: a.snap.Prices}
	a.request = base.Derive(p.Clients[api.DialectChat], api.Chat, "/chat/completions", x.Model)
	if err := a.checkBudget(); err != nil {
		return nil, err
	}
	if err := a.request.Received.SetBody(body, &a.doc); err != nil {
		return nil, err
	}
	if err := rt.targets.checkModels(x.Target, x.Model); err != nil {
		return nil, err
	}
	leaf := exchange.Leaf{Target: x.Target, Model: x.Model}
	a.request.Routing, err = rt.targets.callOnly(leaf, attempt.TargetHandler{Timeout: trialReplyTime})
	if err != nil {
		return nil, err
	}
	return pipeline.Serve(ctx, p.Engine.Quota, &a.request, &rt.trail)
}

// record records the completion, after its response was closed.
func (x *providerTrial) record(rt *roundTrip, res *exchange.Response, err error) {
	e := &rt.entry
	e.Operation, e.Status, e.Total = api.IntegrationTest, http.StatusOK, time.Since(e.Time)
	if err != nil {
		cause := apierr.From(err)
		e.Status, e.ErrorSource, e.ErrorCode = cause.Status(), "gateway", cause.CodeOrDefault()
	} else {
		e.Status = res.Status
	}
	if e.Level = level(&rt.admission); e.Level == reqlog.LevelFull {
		e.Level = reqlog.LevelMetadata
	}
	if x.plane.Engine.Quota != nil {
		metering.EndRequest(&rt.trail, x.plane.Engine.Quota)
	}
	rt.trail.Record(e)
	x.plane.Recorder.Record(context.Background(), e)
}
