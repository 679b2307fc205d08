package store

import (
	"context"
	"maps"
	"slices"

	"modelgate/internal/identity/access"
	"modelgate/internal/identity/jwt"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/sqlrow"
)

// usersOf returns the users that spend counts for, by organisation and key: the owner of
// a key, the owners of the keys that it descends from, and the user whom a token names.
func (q Queries) usersOf(ctx context.Context, spent map[reqlog.SpendOwner]*reqlog.Spend,
	lineages map[string][]string) (map[[2]string][]string, error) {
	owners, err := q.ownersOfKeys(ctx, spent, lineages)
	if err != nil {
		return nil, err
	}
	out := make(map[[2]string][]string)
	for o := range spent {
		at := [2]string{o.Organisation, o.KeyID}
		if _, done := out[at]; done {
			continue
		}
		if name, ok := jwt.UserOf(o.KeyID); ok {
			if out[at], err = q.userOfToken(ctx, o.Organisation, name); err != nil {
				return nil, err
			}
			continue
		}
		var users []string
		for _, key := range append([]string{o.KeyID}, lineages[o.KeyID]...) {
			if user := owners[key]; user != "" && !slices.Contains(users, user) {
				users = append(users, user)
			}
		}
		out[at] = users
	}
	return out, nil
}

// ownersOfKeys returns the users of user keys that spent or whose descendants did, by
// key id.
func (q Queries) ownersOfKeys(ctx context.Context, spent map[reqlog.SpendOwner]*reqlog.Spend,
	lineages map[string][]string) (map[string]string, error) {
	const text = `
		SELECT id, user_id
		FROM gateway_keys
		WHERE user_id <> '' AND id IN `
	ids := make(map[string]bool, len(spent))
	for o := range spent {
		ids[o.KeyID] = true
		for _, maker := range lineages[o.KeyID] {
			ids[maker] = true
		}
	}
	owners := make(map[string]string)
	for part := range slices.Chunk(slices.Collect(maps.Keys(ids)), spentAtOnce) {
		_, err := sqlrow.List(ctx, q.Reader, "users of API keys", text+placeholders(0, len(part)),
			func(r sqlrow.Scanner) (none struct{}, err error) {
				var id, user string
				err = r.Scan(&id, &user)
				owners[id] = user
				return none, err
			}, toArgs(part)...)
		if err != nil {
			return nil, err
		}
	}
	return owners, nil
}

// userOfToken returns the id of the user of an organisation whom a token names by id or
// e-mail address.
func (q Queries) userOfToken(ctx context.Context, organisation, name string) ([]string, error) {
	const text = `
		SELECT u.id
		FROM users u
		JOIN organisation_members o ON o.user_id = u.id
		WHERE o.organisation_id = $1 AND (u.id = $2 OR u.email = $2)
		ORDER BY CASE WHEN u.email = $2 THEN 0 ELSE 1 END, u.id
		LIMIT 1`
	name = access.UserName(name)
	return sqlrow.List(ctx, q.Reader, "users of tokens", text, func(r sqlrow.Scanner) (id string, err error) {
		return id, r.Scan(&id)
	}, organisation, name)
}
