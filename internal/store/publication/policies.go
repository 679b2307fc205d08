package publication

import (
	"context"

	"modelgate/internal/limits/policy"
)

func (l *loader) readPolicies(ctx context.Context) error {
	list, err := l.q.ActivePolicies(ctx)
	if err != nil {
		return err
	}
	resets, err := l.q.PolicyResets(ctx)
	l.state.Policies = make([]policy.Policy, len(list))
	for i := range list {
		l.state.Policies[i] = list[i].Rule(resets[list[i].ID])
	}
	return err
}
