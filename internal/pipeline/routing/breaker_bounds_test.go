package routing_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/testing/pipelinetest"
)

func TestBreakerOpensAtItsRateOnceEnoughRequestsWereCounted(t *testing.T) {
	for _, tt := range []struct {
		name, responses string // statuses of the target, in order
		percentage      string
		opens           bool
	}{
		{"at the rate", "200 200 500 500", "50", true},
		{"below the rate", "200 200 200 500", "50", false},
		{"at the lowest rate", "200 200 200 500", "25", true},
		{"all of too few", "500 500 500", "50", false},
		{"all of just enough", "500 500 500 500", "50", true},
		{"every failure", "500 500 500 500", "100", true},
		{"every failure but one", "200 500 500 500", "100", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var responses []pipelinetest.Response
				for status := range strings.FieldsSeq(tt.responses) {
					n, _ := strconv.Atoi(status)
					responses = append(responses, pipelinetest.Status(n))
				}
				r := pipelinetest.New(t, rtBreakerConfig(`"failure_threshold_percentage":`+tt.percentage+`,"minimum_requests":4`)).On("0", responses...)
				for range responses {
					if got := r.Send(); got.Targets[0] != "0" {
						t.Fatalf("tried %q before all were counted, want 0 first", got.TargetList())
					}
				}
				if got := r.Send(); (got.Targets[0] == "1") != tt.opens {
					t.Errorf("after %s with a rate of %s %% the next exchange tried %q; want the circuit open: %t", tt.responses, tt.percentage, got.TargetList(), tt.opens)
				}
			})
		})
	}
}

// Configs come in headers, so that there may be any number of targets; those of
// others that work do not take the place of what is known of a broken one.
func TestStateOfABrokenTargetOutlivesThatOfOthersThatWork(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		responses    []pipelinetest.Response
		next         string // where the exchange after one failure and many other targets goes
		then         string // and the one after that
	}{
		{"an open circuit", rtBreakerConfig(`"failure_threshold":1`), []pipelinetest.Response{pipelinetest.Status(500)}, "1", "1"},
		{"a failure that counts", rtBreakerConfig(`"failure_threshold":2`), []pipelinetest.Response{pipelinetest.Status(500)}, "0 1", "1"},
		{"a parked target", pipelinetest.Tree("fallback", 2, ""), []pipelinetest.Response{pipelinetest.Status(429, "Retry-After", "30")}, "1", "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, tt.config).On("0", tt.responses...)
				if got := r.Send(); got.TargetList() != "0 1" {
					t.Fatalf("tried %q, want 0 1", got.TargetList())
				}
				r.State.FillGates()
				r.Tree = r.Compile(tt.config)
				for i, want := range []string{tt.next, tt.then} {
					if got := r.Send(); got.TargetList() != want {
						t.Errorf("exchange %d tried %q, want %q", i, got.TargetList(), want)
					}
				}
			})
		})
	}
}

func TestBreakerCountsItsRateAgainAfterACooldown(t *testing.T) {
	const rate = `"failure_threshold_percentage":50,"minimum_requests":4`
	for _, tt := range []struct {
		pause time.Duration
		more  int // failures that open it, after three and the pause
	}{{59 * time.Second, 1}, {61 * time.Second, 4}} {
		synctest.Test(t, func(t *testing.T) {
			r := pipelinetest.New(t, rtBreakerConfig(rate)).On("0", pipelinetest.Status(500))
			for range 3 {
				r.Send()
			}
			time.Sleep(tt.pause)
			for i := range tt.more + 1 {
				if got := r.Send(); (got.Targets[0] == "1") != (i == tt.more) {
					t.Errorf("%v after three failures exchange %d tried %q, want the circuit open after %d failures more", tt.pause, i, got.TargetList(), tt.more)
				}
			}
		})
	}
}

// A response that was under way says nothing about the time that a later one asks
// for.
func TestTargetStaysParkedWhenAnEarlierRequestSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, "")).On("0", pipelinetest.Response{After: 5 * time.Second}, pipelinetest.Status(429, "Retry-After", "30"), pipelinetest.Status(200))
		first := make(chan pipelinetest.Result)
		go func() { first <- r.Send() }()
		time.Sleep(time.Second)
		if got := r.Send(); got.TargetList() != "0 1" {
			t.Fatalf("tried %q, want 0, which is limited, then 1", got.TargetList())
		}
		if got := <-first; got.TargetList() != "0" {
			t.Fatalf("the first exchange tried %q, want 0", got.TargetList())
		}
		if got := r.Send(); got.TargetList() != "1" {
			t.Errorf("tried %q 4 s after 0 asked for 30 s, want 1", got.TargetList())
		}
		time.Sleep(26 * time.Second)
		if got := r.Send(); got.TargetList() != "0" {
			t.Errorf("tried %q after 30 s, want 0", got.TargetList())
		}
	})
}
