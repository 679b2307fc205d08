package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// BudgetHolder is an object and its budgets, whose meaning is defined by the control
// plane.
type BudgetHolder struct {
	BudgetRef
	Organisation string
	Workspace    string // id; empty for an object of the organisation
	Name         string
	UsageLimits  json.RawMessage // object, array or null, as stored
	Exhausted    bool

	// ResetAt is the time of the earliest reset of a budget; zero is never.
	ResetAt time.Time

	Spent reqlog.Spend // total spend
}

// budgetTable describes a table of budget holders: the columns of a [BudgetHolder], the
// conditions of being exhausted and of being usable, the id of a row, and the statement
// that updates it.
type budgetTable struct {
	columns, exhausted, from, live, id, write string
	rows                                      journal.Rows // written by write
}

// budgetTables are the tables by kind. Keys and providers that have ended are excluded.
var budgetTables = map[string]budgetTable{
	KeyBudget: {
		`b.organisation_id, b.workspace_id, b.name, b.usage_limits, b.usage_reset_at`, `b.status = 'exhausted'`,
		`gateway_keys b`, `b.status IN ('active', 'exhausted')`, `b.id`, `
		UPDATE gateway_keys
		SET usage_limits = $2, status = CASE WHEN $3 THEN 'exhausted' ELSE 'active' END, usage_reset_at = $4
		WHERE id = $1`, journal.Keys,
	},
	WorkspaceBudget: {
		`b.organisation_id, b.id, b.name, b.usage_limits, b.usage_reset_at`, `b.exhausted`,
		`workspaces b`, `b.status = 'active'`, `b.id`, `
		UPDATE workspaces
		SET usage_limits = $2, exhausted = $3, usage_reset_at = $4
		WHERE id = $1`, journal.Workspaces,
	},
	ProviderBudget: {
		`b.organisation_id, b.workspace_id, b.name, b.usage_limits, b.usage_reset_at`, `b.status = 'exhausted'`,
		`providers b`, `b.status IN ('active', 'exhausted')`, `b.id`, `
		UPDATE providers
		SET usage_limits = $2, status = CASE WHEN $3 THEN 'exhausted' ELSE 'active' END, usage_reset_at = $4
		WHERE id = $1`, journal.Providers,
	},
	GrantBudget: {
		`i.organisation_id, b.workspace_id, i.name, b.usage_limits, b.usage_reset_at`, `b.status = 'exhausted'`,
		`integration_workspaces b JOIN integrations i ON i.id = b.integration_id`, `i.status = 'active'`,
		`b.integration_id || '/' || b.workspace_id`, `
		UPDATE integration_workspaces
		SET usage_limits = $2, status = CASE WHEN $3 THEN 'exhausted' ELSE 'active' END, usage_reset_at = $4
		WHERE integration_id || '/' || workspace_id = $1`, journal.IntegrationWorkspaces,
	},
	UserBudget: {
		`b.organisation_id, '', u.email, b.usage_limits, b.usage_reset_at`, `b.exhausted`,
		`organisation_members b JOIN users u ON u.id = b.user_id`, `1 = 1`,
		`b.organisation_id || '/' || b.user_id`, `
		UPDATE organisation_members
		SET usage_limits = $2, exhausted = $3, usage_reset_at = $4
		WHERE organisation_id || '/' || user_id = $1`, journal.Members,
	},
}

// BudgetKinds are all kinds of budget holders.
var BudgetKinds = []string{KeyBudget, WorkspaceBudget, ProviderBudget, GrantBudget, UserBudget}

// Budgets returns the usable objects of refs that have a budget, are exhausted or wait
// for a reset.
func (q Queries) Budgets(ctx context.Context, refs []BudgetRef) (list []BudgetHolder, err error) {
	for _, kind := range BudgetKinds {
		var ids []any
		for _, r := range refs {
			if r.Kind == kind {
				ids = append(ids, r.ID)
			}
		}
		for part := range slices.Chunk(ids, spentAtOnce) {
			found, err := q.budgets(ctx, kind, budgetTables[kind].id+` IN `+placeholders(0, len(part)), part...)
			if err != nil {
				return nil, err
			}
			list = append(list, found...)
		}
	}
	return list, nil
}

// BudgetsDue returns at most most objects of each kind with a budget whose reset is due
// at now.
func (q Queries) BudgetsDue(ctx context.Context, now time.Time, most int) (list []BudgetHolder, err error) {
	for _, kind := range BudgetKinds {
		found, err := q.budgets(ctx, kind, `b.usage_reset_at <= $1 ORDER BY b.usage_reset_at LIMIT $2`, now.UnixMilli(), most)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

// BudgetsAfter returns at most most objects of a kind that have a budget, with ids
// after after, sorted by id.
func (q Queries) BudgetsAfter(ctx context.Context, kind, after string, most int) ([]BudgetHolder, error) {
	id := budgetTables[kind].id
	return q.budgets(ctx, kind, id+` > $1 ORDER BY `+id+` LIMIT $2`, after, most)
}

// budgets reads objects of one kind that have a budget.
func (q Queries) budgets(ctx context.Context, kind, where string, args ...any) ([]BudgetHolder, error) {
	t := budgetTables[kind]
	text := `
		SELECT ` + t.id + `, ` + t.columns + `, ` + t.exhausted + `, COALESCE(s.attempts, 0), COALESCE(s.cost, 0), COALESCE(s.tokens, 0), COALESCE(s.unknown, 0), COALESCE(s.unpriced, 0)
		FROM ` + t.from + `
		LEFT JOIN spending s ON s.kind = '` + kind + `' AND s.id = ` + t.id + `
		WHERE ` + t.live + ` AND (b.usage_limits NOT IN ('null', '[]') OR b.usage_reset_at IS NOT NULL OR ` + t.exhausted + `) AND ` + where
	return sqlrow.List(ctx, q.Reader, "budgets", text, func(r sqlrow.Scanner) (b BudgetHolder, err error) {
		b.Kind = kind
		err = r.Scan(&b.ID, &b.Organisation, &b.Workspace, &b.Name, sqlrow.JSON(&b.UsageLimits), sqlrow.Time(&b.ResetAt), &b.Exhausted,
			&b.Spent.Attempts, &b.Spent.Cost, &b.Spent.Tokens, &b.Spent.Unknown, &b.Spent.Unpriced)
		return b, err
	}, args...)
}

// PutBudget stores the budgets of b, whether it is exhausted, and its next reset.
func (tx *Tx) PutBudget(ctx context.Context, b BudgetHolder) error {
	t := budgetTables[b.Kind]
	rows := t.rows
	if rows == journal.Keys {
		rows = rows.Row(b.ID)
	}
	return tx.write(ctx, rows, "budget", t.write, b.ID, string(b.UsageLimits), b.Exhausted, millis(b.ResetAt))
}

// ChangeBudgets calls check with the current state of each object that refs name,
// stores those for which it returns true, and adds its notes to the audit log. Without
// changes it makes no revision. If several processes share a database, one runs first
// and the others see its changes.
func (db *DB) ChangeBudgets(ctx context.Context, refs []BudgetRef, check func(*BudgetHolder) (changed bool, notes []*Audit)) error {
	err := db.Update(ctx, nil, func(tx *Tx) error {
		list, err := tx.Budgets(ctx, refs)
		if err != nil {
			return err
		}
		changes := 0
		for i := range list {
			changed, notes := check(&list[i])
			if !changed {
				continue
			}
			changes++
			if err := tx.PutBudget(ctx, list[i]); err != nil {
				return err
			}
			for _, a := range notes {
				if err := tx.Note(ctx, a); err != nil {
					return err
				}
			}
		}
		if changes == 0 {
			return errNothing
		}
		return nil
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// errNothing ends a transaction without changes.
var errNothing = errors.New("nothing to change")
