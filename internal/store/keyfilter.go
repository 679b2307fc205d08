package store

import (
	"context"
	"strings"
	"time"

	"modelgate/internal/access"
)

// KeyFilter says which keys that are not revoked a list has.
type KeyFilter struct {
	Organisation string
	Types        []access.KeyType // none takes none

	// Workspaces limits the list to keys of these. Nil takes keys of every
	// workspace and of the organisation.
	Workspaces []string

	// OwnIn are further workspaces, of which keys of the user Owner are taken.
	OwnIn []string
	Owner string

	// RotationDue leaves keys whose rotation is due by then. Zero leaves all.
	RotationDue time.Time

	// CreatedBy leaves keys that this user or key made. Empty leaves all.
	CreatedBy string
}

// KeysOf returns a page of keys, the newest first, and how many there are.
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
			AND origin LIKE $7 ESCAPE '!'`,
		f.Organisation, listed(types), workspaces, f.Owner, listed(f.OwnIn), millis(f.RotationDue), f.origin())
}

// origin returns the pattern of the origins of the keys that f leaves, with ! as its
// escape character.
func (f KeyFilter) origin() string {
	if f.CreatedBy == "" {
		return "%"
	}
	by := text(map[string]string{"by": f.CreatedBy})
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(strings.Trim(by, "{}")) + "%"
}

// listed returns words as a string in which each is between commas, empty for none.
func listed(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "," + strings.Join(words, ",") + ","
}
