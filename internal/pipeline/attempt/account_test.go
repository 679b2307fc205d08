package attempt_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/model/catalog"
	"modelgate/internal/records/reqlog"
)

const rtSingle = `{"provider":"@a"}`

// The outcomes and what they count are those of docs/ledger.md.
func TestEachAttemptIsSettledOnceByItsOutcome(t *testing.T) {
	const json, events = "application/json", "text/event-stream"
	hangs := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	breaks := func(w http.ResponseWriter, r *http.Request) {
		rtRespond(200, events, rtChunk)(w, r)
		panic(http.ErrAbortHandler)
	}
	pauses := func(w http.ResponseWriter, r *http.Request) {
		rtRespond(200, events, rtChunk)(w, r)
		<-r.Context().Done()
	}
	for _, tt := range []struct {
		name     string
		handler  http.HandlerFunc
		body     string
		leaves   time.Duration // when the client does; zero for never
		outcome  reqlog.Outcome
		status   int
		counted  bool // tokens
		estimate bool
	}{
		{"a response", rtRespond(200, json, rtResponseBody), rtHello, 0, reqlog.Answered, 200, true, false},
		{"an error of the client", rtRespond(400, json, `{"error":{"message":"no"}}`), rtHello, 0, reqlog.Refused, 400, false, false},
		{"an error of the provider", rtRespond(500, json, `{"error":{"message":"no"}}`), rtHello, 0, reqlog.Refused, 500, false, false},
		{"a response that can't be used", rtRespond(200, json, `{"id":`), rtHello, 0, reqlog.Failed, 0, false, false},
		{"a redirect", rtRespond(300, json, `{}`), rtHello, 0, reqlog.Failed, 0, false, false},
		{"a stream", rtRespond(200, events, rtChunk, rtFinish), rtStream, 0, reqlog.Answered, 200, true, true},
		{"a stream that breaks off", breaks, rtStream, 0, reqlog.Answered, 200, true, true},
		{"a client that leaves before the response", hangs, rtHello, time.Second, reqlog.Abandoned, 0, true, true},
		{"a client that leaves a stream", pauses, rtStream, time.Second, reqlog.Abandoned, 200, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := rtServe(t, tt.handler)
				p.prices = catalog.NewBook([]catalog.Price{{Provider: "quirky", Model: "*",
					Rates: catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: 1_000_000, catalog.Output: 2_000_000})}}, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.leaves > 0 {
					time.AfterFunc(tt.leaves, cancel)
				}
				_, err := p.send(ctx, rtSingle, tt.body, nil)
				if len(p.ledger.intents) != 1 || len(p.ledger.settlements) != 1 {
					t.Fatalf("%d intents and %d settlements, want one of each (%v)", len(p.ledger.intents), len(p.ledger.settlements), err)
				}
				i, s := p.ledger.intents[0], p.ledger.settlements[0]
				if i.Attempt != 1 || i.RequestBytes != int64(len(tt.body)) || i.Model != "m" || i.Provider != "quirky" {
					t.Errorf("intent %+v, want attempt 1 of %d bytes for m at quirky", i, len(tt.body))
				}
				if s.ID != i.ID || s.Attempt != 1 || s.Outcome != tt.outcome || s.Status != tt.status {
					t.Errorf("settled attempt %d as %v with status %d, want 1, %v with %d", s.Attempt, s.Outcome, s.Status, tt.outcome, tt.status)
				}
				if s.Usage.Known != tt.counted || s.Usage.Estimated != tt.estimate || (s.Cost > 0) != tt.counted {
					t.Errorf("settled usage %+v for %d nano-dollars; want tokens counted: %t, estimated: %t", s.Usage, s.Cost, tt.counted, tt.estimate)
				}
			})
		})
	}
}

func TestAttemptWithoutPlaceInTheLedgerIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		p := rtServe(t, func(w http.ResponseWriter, r *http.Request) {
			sent.Add(1)
			rtRespond(200, "application/json", rtResponseBody)(w, r)
		})
		p.ledger.full = errFull
		_, err := p.send(t.Context(), rtSingle, rtHello, nil)
		if e := apierr.From(err); err == nil || e.Status() != 503 || rtCode(err) != "ledger_full" || e.RetryAfter != time.Second {
			t.Errorf("error %v with the code %s, want 503 ledger_full and to try again after a second", err, rtCode(err))
		}
		if sent.Load() != 0 || len(p.ledger.settlements) != 0 {
			t.Errorf("%d requests were sent and %d attempts settled, want none", sent.Load(), len(p.ledger.settlements))
		}
		p.ledger.full = nil
		if _, err := p.send(t.Context(), rtSingle, rtHello, nil); err != nil || sent.Load() != 1 {
			t.Errorf("with room again: %v after %d requests, want a response to one", err, sent.Load())
		}
	})
}

func TestAttemptsOfOneRequestAreNumbered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := rtServe(t, rtRespond(500, "application/json", `{"error":{"message":"no"}}`))
		p.engine.Bounds.MaxAttempts = 3
		_, err := p.send(t.Context(), `{"strategy":{"mode":"fallback"},"targets":[`+rtSingle+`,`+rtSingle+`,`+rtSingle+`,`+rtSingle+`]}`, rtHello, nil)
		if rtCode(err) != "attempts_exhausted" {
			t.Errorf("error %v, want attempts_exhausted", err)
		}
		if len(p.ledger.intents) != 3 || len(p.ledger.settlements) != 3 {
			t.Fatalf("%d intents and %d settlements, want 3 of each", len(p.ledger.intents), len(p.ledger.settlements))
		}
		for n, i := range p.ledger.intents {
			if int(i.Attempt) != n+1 {
				t.Errorf("intent %d is that of attempt %d, want %d", n, i.Attempt, n+1)
			}
		}
	})
}

func TestAttemptThatIsNotSentHoldsNoBody(t *testing.T) {
	for name, limit := range map[string]int{"beyond the limit of attempts": 1, "without place in the ledger": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := rtServe(t, rtRespond(500, "application/json", `{"error":{"message":"no"}}`))
				if p.engine.Bounds.MaxAttempts = limit; limit == 0 {
					p.ledger.full = errFull
				}
				p.send(t.Context(), `{"strategy":{"mode":"fallback"},"targets":[`+rtSingle+`,`+rtSingle+`]}`, rtHello, nil)
				synctest.Wait()
				if n := p.engine.Bounds.Pool.Used(); n != 0 {
					t.Errorf("after the request %d bytes of memory for bodies are in use, want none", n)
				}
			})
		})
	}
}
