package quotatest

import (
	"context"
	"errors"

	"modelgate/internal/quota"
)

// LoseReply makes the next call for corrections fail, after it was executed or instead.
func LoseReply(r *quota.Remote, executed bool) {
	send := r.Calls.Correct
	r.Calls.Correct = func(ctx context.Context, number int64, list []quota.Correction) error {
		r.Calls.Correct = send
		if executed {
			if err := send(ctx, number, list); err != nil {
				return err
			}
		}
		return errors.New("no reply")
	}
}
