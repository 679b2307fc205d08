package policies

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/limits/policy"
	"modelgate/internal/provider/table"
	"modelgate/internal/store"
)

// neverApplies returns why a policy can never apply to a request, empty if it can.
func neverApplies(ctx context.Context, q store.Queries, p *store.Policy) ([]string, error) {
	list := contradictions(p.Conditions)
	for i, c := range p.Conditions {
		why, err := unknownValues(ctx, q, p, &c)
		if err != nil {
			return nil, err
		}
		if why != "" {
			list = append(list, fmt.Sprintf("conditions[%d]: %s", i, why))
		}
	}
	return list, nil
}

// contradictions returns the keys of which no value meets all conditions on them. A value
// of model, or of tool servers and tools, may stand for several, so that its conditions are looked at one by one.
func contradictions(conditions []policy.Condition) (list []string) {
	done := map[string]bool{}
	for i, c := range conditions {
		field := fmt.Sprintf("conditions[%d]", i)
		if allowsNothing(conditions[i:i+1], c.Key) {
			list, done[c.Key] = append(list, field+" excludes every value that it allows"), true
		}
		several := c.Key == policy.KeyModel || c.Key == policy.KeyServer || c.Key == policy.KeyTool
		if !several && !done[c.Key] && allowsNothing(conditions[:i+1], c.Key) {
			list, done[c.Key] = append(list, fmt.Sprintf("%s and those before it allow different values of %s", field, c.Key)), true
		}
	}
	return list
}

// allowsNothing reports whether no value of a key meets all conditions on it.
func allowsNothing(conditions []policy.Condition, key string) bool {
	var allowed, excluded []string
	some := false // allowed lists what conditions leave; otherwise they leave any value
	for _, c := range conditions {
		if c.Key != key {
			continue
		}
		excluded = append(excluded, plain(key, c.Excludes.List)...)
		values := plain(key, c.Value.List)
		switch {
		case slices.Contains(values, policy.Any):
		case some:
			allowed = slices.DeleteFunc(allowed, func(v string) bool { return !slices.Contains(values, v) })
		default:
			allowed, some = values, true
		}
	}
	if slices.Contains(excluded, policy.Any) {
		return true
	}
	return some && !slices.ContainsFunc(allowed, func(v string) bool { return !slices.Contains(excluded, v) })
}

// plain returns values as requests have them: slugs without the sign of a reference.
func plain(key string, values []string) []string {
	list := slices.Clone(values)
	for i, v := range list {
		if key == policy.KeyVirtualKey {
			list[i] = strings.TrimPrefix(v, "@")
		}
	}
	return list
}

// unknownValues returns why no request has one of the values of a condition, empty if
// one may.
func unknownValues(ctx context.Context, q store.Queries, p *store.Policy, c *policy.Condition) (string, error) {
	var known func(v string) (bool, error)
	what := ""
	switch c.Key {
	case policy.KeyOrganisation:
		what = "is the id of this organisation"
		known = func(v string) (bool, error) { return v == p.Organisation, nil }
	case policy.KeyWorkspace:
		what = "is the id of a workspace that the policy applies to"
		known = func(v string) (bool, error) {
			if p.Workspace != "" {
				return v == p.Workspace, nil
			}
			w, err := q.Workspace(ctx, p.Organisation, v)
			return w.ID == v, ignoreNotFound(err)
		}
	case policy.KeyAPIKey:
		what = "is the id of an API key of the workspace"
		known = func(v string) (bool, error) {
			if route.ManagedBy(v) == "file" || v == "bootstrap" {
				return true, nil
			}
			k, err := q.Key(ctx, p.Organisation, v)
			return err == nil && (p.Workspace == "" || k.Workspace == p.Workspace), ignoreNotFound(err)
		}
	case policy.KeyProvider:
		what = "is the id of a provider"
		known = func(v string) (bool, error) { return isProvider(v), nil }
	case policy.KeyModel:
		what = "is the name of a model; only * and @provider/* match several"
		known = func(v string) (bool, error) {
			return v == policy.Any || !strings.Contains(strings.TrimSuffix(v, "/*"), "*") &&
				(strings.HasPrefix(v, "@") || !strings.HasSuffix(v, "/*")), nil
		}
	default:
		return "", nil
	}
	for _, v := range c.Value.List {
		ok, err := known(v)
		if ok || v == policy.Any || err != nil {
			return "", err
		}
	}
	return "none of the values " + what, nil
}

// ignoreNotFound returns err unless it says that an object was not found.
func ignoreNotFound(err error) error {
	if apierr.IsNotFound(err) {
		return nil
	}
	return err
}

func isProvider(id string) bool {
	for _, spec := range table.All() {
		if spec.ID == id {
			return true
		}
	}
	return false
}
