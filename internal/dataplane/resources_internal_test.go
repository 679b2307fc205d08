package dataplane

import (
	"net/http/httptest"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/inflight"
)

func TestErrorsOfTheGatewaysResourcesSayWhenToTryAgain(t *testing.T) {
	enter := func(o inflight.Options, size int64) error {
		p, a := &Plane{Options: Options{Gate: inflight.New(o), MaxJSON: 1 << 20}}, new(admission)
		a.request.Identity, a.route.body = new(access.Identity), bodyJSON
		if _, err := p.Gate.Enter(t.Context(), inflight.Caller{Key: "another"}, 0); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("POST", "/", nil)
		r.ContentLength = size
		return p.enterGate(r, a)
	}
	cache, err := newTrees(), error(nil)
	for i := 0; err == nil && i < 1000; i++ {
		_, err = cache.make(treeKey{text: time.Duration(i).String()}, sized(8<<20))
	}
	for code, err := range map[string]error{
		"overloaded":         enter(inflight.Options{Requests: 1, Queue: -1}, 1),
		"body_memory_full":   enter(inflight.Options{Bodies: bytepool.New(1000), Wait: time.Millisecond}, 10_000),
		"config_memory_full": err,
		"shutting_down":      shutdownError(),
	} {
		if e := apierr.From(err); err == nil || e.Code != code || e.Status() != 503 || e.RetryAfter != time.Second {
			t.Errorf("%s: %v (%s, status %d), to be tried again after %v, want a second", code, err, e.Code, e.Status(), e.RetryAfter)
		}
	}
}
