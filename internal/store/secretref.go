package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// SecretReference identifies a secret in a secret manager.
type SecretReference struct {
	ID            string
	Organisation  string
	Slug          string // unique in the organisation
	Name          string
	Description   string
	Manager       string            // kind of secret manager
	Auth          map[string]string // address and credentials of the manager; secrets are masked
	Sealed        string            // secrets of Auth, sealed; empty for none
	Path          string            // of the secret in the manager
	Key           string            // key of a secret with several values; empty for the complete secret
	AllWorkspaces bool
	Workspaces    []string // ids, unless AllWorkspaces
	Providers     []string // ids of the providers that it may be sent to; empty for all
	Hosts         []string // patterns of hosts that it may be sent to in addition to the providers' own; see package egress
	Tags          map[string]string
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

// Allows reports whether a workspace may use the reference.
func (s SecretReference) Allows(workspace string) bool {
	return s.AllWorkspaces || slices.Contains(s.Workspaces, workspace)
}

// SecretMapping fills a field of an integration with the value of a secret reference.
type SecretMapping struct {
	Target    string `json:"target_field"`        // key, or configurations. or model_config. and the name of a setting
	Reference string `json:"secret_reference_id"` // id
	Key       string `json:"secret_key,omitempty"`
	Format    string `json:"value_format,omitempty"` // json or string; empty is string
}

var secretReferenceTable = table[SecretReference]{
	name: "secret_references", row: "secret reference", fixed: "id",
	columns: func(s *SecretReference) []column {
		return []column{
			{"id", &s.ID}, {"organisation_id", &s.Organisation}, {"slug", &s.Slug}, {"name", &s.Name}, {"description", &s.Description},
			{"manager_type", &s.Manager}, {"auth_config", object(&s.Auth)}, {"sealed", &s.Sealed}, {"secret_path", &s.Path}, {"secret_key", &s.Key},
			{"allow_all_workspaces", &s.AllWorkspaces}, {"allowed_workspaces", array(&s.Workspaces)}, {"allowed_providers", array(&s.Providers)},
			{"allowed_hosts", array(&s.Hosts)}, {"tags", object(&s.Tags)}, {"created_at", &s.CreatedAt}, {"updated_at", &s.UpdatedAt},
		}
	},
}

// SecretReferenceFilter filters secret references of an organisation. The zero value of
// a field filters nothing.
type SecretReferenceFilter struct {
	Organisation string
	Manager      string
	Search       string            // substring of the name or slug, case-insensitive
	Tags         map[string]string // all must match
}

// SecretReferences returns a page of secret references, newest first, and the number of
// all.
func (q Queries) SecretReferences(ctx context.Context, f SecretReferenceFilter, p Page) ([]SecretReference, int, error) {
	list, err := secretReferenceTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1 AND ($2 = '' OR manager_type = $2)
		ORDER BY id DESC`, f.Organisation, f.Manager)
	if err != nil {
		return nil, 0, err
	}
	part, found := strings.ToLower(f.Search), list[:0]
	for _, s := range list {
		if !strings.Contains(s.Name, p.Name) {
			continue
		}
		if strings.Contains(strings.ToLower(s.Name), part) || strings.Contains(strings.ToLower(s.Slug), part) {
			found = append(found, s)
		}
	}
	page, total := withTags(found, func(s SecretReference) map[string]string { return s.Tags }, f.Tags, p)
	return page, total, nil
}

// SecretReference returns the secret reference with this id or slug.
func (q Queries) SecretReference(ctx context.Context, organisation, ref string) (SecretReference, error) {
	return secretReferenceTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND (id = $2 OR slug = $2)`, organisation, ref)
}

// CreateSecretReference stores a secret reference. A slug in use is a conflict.
func (tx *Tx) CreateSecretReference(ctx context.Context, s SecretReference) error {
	return secretReferenceTable.insert(ctx, tx, s)
}

// UpdateSecretReference replaces the reference with s's id.
func (tx *Tx) UpdateSecretReference(ctx context.Context, s SecretReference) error {
	return secretReferenceTable.update(ctx, tx, s)
}

// DeleteSecretReference deletes a secret reference.
func (tx *Tx) DeleteSecretReference(ctx context.Context, id string) error {
	const text = `
		DELETE FROM secret_references
		WHERE id = $1`
	return tx.write(ctx, journal.SecretReferences, "secret reference", text, id)
}

// SecretReferenceUsers returns the number of integrations, including those of virtual
// keys, and of credentials of partners that use the reference.
func (q Queries) SecretReferenceUsers(ctx context.Context, organisation, id string) (n int, err error) {
	const text = `
		SELECT secret_mappings
		FROM integrations
		WHERE organisation_id = $1 AND status = 'active' AND secret_mappings <> '[]'
		UNION ALL
		SELECT secret_mappings
		FROM guardrail_credentials
		WHERE organisation_id = $1 AND secret_mappings <> '[]'`
	list, err := sqlrow.List(ctx, q.Reader, "integrations", text, func(r sqlrow.Scanner) (ms []SecretMapping, err error) {
		err = r.Scan(sqlrow.JSON(&ms))
		return ms, err
	}, organisation)
	for _, ms := range list {
		if slices.ContainsFunc(ms, func(m SecretMapping) bool { return m.Reference == id }) {
			n++
		}
	}
	return n, err
}

// AllSecretReferences returns the secret references of all organisations.
func (q Queries) AllSecretReferences(ctx context.Context) ([]SecretReference, error) {
	return secretReferenceTable.list(ctx, q.Reader, "")
}
