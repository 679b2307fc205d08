package connections

import (
	"context"
	"errors"
	"testing"
)

// TestCallersLeaveARefreshThatGoesOn has a caller who does not wait for a slow authorization server.
func TestCallersLeaveARefreshThatGoesOn(t *testing.T) {
	e := &entry{turn: make(chan struct{}, 1)}
	e.leave()
	ctx, cancel := context.WithCancel(t.Context())
	release, want := make(chan struct{}), &view{}
	_, err := e.alone(ctx, func(inner context.Context) (*view, error) {
		cancel()
		<-release
		return want, inner.Err()
	})
	if !errors.Is(err, context.Canceled) || e.current.Load() != nil {
		t.Errorf("the caller got %v", err)
	}
	close(release)
	if err := e.take(t.Context()); err != nil || e.current.Load() != want {
		t.Errorf("the view is not remembered: %v", err)
	}
}
