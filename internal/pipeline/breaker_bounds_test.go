package pipeline_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBreakerOpensAtItsRateOnceEnoughRequestsWereCounted(t *testing.T) {
	for _, tt := range []struct {
		name, answers string // statuses of the target, in order
		percentage    string
		opens         bool
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
				var answers []rtAnswer
				for status := range strings.FieldsSeq(tt.answers) {
					n, _ := strconv.Atoi(status)
					answers = append(answers, rtStatus(n))
				}
				r := rtNew(t, rtBroken(`"failure_threshold_percentage":`+tt.percentage+`,"minimum_requests":4`)).on("0", answers...)
				for range answers {
					if got := r.send(); got.targets[0] != "0" {
						t.Fatalf("tried %q before all were counted, want 0 first", got.tried())
					}
				}
				if got := r.send(); (got.targets[0] == "1") != tt.opens {
					t.Errorf("after %s with a rate of %s %% the next exchange tried %q; want the circuit open: %t", tt.answers, tt.percentage, got.tried(), tt.opens)
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
		answers      []rtAnswer
		next         string // where the exchange after one failure and many other targets goes
		then         string // and the one after that
	}{
		{"an open circuit", rtBroken(`"failure_threshold":1`), []rtAnswer{rtStatus(500)}, "1", "1"},
		{"a failure that counts", rtBroken(`"failure_threshold":2`), []rtAnswer{rtStatus(500)}, "0 1", "1"},
		{"a parked target", rtTree("fallback", 2, ""), []rtAnswer{rtStatus(429, "Retry-After", "30")}, "1", "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rtNew(t, tt.config).on("0", tt.answers...)
				if got := r.send(); got.tried() != "0 1" {
					t.Fatalf("tried %q, want 0 1", got.tried())
				}
				r.state.FillGates()
				r.Tree = r.compile(tt.config)
				for i, want := range []string{tt.next, tt.then} {
					if got := r.send(); got.tried() != want {
						t.Errorf("exchange %d tried %q, want %q", i, got.tried(), want)
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
			r := rtNew(t, rtBroken(rate)).on("0", rtStatus(500))
			for range 3 {
				r.send()
			}
			time.Sleep(tt.pause)
			for i := range tt.more + 1 {
				if got := r.send(); (got.targets[0] == "1") != (i == tt.more) {
					t.Errorf("%v after three failures exchange %d tried %q, want the circuit open after %d failures more", tt.pause, i, got.tried(), tt.more)
				}
			}
		})
	}
}

// A response that was under way says nothing about the time that a later one asks
// for.
func TestTargetStaysParkedWhenAnEarlierRequestSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("fallback", 2, "")).on("0", rtAnswer{after: 5 * time.Second}, rtStatus(429, "Retry-After", "30"), rtStatus(200))
		first := make(chan rtResult)
		go func() { first <- r.send() }()
		time.Sleep(time.Second)
		if got := r.send(); got.tried() != "0 1" {
			t.Fatalf("tried %q, want 0, which is limited, then 1", got.tried())
		}
		if got := <-first; got.tried() != "0" {
			t.Fatalf("the first exchange tried %q, want 0", got.tried())
		}
		if got := r.send(); got.tried() != "1" {
			t.Errorf("tried %q 4 s after 0 asked for 30 s, want 1", got.tried())
		}
		time.Sleep(26 * time.Second)
		if got := r.send(); got.tried() != "0" {
			t.Errorf("tried %q after 30 s, want 0", got.tried())
		}
	})
}
