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

// OAuth configures how clients of tool servers sign in.
type OAuth struct {
	Registration bool     `json:"registration,omitempty"` // clients may register themselves
	AccessToken  Duration `json:"access_token,omitempty"` // life of access tokens; default 1h
}

// longestAccessToken is the longest life of an access token, which cannot be revoked alone.
const longestAccessToken = 24 * time.Hour

func (o *OAuth) check() *fault {
	if d := time.Duration(o.AccessToken); d != 0 && (d < shortestSession || d > longestAccessToken) {
		return at(errors.New("must be from 1m to 24h"), "oauth.access_token")
	}
	return nil
}
