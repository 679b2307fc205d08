package limits

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Fields are the limits of an object by the names of their fields. A limit that is
// not set is empty or missing.
type Fields map[string]string

// Object is what a change is about.
type Object struct {
	store.BudgetRef
	Workspace string // id; empty for what is the organisation's
	User      string // whose key it is; empty for everything else

	Before, After Fields // a new object has none before
}

// Compare returns what a change makes of the limits of an object, as read has
// them. Before is nil for what is new.
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

// Change is the one rule of who changes limits. A limit that nobody set may be set
// by everybody who may change the object. One that was set is changed, removed or
// started again only by a caller of at least the rank of who set it, and on a
// person's own key only by others than that person, unless they set it themselves
// or rank higher. A key changes neither its own limits nor those of the keys that
// made it. Change refuses what breaks the rule, naming the field, and else stores
// who has set what is changed.
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
		if err := mayChange(c, rank, of, field, set[field]); err != nil {
			return err
		}
	}
	return Note(ctx, tx, of, store.LimitSetter{Rank: rank, By: c.Actor()})
}

// Note stores that setter has set what a change has made of limits.
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

// differing returns the names of the fields that are not alike, in order.
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

func mayChange(c *route.Caller, rank access.Rank, of Object, field string, by store.LimitSetter) error {
	if of.Kind == store.KeyBudget && (of.ID == c.KeyID || slices.Contains(c.Lineage, of.ID)) {
		return Refused(field, "can't be changed: a key can't change its own limits, nor those of a key that made it")
	}
	return above(c, rank, of, field, by)
}

// above refuses a caller below who set a limit.
func above(c *route.Caller, rank access.Rank, of Object, field string, by store.LimitSetter) error {
	switch {
	case by == (store.LimitSetter{}):
		return nil
	case rank < by.Rank:
		return Refused(field, "was set by a caller of the rank %q; yours is %q", by.Rank, rank)
	case rank == by.Rank && by.By != c.Actor() && of.User != "" && of.User == c.UserID:
		return Refused(field, "of your own key was set by somebody else; ask them or a higher rank")
	}
	return nil
}

// Capped reports whether somebody set a limit of a key that the caller can't
// change.
func Capped(c *route.Caller, rank access.Rank, of Object, set map[string]store.LimitSetter) bool {
	for field, by := range set {
		if above(c, rank, of, field, by) != nil {
			return true
		}
	}
	return false
}

// Refused is the error of a limit that the caller may not change or exceed.
func Refused(field, format string, args ...any) error {
	return apierr.New(apierr.Forbidden, field+" "+format, args...).WithParam(field).WithCode("AB03")
}

// Field returns a budget as one of [Fields]: what it limits and when its count
// started, without the warnings that were sent. Raw is what [Budget.JSON] or
// [Budgets.JSON] wrote.
func Field(raw json.RawMessage) (string, error) {
	list, one, err := ParseAny(raw)
	if err != nil || len(list) == 0 {
		return "", err
	}
	for i := range list {
		list[i].ThresholdSent, list[i].ExhaustedSent, list[i].ExpiredSent = false, false, false
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

// Differing returns the fields of after that are not as in before.
func Differing(before, after Fields) Fields {
	out := make(Fields)
	for _, name := range differing(before, after) {
		out[name] = after[name]
	}
	return out
}
