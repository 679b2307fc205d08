package publication

import (
	"context"

	"modelgate/internal/identity/access"
	"modelgate/internal/limits/quota"
	"modelgate/internal/storage/sqlrow"
	"modelgate/internal/store"
)

// readUsers reads the limits of users, also of what they may use of tool servers. Disabled users are among them, because tokens may
// still name them.
func (l *loader) readUsers(ctx context.Context) (err error) {
	const text = `
		SELECT o.organisation_id, o.user_id, u.email, o.exhausted, o.rate_limits, o.usage_limits, COALESCE(s.cost, 0), COALESCE(s.tokens, 0), o.tools
		FROM organisation_members o
		JOIN users u ON u.id = o.user_id
		LEFT JOIN spending s ON s.kind = 'user' AND s.id = o.organisation_id || '/' || o.user_id
		WHERE o.rate_limits <> '[]' OR o.usage_limits <> 'null' OR o.tools <> 'null'
		ORDER BY o.organisation_id, o.user_id`
	l.state.Users, err = sqlrow.List(ctx, l.q.Reader, "users", text, func(r sqlrow.Scanner) (u access.UserLimits, err error) {
		stored := storedLimits{Holder: quota.Holder{Kind: store.UserBudget}}
		err = r.Scan(&u.Organisation, &u.ID, &u.Email, &u.Exhausted, &stored.rates, &stored.budgets, &stored.cost, &stored.tokens,
			sqlrow.JSON(&u.Tools))
		stored.ID, stored.Name = store.UserID(u.Organisation, u.ID), u.Email
		u.Limits = stored.parse()
		return u, err
	})
	return err
}
