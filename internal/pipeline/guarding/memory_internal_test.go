package guarding

import (
	"context"
	"sync/atomic"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/guardrail"
)

// Hooks of the background reserve their memory before they start, and return it when they
// have ended.
func TestBackgroundHooksAreBoundedByTheShareOfTheirKey(t *testing.T) {
	release, started := make(chan struct{}), atomic.Int64{}
	hook := mustHook(t, guardrail.Compiled{Remote: true, Run: func(context.Context, *guardrail.Input) (guardrail.Verdict, error) {
		started.Add(1)
		<-release
		return guardrail.Verdict{Passed: true}, nil
	}})
	pool := bytepool.New(1 << 20)
	var l CheckLog
	start := l.backgroundRuns(t.Context(), "config", pool.Key("o"))
	in := guardrail.Input{Event: guardrail.Before, Request: &guardrail.Request{}, Parts: []guardrail.Part{{Kind: guardrail.Text, Text: "hello"}}}
	n, err := 0, error(nil)
	for ; n < 1000; n++ {
		if err = start([]*guardrail.Hook{hook}, in); err != nil {
			break
		}
	}
	if e := apierr.From(err); n != 13 || e == nil || e.Code != "body_memory_full" { // of 32 KB and some, in seven eighths of half
		t.Errorf("%d hooks started, then %v; want 13 and body_memory_full", n, err)
	}
	close(release)
	l.Await()
	if used := pool.Used(); used != 0 || started.Load() != 13 {
		t.Errorf("%d bytes are in use after %d checks, want none after 13", used, started.Load())
	}
}
