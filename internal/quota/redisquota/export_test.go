package redisquota

import (
	"context"
	"errors"

	"modelgate/internal/quota"
)

// LoseReply makes the next call for corrections fail, after it was executed or instead.
func (s *Store) LoseReply(executed bool) {
	send := s.corrections.Send
	s.corrections.Send = func(ctx context.Context, number int64, list []quota.Correction) error {
		s.corrections.Send = send
		if executed {
			if err := send(ctx, number, list); err != nil {
				return err
			}
		}
		return errors.New("no reply")
	}
}
