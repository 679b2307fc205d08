package pipeline_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline"
)

const rtLeaf = `{"provider":"@a"}`

// rtTree is a node of this mode with n equal targets.
func rtTree(mode string, n int, more string) string {
	return fmt.Sprintf(`{"strategy":{"mode":%q}%s,"targets":[%s]}`, mode, more, strings.TrimSuffix(strings.Repeat(rtLeaf+",", n), ","))
}

// S-026, S-091, S-481
func TestAFallbackLeavesATargetOnItsTriggers(t *testing.T) {
	plain := rtTree("fallback", 2, "")
	listed := `{"strategy":{"mode":"fallback","on_status_codes":[429]},"targets":[` + rtLeaf + `,` + rtLeaf + `]}`
	empty := `{"strategy":{"mode":"fallback","on_status_codes":[]},"targets":[` + rtLeaf + `,` + rtLeaf + `]}`
	node := rtTree("fallback", 2, `,"on_status_codes":[429]`)
	target := `{"strategy":{"mode":"fallback","on_status_codes":[500]},"targets":[{"provider":"@a","on_status_codes":[429]},` + rtLeaf + `]}`
	inner := `{"strategy":{"mode":"fallback","on_status_codes":[500]},"targets":[{"strategy":{"mode":"fallback","on_status_codes":[429]},"targets":[` + rtLeaf + `]},` + rtLeaf + `]}`
	nextToList := `{"strategy":{"mode":"fallback","on_status_codes":[500]},"targets":[{"on_status_codes":[429],"strategy":{"mode":"fallback"},"targets":[` + rtLeaf + `]},` + rtLeaf + `]}`
	balanced := `{"strategy":{"mode":"fallback","on_status_codes":[500]},"targets":[{"on_status_codes":[429],"strategy":{"mode":"loadbalance"},"targets":[` + rtLeaf + `]},` + rtLeaf + `]}`
	for _, tt := range []struct {
		name, config string
		first        rtResponse
		leaves       bool
	}{
		{"a success", plain, rtStatus(200), false},
		{"another success", plain, rtStatus(204), false},
		{"a redirect", plain, rtStatus(302), true},
		{"a bad request", plain, rtStatus(400), true},
		{"a wrong key", plain, rtStatus(401), true},
		{"an unknown model", plain, rtStatus(404), true},
		{"a timeout of the provider's", plain, rtStatus(408), true},
		{"a rate limit", plain, rtStatus(429), true},
		{"a guardrail's denial", plain, rtStatus(446), true},
		{"a server error", plain, rtStatus(500), true},
		{"an overload", plain, rtStatus(529), true},
		{"no connection", plain, rtRefusal(), true},
		{"no response in time", plain, rtError(apierr.UpstreamTimeout), true},
		{"its own timeout", plain, rtError(apierr.Timeout), true},
		{"an operation it lacks", plain, rtError(apierr.Unsupported), true},
		{"a client that left", plain, rtError(apierr.ClientGone), false},

		{"a listed status", listed, rtStatus(429), true},
		{"a status not listed", listed, rtStatus(500), false},
		{"no connection, 502 not listed", listed, rtRefusal(), false},
		{"a success, with a list", listed, rtStatus(200), false},
		{"anything, with an empty list", empty, rtStatus(500), false},
		{"a status listed at the node", node, rtStatus(429), true},
		{"a status not listed at the node", node, rtStatus(500), false},
		{"a status listed at the target", target, rtStatus(429), true},
		{"a status listed at the strategy alone", target, rtStatus(500), false},
		{"a status listed at an inner fallback, which is for its own targets", inner, rtStatus(429), false},
		{"a status listed outside of an inner fallback", inner, rtStatus(500), true},
		{"a status listed outside of an inner fallback with a list next to it", nextToList, rtStatus(500), true},
		{"a status listed next to an inner fallback", nextToList, rtStatus(429), false},
		{"a status listed at an inner balance", balanced, rtStatus(429), true},
		{"a status not listed at an inner balance", balanced, rtStatus(500), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := rtNew(t, tt.config).on("0", tt.first).on("0.0", tt.first)
			got := r.send()
			if left := got.path == "1"; left != tt.leaves {
				t.Errorf("answered by %q with %d, left the first: %t, want %t", got.path, got.status, left, tt.leaves)
			}
			r.closedOnce()
		})
	}
}

// S-486
func TestWhenAllTargetsFailTheLastResponseIsReturned(t *testing.T) {
	r := rtNew(t, rtTree("fallback", 3, "")).on("0", rtStatus(500)).on("1", rtRefusal()).on("2", rtStatus(418))
	got := r.send()
	if got.status != 418 || got.targetList() != "0 1 2" || got.path != "2" {
		t.Errorf("status %d by %q after %q, want 418 by 2 after 0 1 2", got.status, got.path, got.targetList())
	}
	r.closedOnce()
	r = rtNew(t, rtTree("fallback", 2, "")).on("0", rtStatus(500)).on("1", rtRefusal())
	if got := r.send(); got.err == nil || got.err.Code != "upstream_refused" {
		t.Errorf("error %v, want the last target's", got.err)
	}
	r.closedOnce()
}

// S-024
func TestSingleUsesTheFirstTargetAlone(t *testing.T) {
	r := rtNew(t, rtTree("single", 3, "")).on("0", rtStatus(500))
	if got := r.send(); got.status != 500 || got.targetList() != "0" {
		t.Errorf("status %d after %q, want 500 of the first target alone", got.status, got.targetList())
	}
}

// S-048, S-078: a fallback of a loadbalance of a conditional of a single.
func TestStrategiesNest(t *testing.T) {
	single := `{"name":"s","strategy":{"mode":"single"},"targets":[` + rtLeaf + `]}`
	conditional := `{"strategy":{"mode":"conditional","conditions":[{"query":{"metadata.x":"1"},"then":"s"}],"default":"d"},"targets":[{"name":"d","provider":"@d"},` + single + `]}`
	balance := `{"strategy":{"mode":"loadbalance"},"targets":[` + conditional + `]}`
	r := rtNew(t, `{"strategy":{"mode":"fallback"},"targets":[`+balance+`,`+rtLeaf+`]}`).on("0.0.1.0", rtStatus(500))
	if got := r.send(rtMeta("x", "1")); got.targetList() != "0.0.1.0 1" || got.status != 200 {
		t.Errorf("status %d after %q, want 200 after 0.0.1.0 1", got.status, got.targetList())
	}
	if got := r.send(); got.targetList() != "0.0.0" {
		t.Errorf("tried %q, want the default 0.0.0", got.targetList())
	}
	r.closedOnce()
}

func TestAFallbackStopsWhenTheBudgetIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("fallback", 3, ""))
		slow := rtStatus(500)
		slow.after = 6 * time.Second
		r.on("0", slow).on("1", slow)
		got := r.send(func(x *rtRequest) { x.AttemptDeadline = time.Now().Add(10 * time.Second) })
		if got.status != 500 || got.targetList() != "0 1" {
			t.Errorf("status %d after %q, want 500 after two targets of six seconds in a budget of ten", got.status, got.targetList())
		}
		r.closedOnce()
	})
}

func TestABodyThatWasReadIsNotSentElsewhere(t *testing.T) {
	for _, tt := range []struct {
		name string
		read bool
		want string
	}{{"read", true, "0"}, {"untouched", false, "0 1"}} {
		t.Run(tt.name, func(t *testing.T) {
			r := rtNew(t, rtTree("fallback", 2, "")).on("0", rtStatus(500))
			got := r.send(func(x *rtRequest) {
				x.Received.Upload = &pipeline.Upload{Body: strings.NewReader("form")}
				if tt.read {
					pipeline.ReadUpload(x.Received.Upload)
				}
			})
			if got.targetList() != tt.want {
				t.Errorf("tried %q, want %q", got.targetList(), tt.want)
			}
		})
	}
}

// The transport may come to read a body after its attempt was abandoned. What it
// took then would be missing in the next attempt.
func TestAnEndedAttemptReadsNothingOfTheBody(t *testing.T) {
	for _, tt := range []struct {
		ended bool
		left  int
	}{{true, 4}, {false, 0}} {
		body := strings.NewReader("form")
		if _, err := io.ReadAll(pipeline.OpenUpload(&pipeline.Upload{Body: body}, tt.ended)); (err != nil) != tt.ended || body.Len() != tt.left {
			t.Errorf("ended %t: %v, %d bytes left; want %d", tt.ended, err, body.Len(), tt.left)
		}
	}
}

func TestAFallbackStopsWhenTheClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("fallback", 2, "")).on("0", rtResponse{after: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := rtSend(ctx, r.Tree)
		if got.err == nil || got.err.Kind != apierr.ClientGone || got.targetList() != "0" || got.took != time.Second {
			t.Errorf("error %v after %q in %v, want the client's leaving after one target", got.err, got.targetList(), got.took)
		}
	})
}

// A target that was never called says nothing of its single node.
func TestASingleNodeIsAsHealthyAsItsFirstTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		single := `{"strategy":{"mode":"single"},"targets":[` + rtLeaf + `,` + rtLeaf + `]}`
		r := rtNew(t, `{"strategy":{"mode":"fallback"},"targets":[`+single+`,`+rtLeaf+`]}`)
		r.on("0.0", rtStatus(429, "Retry-After", "30"))
		if got := r.send(); got.targetList() != "0.0 1" {
			t.Fatalf("tried %q, want 0.0 1", got.targetList())
		}
		if got := r.send(); got.targetList() != "1" {
			t.Errorf("tried %q while the first is parked, want 1 alone", got.targetList())
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
				r := rtNew(t, rtTree("fallback", 4, `,"hedge":`+tt.hedge))
				for _, path := range []string{"0", "1", "2", "3"} {
					r.on(path, rtResponse{after: time.Second})
				}
				r.send()
				var called []string
				for i, c := range r.calls {
					called = append(called, rtShort(c.path))
					if at := c.at.Sub(r.calls[0].at); at != time.Duration(i)*100*time.Millisecond {
						t.Errorf("call %d after %v, want %d times the delay", i, at, i)
					}
				}
				if got := strings.Join(called, " "); got != tt.want {
					t.Errorf("started %q, want %q", got, tt.want)
				}
				r.closedOnce()
			})
		})
	}
}

// A hedged branch runs on a goroutine of its own, where nobody else would
// catch a panic.
func TestAPanicOfAHedgedBranchIsAnErrorOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("fallback", 2, `,"hedge":{"delay_ms":100}`)).on("0", rtResponse{panics: true})
		if got := r.send(); got.status != 200 || got.path != "1" {
			t.Errorf("status %d by %q, want 200 by 1", got.status, got.path)
		}
		r.on("1", rtResponse{panics: true})
		if got := r.send(); got.err == nil || got.err.Kind != apierr.Internal || strings.Contains(got.err.Message, "panic") {
			t.Errorf("error %v, want an internal one that tells nothing", got.err)
		}
		r.closedOnce()
	})
}

// Only the attempt that was cut short is a loser: what ended before it by
// itself keeps its own reason.
func TestALoserOfAHedgeIsTheLastAttemptAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("fallback", 2, `,"hedge":{"delay_ms":5000},"retry":{"attempts":1}`))
		r.on("0", rtStatus(503), rtResponse{after: time.Hour})
		got := r.send()
		if got.path != "1" || got.targetList() != "1 0 0" {
			t.Fatalf("answered by %q after %q, want 1, which won over both attempts of 0", got.path, got.targetList())
		}
		first, last := got.x.trail.Attempts[1].Record, got.x.trail.Attempts[2].Record
		if first.Status != http.StatusServiceUnavailable || first.Error != "" {
			t.Errorf("the attempt before the last is recorded as %+v, want its own 503", first)
		}
		if !strings.Contains(last.Error, "another target responded first") {
			t.Errorf("the last attempt is recorded as %+v, want a cancelled one", last)
		}
		r.closedOnce()
	})
}

func TestALoserThatWasWaitingKeepsItsResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("fallback", 2, `,"hedge":{"delay_ms":50},"retry":{"attempts":1,"use_retry_after_headers":true}`))
		r.on("0", rtStatus(503, "Retry-After", "30"))
		got := r.send()
		if got.targetList() != "1 0" {
			t.Fatalf("tried %q, want the winner 1 and the loser 0", got.targetList())
		}
		if loser := got.x.trail.Attempts[1].Record; loser.Status != http.StatusServiceUnavailable || loser.Error != "" {
			t.Errorf("the attempt that had ended is recorded as %+v, want its own 503", loser)
		}
	})
}

// A loser may fail by itself at the moment when another wins.
func TestALoserThatFailedKeepsItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := rtRefusal()
		failed.after, failed.final = time.Hour, true
		r := rtNew(t, rtTree("fallback", 2, `,"hedge":{"delay_ms":50}`)).on("0", failed)
		got := r.send()
		if got.targetList() != "1 0" {
			t.Fatalf("tried %q, want the winner 1 and the loser 0", got.targetList())
		}
		if loser := got.x.trail.Attempts[1].Record; loser.Error != failed.err.Error() {
			t.Errorf("the attempt that failed is recorded as %+v, want the error %q", loser, failed.err)
		}
	})
}

func TestAHedgedBalanceDoesNotFailOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("loadbalance", 2, `,"hedge":{"delay_ms":100}`)).on("0", rtStatus(500)).on("1", rtStatus(500))
		if got := r.send(); got.status != 500 || len(got.targets) != 1 {
			t.Errorf("status %d after %q, want the 500 of the drawn target", got.status, got.targetList())
		}
	})
}

func TestLosersOfARaceWithinARaceAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := rtTree("fallback", 2, "")
		r := rtNew(t, `{"strategy":{"mode":"fallback"},"hedge":{"delay_ms":50},"targets":[`+inner+`,`+rtLeaf+`]}`)
		r.on("0.0", rtResponse{after: time.Hour}).on("0.1", rtResponse{after: 10 * time.Millisecond}).on("1", rtResponse{after: time.Hour})
		if got := r.send(); got.path != "0.1" || got.targetList() != "0.1 0.0 1" || got.took != 60*time.Millisecond {
			t.Errorf("answered by %s after %q in %v, want 0.1, then its losers 0.0 and 1, in 60ms", got.path, got.targetList(), got.took)
		}
		r.closedOnce()
	})
}

func TestAHedgeStartsNobodyWhenTheBudgetIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("fallback", 3, `,"hedge":{"delay_ms":500,"max":2}`))
		for _, path := range []string{"0", "1", "2"} {
			r.on(path, rtResponse{status: 500, after: 2 * time.Second})
		}
		got := r.send(func(x *rtRequest) { x.AttemptDeadline = time.Now().Add(700 * time.Millisecond) })
		if len(r.calls) != 2 || got.status != 500 {
			t.Errorf("%d targets were called, status %d; want two within the budget, 500", len(r.calls), got.status)
		}
	})
}
