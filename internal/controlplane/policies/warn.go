package policies

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/policy"
	"modelgate/internal/provider/table"
	"modelgate/internal/store"
)

// neverApplies returns why a policy can never apply to a request, empty if it can.
func neverApplies(ctx context.Context, q store.Queries, p *store.Policy) ([]string, error) {
	var list []string
	for i, c := range p.Conditions {
		field := fmt.Sprintf("conditions[%d]", i)
		if slices.Contains(c.Excludes.List, policy.Any) || !slices.Contains(c.Value.List, policy.Any) && isSubset(c.Value.List, c.Excludes.List) {
			list = append(list, field+" excludes every value that it allows")
			continue
		}
		for j, other := range p.Conditions[:i] {
			if other.Key == c.Key && other.Key != policy.KeyModel && isDisjoint(other.Value.List, c.Value.List) {
				list = append(list, fmt.Sprintf("%s and conditions[%d] allow different values of %s", field, j, c.Key))
			}
		}
		why, err := unknownValues(ctx, q, p, &c)
		if err != nil {
			return nil, err
		}
		if why != "" {
			list = append(list, field+": "+why)
		}
	}
	return list, nil
}

func isSubset(list, of []string) bool {
	for _, v := range list {
		if !slices.Contains(of, v) {
			return false
		}
	}
	return true
}

// isDisjoint reports whether no value is in both lists.
func isDisjoint(a, b []string) bool {
	if slices.Contains(a, policy.Any) || slices.Contains(b, policy.Any) {
		return false
	}
	return !slices.ContainsFunc(a, func(v string) bool { return slices.Contains(b, v) })
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
			return v == policy.Any || !strings.Contains(strings.TrimSuffix(v, "/*"), "*") && (strings.HasPrefix(v, "@") || !strings.HasSuffix(v, "/*")), nil
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
