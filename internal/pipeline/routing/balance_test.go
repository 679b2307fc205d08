package routing_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"modelgate/internal/testing/pipelinetest"
)

// rtShares are the parts of n exchanges that went to each of k targets.
func rtShares(r *pipelinetest.Routes, n, k int) []float64 {
	shares := make([]float64, k)
	for range n {
		got := r.Send(func(x *pipelinetest.Request) { x.Trail.Explain = false })
		shares[got.Path[0]-'0'] += 1 / float64(n)
	}
	return shares
}

// S-025, S-090: the tolerance is one part in a hundred at a fixed seed.
func TestSharesFollowWeights(t *testing.T) {
	for _, tt := range []struct {
		name    string
		weights []float64
		want    []float64
	}{
		{"equal when absent", []float64{-1, -1, -1, -1}, []float64{0.25, 0.25, 0.25, 0.25}},
		{"seven to three", []float64{0.7, 0.3}, []float64{0.7, 0.3}},
		{"not normalised", []float64{30, 10, 60}, []float64{0.3, 0.1, 0.6}},
		{"one absent counts as one", []float64{3, -1}, []float64{0.75, 0.25}},
		{"zero is never drawn", []float64{0, 1, 0, 1}, []float64{0, 0.5, 0, 0.5}},
		{"very small", []float64{1e-9, 1}, []float64{0, 1}},
		{"very large", []float64{1e300, 3e300}, []float64{0.25, 0.75}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := rtShares(pipelinetest.New(t, pipelinetest.Weighted("", tt.weights...)).Seed(1), 10_000, len(tt.weights))
			for i := range got {
				if math.Abs(got[i]-tt.want[i]) > 0.01 {
					t.Errorf("shares %.3f, want %v", got, tt.want)
					break
				}
			}
		})
	}
}

// Six standard deviations, and ten draws where a share is nearly none, are a
// tolerance that chance exceeds once in a thousand million times.
func TestSharesConvergeForAnyWeights(t *testing.T) {
	const n = 600
	rapid.Check(t, func(rt *rapid.T) {
		weights := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.1, 1, 2, 5.5, 40}), 1, 6).Draw(rt, "weights")
		sum := 0.0
		for _, w := range weights {
			sum += w
		}
		if sum == 0 {
			weights, sum = append(weights, 1), 1
		}
		got := rtShares(pipelinetest.New(t, pipelinetest.Weighted("", weights...)).Seed(rapid.Uint64().Draw(rt, "seed")), n, len(weights))
		for i, w := range weights {
			p := w / sum
			if tolerance := 6*math.Sqrt(p*(1-p)/n) + 10.0/n; math.Abs(got[i]-p) > tolerance || p == 0 && got[i] > 0 {
				rt.Fatalf("weights %v gave shares %.3f; target %d is more than %.3f off %.3f", weights, got, i, tolerance, p)
			}
		}
	})
}

func TestDrawsAtTheEdges(t *testing.T) {
	for _, tt := range []struct {
		random float64
		want   string
	}{{0, "1"}, {0.4999, "1"}, {0.5, "3"}, {math.Nextafter(1, 0), "3"}} {
		r := pipelinetest.New(t, pipelinetest.Weighted("", 0, 0.3, 0, 0.3, 0))
		r.Random = func() float64 { return tt.random }
		if got := r.Send(); got.Path != tt.want {
			t.Errorf("%v drew %s, want %s", tt.random, got.Path, tt.want)
		}
	}
}

// 0.6 less 0.1 and 0.2 is 0.3, which the last weight does not exceed.
func TestDrawThatRoundsBeyondTheLastWeightTakesNoWeightOfZero(t *testing.T) {
	r := pipelinetest.New(t, pipelinetest.Weighted("", 0, 0.1, 0.2, 0.3))
	r.Random = func() float64 { return math.Nextafter(1, 0) }
	if got := r.Send(); got.Path == "0" {
		t.Error("a target of weight 0 was drawn, want one of the others")
	}
}

// S-074: a list of statuses changes nothing here.
func TestABalanceDoesNotFailOver(t *testing.T) {
	for _, more := range []string{"", `,"on_status_codes":[500]`} {
		r := pipelinetest.New(t, pipelinetest.Weighted(more, 1, 1)).On("0", pipelinetest.Status(500)).On("1", pipelinetest.Status(500))
		if got := r.Send(); got.Status != 500 || len(got.Targets) != 1 {
			t.Errorf("%q: status %d after %q, want the 500 of the one that was drawn", more, got.Status, got.TargetList())
		}
		r.CheckClosed()
	}
}

func TestSharesAreThoseOfTheTargetsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Weighted("", 2, 1, 1)).Seed(3).On("0", pipelinetest.Status(429, "Retry-After", "3600"))
		for r.Counts["config.targets[0]"] == 0 {
			r.Send()
		}
		got := rtShares(r, 4000, 3)
		if got[0] != 0 || math.Abs(got[1]-0.5) > 0.03 {
			t.Errorf("shares %.3f while 0 is parked, want none, a half and a half", got)
		}
	})
}

const rtSticky = `,"sticky":{"enabled":true,"hash_fields":["metadata.user","params.seat"],"ttl":600}`

func TestStickyKeepsEqualFieldsOnOneTarget(t *testing.T) {
	r := pipelinetest.New(t, pipelinetest.Weighted(rtSticky, 1, 1, 1, 1)).Seed(5)
	at := func(user, seat string) func(*pipelinetest.Request) {
		return func(x *pipelinetest.Request) {
			pipelinetest.Meta("user", user)(x)
			pipelinetest.SetBody(t, x, `{"seat":`+seat+`}`)
		}
	}
	homes := make(map[string]bool)
	for i := range 40 {
		user := fmt.Sprint("user", i%20)
		first := r.Send(at(user, "1"))
		homes[first.Path] = true
		for range 5 {
			if got := r.Send(at(user, "1")); got.Path != first.Path || !got.HasDecision("kept: true") {
				t.Errorf("%s went to %s and %s", user, first.Path, got.Path)
			}
		}
	}
	if len(homes) != 4 {
		t.Errorf("20 users share %d of 4 targets", len(homes))
	}
	seats := make(map[string]bool)
	for i := range 40 {
		seats[r.Send(at("user0", fmt.Sprint(i))).Path] = true
	}
	if len(seats) < 2 {
		t.Error("the second field makes no difference")
	}
}

func TestWithoutAFieldTheDrawIsFree(t *testing.T) {
	r := pipelinetest.New(t, pipelinetest.Weighted(rtSticky, 1, 1)).Seed(7)
	paths := make(map[string]bool)
	for range 40 {
		paths[r.Send(pipelinetest.Meta("user", "ann")).Path] = true // no body, so no params.seat
	}
	if len(paths) != 2 {
		t.Errorf("a request without one of the fields always went to %v", paths)
	}
	off := strings.Replace(rtSticky, "true", "false", 1)
	r = pipelinetest.New(t, pipelinetest.Weighted(off, 1, 1)).Seed(7)
	paths = make(map[string]bool)
	for range 40 {
		paths[r.Send(pipelinetest.Meta("user", "ann"), func(x *pipelinetest.Request) { pipelinetest.SetBody(t, x, `{"seat":1}`) }).Path] = true
	}
	if len(paths) != 2 {
		t.Errorf("sticky that is not enabled always went to %v", paths)
	}
}

func TestAStickyAssignmentEnds(t *testing.T) {
	for _, tt := range []struct {
		ttl   string
		lasts time.Duration
	}{{`,"ttl":600`, 10 * time.Minute}, {"", time.Hour}} {
		t.Run(tt.lasts.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, pipelinetest.Weighted(`,"sticky":{"enabled":true,"hash_fields":["metadata.user"]`+tt.ttl+`}`, 1, 1))
				next := 0.0
				r.Random = func() float64 { next = 0.9 - next; return next } // 1 and 0 by turns
				ann := pipelinetest.Meta("user", "ann")
				if got := r.Send(ann); got.Path != "1" {
					t.Fatalf("went to %s, want 1", got.Path)
				}
				time.Sleep(tt.lasts - time.Nanosecond)
				if got := r.Send(ann); got.Path != "1" {
					t.Errorf("went to %s within the time, want 1", got.Path)
				}
				time.Sleep(time.Nanosecond)
				if got := r.Send(ann); got.Path != "0" || !got.HasDecision("kept: false") {
					t.Errorf("went to %s after it, want a new draw, which is 0", got.Path)
				}
			})
		})
	}
}

func TestAStickyTargetInCooldownIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Weighted(`,"sticky":{"enabled":true,"hash_fields":["metadata.user"]}`, 1, 1)).
			On("0", pipelinetest.Status(429, "Retry-After", "30"), pipelinetest.Status(200))
		r.Random = func() float64 { return 0 }
		ann := pipelinetest.Meta("user", "ann")
		var paths []string
		for range 3 {
			paths = append(paths, r.Send(ann).Path)
		}
		time.Sleep(time.Minute)
		paths = append(paths, r.Send(ann).Path)
		if got := strings.Join(paths, " "); got != "0 1 1 1" {
			t.Errorf("went to %s, want 0, then 1 for good", got)
		}
	})
}

func TestADryRunAssignsNothing(t *testing.T) {
	r := pipelinetest.New(t, pipelinetest.Weighted(`,"sticky":{"enabled":true,"hash_fields":["metadata.user"]}`, 1, 1))
	r.Random = func() float64 { return 0.9 }
	ann := pipelinetest.Meta("user", "ann")
	r.Send(ann, func(x *pipelinetest.Request) { x.DryRun = true })
	r.Random = func() float64 { return 0 }
	if got := r.Send(ann); got.Path != "0" {
		t.Errorf("went to %s, where a dry run had gone", got.Path)
	}
}
