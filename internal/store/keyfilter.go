package store

import (
	"context"
	"strings"
	"time"

	"modelgate/internal/identity/access"
)

// KeyFilter filters keys that are not revoked.
type KeyFilter struct {
	Organisation string
	Types        []access.KeyType // an empty list matches none

	// Workspaces restricts the list to keys of these workspaces. Nil matches keys of
	// every workspace and of the organisation.
	Workspaces []string

	// OwnIn are further workspaces, of which only keys of the user Owner match.
	OwnIn []string
	Owner string

	// RotationDue restricts the list to keys whose rotation is due at this time. Zero
	// matches all.
	RotationDue time.Time

	// CreatedBy restricts the list to keys created by this user or key. Empty matches
	// all.
	CreatedBy string

	// Status restricts the list to keys with this status at Now; see [Key.StatusAt].
	// Empty matches all.
	Status string
	Now    time.Time
}

// KeysOf returns a page of keys, newest first, and the number of all.
func (q Queries) KeysOf(ctx context.Context, f KeyFilter, p Page) (list []Key, total int, err error) {
	types := make([]string, len(f.Types))
	for i, t := range f.Types {
		types[i] = string(t)
	}
	workspaces := "*"
	if f.Workspaces != nil {
		workspaces = listed(f.Workspaces)
	}
	return keyTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND status <> 'revoked'
			AND $2 LIKE '%,' || type || ',%'
			AND ($3 = '*' OR $3 LIKE '%,' || workspace_id || ',%' OR user_id = $4 AND $5 LIKE '%,' || workspace_id || ',%')
			AND (rotation_due_at <= $6 OR $6 IS NULL)
			AND origin LIKE $7 ESCAPE '!'
			AND ($8 = '' OR $8 = CASE
				WHEN expires_at <= $9 THEN 'expired'
				WHEN disabled THEN 'disabled'
				ELSE status END)`,
		f.Organisation, listed(types), workspaces, f.Owner, listed(f.OwnIn), millis(f.RotationDue), f.origin(), f.Status, f.Now.UnixMilli())
}

// origin returns the LIKE pattern for the origins of matching keys, with ! as escape
// character.
func (f KeyFilter) origin() string {
	if f.CreatedBy == "" {
		return "%"
	}
	by := text(map[string]string{"by": f.CreatedBy})
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(strings.Trim(by, "{}")) + "%"
}

// listed joins words with commas, with a comma before and after each; empty for none.
func listed(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "," + strings.Join(words, ",") + ","
}
