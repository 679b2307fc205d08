package store

import (
	"context"

	"modelgate/internal/access"
	"modelgate/internal/egress"
	"modelgate/internal/sqlrow"
)

// OrganisationSettings is what an organisation says of all that is in it. The
// zero value is what one has that said nothing.
type OrganisationSettings struct {
	// Security has the rights of roles that were set; the rest are at their
	// defaults. Overridable are the sections that workspaces may set themselves.
	Security    access.RolePermissions `json:"security_settings,omitempty"`
	Overridable []access.Section       `json:"overridable_sections,omitempty"`

	UserKeyPolicy

	// Logging is how much is kept of exchanges: see [LoggingFull]. Empty is what
	// the installation says. LoggingOverridable lets workspaces say otherwise, and
	// keys say more.
	Logging            string `json:"request_logging,omitempty"`
	LoggingOverridable bool   `json:"request_logging_override,omitempty"`

	// Egress limits where requests go. Nil says nothing.
	Egress *egress.Policy `json:"egress_policy,omitempty"`

	// BlockInlineConfig refuses configs that a request brings itself.
	BlockInlineConfig bool `json:"block_inline_config,omitempty"`

	// JWT is whose tokens the organisation takes. Nil takes none.
	JWT *JWTSettings `json:"jwt,omitempty"`

	// DeniedFields are left out of exports of the log.
	DeniedFields []string `json:"denied_fields,omitempty"`

	// InputGuardrails and OutputGuardrails are ids of guardrails of the
	// organisation for every request.
	InputGuardrails  []string `json:"input_guardrails,omitempty"`
	OutputGuardrails []string `json:"output_guardrails,omitempty"`
}

// The levels of logging.
const (
	LoggingFull     = "full"
	LoggingMetadata = "metadata" // no bodies
	LoggingNone     = "none"     // no text of clients
)

// UserKeyPolicy is what an organisation or a workspace says of keys of people.
// Nil says nothing.
type UserKeyPolicy struct {
	TTL    *int64 `json:"user_api_key_ttl,omitempty"`     // seconds until a key ends that says nothing
	MaxTTL *int64 `json:"user_api_key_max_ttl,omitempty"` // seconds that a key may last
	Count  *int64 `json:"user_api_key_count,omitempty"`   // keys of one person; -1 is no bound
}

// RolePermissions returns what roles may do in a workspace: what its organisation says,
// except for the sections that the workspace sets, and the defaults.
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
