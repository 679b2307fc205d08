package guardrail_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"modelgate/internal/guardrail"
)

// asking is a check that sends requests, as many as it is allowed to.
func asking(bodies bool, sent *atomic.Int64) guardrail.Compiled {
	return guardrail.Compiled{Remote: true, Bodies: bodies, Run: func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		if err := in.CountRequest(); err != nil {
			return guardrail.Verdict{}, err
		}
		sent.Add(1)
		return guardrail.Verdict{Passed: true}, nil
	}}
}

// sized is a document of a number of bytes.
type sized struct {
	guardrail.Document
	bytes int
}

func (d sized) JSON([]guardrail.Part, []guardrail.Message) (json.RawMessage, error) {
	return make([]byte, d.bytes), nil
}

func TestHooksReserveWhatTheySendBeforeTheyRun(t *testing.T) {
	const request = 32 << 10
	for _, tt := range []struct {
		name   string
		bodies []bool // of each check
		want   int
	}{
		{"one text", []bool{false}, request + 2*5},
		{"the bodies", []bool{true}, request + 2*3000},
		{"several", []bool{true, false, false}, 3*request + 2*3000 + 4*5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var sent atomic.Int64
			var hooks []*guardrail.Hook
			for _, bodies := range tt.bodies {
				hooks = append(hooks, rankedHook(t, guardrail.RankConfig, true, asking(bodies, &sent)))
			}
			in := input("hello")
			in.Document = sized{bytes: 1000}
			held, most, full := 0, 0, false
			in.Request = &guardrail.Request{Body: sized{bytes: 2000}, Hold: func(n int) (func(), error) {
				if full {
					return nil, errors.New("no memory")
				}
				held += n
				most = max(most, held)
				return func() { held -= n }, nil
			}}
			out := guardrail.Run(t.Context(), hooks, in, nil)
			if out.Err != nil || most != tt.want || held != 0 || sent.Load() != int64(len(hooks)) {
				t.Errorf("%v: %d bytes were held, %d at the end, %d requests; want %d, none and %d", out.Err, most, held, sent.Load(), tt.want, len(hooks))
			}
			full = true
			if out = guardrail.Run(t.Context(), hooks, in, nil); out.Err == nil || sent.Load() != int64(len(hooks)) {
				t.Errorf("without memory: error %v, %d requests; want an error and no further request", out.Err, sent.Load())
			}
			in.Held = true
			if out = guardrail.Run(t.Context(), hooks, in, nil); out.Err != nil || sent.Load() != int64(2*len(hooks)) {
				t.Errorf("with memory that the caller holds: error %v, %d requests", out.Err, sent.Load())
			}
		})
	}
}

func TestHooksInThisProcessReserveNothing(t *testing.T) {
	in := input("hello")
	in.Request = &guardrail.Request{Hold: func(int) (func(), error) { return nil, errors.New("no memory") }}
	if out := guardrail.Run(t.Context(), []*guardrail.Hook{rankedHook(t, guardrail.RankConfig, true, without("x"))}, in, nil); out.Err != nil || out.Denied {
		t.Errorf("outcome = %+v, want that the check ran", out)
	}
}

// Only the hooks of a config count: those of higher ranks do not depend on what it left.
func TestRequestsOfAConfigsHooksAreCounted(t *testing.T) {
	for rank, want := range map[guardrail.Rank]int64{guardrail.RankConfig: 2, guardrail.RankWorkspace: 5, guardrail.RankOrganisation: 5} {
		var sent, counted atomic.Int64
		var hooks []*guardrail.Hook
		for range 5 {
			hooks = append(hooks, rankedHook(t, rank, false, asking(false, &sent)))
		}
		in := input("hello")
		in.Request = &guardrail.Request{CountRequest: func() error {
			if counted.Add(1) > 2 {
				return errors.New("no attempts are left")
			}
			return nil
		}}
		out := guardrail.Run(t.Context(), hooks, in, nil)
		if sent.Load() != want {
			t.Errorf("rank %d: %d requests were sent, want %d", rank, sent.Load(), want)
		}
		var failed int64
		for _, r := range out.Results {
			if e := r.Checks[0].Error; e != nil && e.Message == "no attempts are left" {
				failed++
			}
		}
		if failed != 5-want {
			t.Errorf("rank %d: %d checks say why they sent nothing, want %d", rank, failed, 5-want)
		}
	}
}
