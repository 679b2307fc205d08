package settings

import (
	"errors"
	"time"
)

// Sessions configures the lifetimes of sessions.
type Sessions struct {
	Idle     Duration `json:"idle,omitempty"`     // since the last request; default 12h
	Absolute Duration `json:"absolute,omitempty"` // since the sign-in; default 168h
}

// Limits of session lifetimes.
const (
	shortestSession = time.Minute
	longestSession  = 90 * 24 * time.Hour
)

func (s *Sessions) check() *fault {
	for name, d := range map[string]Duration{"idle": s.Idle, "absolute": s.Absolute} {
		if d != 0 && (time.Duration(d) < shortestSession || time.Duration(d) > longestSession) {
			return at(errors.New("must be from 1m to 2160h"), "sessions.%s", name)
		}
	}
	return nil
}
