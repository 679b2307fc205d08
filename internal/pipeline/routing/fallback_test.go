package routing_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/testing/pipelinetest"
)

// S-026, S-091, S-481
func TestAFallbackLeavesATargetOnItsTriggers(t *testing.T) {
	plain := pipelinetest.Tree("fallback", 2, "")
	listed := `{"strategy":{"mode":"fallback","on_status_codes":[429]},"targets":[` + pipelinetest.Leaf + `,` + pipelinetest.Leaf + `]}`
	empty := `{"strategy":{"mode":"fallback","on_status_codes":[]},"targets":[` + pipelinetest.Leaf + `,` + pipelinetest.Leaf + `]}`
	node := pipelinetest.Tree("fallback", 2, `,"on_status_codes":[429]`)
	target := `{"strategy":{"mode":"fallback","on_status_codes":[500]},"targets":[{"provider":"@a","on_status_codes":[429]},` + pipelinetest.Leaf + `]}`
	inner := `{"strategy":{"mode":"fallback","on_status_codes":[500]},"targets":[{"strategy":{"mode":"fallback","on_status_codes":[429]},"targets":[` + pipelinetest.Leaf + `]},` + pipelinetest.Leaf + `]}`
	nextToList := `{"strategy":{"mode":"fallback","on_status_codes":[500]},"targets":[{"on_status_codes":[429],"strategy":{"mode":"fallback"},"targets":[` + pipelinetest.Leaf + `]},` + pipelinetest.Leaf + `]}`
	balanced := `{"strategy":{"mode":"fallback","on_status_codes":[500]},"targets":[{"on_status_codes":[429],"strategy":{"mode":"loadbalance"},"targets":[` + pipelinetest.Leaf + `]},` + pipelinetest.Leaf + `]}`
	for _, tt := range []struct {
		name, config string
		first        pipelinetest.Response
		leaves       bool
	}{
		{"a success", plain, pipelinetest.Status(200), false},
		{"another success", plain, pipelinetest.Status(204), false},
		{"a redirect", plain, pipelinetest.Status(302), true},
		{"a bad request", plain, pipelinetest.Status(400), true},
		{"a wrong key", plain, pipelinetest.Status(401), true},
		{"an unknown model", plain, pipelinetest.Status(404), true},
		{"a timeout of the provider's", plain, pipelinetest.Status(408), true},
		{"a rate limit", plain, pipelinetest.Status(429), true},
		{"a guardrail's denial", plain, pipelinetest.Status(446), true},
		{"a server error", plain, pipelinetest.Status(500), true},
		{"an overload", plain, pipelinetest.Status(529), true},
		{"no connection", plain, pipelinetest.Refusal(), true},
		{"no response in time", plain, pipelinetest.Error(apierr.UpstreamTimeout), true},
		{"its own timeout", plain, pipelinetest.Error(apierr.Timeout), true},
		{"an operation it lacks", plain, pipelinetest.Error(apierr.Unsupported), true},
		{"a client that left", plain, pipelinetest.Error(apierr.ClientGone), false},

		{"a listed status", listed, pipelinetest.Status(429), true},
		{"a status not listed", listed, pipelinetest.Status(500), false},
		{"no connection, 502 not listed", listed, pipelinetest.Refusal(), false},
		{"a success, with a list", listed, pipelinetest.Status(200), false},
		{"anything, with an empty list", empty, pipelinetest.Status(500), false},
		{"a status listed at the node", node, pipelinetest.Status(429), true},
		{"a status not listed at the node", node, pipelinetest.Status(500), false},
		{"a status listed at the target", target, pipelinetest.Status(429), true},
		{"a status listed at the strategy alone", target, pipelinetest.Status(500), false},
		{"a status listed at an inner fallback, which is for its own targets", inner, pipelinetest.Status(429), false},
		{"a status listed outside of an inner fallback", inner, pipelinetest.Status(500), true},
		{"a status listed outside of an inner fallback with a list next to it", nextToList, pipelinetest.Status(500), true},
		{"a status listed next to an inner fallback", nextToList, pipelinetest.Status(429), false},
		{"a status listed at an inner balance", balanced, pipelinetest.Status(429), true},
		{"a status not listed at an inner balance", balanced, pipelinetest.Status(500), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := pipelinetest.New(t, tt.config).On("0", tt.first).On("0.0", tt.first)
			got := r.Send()
			if left := got.Path == "1"; left != tt.leaves {
				t.Errorf("answered by %q with %d, left the first: %t, want %t", got.Path, got.Status, left, tt.leaves)
			}
			r.CheckClosed()
		})
	}
}

// S-486
func TestWhenAllTargetsFailTheLastResponseIsReturned(t *testing.T) {
	r := pipelinetest.New(t, pipelinetest.Tree("fallback", 3, "")).On("0", pipelinetest.Status(500)).On("1", pipelinetest.Refusal()).On("2", pipelinetest.Status(418))
	got := r.Send()
	if got.Status != 418 || got.TargetList() != "0 1 2" || got.Path != "2" {
		t.Errorf("status %d by %q after %q, want 418 by 2 after 0 1 2", got.Status, got.Path, got.TargetList())
	}
	r.CheckClosed()
	r = pipelinetest.New(t, pipelinetest.Tree("fallback", 2, "")).On("0", pipelinetest.Status(500)).On("1", pipelinetest.Refusal())
	if got := r.Send(); got.Err == nil || got.Err.Code != "upstream_refused" {
		t.Errorf("error %v, want the last target's", got.Err)
	}
	r.CheckClosed()
}

// S-024
func TestSingleUsesTheFirstTargetAlone(t *testing.T) {
	r := pipelinetest.New(t, pipelinetest.Tree("single", 3, "")).On("0", pipelinetest.Status(500))
	if got := r.Send(); got.Status != 500 || got.TargetList() != "0" {
		t.Errorf("status %d after %q, want 500 of the first target alone", got.Status, got.TargetList())
	}
}

// S-048, S-078: a fallback of a loadbalance of a conditional of a single.
func TestStrategiesNest(t *testing.T) {
	single := `{"name":"s","strategy":{"mode":"single"},"targets":[` + pipelinetest.Leaf + `]}`
	conditional := `{"strategy":{"mode":"conditional","conditions":[{"query":{"metadata.x":"1"},"then":"s"}],"default":"d"},"targets":[{"name":"d","provider":"@d"},` + single + `]}`
	balance := `{"strategy":{"mode":"loadbalance"},"targets":[` + conditional + `]}`
	r := pipelinetest.New(t, `{"strategy":{"mode":"fallback"},"targets":[`+balance+`,`+pipelinetest.Leaf+`]}`).On("0.0.1.0", pipelinetest.Status(500))
	if got := r.Send(pipelinetest.Meta("x", "1")); got.TargetList() != "0.0.1.0 1" || got.Status != 200 {
		t.Errorf("status %d after %q, want 200 after 0.0.1.0 1", got.Status, got.TargetList())
	}
	if got := r.Send(); got.TargetList() != "0.0.0" {
		t.Errorf("tried %q, want the default 0.0.0", got.TargetList())
	}
	r.CheckClosed()
}

func TestAFallbackStopsWhenTheBudgetIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 3, ""))
		slow := pipelinetest.Status(500)
		slow.After = 6 * time.Second
		r.On("0", slow).On("1", slow)
		got := r.Send(func(x *pipelinetest.Request) { x.AttemptDeadline = time.Now().Add(10 * time.Second) })
		if got.Status != 500 || got.TargetList() != "0 1" {
			t.Errorf("status %d after %q, want 500 after two targets of six seconds in a budget of ten", got.Status, got.TargetList())
		}
		r.CheckClosed()
	})
}

func TestABodyThatWasReadIsNotSentElsewhere(t *testing.T) {
	for _, tt := range []struct {
		name string
		read bool
		want string
	}{{"read", true, "0"}, {"untouched", false, "0 1"}} {
		t.Run(tt.name, func(t *testing.T) {
			r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, "")).On("0", pipelinetest.Status(500))
			got := r.Send(func(x *pipelinetest.Request) {
				x.Received.Upload = &exchange.Upload{Body: strings.NewReader("form")}
				if tt.read {
					x.Received.Upload.Started.Store(true)
				}
			})
			if got.TargetList() != tt.want {
				t.Errorf("tried %q, want %q", got.TargetList(), tt.want)
			}
		})
	}
}

func TestAFallbackStopsWhenTheClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, "")).On("0", pipelinetest.Response{After: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := pipelinetest.Send(ctx, r.Tree)
		if got.Err == nil || got.Err.Kind != apierr.ClientGone || got.TargetList() != "0" || got.Took != time.Second {
			t.Errorf("error %v after %q in %v, want the client's leaving after one target", got.Err, got.TargetList(), got.Took)
		}
	})
}

// A target that was never called says nothing of its single node.
func TestASingleNodeIsAsHealthyAsItsFirstTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		single := `{"strategy":{"mode":"single"},"targets":[` + pipelinetest.Leaf + `,` + pipelinetest.Leaf + `]}`
		r := pipelinetest.New(t, `{"strategy":{"mode":"fallback"},"targets":[`+single+`,`+pipelinetest.Leaf+`]}`)
		r.On("0.0", pipelinetest.Status(429, "Retry-After", "30"))
		if got := r.Send(); got.TargetList() != "0.0 1" {
			t.Fatalf("tried %q, want 0.0 1", got.TargetList())
		}
		if got := r.Send(); got.TargetList() != "1" {
			t.Errorf("tried %q while the first is parked, want 1 alone", got.TargetList())
		}
	})
}

func TestAHedgeStartsAsManyAsItMay(t *testing.T) {
	for _, tt := range []struct {
		hedge string
		want  string
	}{
		{`{"delay_ms":100}`, "0 1"},
		{`{"delay_ms":100,"max":1}`, "0 1"},
		{`{"delay_ms":100,"max":2}`, "0 1 2"},
		{`{"delay_ms":100,"max":9}`, "0 1 2 3"},
	} {
		t.Run(tt.hedge, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, pipelinetest.Tree("fallback", 4, `,"hedge":`+tt.hedge))
				for _, path := range []string{"0", "1", "2", "3"} {
					r.On(path, pipelinetest.Response{After: time.Second})
				}
				r.Send()
				var called []string
				for i, c := range r.Calls {
					called = append(called, pipelinetest.Short(c.Path))
					if at := c.At.Sub(r.Calls[0].At); at != time.Duration(i)*100*time.Millisecond {
						t.Errorf("call %d after %v, want %d times the delay", i, at, i)
					}
				}
				if got := strings.Join(called, " "); got != tt.want {
					t.Errorf("started %q, want %q", got, tt.want)
				}
				r.CheckClosed()
			})
		})
	}
}

// A hedged branch runs on a goroutine of its own, where nobody else would
// catch a panic.
func TestAPanicOfAHedgedBranchIsAnErrorOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, `,"hedge":{"delay_ms":100}`)).On("0", pipelinetest.Response{Panics: true})
		if got := r.Send(); got.Status != 200 || got.Path != "1" {
			t.Errorf("status %d by %q, want 200 by 1", got.Status, got.Path)
		}
		r.On("1", pipelinetest.Response{Panics: true})
		if got := r.Send(); got.Err == nil || got.Err.Kind != apierr.Internal || strings.Contains(got.Err.Message, "panic") {
			t.Errorf("error %v, want an internal one that tells nothing", got.Err)
		}
		r.CheckClosed()
	})
}

// Only the attempt that was cut short is a loser: what ended before it by
// itself keeps its own reason.
func TestALoserOfAHedgeIsTheLastAttemptAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, `,"hedge":{"delay_ms":5000},"retry":{"attempts":1}`))
		r.On("0", pipelinetest.Status(503), pipelinetest.Response{After: time.Hour})
		got := r.Send()
		if got.Path != "1" || got.TargetList() != "1 0 0" {
			t.Fatalf("answered by %q after %q, want 1, which won over both attempts of 0", got.Path, got.TargetList())
		}
		first, last := got.X.Trail.Attempts[1].Record, got.X.Trail.Attempts[2].Record
		if first.Status != http.StatusServiceUnavailable || first.Error != "" {
			t.Errorf("the attempt before the last is recorded as %+v, want its own 503", first)
		}
		if !strings.Contains(last.Error, "another target responded first") {
			t.Errorf("the last attempt is recorded as %+v, want a cancelled one", last)
		}
		r.CheckClosed()
	})
}

func TestALoserThatWasWaitingKeepsItsResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, `,"hedge":{"delay_ms":50},"retry":{"attempts":1,"use_retry_after_headers":true}`))
		r.On("0", pipelinetest.Status(503, "Retry-After", "30"))
		got := r.Send()
		if got.TargetList() != "1 0" {
			t.Fatalf("tried %q, want the winner 1 and the loser 0", got.TargetList())
		}
		if loser := got.X.Trail.Attempts[1].Record; loser.Status != http.StatusServiceUnavailable || loser.Error != "" {
			t.Errorf("the attempt that had ended is recorded as %+v, want its own 503", loser)
		}
	})
}

// A loser may fail by itself at the moment when another wins.
func TestALoserThatFailedKeepsItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := pipelinetest.Refusal()
		failed.After, failed.Final = time.Hour, true
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, `,"hedge":{"delay_ms":50}`)).On("0", failed)
		got := r.Send()
		if got.TargetList() != "1 0" {
			t.Fatalf("tried %q, want the winner 1 and the loser 0", got.TargetList())
		}
		if loser := got.X.Trail.Attempts[1].Record; loser.Error != failed.Err.Error() {
			t.Errorf("the attempt that failed is recorded as %+v, want the error %q", loser, failed.Err)
		}
	})
}

func TestAHedgedBalanceDoesNotFailOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("loadbalance", 2, `,"hedge":{"delay_ms":100}`)).On("0", pipelinetest.Status(500)).On("1", pipelinetest.Status(500))
		if got := r.Send(); got.Status != 500 || len(got.Targets) != 1 {
			t.Errorf("status %d after %q, want the 500 of the drawn target", got.Status, got.TargetList())
		}
	})
}

func TestLosersOfARaceWithinARaceAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := pipelinetest.Tree("fallback", 2, "")
		r := pipelinetest.New(t, `{"strategy":{"mode":"fallback"},"hedge":{"delay_ms":50},"targets":[`+inner+`,`+pipelinetest.Leaf+`]}`)
		r.On("0.0", pipelinetest.Response{After: time.Hour}).On("0.1", pipelinetest.Response{After: 10 * time.Millisecond}).On("1", pipelinetest.Response{After: time.Hour})
		if got := r.Send(); got.Path != "0.1" || got.TargetList() != "0.1 0.0 1" || got.Took != 60*time.Millisecond {
			t.Errorf("answered by %s after %q in %v, want 0.1, then its losers 0.0 and 1, in 60ms", got.Path, got.TargetList(), got.Took)
		}
		r.CheckClosed()
	})
}

func TestAHedgeStartsNobodyWhenTheBudgetIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 3, `,"hedge":{"delay_ms":500,"max":2}`))
		for _, path := range []string{"0", "1", "2"} {
			r.On(path, pipelinetest.Response{Status: 500, After: 2 * time.Second})
		}
		got := r.Send(func(x *pipelinetest.Request) { x.AttemptDeadline = time.Now().Add(700 * time.Millisecond) })
		if len(r.Calls) != 2 || got.Status != 500 {
			t.Errorf("%d targets were called, status %d; want two within the budget, 500", len(r.Calls), got.Status)
		}
	})
}

func TestAStatusOutsideOfTheTwoHundredsIsAFailure(t *testing.T) {
	for status, want := range map[int]string{199: "0 1", 200: "0", 299: "0", 300: "0 1"} {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, "")).On("0", pipelinetest.Status(status))
		if got := r.Send(); got.TargetList() != want {
			t.Errorf("after status %d of the first target: tried %q, want %q", status, got.TargetList(), want)
		}
	}
}
