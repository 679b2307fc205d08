package audits

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/logstore"
)

// Values of events that are not written by routes.
var (
	furtherTypes = []string{"audit_log", "cache", "data_key", "directory_group", "log", "manifest", "organisation",
		"policy", "secret_reference", "session", "token", "user"}
	furtherActions = []string{
		"budget_exhausted", "budget_reset", "budget_threshold", "end_access", "expired", "expires_soon", "owner_link", "password_change",
		"passkey_cloned", "password_reset", "prune", "read_across_organisations",
		"rotate", "rotation_due", "secret_changed", "secret_failed", "secret_test", "secret_use",
		"recovery_codes_replace", "second_factor_add", "second_factor_remove", "second_factor_rename", "second_factor_reset",
		"session_confirm", "session_end", "sessions_end", "sign_in", "sign_in_failed", "sign_in_pending", "sign_out", "skip", "stop",
	}
)

// resolve replaces the workspace by its id, and returns an error for a filter whose value
// no event can have.
func (in *listInput) resolve(ctx context.Context, a *route.API, c *route.Caller) (err error) {
	names := route.LogNames{DB: c.DB(), Caller: c.Identity, Scope: logstore.Scope{Organisation: c.Organisation}}
	if in.Workspace != "" {
		if in.Workspace, err = names.Workspace(ctx, "workspace_id", in.Workspace); err != nil {
			return err
		}
	}
	if in.UserID != "" {
		if known, err := c.KnowsActor(ctx, in.UserID); err != nil || !known {
			return cmp.Or(err, route.UnknownActor("user_id", in.UserID))
		}
	}
	types, actions := make(map[string]bool), make(map[string]bool)
	for _, r := range a.Routes() {
		if r.Resource != "" {
			types[r.Resource], actions[r.Action()] = true, true
		}
	}
	for _, of := range []struct {
		name, value string
		known       map[string]bool
		further     []string
	}{{"resource_type", in.ResourceType, types, furtherTypes}, {"action", in.Action, actions, furtherActions}} {
		if of.value == "" || of.known[of.value] || slices.Contains(of.further, of.value) {
			continue
		}
		if logged, err := c.DB().AuditHas(ctx, c.Organisation, of.name, of.value); err != nil || logged {
			if err != nil {
				return err
			}
			continue
		}
		for _, v := range of.further {
			of.known[v] = true
		}
		return route.Invalid(of.name, "must be one of %s, not %.60q", strings.Join(slices.Sorted(maps.Keys(of.known)), ", "), of.value)
	}
	return nil
}
