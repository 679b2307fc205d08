package store

import (
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
