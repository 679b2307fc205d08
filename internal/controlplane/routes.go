package controlplane

import (
	"modelgate/internal/controlplane/analytics"
	"modelgate/internal/controlplane/audits"
	"modelgate/internal/controlplane/configs"
	"modelgate/internal/controlplane/deployments"
	"modelgate/internal/controlplane/exports"
	"modelgate/internal/controlplane/guardrails"
	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/keys"
	"modelgate/internal/controlplane/members"
	"modelgate/internal/controlplane/organisations"
	"modelgate/internal/controlplane/policies"
	"modelgate/internal/controlplane/prompts"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/secrets"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/controlplane/workspaces"
)

// families are the functions that add the routes of each package.
var families = []func(*route.API){
	organisations.Add,
	workspaces.Add,
	members.Add,
	sessions.Add,
	keys.Add,
	integrations.Add,
	providers.Add,
	configs.Add,
	prompts.Add,
	guardrails.Add,
	policies.Add,
	secrets.Add,
	deployments.Add,
	audits.Add,
	analytics.Add,
	exports.Add,
	addInsert,
	addTraces,
	addFeedback,
	addCache,
	addSchema,
	addLimitStates,
}

// New returns the control plane with all routes.
func New(d route.Deps) *route.API {
	a := route.New(d)
	Add(a)
	return a
}

// Add adds all routes.
func Add(a *route.API) {
	for _, add := range families {
		add(a)
	}
}
