// Package journal changes a database and records which rows each change wrote
// to, so that a gateway rereads only what changed.
//
// Callers pass each writing statement to [Tx.Exec] with the rows that it writes to;
// tests on storetest fail if it writes to other rows. The records are part of the
// change: either both are committed or neither. A reader that finds a gap rereads
// everything. It does not define the contents of the tables (see store) or use them
// (see publication).
package journal

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"modelgate/internal/storage/sqlrow"
)

// Rows are the rows of a table, or one of them.
type Rows string

// The tables whose changes are recorded: those that publication reads, except small
// ones that it always reads.
const (
	Organisations         Rows = "organisations"
	Workspaces            Rows = "workspaces"
	Keys                  Rows = "gateway_keys"
	Integrations          Rows = "integrations"
	IntegrationModels     Rows = "integration_models"
	IntegrationWorkspaces Rows = "integration_workspaces"
	Providers             Rows = "providers"
	Configs               Rows = "configs"
	ConfigVersions        Rows = "config_versions"
	SecretReferences      Rows = "secret_references"
	Prompts               Rows = "prompts"
	PromptVersions        Rows = "prompt_versions"
	PromptLabels          Rows = "prompt_labels"
	Policies              Rows = "policies"
	PolicyResets          Rows = "policy_resets"
	Guardrails            Rows = "guardrails"
	GuardrailModules      Rows = "guardrail_modules"
	GuardrailCredentials  Rows = "guardrail_credentials"
	Members               Rows = "organisation_members"
	WorkspaceMembers      Rows = "workspace_members"
	CacheInvalidations    Rows = "cache_invalidations"
	WorkloadIdentities    Rows = "workload_identities"
	ToolIntegrations      Rows = "mcp_integrations"
	ToolGrants            Rows = "mcp_integration_workspaces"
	ToolServers           Rows = "mcp_servers"
	ToolBundles           Rows = "mcp_bundles"
	ToolCapabilities      Rows = "mcp_capabilities"
	ToolUserAccess        Rows = "mcp_user_access"
	OAuthGrants           Rows = "oauth_grants"
)

// Unpublished are the rows of any other table. They are not recorded.
const Unpublished Rows = ""

// Published returns the tables whose changes are recorded.
func Published() []Rows {
	return []Rows{
		Organisations, Workspaces, Keys, Integrations, IntegrationModels, IntegrationWorkspaces, Providers,
		Configs, ConfigVersions, SecretReferences, Prompts, PromptVersions, PromptLabels, Policies, PolicyResets, Guardrails, GuardrailModules,
		GuardrailCredentials, Members, WorkspaceMembers, CacheInvalidations, WorkloadIdentities,
		ToolIntegrations, ToolGrants, ToolServers, ToolBundles, ToolCapabilities, ToolUserAccess, OAuthGrants,
	}
}

// Row returns the one row of a table with this id.
func (r Rows) Row(id string) Rows { return r + "/" + Rows(id) }

// split returns the table, and the id of a single row, else the empty string.
func (r Rows) split() (table Rows, id string) {
	name, id, _ := strings.Cut(string(r), "/")
	return Rows(name), id
}

// DB is a database that changes are made in. It is safe for concurrent use.
type DB struct {
	sqlrow.Reader

	db     *sql.DB
	notify string
	delay  delay
}

// New returns a DB on connections that may write. Notify is the statement that
// notifies other processes of a change; it runs in each change. Empty means none.
func New(db *sql.DB, notify string) *DB { return &DB{Reader: db, db: db, notify: notify} }

// Close closes the connections.
func (db *DB) Close() error { return db.db.Close() }

// Change runs f in a transaction, raises the revision and records what f wrote
// to. If f fails, nothing is written. Changes of all processes run one after
// another.
func (db *DB) Change(ctx context.Context, f func(*Tx) error) error {
	return db.transact(ctx, func(tx *sql.Tx) error {
		// Raising comes first: it is the lock that all changes wait for.
		revision, err := raise(ctx, tx)
		if err != nil {
			return err
		}
		written := make(map[Rows]struct{})
		if err := f(&Tx{tx, tx, written}); err != nil {
			return err
		}
		if err := record(ctx, tx, revision, written); err != nil {
			return err
		}
		return db.sendNotification(ctx, tx)
	})
}

// Transact runs f in a transaction that makes no revision. It can write only to
// unpublished rows.
func (db *DB) Transact(ctx context.Context, f func(*Tx) error) error {
	return db.transact(ctx, func(tx *sql.Tx) error { return f(&Tx{tx, tx, nil}) })
}

// Exec runs a statement that writes to unpublished rows, and returns their number.
func (db *DB) Exec(ctx context.Context, text string, args ...any) (n int64, err error) {
	var failed error // of the database itself
	defer db.delay.begin(&failed)()
	result, err := db.db.ExecContext(ctx, text, args...)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			failed = err
		}
		return 0, err
	}
	return result.RowsAffected()
}

// transact runs f in a transaction that is committed only if f returns nil.
func (db *DB) transact(ctx context.Context, f func(*sql.Tx) error) error {
	var failed error // of the database itself
	defer db.delay.begin(&failed)()
	tx, err := db.db.BeginTx(ctx, nil)
	if err != nil {
		failed = fmt.Errorf("starting a transaction: %w", err)
		return failed
	}
	defer tx.Rollback() // without effect once committed
	if err := f(tx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			failed = err
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		failed = fmt.Errorf("committing a transaction: %w", err)
	}
	return failed
}

// sendNotification makes the database notify other processes of a change when it is committed.
func (db *DB) sendNotification(ctx context.Context, tx *sql.Tx) error {
	if db.notify == "" {
		return nil
	}
	if _, err := tx.ExecContext(ctx, db.notify); err != nil {
		return fmt.Errorf("notifying other processes: %w", err)
	}
	return nil
}

// Tx is a transaction. It is valid until the function that received it returns.
type Tx struct {
	sqlrow.Reader

	tx      *sql.Tx
	written map[Rows]struct{} // nil where no revision is made
}

// Exec runs a statement that writes to rows, and returns how many it wrote.
func (tx *Tx) Exec(ctx context.Context, rows Rows, text string, args ...any) (n int64, err error) {
	if err := tx.Record(rows); err != nil {
		return 0, err
	}
	result, err := tx.tx.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Record notes that rows must be read again. It is for statements that return what
// they write, which are queries, and for rows whose meaning depends on others.
func (tx *Tx) Record(rows Rows) error {
	switch table, _ := rows.split(); {
	case !slices.Contains(Published(), table):
		return nil
	case tx.written == nil:
		return fmt.Errorf("writing to %s without a revision", rows)
	}
	tx.written[rows] = struct{}{}
	return nil
}

func raise(ctx context.Context, tx *sql.Tx) (revision int64, err error) {
	const text = `
		UPDATE revision
		SET value = value + 1
		WHERE id = 1
		RETURNING value`
	if err := tx.QueryRowContext(ctx, text).Scan(&revision); err != nil {
		return 0, fmt.Errorf("raising the revision: %w", err)
	}
	return revision, nil
}

const (
	keptRevisions = 1000 // changes of which records are kept
	manyRows      = 50   // in one change: their tables are recorded instead
)

// record adds a change to the records and removes those that are too old.
func record(ctx context.Context, tx *sql.Tx, revision int64, written map[Rows]struct{}) error {
	const (
		insert = `
		INSERT INTO changes (revision, mark, part, id)
		VALUES ($1, $2, $3, $4)`
		forget = `
		DELETE FROM changes
		WHERE revision < $1`
	)
	if len(written) > manyRows {
		for rows := range written {
			table, _ := rows.split()
			written[table] = struct{}{}
		}
	}
	written[Unpublished] = struct{}{} // a change that wrote nothing else is one too
	mark := rand.Text()
	for rows := range written {
		table, id := rows.split()
		if _, all := written[table]; all && id != "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, insert, revision, mark, string(table), id); err != nil {
			return fmt.Errorf("writing the journal of changes: %w", err)
		}
	}
	if _, err := tx.ExecContext(ctx, forget, revision-keptRevisions); err != nil {
		return fmt.Errorf("writing the journal of changes: %w", err)
	}
	return nil
}
