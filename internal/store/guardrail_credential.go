package store

import (
	"context"
	"time"

	"modelgate/internal/storage/journal"
)

// GuardrailCredential holds the credentials that checks of guardrails send to a partner.
type GuardrailCredential struct {
	ID           string
	Organisation string
	Workspace    string            // id; empty for those of the organisation
	Partner      string            // family of checks, such as azure, or one check, such as azure.pii; unique in the place
	Sealed       string            // [Secrets.Text] with options only, sealed for the organisation; empty for none
	Masks        map[string]string // of the sealed credentials, by name
	Mappings     []SecretMapping   // credentials that are filled from secret references at run time
	CreatedBy    string
	UpdatedBy    string
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

var guardrailCredentialTable = table[GuardrailCredential]{
	name: "guardrail_credentials", row: "guardrail credential", order: "id DESC",
	fixed: "id organisation_id workspace_id partner created_by created_at",
	columns: func(c *GuardrailCredential) []column {
		return []column{
			{"id", &c.ID}, {"organisation_id", &c.Organisation}, {"workspace_id", &c.Workspace}, {"partner", &c.Partner}, {"sealed", &c.Sealed},
			{"masks", object(&c.Masks)}, {"secret_mappings", array(&c.Mappings)}, {"created_by", &c.CreatedBy}, {"updated_by", &c.UpdatedBy},
			{"created_at", &c.CreatedAt}, {"updated_at", &c.UpdatedAt},
		}
	},
}

// GuardrailCredentials returns a page of the credentials visible from a workspace, newest
// first, and the number of all; see [Queries.Guardrails].
func (q Queries) GuardrailCredentials(ctx context.Context, organisation, workspace string,
	p Page) (list []GuardrailCredential, total int, err error) {
	return guardrailCredentialTable.page(ctx, q.Reader, p, visibleModules, organisation, workspace)
}

// AllGuardrailCredentials returns the credentials of all organisations.
func (q Queries) AllGuardrailCredentials(ctx context.Context) ([]GuardrailCredential, error) {
	return guardrailCredentialTable.list(ctx, q.Reader, `
		ORDER BY id`)
}

// GuardrailCredential returns the credentials with this id that are visible from a
// workspace.
func (q Queries) GuardrailCredential(ctx context.Context, organisation, workspace, id string) (GuardrailCredential, error) {
	return guardrailCredentialTable.one(ctx, q.Reader, visibleModules+` AND id = $3`, organisation, workspace, id)
}

// CreateGuardrailCredential stores credentials. A second row for the same partner and
// place is a conflict.
func (tx *Tx) CreateGuardrailCredential(ctx context.Context, c GuardrailCredential) error {
	return guardrailCredentialTable.insert(ctx, tx, c)
}

// UpdateGuardrailCredential stores the changed fields of credentials.
func (tx *Tx) UpdateGuardrailCredential(ctx context.Context, c GuardrailCredential) error {
	return guardrailCredentialTable.update(ctx, tx, c)
}

// DeleteGuardrailCredential deletes credentials.
func (tx *Tx) DeleteGuardrailCredential(ctx context.Context, id string) error {
	const text = `
		DELETE FROM guardrail_credentials
		WHERE id = $1`
	return tx.write(ctx, journal.GuardrailCredentials, "guardrail credential", text, id)
}
