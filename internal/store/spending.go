package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/jwt"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Kinds of objects that have budgets and whose spend is counted.
const (
	KeyBudget       = "key"
	WorkspaceBudget = "workspace"
	ProviderBudget  = "provider"
	GrantBudget     = "grant" // see [GrantID]
	UserBudget      = "user"  // see [UserID]
)

// BudgetRef identifies an object with budgets.
type BudgetRef struct{ Kind, ID string }

func (r BudgetRef) compare(s BudgetRef) int {
	return cmp.Or(strings.Compare(r.Kind, s.Kind), strings.Compare(r.ID, s.ID))
}

// GrantID returns the id of a workspace's grant of an integration.
func GrantID(integration, workspace string) string { return integration + "/" + workspace }

// UserID returns the id of a user in an organisation.
func UserID(organisation, user string) string { return organisation + "/" + user }

// LedgerSpan is a part of a ledger segment.
type LedgerSpan struct {
	Segment  string
	From, To int64
}

// LedgerCount is the spend in parts of the ledger.
type LedgerCount struct {
	Spans []LedgerSpan
	Spent map[reqlog.SpendOwner]*reqlog.Spend
	// Counters is the part of Spent that counts for policies, by counter.
	Counters map[string]*reqlog.Spend
	// Own and OwnCounters are the parts of both that this process spent.
	Own         map[reqlog.SpendOwner]*reqlog.Spend
	OwnCounters map[string]*reqlog.Spend
}

// ErrAlreadyCounted is returned for settlements whose segment was not counted up to
// their beginning because another process counted it.
var ErrAlreadyCounted = errors.New("the segment was counted by another process")

// Background returns queries on the connections for writing, which leaves the others to
// requests. It is for background work.
func (db *DB) Background() Queries { return Queries{db.write} }

// LedgerMarks returns the positions up to which segments were counted; unknown segments
// are not included.
func (db *DB) LedgerMarks(ctx context.Context, segments []string) (map[string]int64, error) {
	const text = `
		SELECT counted
		FROM ledger_marks
		WHERE segment = $1`
	if !db.ready.Load() {
		return nil, unavailableError(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	marks := make(map[string]int64, len(segments))
	for _, s := range segments {
		var n int64
		switch err := db.write.QueryRowContext(ctx, text, s).Scan(&n); {
		case err == nil:
			marks[s] = n
		case !errors.Is(err, sql.ErrNoRows):
			return nil, db.ClientError(fmt.Errorf("reading the marks of the ledger: %w", err))
		}
	}
	return marks, nil
}

// AddSpend adds spend to the counters and marks its spans as counted in one
// transaction. It returns the objects whose counters increased, with what this process
// added to them. It makes no revision. Marks not updated since keep are deleted.
func (db *DB) AddSpend(ctx context.Context, c LedgerCount, now, keep time.Time) (raised map[BudgetRef]reqlog.Spend, err error) {
	if !db.ready.Load() {
		return nil, unavailableError(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	err = db.transact(ctx, func(tx *Tx) error {
		if err := tx.mark(ctx, c.Spans, now, keep); err != nil {
			return err
		}
		sums, err := tx.addSpend(ctx, c.Spent, c.Counters)
		if err != nil {
			return err
		}
		if raised, err = tx.charged(ctx, c.Own, c.OwnCounters); err != nil {
			return err
		}
		for r := range sums {
			if _, own := raised[r]; !own {
				raised[r] = reqlog.Spend{}
			}
		}
		return nil
	})
	return raised, db.ClientError(err)
}

// AddSpendOf adds what an owner spent to the counters, in the transaction of what it was
// spent for; counters are the part that counts for policies, by counter. It returns the
// objects whose counters increased, each with nothing: no attempt of this process has
// settled it in the counters of limits.
func (tx *Tx) AddSpendOf(ctx context.Context, owner reqlog.SpendOwner, spent reqlog.Spend,
	counters map[string]*reqlog.Spend) (raised map[BudgetRef]reqlog.Spend, err error) {
	sums, err := tx.addSpend(ctx, map[reqlog.SpendOwner]*reqlog.Spend{owner: &spent}, counters)
	for r := range sums {
		sums[r] = reqlog.Spend{}
	}
	return sums, err
}

// addSpend adds spend to the counters, and returns it by the objects that it counts for.
func (tx *Tx) addSpend(ctx context.Context, spent map[reqlog.SpendOwner]*reqlog.Spend,
	counters map[string]*reqlog.Spend) (map[BudgetRef]reqlog.Spend, error) {
	sums, err := tx.charged(ctx, spent, counters)
	if err != nil {
		return nil, err
	}
	// Sorted, so that nodes never deadlock.
	refs := slices.SortedFunc(maps.Keys(sums), BudgetRef.compare)
	for part := range slices.Chunk(refs, spentAtOnce) {
		if err := tx.raiseSpending(ctx, part, sums); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// mark stores the positions up to which segments were counted.
func (tx *Tx) mark(ctx context.Context, spans []LedgerSpan, now, keep time.Time) error {
	const (
		insert = `
		INSERT INTO ledger_marks (segment, counted, updated_at)
		VALUES ($1, $2, $3)
		ON CONFLICT (segment) DO UPDATE
		SET counted = excluded.counted, updated_at = excluded.updated_at
		WHERE ledger_marks.counted = $4`
		forget = `
		DELETE FROM ledger_marks
		WHERE updated_at < $1`
	)
	for _, s := range spans {
		err := tx.write(ctx, journal.Unpublished, "mark of the ledger", insert, s.Segment, s.To, now.UnixMilli(), s.From)
		if apierr.IsNotFound(err) {
			return ErrAlreadyCounted
		}
		if err != nil {
			return err
		}
	}
	return tx.exec(ctx, journal.Unpublished, "marks of the ledger", forget, keep.UnixMilli())
}

// charged returns the spend by the objects that it counts for.
func (q Queries) charged(ctx context.Context, spent map[reqlog.SpendOwner]*reqlog.Spend,
	counters map[string]*reqlog.Spend) (map[BudgetRef]reqlog.Spend, error) {
	sums := make(map[BudgetRef]reqlog.Spend)
	add := func(kind, id string, s reqlog.Spend) {
		sum := sums[BudgetRef{kind, id}]
		sum.Add(s)
		sums[BudgetRef{kind, id}] = sum
	}
	for name, s := range counters {
		add(PolicySpend, name, *s)
	}
	lineages, err := q.lineages(ctx, spent)
	if err != nil {
		return nil, err
	}
	users, err := q.usersOf(ctx, spent, lineages)
	if err != nil {
		return nil, err
	}
	entries := make(map[[2]string]providerOf)
	for o, s := range spent {
		if _, ofToken := jwt.UserOf(o.KeyID); !ofToken { // nothing limits the total of a token
			add(KeyBudget, o.KeyID, *s)
		}
		for _, maker := range lineages[o.KeyID] {
			add(KeyBudget, maker, *s)
		}
		for _, user := range users[[2]string{o.Organisation, o.KeyID}] {
			add(UserBudget, UserID(o.Organisation, user), *s)
		}
		add(WorkspaceBudget, o.Workspace, *s)
		if o.Slug == "" {
			continue
		}
		place := [2]string{o.Workspace, o.Slug}
		p, ok := entries[place]
		if !ok {
			if p, err = q.providerOf(ctx, o.Workspace, o.Slug); err != nil {
				return nil, err
			}
			entries[place] = p
		}
		if p.id != "" {
			add(ProviderBudget, p.id, *s)
			add(GrantBudget, GrantID(p.integration, o.Workspace), *s)
		}
	}
	return sums, nil
}

// providerOf is a managed provider and its integration; empty for a provider of the
// settings.
type providerOf struct{ id, integration string }

// providerOf returns the managed provider with a slug in a workspace, or the latest
// archived one.
func (q Queries) providerOf(ctx context.Context, workspace, slug string) (p providerOf, err error) {
	const text = `
		SELECT id, integration_id
		FROM providers
		WHERE workspace_id = $1 AND slug = $2
		ORDER BY CASE WHEN status = 'archived' THEN 1 ELSE 0 END, id DESC
		LIMIT 1`
	err = q.Reader.QueryRowContext(ctx, text, workspace, slug).Scan(&p.id, &p.integration)
	if errors.Is(err, sql.ErrNoRows) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("reading a provider: %w", err)
	}
	return p, nil
}

// spentAtOnce is the limit of rows in one statement.
const spentAtOnce = 100

// raiseSpending adds sums to the counters of refs. A counter stops at the largest
// integer.
func (tx *Tx) raiseSpending(ctx context.Context, refs []BudgetRef, sums map[BudgetRef]reqlog.Spend) error {
	const (
		head = `
		INSERT INTO spending (kind, id, attempts, cost, tokens, unknown, unpriced)
		VALUES `
		tail = `
		ON CONFLICT (kind, id) DO UPDATE
		SET attempts = spending.attempts + excluded.attempts, unknown = spending.unknown + excluded.unknown,
			unpriced = spending.unpriced + excluded.unpriced,
			cost = CASE WHEN spending.cost > 9223372036854775807 - excluded.cost THEN 9223372036854775807
				ELSE spending.cost + excluded.cost END,
			tokens = CASE WHEN spending.tokens > 9223372036854775807 - excluded.tokens THEN 9223372036854775807
				ELSE spending.tokens + excluded.tokens END`
	)
	var values []string
	var args []any
	for _, r := range refs {
		s := sums[r]
		values = append(values, placeholders(len(args), 7))
		args = append(args, r.Kind, r.ID, s.Attempts, int64(s.Cost), s.Tokens, s.Unknown, s.Unpriced)
	}
	return tx.exec(ctx, journal.Unpublished, "what was spent", head+strings.Join(values, ", ")+tail, args...)
}

// placeholders returns n placeholders in parentheses, numbered after before others.
func placeholders(before, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = "$" + strconv.Itoa(before+i+1)
	}
	return "(" + strings.Join(list, ", ") + ")"
}

// toArgs returns ids as arguments of a statement.
func toArgs(ids []string) []any {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return args
}

// SpendingAfter returns the total spend of at most most objects of a kind with ids
// after after, sorted by id.
func (q Queries) SpendingAfter(ctx context.Context, kind, after string, most int) ([]Spender, error) {
	const text = `
		SELECT id, attempts, cost, tokens, unknown, unpriced
		FROM spending
		WHERE kind = $1 AND id > $2
		ORDER BY id
		LIMIT $3`
	return sqlrow.List(ctx, q.Reader, "what was spent", text, func(r sqlrow.Scanner) (s Spender, err error) {
		err = r.Scan(&s.ID, &s.Attempts, &s.Cost, &s.Tokens, &s.Unknown, &s.Unpriced)
		return s, err
	}, kind, after, most)
}

// Spender is an object and its total spend.
type Spender struct {
	ID string
	reqlog.Spend
}

// Spending returns total spend by id. Objects that were never used are not included.
func (q Queries) Spending(ctx context.Context, kind string, ids ...string) (map[string]reqlog.Spend, error) {
	const text = `
		SELECT id, attempts, cost, tokens, unknown, unpriced
		FROM spending
		WHERE kind = $1 AND id IN `
	out := make(map[string]reqlog.Spend, len(ids))
	for part := range slices.Chunk(ids, spentAtOnce) {
		_, err := sqlrow.List(ctx, q.Reader, "what was spent", text+placeholders(1, len(part)),
			func(r sqlrow.Scanner) (none struct{}, err error) {
				var id string
				var s reqlog.Spend
				err = r.Scan(&id, &s.Attempts, &s.Cost, &s.Tokens, &s.Unknown, &s.Unpriced)
				out[id] = s
				return none, err
			}, append([]any{kind}, toArgs(part)...)...)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
