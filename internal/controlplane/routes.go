package controlplane

import (
	"context"

	"modelgate/internal/cache/respcache"
	"modelgate/internal/controlplane/analytics"
	"modelgate/internal/controlplane/audits"
	"modelgate/internal/controlplane/catalogue"
	"modelgate/internal/controlplane/configs"
	"modelgate/internal/controlplane/deployments"
	"modelgate/internal/controlplane/directory"
	"modelgate/internal/controlplane/exports"
	"modelgate/internal/controlplane/factors"
	"modelgate/internal/controlplane/guardrails"
	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/jobs"
	"modelgate/internal/controlplane/keys"
	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/controlplane/members"
	"modelgate/internal/controlplane/oauth"
	"modelgate/internal/controlplane/organisations"
	"modelgate/internal/controlplane/policies"
	"modelgate/internal/controlplane/prompts"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/secrets"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/controlplane/signin"
	"modelgate/internal/controlplane/toolservers"
	"modelgate/internal/controlplane/webhooks"
	"modelgate/internal/controlplane/workloads"
	"modelgate/internal/controlplane/workspaces"
	wire "modelgate/internal/identity/oauth"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
)

// Families are the families of routes that need more than [route.Deps], with what they
// need. The zero value serves all routes, which then report what is unavailable.
type Families struct {
	Organisations organisations.Routes
	Sessions      sessions.Routes
	Factors       factors.Routes
	SignIn        signin.Routes
	Integrations  integrations.Routes
	Providers     providers.Routes
	Catalogue     catalogue.Routes
	Guardrails    guardrails.Routes
	Policies      policies.Routes
	Secrets       secrets.Routes
	Analytics     analytics.Routes
	Exports       exports.Routes
	Jobs          jobs.Routes
	Webhooks      webhooks.Routes
	Directory     directory.Routes
	OAuth         oauth.Routes
	Workloads     workloads.Routes
	ToolServers   toolservers.Routes
	State         manifest.Routes
	Logs          Logs
	Cache         *respcache.Invalidations // nil if no responses are cached
}

// Logs are the routes of log entries, traces and feedback. Without Log and Recorder
// they report that logging is disabled.
type Logs struct {
	Log      *logstore.Store
	Flush    func(context.Context) error // returns when everything recorded so far can be read
	Recorder reqlog.Recorder

	// Policy returns the logging policy for entries that routes record. Nil records no
	// bodies.
	Policy func() snapshot.LogPolicy
}

// New returns the control plane with all routes.
func New(d route.Deps, f Families) *route.API {
	a := route.New(d)
	f.Add(a)
	return a
}

// Add adds all routes.
func (f Families) Add(a *route.API) {
	f.Organisations.Add(a)
	f.State.Add(a)
	workspaces.Add(a)
	members.Add(a)
	f.addPeople(a)
	keys.Add(a)
	f.Integrations.Add(a)
	f.Providers.Add(a)
	f.Catalogue.Add(a)
	configs.Add(a)
	prompts.Add(a)
	f.Guardrails.Add(a)
	f.Policies.Add(a)
	f.Secrets.Add(a)
	deployments.Add(a)
	audits.Add(a)
	f.Analytics.Add(a)
	f.Exports.Add(a)
	f.Jobs.Add(a)
	f.Webhooks.Add(a)
	f.ToolServers.Add(a)
	addInsert(a, f.Logs)
	addTraces(a, f.Logs)
	addFeedback(a, f.Logs)
	addCache(a, f.Cache)
	addSchema(a)
	addLimitStates(a, f.Policies)
}

// addPeople adds the routes of people who sign in and of their directories, which know of
// one another here only.
func (f Families) addPeople(a *route.API) {
	f.Sessions.EndURL = f.SignIn.EndURL(a)
	f.Sessions.Prove = f.Factors.Prove(a)
	f.SignIn.Assign = directory.Assign
	f.Directory.CheckEmail = signin.CheckDirectoryEmail
	f.Sessions.Add(a)
	f.Factors.Add(a)
	f.SignIn.Add(a)
	f.Directory.Add(a)
	f.Workloads.IssuableKey, f.Workloads.ReadableKey = keys.Issuable, keys.Readable
	f.OAuth.Grants = map[string]oauth.Grant{wire.ExchangeGrant: f.Workloads.Exchange(a)}
	f.Workloads.Add(a)
	f.OAuth.Add(a)
}
