package settings

import (
	"errors"
	"time"
)

// Sessions is how long people stay signed in.
type Sessions struct {
	Idle     Duration `json:"idle,omitempty"`     // after the last request; default 12h
	Absolute Duration `json:"absolute,omitempty"` // after the sign-in; default 168h
}

// The bounds of the lifetimes of sessions.
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
