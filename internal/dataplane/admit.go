package dataplane

import (
	"maps"
	"net/http"
	"strings"

	"modelgate/api"
	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/inbound"
	"modelgate/internal/secret"
)

// prepare admits a request: every check that comes before the first stage, in the
// order in which clients get their errors. Afterwards x.Request does not change.
// Its Routing is nil where the gateway answers from what it knows. Dry runs
// take the same way.
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
	if err != nil || x.isOwn() {
		return err
	}
	if !x.route.renders && r.Method != http.MethodGet { // what is read costs nothing
		if err := x.exhausted(); err != nil {
			return err
		}
	}
	if err := p.readBody(r, x, x.route); err != nil || x.route.renders {
		return err
	}
	if x.Routing, err = p.handler(x); err != nil {
		return err
	}
	x.reportIgnored()
	return nil
}

// authenticate finds the identity behind the gateway key, unless it is known.
// Nothing else of the headers is read before it is known.
func (x *exchange) authenticate() error {
	if x.Identity != nil {
		x.setIdentity(x.Identity)
		x.ownKey = true
		return nil
	}
	id, own, err := x.snap.Authenticate(x.Header, x.entry.Time)
	if err != nil {
		if double := x.ambiguous(); double != nil { // a key that was sent twice is no key
			return double
		}
		return err
	}
	x.setIdentity(id)
	key, _ := x.snap.Credential(x.Header)
	x.Key, x.ownKey = secret.New(key), own
	return id.CheckAddress(x.remote)
}

func (x *exchange) setIdentity(id *access.Identity) {
	x.Identity = id
	e := &x.entry
	e.KeyID, e.KeyName = id.KeyID, id.Name
	e.Organisation, e.Workspace = id.Organisation, id.Workspace
}

// admit reads the headers, and refuses what the identity may not ask for.
func (x *exchange) admit() error {
	err := x.readOptionHeaders()
	x.trace()
	if err == nil {
		err = x.ambiguous()
	}
	if err != nil {
		return err
	}
	asked := x.opts.config
	x.identify()
	if err := x.snap.CheckServed(x.Identity); err != nil {
		return err
	}
	return x.checkConfigFixed(asked)
}

// checkRoute refuses a path without a route, and a caller without its scope.
func (x *exchange) checkRoute() error {
	if x.noRoute != nil {
		return x.noRoute
	}
	x.Operation, x.entry.Operation = x.route.op, x.route.op
	if !x.Identity.Allows(x.route.scope) {
		return apierr.New(apierr.Forbidden, "this gateway key lacks the scope %q", x.route.scope)
	}
	return nil
}

// isOwn reports whether the gateway answers from what it knows, whatever the
// budget.
func (x *exchange) isOwn() bool {
	return x.route.op == api.Models && !x.opts.namesTarget() || x.route.op == api.Explain || x.route.op == api.ConfigSchema
}

// checkConfigFixed refuses a config that a request brought, where the key has one of
// its own that may not be replaced.
func (x *exchange) checkConfigFixed(asked string) error {
	id := x.Identity
	if !id.ConfigFixed || id.Config == "" || asked == "" || asked == id.Config {
		return nil
	}
	own, ok := x.snap.Config(id.Workspace, id.Config)
	if same, found := x.snap.Config(id.Workspace, asked); ok && found && same.Text == own.Text { // by its id
		return nil
	}
	return apierr.New(apierr.Invalid, "this gateway key always uses the config %s; remove the x-gateway-config header", id.Config).
		WithParam("x-gateway-config").WithCode("config_fixed")
}

// identify completes what the request says of itself by what its key says.
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

// singleValueHeaders are the headers beside the gateway's own that decide what a request
// is and whose it is.
var singleValueHeaders = [...]string{api.HeaderKey, "Authorization", "X-Api-Key", "X-Goog-Api-Key", "Content-Type", "Content-Encoding"}

// methodHeaders are headers by which some providers take another method than
// that of the request line.
var methodHeaders = [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// ambiguous refuses a request that says such a thing twice, or its method in two
// ways.
func (x *exchange) ambiguous() error {
	for _, name := range methodHeaders {
		for _, v := range x.Header[name] {
			if v != x.Method {
				return apierr.New(apierr.Invalid, "the header %s names another method than the request line; send the request with that method", strings.ToLower(name)).
					WithParam(strings.ToLower(name)).WithCode("method_override")
			}
		}
	}
	for _, name := range singleValueHeaders {
		if n := len(x.Header[name]); n > 1 {
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
