package dataplane

import (
	"slices"
	"strings"

	"modelgate/config"
)

// routedModels returns the names of models that the saved config of the request routes by
// itself, without those of which the key may use no target.
func (rs *resolver) routedModels() []model {
	root, slug := savedConfig(rs.admission)
	if root == nil {
		return nil
	}
	var list []model
	usable := rs.allowedSlugs()
	for _, m := range root.RoutedModels() {
		if rs.canServe(m.Target, m.Name, usable) {
			list = append(list, model{ID: m.Name, Object: "model", OwnedBy: slug})
		}
	}
	return list
}

// savedConfig returns the saved config of the request and its slug, nil if it has none.
func savedConfig(a *admission) (root *config.Config, slug string) {
	stored, ok := a.snap.Config(a.request.Identity.Workspace, strings.TrimSpace(a.opts.config))
	if !ok || stored.Err != nil {
		return nil, ""
	}
	root, err := config.Parse([]byte(stored.Text.Reveal()))
	if err != nil {
		return nil, ""
	}
	return root, stored.Slug
}

// canServe reports whether the key may use a target below n for a model. Usable are the slugs
// of the providers that it may use.
func (rs *resolver) canServe(n *config.Config, name string, usable []string) bool {
	if override, ok := n.OverrideParams.Text("model"); ok {
		name = override
	}
	if len(n.Targets) > 0 {
		return slices.ContainsFunc(n.Targets, func(t *config.Config) bool { return rs.canServe(t, name, usable) })
	}
	slug := n.VirtualKey
	if managed, ok := strings.CutPrefix(n.Provider, "@"); ok {
		slug = managed
	}
	switch {
	case slug != "":
		entry, ok := rs.admission.snap.Managed(rs.admission.request.Identity.Workspace, slug)
		return ok && slices.Contains(usable, slug) && entry.Target.Models.Allows(name)
	case n.Provider != "":
		return rs.admission.request.Identity.AllowsProvider(n.Provider)
	}
	return false
}

// showRoutedModel returns one of routedModels.
func (rs *resolver) showRoutedModel(id string) (model, error) {
	list := rs.routedModels()
	i := slices.IndexFunc(list, func(m model) bool { return m.ID == id })
	if i < 0 {
		return model{}, modelNotFound(id, "name it as @slug/model")
	}
	return list[i], nil
}

// routesModels reports whether the saved config of the request chooses by the model.
func routesModels(a *admission) bool {
	root, _ := savedConfig(a)
	return root != nil && root.RoutesModels()
}
