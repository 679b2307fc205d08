package workspaces

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// required are the permissions that a request must contain: an incomplete object would
// leave the others undefined.
var required = []string{
	"membersViewAllData", "managersViewAllData", "membersViewPrompts", "membersWritePrompts", "managersViewPrompts",
	"managersWritePrompts", "membersViewAnalytics", "managersViewAnalytics",
}

// security returns the permissions that a workspace sets itself.
func security(w *store.Workspace) (own access.RolePermissions, err error) {
	if len(w.SecuritySettings) > 0 {
		err = json.Unmarshal(w.SecuritySettings, &own)
	}
	return own, err
}

// setSecurity replaces the workspace's permissions by a complete object, which may
// differ from the current permissions only in sections that the organisation delegates;
// null clears them. Permissions of other sections are not stored, so that they follow
// the organisation.
func setSecurity(ctx context.Context, c *route.Caller, w *store.Workspace, in route.Optional[access.RolePermissions]) error {
	if err := ofAdmins(ctx, c, w); err != nil {
		return err
	}
	own := access.RolePermissions{}
	if !in.Null {
		o, err := c.DB().Organisation(ctx, w.Organisation)
		if err != nil {
			return err
		}
		if own, err = delegatedPermissions(in.Value, w, &o.Settings); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(own)
	w.SecuritySettings = raw
	return err
}

// ofAdmins refuses users whose own role the permissions limit.
func ofAdmins(ctx context.Context, c *route.Caller, w *store.Workspace) error {
	own, err := rank(ctx, c, *w)
	if err == nil && own < len(ranks)-1 {
		err = apierr.New(apierr.Forbidden, "only admins can change security_settings").WithParam("security_settings").WithCode("AB03")
	}
	return err
}

// delegatedPermissions returns the permissions of given in delegated sections if all
// others are unchanged.
func delegatedPermissions(given access.RolePermissions, w *store.Workspace,
	above *store.OrganisationSettings) (access.RolePermissions, error) {
	for _, name := range required {
		if _, ok := given[name]; !ok {
			return nil, route.Invalid("security_settings", "must have all of %s; %s is missing", strings.Join(required, ", "), name)
		}
	}
	if err := route.CheckPermissions("security_settings", given); err != nil {
		return nil, err
	}
	before, err := security(w)
	if err != nil {
		return nil, err
	}
	stands, own := above.Security.WithOverrides(before, above.Overridable), access.RolePermissions{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		section, _ := access.SectionOf(name)
		switch {
		case slices.Contains(above.Overridable, section):
			own[name] = given[name]
		case given[name] != stands[name]:
			return nil, apierr.New(apierr.Forbidden, "security_settings.%s is %t, and the organisation does not delegate the section %s to workspaces",
				name, stands[name], section).WithParam("security_settings." + name).WithCode("AB03")
		}
	}
	return own, nil
}
