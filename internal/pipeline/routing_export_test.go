package pipeline

import (
	"context"
	"io"
	"net/http"
	"time"

	"modelgate/config"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/upstream"
)

// OnClose has f called whenever r is closed.
func OnClose(r *exchange.Response, f func()) *exchange.Response {
	r.After = append(r.After, f)
	return r
}

// ReadUpload marks the body that streams through as begun.
func ReadUpload(u *exchange.Upload) { u.Started.Store(true) }

// OpenUpload opens the body that streams through for an attempt.
func OpenUpload(u *exchange.Upload, ended bool) io.ReadCloser {
	dog := upstream.NewWatchdog(context.Background(), upstream.Timeouts{})
	if ended {
		dog.Stop()
	}
	body, _ := uploads{u, nil, dog}.Open()
	return body
}

// MaxStates is how many gates are remembered at most.
const MaxStates = maxStates

// Gates counts the remembered gates.
func (s *State) Gates() int { return len(s.gates) }

// OpenRequests returns how many requests each branch of the only latency node
// has open.
func (s *State) OpenRequests() []int {
	var open []int
	for _, v := range s.speed {
		for _, one := range v.of {
			open = append(open, one.open)
		}
	}
	return open
}

// FailAt makes the gate of a leaf at path and lets it see a failure.
func (s *State) FailAt(path string) {
	g := s.breaker("", path, &config.Breaker{FailureThreshold: 9, Cooldown: time.Minute})
	g.report(outcome{status: http.StatusInternalServerError}, false, time.Now())
}
