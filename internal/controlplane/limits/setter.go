package limits

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Fields are the limits of an object by field name. A limit that is not set is empty or
// absent.
type Fields map[string]string

// Object is an object whose limits change.
type Object struct {
	store.BudgetRef
	Workspace string // id; empty for an object of the organisation
	User      string // owner of a user key; otherwise empty

	Before, After Fields // Before is empty for a new object
}

// Compare returns the change of an object's limits, as read by read. Before is nil for
// a new object.
func Compare[T any](kind, id string, before, after *T, read func(*T) (Fields, error)) (of Object, err error) {
	of.BudgetRef = store.BudgetRef{Kind: kind, ID: id}
	if before != nil {
		if of.Before, err = read(before); err != nil {
			return of, err
		}
	}
	of.After, err = read(after)
	return of, err
}

// Change enforces who may change limits. A limit without a setter may be set by
// everyone who may change the object. A limit with a setter may be changed, removed or
// reset only by a caller of at least the setter's rank. On a user's own key that must
// be someone other than the user, unless the user set it or ranks higher. A key may
// change neither its own limits nor the limits of the keys that created it. Change
// returns an error naming the field if the rule is broken, and otherwise records who
// set the changed limits.
func Change(ctx context.Context, c *route.Caller, tx *store.Tx, of Object) error {
	changed := differing(of.Before, of.After)
	if len(changed) == 0 {
		return nil
	}
	rank, err := c.Rank(ctx, tx.Queries, of.Workspace)
	if err != nil {
		return err
	}
	set, err := tx.LimitSetters(ctx, of.BudgetRef)
	if err != nil {
		return err
	}
	for _, field := range changed {
		if err := checkMayChange(c, rank, of, field, set[field]); err != nil {
			return err
		}
	}
	return Note(ctx, tx, of, store.LimitSetter{Rank: rank, By: c.Actor()})
}

// Note records that setter set the limits that a change changed.
func Note(ctx context.Context, tx *store.Tx, of Object, setter store.LimitSetter) error {
	for _, field := range differing(of.Before, of.After) {
		by := setter
		if of.After[field] == "" {
			by = store.LimitSetter{}
		}
		if err := tx.PutLimitSetter(ctx, of.BudgetRef, field, by); err != nil {
			return err
		}
	}
	return nil
}

// differing returns the names of the fields that differ, sorted.
func differing(before, after Fields) []string {
	names := make(map[string]bool)
	for _, fields := range []Fields{before, after} {
		for name := range fields {
			if before[name] != after[name] {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func checkMayChange(c *route.Caller, rank access.Rank, of Object, field string, by store.LimitSetter) error {
	if of.Kind == store.KeyBudget && (of.ID == c.KeyID || slices.Contains(c.Lineage, of.ID)) {
		return NotAllowed(field, "cannot be changed: a key cannot change its own limits or the limits of a key that created it")
	}
	return checkRank(c, rank, of, field, by)
}

// checkRank returns an error if the caller ranks below the setter of a limit.
func checkRank(c *route.Caller, rank access.Rank, of Object, field string, by store.LimitSetter) error {
	switch {
	case by == (store.LimitSetter{}):
		return nil
	case rank < by.Rank:
		return NotAllowed(field, "was set by a caller of the rank %q; yours is %q", by.Rank, rank)
	case rank == by.Rank && by.By != c.Actor() && of.User != "" && of.User == c.UserID:
		return NotAllowed(field, "of your own key was set by another user; ask them or a user of a higher rank")
	}
	return nil
}

// Capped reports whether a key has a limit that the caller may not change.
func Capped(c *route.Caller, rank access.Rank, of Object, set map[string]store.LimitSetter) bool {
	for field, by := range set {
		if checkRank(c, rank, of, field, by) != nil {
			return true
		}
	}
	return false
}

// NotAllowed returns the error for a limit that the caller may not change or exceed.
func NotAllowed(field, format string, args ...any) error {
	return apierr.New(apierr.Forbidden, field+" "+format, args...).WithParam(field).WithCode("AB03")
}

// Field returns a budget as one of [Fields]: its limits and the start of its count,
// without the state of warnings. Raw is what [Budget.JSON] or [Budgets.JSON] wrote.
func Field(raw json.RawMessage) (string, error) {
	list, one, err := ParseAny(raw)
	if err != nil || len(list) == 0 {
		return "", err
	}
	for i := range list {
		list[i].ThresholdSent, list[i].ExhaustedSent = false, false
	}
	return string(list.Raw(one)), nil
}

// RateField returns rate limits as one of [Fields].
func RateField(raw json.RawMessage) string {
	if text := string(raw); text != "[]" && text != "null" {
		return text
	}
	return ""
}

// Differing returns the fields of after that differ from before.
func Differing(before, after Fields) Fields {
	out := make(Fields)
	for _, name := range differing(before, after) {
		out[name] = after[name]
	}
	return out
}
