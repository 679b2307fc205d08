package dataplane

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/inbound"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/model/modelnames"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/metering"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
)

// admission is what is found out about a request of a client, step by step; see
// Plane.prepare. Its request is complete and does not change once the pipeline
// has it. What it finds for the record it writes into entry and trail.
type admission struct {
	plane *Plane
	call  *Call // that the gateway makes itself; nil for a request of a client
	snap  *snapshot.Snapshot
	id    string // the request id as text
	entry *reqlog.Entry
	trail *exchange.Trail

	request exchange.Request
	route   route
	noRoute error  // why there is no route
	remote  string // host:port of the client
	opts    requestOptions
	// ownKey is true if the gateway key came in its own header, so that other
	// credential headers are for the provider.
	ownKey     bool
	skipBodies bool    // the request excludes its bodies from the log
	bodies     *bodies // captured bodies; nil for none

	doc       jsonedit.Doc
	upload    *upload // nil unless the body streams through
	jsonArray bool    // the client reads a stream as a JSON array
	// noModel is the error for a body without a model, if nothing else sets
	// one.
	noModel *apierr.Error
	models  *requestedModels // models outside of Doc; nil until a target asks
	// oneModel is true if policies depend on the model of a body that streams through.
	oneModel bool
	// turn is what the request continues and whether its response is kept; nil if neither.
	turn *Turn

	variables      map[string]string // for saved prompts; nil until one needs them
	promptProvider string            // provider of the prompt in the path; empty if none
}

// prepare admits a request: it makes every check that precedes routing,
// in the order in which clients get their errors. Afterwards the request does not
// change. Its Routing is nil if the gateway answers by itself. Dry runs use it
// too.
func (p *Plane) prepare(r *http.Request, x *roundTrip) error {
	if err := checkToolCredentials(&x.admission); err != nil {
		return err
	}
	if err := x.admission.authenticate(); err != nil {
		return err
	}
	err := x.admission.admit()
	if !x.admission.request.DryRun {
		inbound.MarkAuthenticated(r.Context())
		p.startCapture(r, &x.admission)
	}
	if err == nil {
		err = x.admission.checkRoute()
	}
	if err != nil || x.admission.isGatewayRoute() {
		return err
	}
	if x.admission.route.tools {
		return p.prepareTools(r, &x.admission)
	}
	if x.admission.goesToKeeper() && r.Method == http.MethodGet {
		return nil
	}
	if x.admission.endsCall() { // whatever limit is reached
		return p.prepareEnd(r, x)
	}
	x.admission.request.Limiting.Limits = x.admission.limits()
	if err := checkUnmetered(p, &x.admission); err != nil {
		return err
	}
	if !x.admission.route.renders && r.Method != http.MethodGet { // reading costs nothing
		if err := x.admission.checkBudget(); err != nil {
			return err
		}
	}
	if !x.admission.request.DryRun {
		if err := p.checkRates(&x.admission); err != nil || x.admission.goesToKeeper() {
			return err
		}
		if c := x.admission.call; c == nil || !c.Nested {
			if err := p.enterGate(r, &x.admission); err != nil {
				return err
			}
		}
	}
	return p.prepareTarget(r, x)
}

// prepareEnd prepares a request that ends a call.
func (p *Plane) prepareEnd(r *http.Request, x *roundTrip) error {
	if a := &x.admission; !a.request.DryRun && !a.goesToKeeper() {
		if err := p.enterGate(r, a); err != nil {
			return err
		}
	}
	return p.prepareTarget(r, x)
}

// prepareTarget reads the body of a request and finds its targets.
func (p *Plane) prepareTarget(r *http.Request, x *roundTrip) error {
	if x.admission.goesToKeeper() {
		return nil
	}
	var err error
	if err := p.readBody(r, &x.admission, x.admission.route); err != nil {
		return err
	}
	if p.Tools != nil {
		x.admission.request.ToolServers = toolServers{&x.admission}
	}
	if err := p.authenticateAgain(&x.admission); err != nil || x.admission.route.renders {
		return err
	}
	x.admission.turn.chooseProvider(&x.admission.opts)
	if !x.admission.opts.namesTarget() {
		if err := x.targets.chooseProvider(); err != nil {
			return err
		}
	}
	if err := x.admission.findUploadModel(); err != nil {
		return err
	}
	x.admission.findUploadText()
	x.admission.request.Limiting.Policies, x.admission.request.Limiting.Facts = x.admission.snap.Policies, x.admission.facts()
	x.admission.findFurtherModels()
	if x.admission.request.Routing, err = x.targets.handler(); err != nil {
		return err
	}
	if err := checkMedia(p, &x.admission); err != nil {
		return err
	}
	if err := x.admission.turn.checkTargets(&x.admission.request); err != nil {
		return err
	}
	if c := x.admission.call; c != nil && c.Admit != nil {
		if err := c.Admit(x.admission.request.Leaves); err != nil {
			return err
		}
	}
	if err := x.admission.resolveFiles(r.Context()); err != nil {
		return err
	}
	x.admission.reportIgnored()
	return nil
}

// checkRates refuses a request whose rate limits are used up before its body is read. One
// with a config may have a cached response, which limits do not refuse.
func (p *Plane) checkRates(a *admission) error {
	if a.route.renders || a.opts.config != "" {
		return nil
	}
	return metering.CheckRates(&a.request, p.Engine.Quota, a.trail)
}

// limits returns the limits of the key, its users and its workspace.
func (a *admission) limits() []*quota.Limit {
	own, workspace := a.request.Identity.Limits, a.snap.Limits(a.request.Identity.Workspace)
	users, _ := a.snap.UserLimits(a.request.Identity)
	if len(users)+len(workspace) == 0 {
		return own
	}
	return slices.Concat(own, users, workspace)
}

// facts returns what policies read of the request, nil if there are no policies.
func (a *admission) facts() *policy.Facts {
	if a.snap.Policies.Empty() {
		return nil
	}
	id := a.request.Identity
	f := &policy.Facts{
		Time: a.request.Time, Organisation: id.Organisation, Workspace: id.Workspace, KeyID: id.KeyID, User: id.UserID,
		Metadata: a.request.Metadata, Model: cmp.Or(a.request.Received.RequestedModel, a.request.Model),
		Prompt: a.request.Prompt.Slug, EndpointType: string(a.request.Operation),
	}
	if names := modelnames.Path(a.request.Received.Path); f.Model == "" && a.request.Operation == api.Proxy && len(names) > 0 {
		f.Model, f.ModelInPath = names[len(names)-1], true
	}
	if saved, ok := a.snap.Config(id.Workspace, a.opts.config); ok {
		f.Config = saved.Slug
	}
	if a.request.TraceID != a.id { // the client sent it
		f.TraceID = a.request.TraceID
	}
	return f
}

// findFurtherModels adds the models that the request names in addition to its own to what policies
// read. The pipeline adds those of the config, and rejects a request whose models cannot
// be known.
func (a *admission) findFurtherModels() {
	f := a.request.Limiting.Facts
	if !a.request.Limiting.Policies.ReadsModels(f) || a.request.Received.Method == http.MethodGet || a.runsNoModel() {
		return
	}
	models := a.modelsOutsideDoc().models
	if a.request.Received.Doc != nil {
		named, _ := modelnames.JSON(a.request.Received.Doc.Bytes())
		models = slices.Concat(models, named)
	}
	for _, m := range models {
		if m != f.Model && m != a.request.Model && !slices.Contains(f.Also, m) && len(f.Also) < attempt.MaxNamedModels {
			f.Also = append(f.Also, m)
		}
	}
	if names := modelnames.Path(a.request.Received.Path); a.request.Operation == api.Proxy && !f.ModelInPath && len(names) > 0 {
		f.Also = append(f.Also, names...)
	}
}

// authenticate finds the identity of the gateway key, unless it is known. No
// other header is read before that.
func (a *admission) authenticate() error {
	if a.request.Identity != nil {
		a.setIdentity(a.request.Identity)
		a.ownKey = a.call == nil || a.call.ownKey || a.call.key.Empty()
		a.request.Received.Query = withoutGrants(a.request.Received.Query)
		return nil
	}
	a.useUploadGrant()
	id, own, err := a.findIdentity(a.snap, a.entry.Time)
	if err != nil {
		if double := a.checkAmbiguity(); double != nil { // a key that was sent twice is not valid
			return double
		}
		if session := a.sessionError(); session != nil {
			return session
		}
		return err
	}
	a.setIdentity(id)
	key, _ := a.snap.Credential(a.request.Received.Header)
	a.request.Received.Key, a.ownKey = secret.New(key), own
	return id.CheckAddress(a.remote)
}

// authenticateAgain returns an error if the key of a request was revoked while the request
// waited or its body arrived, which a client can draw out. A body that streams through
// has not arrived by now.
func (p *Plane) authenticateAgain(a *admission) error {
	now := p.Snapshot.Load()
	if a.request.Received.Key.Empty() || now == a.snap {
		return nil
	}
	_, _, err := a.findIdentity(now, time.Now())
	return err
}

func (a *admission) setIdentity(id *access.Identity) {
	a.request.Identity = id
	e := a.entry
	e.KeyID, e.KeyName = id.KeyID, id.Name
	e.Organisation, e.Workspace = id.Organisation, id.Workspace
}

// admit reads the headers, and returns an error for what the identity may not
// do.
func (a *admission) admit() error {
	err := a.readOptionHeaders()
	a.trace()
	if a.opts.timeout > 0 {
		a.request.Deadline = a.request.Time.Add(a.opts.timeout)
	}
	if err == nil {
		err = a.checkAmbiguity()
	}
	if err != nil {
		return err
	}
	asked := a.opts.config
	a.identify()
	if err := a.snap.CheckServed(a.request.Identity); err != nil {
		return err
	}
	if err := a.checkConfigVersion(asked); err != nil {
		return err
	}
	return a.checkConfigFixed(asked)
}

// checkRoute returns an error for a path without a route, and for a caller
// without its scope.
func (a *admission) checkRoute() error {
	if a.noRoute != nil {
		return a.noRoute
	}
	a.passModelsThrough()
	a.request.Operation, a.entry.Operation = a.route.op, a.route.op
	if !a.request.Identity.Allows(a.route.scope) {
		return missingScope(a.route.scope)
	}
	return a.checkUpgrade()
}

// isGatewayRoute reports whether the gateway answers by itself, whatever the
// budget.
func (a *admission) isGatewayRoute() bool {
	return a.listsModels() || a.route.op == api.Explain || a.route.op == api.ConfigSchema
}

// checkConfigFixed returns an error for a config in a request if the key has
// its own config that may not be replaced.
func (a *admission) checkConfigFixed(asked string) error {
	id := a.request.Identity
	if !id.ConfigFixed || id.Config == "" || asked == "" || asked == id.Config {
		return nil
	}
	own, ok := a.snap.Config(id.Workspace, id.Config)
	if same, found := a.snap.Config(id.Workspace, asked); ok && found && same.Err == nil && same.Text == own.Text { // by its id or its version
		return nil
	}
	return apierr.New(apierr.Invalid, "this gateway key always uses the config %s; remove the x-gateway-config header", id.Config).
		WithParam("x-gateway-config").WithCode("config_fixed")
}

// checkConfigVersion returns an error if a request asks for a replaced version of a config,
// and the organisation allows only what is saved: that is the current version.
func (a *admission) checkConfigVersion(asked string) error {
	if asked == "" || asked == a.request.Identity.Config || !a.snap.RequiresSavedConfig(a.request.Identity.Organisation) {
		return nil
	}
	if c, ok := a.snap.Config(a.request.Identity.Workspace, strings.TrimSpace(asked)); !ok || !c.Replaced {
		return nil
	}
	return apierr.New(apierr.Forbidden, "this organisation allows saved configs in their current version only; leave out the version").
		WithParam("x-gateway-config").WithCode("config_version_blocked")
}

// identify adds the defaults of the key to what the request states about
// itself.
func (a *admission) identify() {
	id := a.request.Identity
	if a.opts.config == "" {
		a.opts.config = id.Config
	}
	if len(id.Metadata) > 0 {
		if a.request.Metadata == nil {
			a.request.Metadata = make(map[string]string, len(id.Metadata))
		}
		maps.Copy(a.request.Metadata, id.Metadata)
	}
	baggage(a)
}

// singleValueHeaders are the headers, in addition to the gateway's own, that
// decide about the meaning and the owner of a request.
var singleValueHeaders = [...]string{api.HeaderKey, "Authorization", "X-Api-Key", "X-Goog-Api-Key", "Content-Type", "Content-Encoding"}

// methodHeaders are headers from which some providers take the method instead
// of the request line.
var methodHeaders = [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// checkAmbiguity returns an error if the request has one of these headers
// twice, or two methods.
func (a *admission) checkAmbiguity() error {
	for _, name := range methodHeaders {
		for _, v := range a.request.Received.Header[name] {
			if v != a.request.Received.Method {
				return apierr.New(apierr.Invalid, "the header %s names another method than the request line; send the request with that method", strings.ToLower(name)).
					WithParam(strings.ToLower(name)).WithCode("method_override")
			}
		}
	}
	for _, name := range singleValueHeaders {
		if n := len(a.request.Received.Header[name]); n > 1 {
			return duplicate(name, n)
		}
	}
	return nil
}
