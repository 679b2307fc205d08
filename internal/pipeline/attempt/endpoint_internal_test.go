package attempt

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/api"
	"modelgate/internal/pipeline/exchange"
)

func always() bool { return true }

// Clients choose the names of models, so what is remembered is bounded.
func TestRefusedEndpointsAreBoundedAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s refusedEndpoints
		e := endpoint{provider: "openai", dialect: api.DialectChat}
		for i := range 2 * maxRemembered {
			e.model = strconv.Itoa(i)
			s.learn(e, api.DialectResponses)
		}
		if n := len(*s.known.Load()); n > maxRemembered {
			t.Errorf("%d endpoints are remembered, want at most %d", n, maxRemembered)
		}
		if !s.refuses(e, always) {
			t.Error("the last endpoint is forgotten")
		}
		time.Sleep(memoryTime)
		if s.refuses(e, always) {
			t.Errorf("an endpoint is remembered for more than %v", memoryTime)
		}
		e.model = strings.Repeat("m", exchange.MaxModelName+1)
		if s.learn(e, api.DialectResponses); s.refuses(e, always) {
			t.Error("a model with a long name is remembered")
		}
		e.model = "later"
		s.learn(e, api.DialectResponses)
		if n := len(*s.known.Load()); n != 1 {
			t.Errorf("%d endpoints are remembered after the others expired, want 1", n)
		}
	})
}

// The endpoint that served a request was not refused, whatever was known.
func TestServedEndpointIsNotRefused(t *testing.T) {
	var s refusedEndpoints
	chat, responses := endpoint{model: "m", dialect: api.DialectChat}, endpoint{model: "m", dialect: api.DialectResponses}
	s.learn(chat, api.DialectResponses)
	s.learn(responses, api.DialectChat)
	if s.refuses(chat, always) || !s.refuses(responses, always) {
		t.Errorf("refused: chat %t, responses %t, want responses only", s.refuses(chat, always), s.refuses(responses, always))
	}
}

func TestRefusedEndpointsMayBeLearntAtOnce(t *testing.T) {
	var s refusedEndpoints
	var work sync.WaitGroup
	for i := range 16 {
		work.Go(func() {
			e := endpoint{model: strconv.Itoa(i), dialect: api.DialectChat}
			s.learn(e, api.DialectResponses)
			if !s.refuses(e, always) {
				t.Errorf("%d is forgotten", i)
			}
		})
	}
	work.Wait()
}
