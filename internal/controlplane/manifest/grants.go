package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// maxSentGrants is how often the integrations of a request may be given to workspaces, in all.
// With global access, few entries give many.
const maxSentGrants = 50_000

// pair is a workspace and an integration or provider in it, by slug.
type pair struct{ workspace, slug string }

// granter lists which workspaces have which integrations after the change, and adds a
// provider for each as the API does.
type granter struct {
	*plan
	workspaces map[string]bool                 // all after the change
	before     map[string]settings.Integration // stored
	had        map[pair][]settings.Provider    // stored, by integration
	has        map[pair]bool                   // whether there is a provider after the change, by integration
	taken      map[pair]bool                   // slugs of the providers after the change
	granted    map[pair]bool                   // by integration
}

func (p *plan) newGranter() *granter {
	g := &granter{
		plan: p, workspaces: make(map[string]bool), before: make(map[string]settings.Integration),
		had: make(map[pair][]settings.Provider), has: make(map[pair]bool), taken: make(map[pair]bool), granted: make(map[pair]bool),
	}
	for _, w := range p.have.Workspaces {
		g.workspaces[w.Slug] = p.keepsUnlisted(p.file.Workspaces != nil)
	}
	for _, w := range p.file.Workspaces {
		g.workspaces[w.Slug] = true
	}
	for _, v := range p.have.Integrations {
		g.before[v.Slug] = v
	}
	for _, v := range p.have.Providers {
		of := pair{v.Workspace, v.Integration}
		g.had[of] = append(g.had[of], v)
		if p.keepsUnlisted(p.file.Providers != nil) {
			g.taken[pair{v.Workspace, v.Slug}] = true
		}
	}
	for _, v := range p.wanted.Providers {
		g.has[pair{v.Workspace, v.Integration}], g.taken[pair{v.Workspace, v.Slug}] = true, true
	}
	return g
}

// run completes the integrations and providers of the plan.
func (g *granter) run() error {
	w := g.wanted
	for i, v := range w.Integrations {
		for j, to := range v.Workspaces {
			if !g.workspaces[to.Workspace] {
				return g.missing(fmt.Sprintf("%s.workspaces[%d].workspace", g.paths[i], j), "workspace", to.Workspace)
			}
		}
	}
	g.addGlobalIntegrations()
	granted := 0
	for i := range w.Integrations {
		v := &w.Integrations[i]
		v.Workspaces = g.grants(v)
		if granted += len(v.Workspaces); g.request != nil && granted > maxSentGrants {
			return g.file.ErrorAt(g.paths[i], fmt.Errorf("gives integrations to workspaces more than %d times in all; send fewer of them at a time", maxSentGrants))
		}
		for _, to := range v.Workspaces {
			g.granted[pair{to.Workspace, v.Slug}] = true
			// The provider of an implicit integration is in the file.
			if !v.Implicit && !to.Disabled && (to.CreateProvider == nil || *to.CreateProvider) {
				g.addProvider(v, to.Workspace)
			}
		}
	}
	return g.check()
}

// addGlobalIntegrations adds stored integrations with global access that are not in the
// file if a workspace is new, because it gets them too.
func (g *granter) addGlobalIntegrations() {
	known := make(map[string]bool)
	for _, w := range g.have.Workspaces {
		known[w.Slug] = true
	}
	isNew := func(w settings.Workspace) bool { return !known[w.Slug] }
	if !slices.ContainsFunc(g.file.Workspaces, isNew) || !g.keepsUnlisted(g.file.Integrations != nil) {
		return
	}
	named := make(map[string]bool)
	for _, v := range g.wanted.Integrations {
		named[v.Slug] = true
	}
	for _, v := range g.have.Integrations {
		if v.Global != nil && v.Global.Enabled && v.Workspace == "" && !named[v.Slug] {
			v.Models = nil // models stay
			g.wanted.Integrations, g.paths = append(g.wanted.Integrations, v), append(g.paths, "workspaces")
		}
	}
}

// grants returns all grants of an integration after the change: those in the file, the
// stored ones that stay, and the default ones of its own workspace or, with global
// access, of every workspace.
func (g *granter) grants(v *settings.Integration) []settings.Grant {
	before, out := g.before[v.Slug], make(map[string]settings.Grant)
	if !g.prune || v.Workspaces == nil {
		for _, to := range before.Workspaces {
			if v.Global != nil && follows(to, before.Global) {
				to.UsageLimits, to.RateLimits = v.Global.UsageLimits, v.Global.RateLimits
			}
			if g.workspaces[to.Workspace] {
				out[to.Workspace] = to
			}
		}
	}
	for _, to := range v.Workspaces {
		out[to.Workspace] = to
	}
	for slug, there := range g.workspaces {
		_, said := out[slug]
		switch {
		case said || !there:
		case slug == v.Workspace:
			out[slug] = settings.Grant{Workspace: slug}
		case v.Workspace == "" && v.Global != nil && v.Global.Enabled:
			out[slug] = settings.Grant{Workspace: slug, UsageLimits: v.Global.UsageLimits, RateLimits: v.Global.RateLimits}
		}
	}
	list := make([]settings.Grant, 0, len(out))
	for _, slug := range slices.Sorted(maps.Keys(out)) {
		list = append(list, out[slug])
	}
	return list
}

// follows reports whether a workspace has the global access.
func follows(to settings.Grant, all *settings.DefaultAccess) bool {
	return all != nil && all.Enabled && !to.Disabled && reflect.DeepEqual(to.UsageLimits, all.UsageLimits) &&
		reflect.DeepEqual(to.RateLimits, all.RateLimits)
}

// addProvider adds the default provider of an integration to a workspace without one. A
// stored provider stays.
func (g *granter) addProvider(v *settings.Integration, workspace string) {
	of := pair{workspace, v.Slug}
	if g.has[of] || len(g.had[of]) > 0 && g.keepsUnlisted(g.file.Providers != nil) {
		return
	}
	g.has[of] = true
	for _, stored := range g.had[of] {
		if stored.MadeByGrant && !g.taken[pair{workspace, stored.Slug}] {
			g.taken[pair{workspace, stored.Slug}] = true
			g.wanted.Providers = append(g.wanted.Providers, stored)
			return
		}
	}
	slug := v.Slug
	for n := 2; g.taken[pair{workspace, slug}]; n++ {
		slug = fmt.Sprintf("%s-%d", v.Slug[:min(len(v.Slug), 248)], n)
	}
	g.taken[pair{workspace, slug}] = true
	g.wanted.Providers = append(g.wanted.Providers, settings.Provider{
		Slug: slug, Workspace: workspace, Name: v.Name, Integration: v.Slug, Note: credentials.GrantNote, Tags: v.Tags, MadeByGrant: true,
	})
}

// check returns an error for a provider of the file in a workspace that does not have
// the integration, because no request could use it.
func (g *granter) check() error {
	for i, v := range g.file.Providers {
		stored, known := g.before[v.Integration]
		if g.granted[pair{v.Workspace, v.Integration}] || v.Integration == "" || !g.workspaces[v.Workspace] {
			continue
		}
		named := slices.ContainsFunc(g.wanted.Integrations, func(o settings.Integration) bool { return o.Slug == v.Integration })
		if !named && (!known || !g.keepsUnlisted(g.file.Integrations != nil) || g.grantedBefore(stored, v.Workspace)) {
			continue // reported with the provider
		}
		return g.file.ErrorAt(fmt.Sprintf("providers[%d].integration", i),
			fmt.Errorf("the workspace %q does not have the integration %q; add it to the integration's workspaces", v.Workspace, v.Integration))
	}
	return nil
}

// grantedBefore reports whether a workspace has a stored integration that stays.
func (g *granter) grantedBefore(v settings.Integration, workspace string) bool {
	return v.Global != nil && v.Global.Enabled ||
		slices.ContainsFunc(v.Workspaces, func(to settings.Grant) bool { return to.Workspace == workspace })
}

// dropUngranted removes stored providers of workspaces that lose the integration,
// because they could no longer be used.
func (g *granter) dropUngranted() {
	rows := providerKind.index(g.state)
	for i := range g.wanted.Integrations {
		v := &g.wanted.Integrations[i]
		for _, to := range g.before[v.Slug].Workspaces {
			of := pair{to.Workspace, v.Slug}
			if g.granted[of] || !g.workspaces[to.Workspace] {
				continue
			}
			for _, stored := range g.had[of] {
				providerKind.remove(g.plan, &stored, *rows[providerKind.key(&stored)])
			}
		}
	}
}

func (r *reader) grants(i *store.Integration) ([]settings.Grant, error) {
	list, no := []settings.Grant{}, false
	for _, g := range r.state.grants[i.ID] {
		v := settings.Grant{Workspace: r.workspaces[g.Workspace], Disabled: !g.Enabled}
		if g.Enabled && !i.Implicit && !r.provided[[2]string{i.ID, g.Workspace}] {
			v.CreateProvider = &no
		}
		var err error
		if v.UsageLimits, err = usages(g.UsageLimits); err == nil {
			v.RateLimits, err = rates(g.RateLimits)
		}
		if err != nil {
			return nil, fmt.Errorf("workspace %s: %w", v.Workspace, err)
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b settings.Grant) int { return cmp.Compare(a.Workspace, b.Workspace) })
	return list, nil
}

// global returns the global access of i, nil for none.
func global(i *store.Integration) (g *settings.DefaultAccess, err error) {
	g = &settings.DefaultAccess{Enabled: i.GlobalEnabled}
	if g.UsageLimits, err = usages(i.GlobalUsageLimits); err != nil {
		return nil, err
	}
	if g.RateLimits, err = rates(i.GlobalRateLimits); err != nil {
		return nil, err
	}
	if !g.Enabled && g.UsageLimits == nil && g.RateLimits == nil {
		return nil, nil
	}
	return g, nil
}
