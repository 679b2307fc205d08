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
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/inbound"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/model/modelnames"
	"modelgate/internal/pipeline"
)

// prepare admits a request: it makes every check that precedes the first stage,
// in the order in which clients get their errors. Afterwards x.Request does not
// change. Its Routing is nil if the gateway answers by itself. Dry runs use it
// too.
func (p *Plane) prepare(r *http.Request, x *exchange) error {
	if err := x.authenticate(); err != nil {
		return err
	}
	err := x.admit()
	if !x.DryRun {
		inbound.MarkAuthenticated(r.Context())
		p.startCapture(r, x)
	}
	if err == nil {
		err = x.checkRoute()
	}
	if err != nil || x.isGatewayRoute() {
		return err
	}
	x.Limiting.Limits = x.limits()
	if !x.route.renders && r.Method != http.MethodGet { // reading costs nothing
		if err := x.checkBudget(); err != nil {
			return err
		}
	}
	if !x.DryRun {
		if err := p.checkRates(x); err != nil {
			return err
		}
		if err := p.enterGate(r, x); err != nil {
			return err
		}
	}
	if err := p.readBody(r, x, x.route); err != nil {
		return err
	}
	if err := p.authenticateAgain(x); err != nil || x.route.renders {
		return err
	}
	if !x.opts.namesTarget() {
		if err := x.chooseProvider(); err != nil {
			return err
		}
	}
	if err := x.findUploadModel(); err != nil {
		return err
	}
	x.findUploadText()
	x.Limiting.Policies, x.Limiting.Facts = x.snap.Policies, x.facts()
	x.findFurtherModels()
	if x.Routing, err = p.handler(x); err != nil {
		return err
	}
	x.reportIgnored()
	return nil
}

// checkRates refuses a request whose rate limits are used up before its body is read. One
// with a config may have a cached response, which limits do not refuse.
func (p *Plane) checkRates(x *exchange) error {
	if x.route.renders || x.opts.config != "" {
		return nil
	}
	return x.CheckRates(p.Engine.Quota, &x.trail)
}

// limits returns the limits of the key, its users and its workspace.
func (x *exchange) limits() []*quota.Limit {
	own, workspace := x.Identity.Limits, x.snap.Limits(x.Identity.Workspace)
	users, _ := x.snap.UserLimits(x.Identity)
	if len(users)+len(workspace) == 0 {
		return own
	}
	return slices.Concat(own, users, workspace)
}

// facts returns what policies read of the request, nil if there are no policies.
func (x *exchange) facts() *policy.Facts {
	if x.snap.Policies.Empty() {
		return nil
	}
	id := x.Identity
	f := &policy.Facts{
		Time: x.Time, Organisation: id.Organisation, Workspace: id.Workspace, KeyID: id.KeyID, User: id.UserID,
		Metadata: x.Metadata, Model: cmp.Or(x.Received.RequestedModel, x.Model), Prompt: x.Prompt.Slug, EndpointType: string(x.Operation),
	}
	if names := modelnames.Path(x.Received.Path); f.Model == "" && x.Operation == api.Proxy && len(names) > 0 {
		f.Model, f.ModelInPath = names[len(names)-1], true
	}
	if saved, ok := x.snap.Config(id.Workspace, x.opts.config); ok {
		f.Config = saved.Slug
	}
	if x.TraceID != x.id { // the client sent it
		f.TraceID = x.TraceID
	}
	return f
}

// findFurtherModels adds the models that the request names in addition to its own to what policies
// read. The pipeline adds those of the config, and rejects a request whose models cannot
// be known.
func (x *exchange) findFurtherModels() {
	f := x.Limiting.Facts
	if !x.Limiting.Policies.ReadsModels(f) || x.Received.Method == http.MethodGet || x.runsNoModel() {
		return
	}
	models := x.modelsOutsideDoc().models
	if x.Received.Doc != nil {
		named, _ := modelnames.JSON(x.Received.Doc.Bytes())
		models = slices.Concat(models, named)
	}
	for _, m := range models {
		if m != f.Model && m != x.Model && !slices.Contains(f.Also, m) && len(f.Also) < pipeline.MaxNamedModels {
			f.Also = append(f.Also, m)
		}
	}
	if names := modelnames.Path(x.Received.Path); x.Operation == api.Proxy && !f.ModelInPath && len(names) > 0 {
		f.Also = append(f.Also, names...)
	}
}

// authenticate finds the identity of the gateway key, unless it is known. No
// other header is read before that.
func (x *exchange) authenticate() error {
	if x.Identity != nil {
		x.setIdentity(x.Identity)
		x.ownKey = true
		return nil
	}
	x.useUploadGrant()
	id, own, err := x.snap.Authenticate(x.Received.Header, x.entry.Time)
	if err != nil {
		if double := x.checkAmbiguity(); double != nil { // a key that was sent twice is not valid
			return double
		}
		if session := x.sessionError(); session != nil {
			return session
		}
		return err
	}
	x.setIdentity(id)
	key, _ := x.snap.Credential(x.Received.Header)
	x.Received.Key, x.ownKey = secret.New(key), own
	return id.CheckAddress(x.remote)
}

// authenticateAgain returns an error if the key of a request was revoked while the request
// waited or its body arrived, which a client can draw out. A body that streams through
// has not arrived by now.
func (p *Plane) authenticateAgain(x *exchange) error {
	now := p.Snapshot.Load()
	if x.Received.Key.Empty() || now == x.snap {
		return nil
	}
	_, _, err := now.Authenticate(x.Received.Header, time.Now())
	return err
}

func (x *exchange) setIdentity(id *access.Identity) {
	x.Identity = id
	e := &x.entry
	e.KeyID, e.KeyName = id.KeyID, id.Name
	e.Organisation, e.Workspace = id.Organisation, id.Workspace
}

// admit reads the headers, and returns an error for what the identity may not
// do.
func (x *exchange) admit() error {
	err := x.readOptionHeaders()
	x.trace()
	if x.opts.timeout > 0 {
		x.Deadline = x.Time.Add(x.opts.timeout)
	}
	if err == nil {
		err = x.checkAmbiguity()
	}
	if err != nil {
		return err
	}
	asked := x.opts.config
	x.identify()
	if err := x.snap.CheckServed(x.Identity); err != nil {
		return err
	}
	if err := x.checkConfigVersion(asked); err != nil {
		return err
	}
	return x.checkConfigFixed(asked)
}

// checkRoute returns an error for a path without a route, and for a caller
// without its scope.
func (x *exchange) checkRoute() error {
	if x.noRoute != nil {
		return x.noRoute
	}
	x.passModelsThrough()
	x.Operation, x.entry.Operation = x.route.op, x.route.op
	if !x.Identity.Allows(x.route.scope) {
		return apierr.New(apierr.Forbidden, "this gateway key lacks the scope %q", x.route.scope)
	}
	return x.checkUpgrade()
}

// checkUpgrade returns an error for a request that begins a WebSocket connection: without
// the upgrade, a provider would read another request in it. Clients such as Codex take its
// status for "use HTTP", and other statuses for a failure that they repeat.
func (x *exchange) checkUpgrade() error {
	if !lists(x.Received.Header["Connection"], "upgrade") || !lists(x.Received.Header["Upgrade"], "websocket") {
		return nil
	}
	return apierr.New(apierr.UpgradeRefused, "the gateway does not support WebSocket connections or realtime sessions; send requests over HTTP").WithParam("upgrade")
}

// lists reports whether values of a header list a name, with or without a version.
func lists(values []string, name string) bool {
	for _, v := range values {
		for one := range strings.SplitSeq(v, ",") {
			if one, _, _ = strings.Cut(one, "/"); strings.EqualFold(strings.TrimSpace(one), name) {
				return true
			}
		}
	}
	return false
}

// isGatewayRoute reports whether the gateway answers by itself, whatever the
// budget.
func (x *exchange) isGatewayRoute() bool {
	return x.listsModels() || x.route.op == api.Explain || x.route.op == api.ConfigSchema
}

// checkConfigFixed returns an error for a config in a request if the key has
// its own config that may not be replaced.
func (x *exchange) checkConfigFixed(asked string) error {
	id := x.Identity
	if !id.ConfigFixed || id.Config == "" || asked == "" || asked == id.Config {
		return nil
	}
	own, ok := x.snap.Config(id.Workspace, id.Config)
	if same, found := x.snap.Config(id.Workspace, asked); ok && found && same.Err == nil && same.Text == own.Text { // by its id or its version
		return nil
	}
	return apierr.New(apierr.Invalid, "this gateway key always uses the config %s; remove the x-gateway-config header", id.Config).
		WithParam("x-gateway-config").WithCode("config_fixed")
}

// checkConfigVersion returns an error if a request asks for a replaced version of a config,
// and the organisation allows only what is saved: that is the current version.
func (x *exchange) checkConfigVersion(asked string) error {
	if asked == "" || asked == x.Identity.Config || !x.snap.RequiresSavedConfig(x.Identity.Organisation) {
		return nil
	}
	if c, ok := x.snap.Config(x.Identity.Workspace, strings.TrimSpace(asked)); !ok || !c.Replaced {
		return nil
	}
	return apierr.New(apierr.Forbidden, "this organisation allows saved configs in their current version only; leave out the version").
		WithParam("x-gateway-config").WithCode("config_version_blocked")
}

// identify adds the defaults of the key to what the request states about
// itself.
func (x *exchange) identify() {
	id := x.Identity
	if x.opts.config == "" {
		x.opts.config = id.Config
	}
	if len(id.Metadata) > 0 {
		if x.Metadata == nil {
			x.Metadata = make(map[string]string, len(id.Metadata))
		}
		maps.Copy(x.Metadata, id.Metadata)
	}
	x.baggage()
}

// singleValueHeaders are the headers, in addition to the gateway's own, that
// decide about the meaning and the owner of a request.
var singleValueHeaders = [...]string{api.HeaderKey, "Authorization", "X-Api-Key", "X-Goog-Api-Key", "Content-Type", "Content-Encoding"}

// methodHeaders are headers from which some providers take the method instead
// of the request line.
var methodHeaders = [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// checkAmbiguity returns an error if the request has one of these headers
// twice, or two methods.
func (x *exchange) checkAmbiguity() error {
	for _, name := range methodHeaders {
		for _, v := range x.Received.Header[name] {
			if v != x.Received.Method {
				return apierr.New(apierr.Invalid, "the header %s names another method than the request line; send the request with that method", strings.ToLower(name)).
					WithParam(strings.ToLower(name)).WithCode("method_override")
			}
		}
	}
	for _, name := range singleValueHeaders {
		if n := len(x.Received.Header[name]); n > 1 {
			return duplicate(name, n)
		}
	}
	return nil
}

func duplicate(name string, n int) error {
	name = strings.ToLower(name)
	return apierr.New(apierr.Invalid, "the header %s was sent %d times; send it once", name, n).
		WithParam(name).WithCode("duplicate_header")
}
