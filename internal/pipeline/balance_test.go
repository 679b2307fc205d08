package pipeline_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// rtWeighted is a loadbalance node; a weight below zero is left out.
func rtWeighted(more string, weights ...float64) string {
	var targets []string
	for _, w := range weights {
		if w < 0 {
			targets = append(targets, rtLeaf)
			continue
		}
		targets = append(targets, fmt.Sprintf(`{"provider":"@a","weight":%v}`, w))
	}
	return `{"strategy":{"mode":"loadbalance"` + more + `},"targets":[` + strings.Join(targets, ",") + `]}`
}

// rtSeeded makes draws that are the same in every run.
func (r *rtRoutes) rtSeeded(seed uint64) *rtRoutes {
	var mu sync.Mutex // hedged branches draw at the same time
	source := rand.New(rand.NewPCG(seed, seed))
	r.random = func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return source.Float64()
	}
	return r
}

// rtShares are the parts of n exchanges that went to each of k targets.
func (r *rtRoutes) rtShares(n, k int) []float64 {
	shares := make([]float64, k)
	for range n {
		got := r.send(func(x *rtRequest) { x.trail.Explain = false })
		shares[got.path[0]-'0'] += 1 / float64(n)
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
			got := rtNew(t, rtWeighted("", tt.weights...)).rtSeeded(1).rtShares(10_000, len(tt.weights))
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
		got := rtNew(t, rtWeighted("", weights...)).rtSeeded(rapid.Uint64().Draw(rt, "seed")).rtShares(n, len(weights))
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
		r := rtNew(t, rtWeighted("", 0, 0.3, 0, 0.3, 0))
		r.random = func() float64 { return tt.random }
		if got := r.send(); got.path != tt.want {
			t.Errorf("%v drew %s, want %s", tt.random, got.path, tt.want)
		}
	}
}

// 0.6 less 0.1 and 0.2 is 0.3, which the last weight does not exceed.
func TestDrawThatRoundsBeyondTheLastWeightTakesNoWeightOfZero(t *testing.T) {
	r := rtNew(t, rtWeighted("", 0, 0.1, 0.2, 0.3))
	r.random = func() float64 { return math.Nextafter(1, 0) }
	if got := r.send(); got.path == "0" {
		t.Error("a target of weight 0 was drawn, want one of the others")
	}
}

// S-074: a list of statuses changes nothing here.
func TestABalanceDoesNotFailOver(t *testing.T) {
	for _, more := range []string{"", `,"on_status_codes":[500]`} {
		r := rtNew(t, rtWeighted(more, 1, 1)).on("0", rtStatus(500)).on("1", rtStatus(500))
		if got := r.send(); got.status != 500 || len(got.targets) != 1 {
			t.Errorf("%q: status %d after %q, want the 500 of the one that was drawn", more, got.status, got.targetList())
		}
		r.closedOnce()
	}
}

func TestSharesAreThoseOfTheTargetsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtWeighted("", 2, 1, 1)).rtSeeded(3).on("0", rtStatus(429, "Retry-After", "3600"))
		for r.counts["config.targets[0]"] == 0 {
			r.send()
		}
		got := r.rtShares(4000, 3)
		if got[0] != 0 || math.Abs(got[1]-0.5) > 0.03 {
			t.Errorf("shares %.3f while 0 is parked, want none, a half and a half", got)
		}
	})
}

const rtSticky = `,"sticky":{"enabled":true,"hash_fields":["metadata.user","params.seat"],"ttl":600}`

func TestStickyKeepsEqualFieldsOnOneTarget(t *testing.T) {
	r := rtNew(t, rtWeighted(rtSticky, 1, 1, 1, 1)).rtSeeded(5)
	at := func(user, seat string) func(*rtRequest) {
		return func(x *rtRequest) {
			rtMeta("user", user)(x)
			rtBody(t, x, `{"seat":`+seat+`}`)
		}
	}
	homes := make(map[string]bool)
	for i := range 40 {
		user := fmt.Sprint("user", i%20)
		first := r.send(at(user, "1"))
		homes[first.path] = true
		for range 5 {
			if got := r.send(at(user, "1")); got.path != first.path || !got.hasDecision("kept: true") {
				t.Errorf("%s went to %s and %s", user, first.path, got.path)
			}
		}
	}
	if len(homes) != 4 {
		t.Errorf("20 users share %d of 4 targets", len(homes))
	}
	seats := make(map[string]bool)
	for i := range 40 {
		seats[r.send(at("user0", fmt.Sprint(i))).path] = true
	}
	if len(seats) < 2 {
		t.Error("the second field makes no difference")
	}
}

func TestWithoutAFieldTheDrawIsFree(t *testing.T) {
	r := rtNew(t, rtWeighted(rtSticky, 1, 1)).rtSeeded(7)
	paths := make(map[string]bool)
	for range 40 {
		paths[r.send(rtMeta("user", "ann")).path] = true // no body, so no params.seat
	}
	if len(paths) != 2 {
		t.Errorf("a request without one of the fields always went to %v", paths)
	}
	off := strings.Replace(rtSticky, "true", "false", 1)
	r = rtNew(t, rtWeighted(off, 1, 1)).rtSeeded(7)
	paths = make(map[string]bool)
	for range 40 {
		paths[r.send(rtMeta("user", "ann"), func(x *rtRequest) { rtBody(t, x, `{"seat":1}`) }).path] = true
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
				r := rtNew(t, rtWeighted(`,"sticky":{"enabled":true,"hash_fields":["metadata.user"]`+tt.ttl+`}`, 1, 1))
				next := 0.0
				r.random = func() float64 { next = 0.9 - next; return next } // 1 and 0 by turns
				ann := rtMeta("user", "ann")
				if got := r.send(ann); got.path != "1" {
					t.Fatalf("went to %s, want 1", got.path)
				}
				time.Sleep(tt.lasts - time.Nanosecond)
				if got := r.send(ann); got.path != "1" {
					t.Errorf("went to %s within the time, want 1", got.path)
				}
				time.Sleep(time.Nanosecond)
				if got := r.send(ann); got.path != "0" || !got.hasDecision("kept: false") {
					t.Errorf("went to %s after it, want a new draw, which is 0", got.path)
				}
			})
		})
	}
}

func TestAStickyTargetInCooldownIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtWeighted(`,"sticky":{"enabled":true,"hash_fields":["metadata.user"]}`, 1, 1)).
			on("0", rtStatus(429, "Retry-After", "30"), rtStatus(200))
		r.random = func() float64 { return 0 }
		ann := rtMeta("user", "ann")
		var paths []string
		for range 3 {
			paths = append(paths, r.send(ann).path)
		}
		time.Sleep(time.Minute)
		paths = append(paths, r.send(ann).path)
		if got := strings.Join(paths, " "); got != "0 1 1 1" {
			t.Errorf("went to %s, want 0, then 1 for good", got)
		}
	})
}

func TestADryRunAssignsNothing(t *testing.T) {
	r := rtNew(t, rtWeighted(`,"sticky":{"enabled":true,"hash_fields":["metadata.user"]}`, 1, 1))
	r.random = func() float64 { return 0.9 }
	ann := rtMeta("user", "ann")
	r.send(ann, func(x *rtRequest) { x.DryRun = true })
	r.random = func() float64 { return 0 }
	if got := r.send(ann); got.path != "0" {
		t.Errorf("went to %s, where a dry run had gone", got.path)
	}
}
