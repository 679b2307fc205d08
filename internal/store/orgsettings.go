package store

import (
	"cmp"
	"context"

	"modelgate/internal/base/egress"
	"modelgate/internal/identity/access"
	"modelgate/internal/storage/sqlrow"
)

// OrganisationSettings are the settings of an organisation. The zero value has all
// defaults.
type OrganisationSettings struct {
	// Security has the permissions of roles that were set; all others have their
	// defaults. Overridable are the sections that workspaces may set themselves.
	Security    access.RolePermissions `json:"security_settings,omitempty"`
	Overridable []access.Section       `json:"overridable_sections,omitempty"`

	UserKeyPolicy

	// Logging is the logging level; see [LoggingFull]. Empty is the installation's
	// level. LoggingOverridable lets workspaces set another level, and keys a higher
	// one.
	Logging            string `json:"request_logging,omitempty"`
	LoggingOverridable bool   `json:"request_logging_override,omitempty"`

	// Egress limits the destinations of requests. Nil sets no limit.
	Egress *egress.Policy `json:"egress_policy,omitempty"`

	// BlockInlineConfig rejects inline configs.
	BlockInlineConfig bool `json:"block_inline_config,omitempty"`

	// FailClosed makes errors of checks failures in all saved guardrails of the
	// organisation and its workspaces.
	FailClosed bool `json:"fail_closed,omitempty"`

	// JWT is the issuer whose tokens the organisation accepts. Nil accepts none.
	JWT *JWTSettings `json:"jwt,omitempty"`

	// RequireSecondFactor lets members sign in only with two factors, and NoPasswords without
	// a password.
	RequireSecondFactor bool `json:"require_second_factor,omitempty"`
	NoPasswords         bool `json:"no_passwords,omitempty"`

	// Directory are the rules for the organisation's directory. Nil has all defaults.
	Directory *DirectorySettings `json:"directory,omitempty"`

	// DeniedFields are excluded from log exports.
	DeniedFields []string `json:"denied_fields,omitempty"`

	// InputGuardrails and OutputGuardrails are ids of the organisation's guardrails for
	// every request.
	InputGuardrails  []string `json:"input_guardrails,omitempty"`
	OutputGuardrails []string `json:"output_guardrails,omitempty"`

	// InputExclusions and OutputExclusions are ids of workspaces to which
	// InputGuardrails and OutputGuardrails do not apply.
	InputExclusions  []string `json:"input_guardrail_exclusions,omitempty"`
	OutputExclusions []string `json:"output_guardrail_exclusions,omitempty"`
}

// DirectorySettings are the rules for the directory of an organisation. Empty fields have
// their defaults.
type DirectorySettings struct {
	GroupPrefix       string `json:"group_prefix,omitempty" maxLength:"40" doc:"Beginning of the names of groups that name a workspace and a role; ws by default"`
	GroupSeparator    string `json:"group_separator,omitempty" maxLength:"10" doc:"Between the parts of such names; - by default"`
	OrganisationRoles bool   `json:"organisation_roles,omitempty" doc:"Lets groups such as org-role-admin give a role in the organisation"`
	UsersOnly         bool   `json:"users_only,omitempty" doc:"Rejects invites: only the directory adds users"`
	RevokeServiceKeys bool   `json:"revoke_service_keys,omitempty" doc:"Also revokes the service keys that a deactivated user created"`
}

// OrDefault returns the settings with defaults. It accepts nil.
func (s *DirectorySettings) OrDefault() DirectorySettings {
	var out DirectorySettings
	if s != nil {
		out = *s
	}
	out.GroupPrefix, out.GroupSeparator = cmp.Or(out.GroupPrefix, "ws"), cmp.Or(out.GroupSeparator, "-")
	return out
}

// Logging levels.
const (
	LoggingFull     = "full"
	LoggingMetadata = "metadata" // no bodies
	LoggingNone     = "none"     // no text written by clients
)

// UserKeyPolicy holds the rules for user keys of an organisation or workspace. Nil
// fields set no rule.
type UserKeyPolicy struct {
	TTL    *int64 `json:"user_api_key_ttl,omitempty"`     // default lifetime in seconds
	MaxTTL *int64 `json:"user_api_key_max_ttl,omitempty"` // maximum lifetime in seconds
	Count  *int64 `json:"user_api_key_count,omitempty"`   // maximum number of keys of a user; -1 for no limit
}

// RolePermissions returns the permissions of roles in a workspace: those of its
// organisation, those of the sections that the workspace sets, and the defaults.
func (q Queries) RolePermissions(ctx context.Context, organisation, workspace string) (access.RolePermissions, error) {
	const text = `
		SELECT o.settings, w.security_settings
		FROM workspaces w
		JOIN organisations o ON o.id = w.organisation_id
		WHERE w.organisation_id = $1 AND w.id = $2`
	return sqlrow.One(ctx, q.Reader, "workspace", text, func(r sqlrow.Scanner) (access.RolePermissions, error) {
		var above OrganisationSettings
		var own access.RolePermissions
		err := r.Scan(sqlrow.JSON(&above), sqlrow.JSON(&own))
		return above.Security.WithOverrides(own, above.Overridable), err
	}, organisation, workspace)
}
