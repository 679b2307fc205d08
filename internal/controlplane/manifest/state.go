package manifest

import (
	"cmp"
	"context"
	"slices"

	"modelgate/internal/store"
)

// state is all rows that a file can contain, at one revision.
type state struct {
	revision     int64
	organisation store.Organisation
	workspaces   []store.Workspace // including archived ones
	users        []store.User
	userIDs      map[string]string            // ids of users of any organisation, by e-mail address
	roles        map[string]map[string]string // by user id and workspace id
	guardrails   []store.Guardrail            // including archived ones
	references   []store.SecretReference
	partners     []store.GuardrailCredential
	integrations []store.Integration
	models       map[string][]store.IntegrationModel     // by integration
	grants       map[string][]store.IntegrationWorkspace // by integration
	providers    []store.Provider
	configs      []store.ConfigText // including archived ones
	slugs        map[string]string  // of all workspaces, by id
	labels       []store.PromptLabel
	labelNames   map[string]string                // by id, including built-in labels
	everybodys   map[string]string                // ids of built-in labels, by name
	collections  []store.PromptCollection         // including archived ones
	prompts      []store.Prompt                   // including partials and archived ones
	versions     map[string][]store.PromptVersion // by prompt
	deployments  []store.GatewayDeployment
	keys         []store.Key    // including revoked ones
	policies     []store.Policy // that are active and have a name of their own
	identities   []store.IdentityProvider
	domains      []store.Domain
	mappings     []store.DirectoryMapping // that were not made by the name of a group
	workloads    []store.WorkloadIdentity
	tools        toolState
}

func readState(ctx context.Context, q store.Queries, organisation string) (*state, error) {
	s := new(state)
	var err error
	if s.revision, err = q.Revision(ctx); err != nil {
		return nil, err
	}
	if s.organisation, err = q.Organisation(ctx, organisation); err != nil {
		return nil, err
	}
	id, all := s.organisation.ID, store.Page{}
	for _, read := range []func() error{
		func() (err error) {
			s.workspaces, _, err = q.Workspaces(ctx, store.WorkspaceQuery{Organisation: id}, all)
			return err
		},
		func() (err error) { s.users, _, err = q.Users(ctx, id, "", "", all); return err },
		func() (err error) { s.userIDs, err = q.UserIDs(ctx); return err },
		func() (err error) { s.roles, err = q.AllWorkspaceMembers(ctx, id); return err },
		func() (err error) { s.guardrails, err = q.AllGuardrails(ctx, id); return err },
		func() (err error) {
			s.references, _, err = q.SecretReferences(ctx, store.SecretReferenceFilter{Organisation: id}, all)
			return err
		},
		func() (err error) { s.partners, _, err = q.GuardrailCredentials(ctx, id, "", all); return err },
		func() error { return s.readIntegrations(ctx, q) },
		func() (err error) { s.providers, _, err = q.Providers(ctx, id, "", nil, all); return err },
		func() (err error) { s.configs, err = q.AllConfigs(ctx, id); return err },
		func() error { return s.readPrompts(ctx, q) },
		func() (err error) { s.deployments, _, err = q.Deployments(ctx, id, "", all); return err },
		func() (err error) { s.keys, err = q.AllKeys(ctx, id); return err },
		func() (err error) { s.policies, err = readPolicies(ctx, q, id); return err },
		func() error { return s.readPeople(ctx, q) },
		func() (err error) { s.workloads, err = q.WorkloadIdentities(ctx, id); return err },
		func() error { return s.readTools(ctx, q) },
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	// Environment variables for credentials are numbered in the order of the file.
	slices.SortFunc(s.references, func(a, b store.SecretReference) int { return cmp.Compare(a.Slug, b.Slug) })
	slices.SortFunc(s.partners, func(a, b store.GuardrailCredential) int {
		return cmp.Or(cmp.Compare(s.slug(a.Workspace), s.slug(b.Workspace)), cmp.Compare(a.Partner, b.Partner))
	})
	slices.SortFunc(s.identities, func(a, b store.IdentityProvider) int { return cmp.Compare(a.Slug, b.Slug) })
	slices.SortFunc(s.tools.integrations, func(a, b store.ToolIntegration) int { return cmp.Compare(a.Slug, b.Slug) })
	slices.SortFunc(s.integrations, func(a, b store.Integration) int { return cmp.Compare(a.Slug, b.Slug) })
	return s, nil
}

// slug returns the slug of a workspace by its id, empty for the organisation.
func (s *state) slug(workspace string) string {
	for _, w := range s.workspaces {
		if w.ID == workspace {
			return w.Slug
		}
	}
	return ""
}

func (s *state) readIntegrations(ctx context.Context, q store.Queries) (err error) {
	id := s.organisation.ID
	s.integrations, _, err = q.Integrations(ctx, store.IntegrationFilter{Organisation: id, Shared: true, Own: true}, store.Page{})
	if err != nil {
		return err
	}
	models, err := q.AllIntegrationModels(ctx, id)
	if err != nil {
		return err
	}
	s.models = make(map[string][]store.IntegrationModel)
	for _, m := range models {
		s.models[m.Integration] = append(s.models[m.Integration], m)
	}
	grants, err := q.AllIntegrationWorkspaces(ctx, id)
	s.grants = make(map[string][]store.IntegrationWorkspace)
	for _, g := range grants {
		s.grants[g.Integration] = append(s.grants[g.Integration], g)
	}
	return err
}

func (s *state) readPrompts(ctx context.Context, q store.Queries) error {
	id := s.organisation.ID
	s.slugs, s.labelNames, s.everybodys = make(map[string]string), make(map[string]string), make(map[string]string)
	for _, w := range s.workspaces {
		s.slugs[w.ID] = w.Slug
	}
	labels, _, err := q.PromptLabels(ctx, id, "", "", store.Page{})
	if err != nil {
		return err
	}
	for _, l := range labels {
		if s.labelNames[l.ID] = l.Name; l.Organisation == "" {
			s.everybodys[l.Name] = l.ID
		} else {
			s.labels = append(s.labels, l)
		}
	}
	if s.collections, err = q.AllPromptCollections(ctx, id); err != nil {
		return err
	}
	if s.prompts, err = q.AllPrompts(ctx, id); err != nil {
		return err
	}
	s.versions, err = q.AllPromptVersions(ctx, id)
	return err
}

// active returns the slugs of the workspaces that are not archived, by id.
func (s *state) active() map[string]string {
	slugs := make(map[string]string)
	for _, w := range s.workspaces {
		if w.Status == store.Active {
			slugs[w.ID] = w.Slug
		}
	}
	return slugs
}
