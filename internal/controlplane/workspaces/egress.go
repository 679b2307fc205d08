package workspaces

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// egressPolicy is the setting that limits the destinations of a workspace's requests.
const egressPolicy = "egress_policy"

// isPolicy reports whether a setting may be a policy, which [givenEgress] parses.
func isPolicy(v any) bool {
	_, stored := v.(*egress.Policy)
	return stored || isObject(v)
}

// givenEgress returns the egress policy in settings, nil for none.
func givenEgress(given map[string]any) (*egress.Policy, error) {
	var p *egress.Policy
	if given[egressPolicy] == nil {
		return nil, nil
	}
	raw, err := json.Marshal(given[egressPolicy])
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		err = d.Decode(&p)
	}
	if err != nil {
		return nil, route.Invalid("settings."+egressPolicy, "must be an object with custom_hosts, pass_through and managed_providers_only")
	}
	return limits.Egress("settings."+egressPolicy, p)
}

// keepEgress copies w's egress policy to settings that do not name it. The policy
// limits the workspace, so only administrators of the organisation may change it.
func keepEgress(ctx context.Context, c *route.Caller, w *store.Workspace, given map[string]any) (map[string]any, error) {
	var had store.KeyDefaults
	if len(w.Settings) > 0 {
		if err := json.Unmarshal(w.Settings, &had); err != nil {
			return nil, err
		}
	}
	out := make(map[string]any, len(given)+1)
	maps.Copy(out, given)
	if _, said := given[egressPolicy]; !said {
		if had.Egress != nil {
			out[egressPolicy] = had.Egress
		}
		return out, nil
	}
	next, err := givenEgress(given)
	if err != nil || next.String() == had.Egress.Strict().String() {
		return out, err
	}
	if wide, err := c.Administers(ctx); err != nil || !wide {
		if err == nil {
			err = apierr.New(apierr.Forbidden, "only the owner and admins of the organisation can change settings.egress_policy of a workspace").
				WithParam("settings." + egressPolicy).WithCode("AB03")
		}
		return nil, err
	}
	return out, nil
}
