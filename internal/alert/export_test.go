package alert

import (
	"context"
	"time"
)

// SendWithin is Send with a shorter limit.
func (m *Mail) SendWithin(ctx context.Context, limit time.Duration, a *Alert, to []string, now time.Time) (Delivery, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return m.Send(ctx, a, to, now)
}
