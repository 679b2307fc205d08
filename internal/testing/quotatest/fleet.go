package quotatest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/limits/quota"
)

// Limits of a fleet.
const (
	fleetSize     = 4
	fleetWorkers  = 8
	fleetRequests = 5_000
	fleetTokens   = 200_000
	fleetClaim    = 100 // tokens reserved by an attempt
	fleetUse      = 130 // the most that it uses
)

// fleetBound is by how many tokens a fleet may exceed its limit: what each of the
// attempts that run at the same time uses beyond its reservation.
const fleetBound = fleetSize * fleetWorkers * (fleetUse - fleetClaim)

// worker is the environment variable that makes a test binary a process of a
// fleet. Its value is the prefix of counters.
const worker = "MODELGATE_TEST_QUOTA_WORKER"

// counts is what a process of a fleet was granted.
type counts struct {
	Requests, Tokens, Refused, Failed int64
}

// Work makes this process a part of a fleet and ends it, if it is one. Otherwise
// it returns at once. Open is called in processes of a fleet only.
func Work(open func() (store quota.Store, end func())) {
	prefix := os.Getenv(worker)
	if prefix == "" {
		return
	}
	io.ReadAll(io.LimitReader(os.Stdin, 1)) // all begin at the same time
	store, end := open()
	c := work(store, prefix)
	end()
	json.NewEncoder(os.Stdout).Encode(c)
	os.Exit(0)
}

// fleetLimits returns a limit of requests and one of tokens.
func fleetLimits(prefix string) (requests, tokens *quota.Limit) {
	const week = 7 * 24 * time.Hour
	return &quota.Limit{Counter: prefix + "-requests", Max: fleetRequests, Window: week},
		&quota.Limit{Counter: prefix + "-tokens", Measure: quota.Tokens, Max: fleetTokens, Window: week}
}

// work reserves and settles at full speed until limits are used up: first
// requests, then tokens.
func work(store quota.Store, prefix string) *counts {
	c := new(counts)
	requests, tokens := fleetLimits(prefix)
	var wg sync.WaitGroup
	for w := range fleetWorkers {
		random := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(w)))
		wg.Go(func() {
			exhaust(store, c, quota.Claim{Limit: requests, Amount: 1, Least: 1}, func() quota.Use {
				atomic.AddInt64(&c.Requests, 1)
				return quota.Use{Requests: 1}
			})
			exhaust(store, c, quota.Claim{Limit: tokens, Amount: fleetClaim, Least: fleetClaim}, func() quota.Use {
				n := random.Int64N(fleetUse + 1)
				atomic.AddInt64(&c.Tokens, n)
				return quota.Use{Tokens: n}
			})
		})
	}
	wg.Wait()
	return c
}

// exhaust reserves until 20 claims in a row were refused.
func exhaust(store quota.Store, c *counts, claim quota.Claim, use func() quota.Use) {
	for refused := 0; refused < 20; {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		v, err := store.Reserve(ctx, time.Now(), []quota.Claim{claim})
		cancel()
		switch {
		case err != nil:
			if atomic.AddInt64(&c.Failed, 1) > 100 {
				return
			}
		case v.Refused >= 0:
			refused++
			atomic.AddInt64(&c.Refused, 1)
			<-time.After(time.Millisecond) // until others have settled
		default:
			refused = 0
			store.Settle(time.Now(), v.Grants, use())
		}
	}
}

// Fleet starts four processes of this test binary, which reserve and settle at
// full speed with the store that [Work] opens in test, and checks that no request
// was granted above the limit, and tokens within the bound. Least is the part of
// the limits, in percent, that they must have been granted together. Env is passed
// on to them.
func Fleet(t *testing.T, store quota.Store, test string, least int64, env ...string) {
	t.Helper()
	prefix := fmt.Sprintf("fleet-%d", time.Now().UnixNano())
	var commands []*exec.Cmd
	var starts []io.Closer
	outputs := make([]bytes.Buffer, fleetSize)
	for i := range fleetSize {
		c := exec.Command(os.Args[0], "-test.run=^"+test+"$")
		c.Env = append(append(os.Environ(), worker+"="+prefix), env...)
		c.Stdout, c.Stderr = &outputs[i], os.Stderr
		start, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		commands, starts = append(commands, c), append(starts, start)
	}
	for _, s := range starts {
		s.Close()
	}
	var all counts
	for i, c := range commands {
		if err := c.Wait(); err != nil {
			t.Fatalf("process %d: %v: %s", i, err, outputs[i].Bytes())
		}
		var one counts
		if err := json.Unmarshal(outputs[i].Bytes(), &one); err != nil {
			t.Fatalf("process %d: %v: %s", i, err, outputs[i].Bytes())
		}
		all.Requests += one.Requests
		all.Tokens += one.Tokens
		all.Refused += one.Refused
		all.Failed += one.Failed
	}
	t.Logf("four processes: %+v", all)
	if all.Requests > fleetRequests || all.Requests < fleetRequests*least/100 {
		t.Errorf("%d of %d requests were granted", all.Requests, fleetRequests)
	}
	if all.Tokens > fleetTokens+fleetBound || all.Tokens < (fleetTokens-fleetClaim)*least/100 {
		t.Errorf("%d of %d tokens were used", all.Tokens, fleetTokens)
	}
	if all.Failed > 0 {
		t.Errorf("%d calls failed", all.Failed)
	}
	requests, tokens := fleetLimits(prefix)
	states, err := store.Read(t.Context(), time.Now(), []*quota.Limit{requests, tokens})
	if err != nil || states[0].Used != all.Requests || states[1].Used != all.Tokens || states[0].Held+states[1].Held != 0 {
		t.Errorf("the counters are at %+v, %v, want what the processes have used", states, err)
	}
}
