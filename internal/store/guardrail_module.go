package store

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// GuardrailModule is a WebAssembly module for checks of saved guardrails. It never
// changes.
type GuardrailModule struct {
	ID           string
	Organisation string
	Workspace    string // id; empty for a module of the organisation
	Slug         string // unique in the organisation
	Name         string
	SHA256       string // of the code, in hexadecimal
	Size         int64  // of the code, in bytes
	Exports      []string
	CreatedBy    string
	CreatedAt    time.Time
}

var guardrailModuleTable = table[GuardrailModule]{
	name: "guardrail_modules", row: "guardrail module", order: "id DESC",
	columns: func(m *GuardrailModule) []column {
		return []column{
			{"id", &m.ID}, {"organisation_id", &m.Organisation}, {"workspace_id", &m.Workspace}, {"slug", &m.Slug}, {"name", &m.Name},
			{"sha256", &m.SHA256}, {"size", &m.Size}, {"exports", array(&m.Exports)}, {"created_by", &m.CreatedBy}, {"created_at", &m.CreatedAt},
		}
	},
}

// visibleModules selects the modules of the organisation $1 that are visible from the
// workspace $2, as in [Queries.Guardrails].
const visibleModules = `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2 OR workspace_id = '')`

// GuardrailModules returns a page of the modules visible from a workspace, newest first,
// and the number of all; see [Queries.Guardrails].
func (q Queries) GuardrailModules(ctx context.Context, organisation, workspace string,
	p Page) (list []GuardrailModule, total int, err error) {
	return guardrailModuleTable.page(ctx, q.Reader, p, visibleModules, organisation, workspace)
}

// AllGuardrailModules returns the modules of all organisations.
func (q Queries) AllGuardrailModules(ctx context.Context) ([]GuardrailModule, error) {
	return guardrailModuleTable.list(ctx, q.Reader, "")
}

// GuardrailModule returns the module with this id, or else this slug, that is visible
// from a workspace.
func (q Queries) GuardrailModule(ctx context.Context, organisation, workspace, ref string) (GuardrailModule, error) {
	return guardrailModuleTable.one(ctx, q.Reader, visibleModules+` AND (id = $3 OR slug = $3)
		ORDER BY CASE WHEN id = $3 THEN 0 ELSE 1 END
		LIMIT 1`, organisation, workspace, ref)
}

// GuardrailModuleFor returns the module with this id or slug that a guardrail of a
// workspace may use, or a guardrail of the organisation if workspace is empty.
func (q Queries) GuardrailModuleFor(ctx context.Context, organisation, workspace, ref string) (GuardrailModule, error) {
	return guardrailModuleTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND (workspace_id = $2 OR workspace_id = '') AND (id = $3 OR slug = $3)
		ORDER BY CASE WHEN id = $3 THEN 0 ELSE 1 END
		LIMIT 1`, organisation, workspace, ref)
}

// GuardrailModuleCode returns the code of a module.
func (q Queries) GuardrailModuleCode(ctx context.Context, id string) ([]byte, error) {
	const text = `
		SELECT code
		FROM guardrail_modules
		WHERE id = $1`
	return sqlrow.One(ctx, q.Reader, "guardrail module", text, func(r sqlrow.Scanner) (code []byte, err error) {
		err = r.Scan(&code)
		return code, err
	}, id)
}

// GuardrailModuleTotals returns the number of modules of an organisation and the bytes
// of their code.
func (q Queries) GuardrailModuleTotals(ctx context.Context, organisation string) (count, bytes int64, err error) {
	const text = `
		SELECT COUNT(*), COALESCE(SUM(size), 0)
		FROM guardrail_modules
		WHERE organisation_id = $1`
	err = q.Reader.QueryRowContext(ctx, text, organisation).Scan(&count, &bytes)
	return count, bytes, err
}

// CreateGuardrailModule stores a module and its code. A slug in use is a conflict.
func (tx *Tx) CreateGuardrailModule(ctx context.Context, m GuardrailModule, code []byte) error {
	t := guardrailModuleTable
	plain := t.columns
	t.columns = func(m *GuardrailModule) []column { return append(plain(m), column{"code", &code}) }
	return t.insert(ctx, tx, m)
}

// DeleteGuardrailModule deletes a module.
func (tx *Tx) DeleteGuardrailModule(ctx context.Context, id string) error {
	const text = `
		DELETE FROM guardrail_modules
		WHERE id = $1`
	return tx.write(ctx, journal.GuardrailModules, "guardrail module", text, id)
}

// Modules returns the modules, by id or slug, that the checks of the guardrail name.
func (g Guardrail) Modules() (refs []string) {
	var checks []struct {
		Parameters map[string]json.RawMessage `json:"parameters"`
	}
	_ = json.Unmarshal(g.Checks, &checks) // a guardrail that is damaged runs no module
	for _, c := range checks {
		var ref string
		if json.Unmarshal(c.Parameters["module"], &ref) == nil && ref != "" {
			refs = append(refs, ref)
		}
	}
	return refs
}

// Uses reports whether the guardrail uses the module.
func (g Guardrail) Uses(m GuardrailModule) bool {
	if g.Organisation != m.Organisation || m.Workspace != "" && m.Workspace != g.Workspace {
		return false
	}
	for _, ref := range g.Modules() {
		if ref == m.ID || ref == m.Slug {
			return true
		}
	}
	return false
}
