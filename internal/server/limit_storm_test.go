package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/quotatest"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// TestClientsThatLeaveReturnWhatTheyReservedOnce has many clients leave at random points of
// their requests: at once, before the first event, in the middle, and at the end. Afterwards
// nothing is reserved of any limit, and all limits that count the same requests have the same,
// which is what the ledger has.
func TestClientsThatLeaveReturnWhatTheyReservedOnce(t *testing.T) {
	redis := quotatest.NewRedis(t)
	t.Setenv("COUNTERS_REDIS", redis.URL())
	for _, tt := range []struct {
		name, settings, database string
		clients                  int
	}{
		{"memory", "", "", 800},
		{"redis", "limits: {counters: {store: redis, url: '${COUNTERS_REDIS}', deadline: 10s}}\n", "", 300},
		{"postgres", "limits: {counters: {store: postgres, deadline: 10s}}\n", storetest.Postgres(t), 60},
		{"leased", "limits: {counters: {deadline: 10s}}\n", storetest.Postgres(t), 120},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &limitedGateway{t: t}
			l.Gateway = gatewaytest.New(t, gatewaytest.Options{
				Settings: tt.settings, Database: tt.database, MasterKey: "the master key of a test of limits",
				Simulator: recorder.Options{Options: simulator.Options{Pace: 200 * time.Microsecond}, Check: func(*http.Request, []byte) error { l.reached.Add(1); return nil }},
			})
			const rates = `"rate_limits":[{"type":"requests","unit":"rpd","value":1000000},{"type":"tokens","unit":"rpd","value":1000000000}]`
			const all = rates + `,"usage_limits":{"type":"cost","credit_limit":100000}`
			l.provider("storm", all)
			mustDo(t, l.Gateway, "PUT", "/integrations/storm/workspaces", `{"workspaces":[{"id":"default","enabled":true,"rate_limits":[{"type":"tokens","unit":"rpd","value":1000000000}]}]}`)
			mustDo(t, l.Gateway, "PUT", "/workspaces/default", `{`+rates+`}`)
			policy := l.policy("usage-limits", `{"name":"all","type":"tokens","credit_limit":1000000000,"conditions":[{"key":"model","value":"sim-1"}],"group_by":[{"key":"workspace_id"}]}`)
			key := l.key(all)
			owners := []string{"owner=key", "owner=workspace&id=default", "owner=provider&id=storm&workspace_id=default", "owner=integration&id=storm&workspace_id=default", "owner=policy&id=" + policy}
			l.storm(key, tt.clients)
			var last string
			var requests float64
			defer func() {
				if t.Failed() {
					t.Log(last)
				}
			}()
			waittest.Until(t, "nothing is reserved, and all limits have counted the same", func() bool {
				last = ""
				same := true
				counts := map[string]float64{}
				for _, owner := range owners {
					res := l.Get("/limits?"+owner, "x-gateway-api-key", gatewaytest.Key)
					if owner == "owner=key" {
						res = l.Get("/limits", "x-gateway-api-key", key)
					}
					var out struct{ Data []counted }
					if err := json.Unmarshal(res.Body, &out); err != nil || len(out.Data) == 0 {
						t.Fatalf("%s: %d %s", owner, res.Status, res.Body)
					}
					for _, c := range out.Data {
						last += fmt.Sprintf("%s %s: %g used, %g reserved\n", owner, c.Type, c.Used, c.Reserved)
						if before, ok := counts[c.Type]; ok && before != c.Used {
							same = false
						}
						counts[c.Type] = c.Used
						same = same && c.Used > 0 && (c.Reserved == 0 || tt.name == "leased") // slices are reserved
					}
				}
				last += fmt.Sprintf("settled: %g tokens; %d requests reached the provider\n", l.settledSum(policy), l.reached.Load())
				requests = counts["requests"]
				return same && l.settledSum(policy) == counts["tokens"]
			})
			if reached := float64(l.reached.Load()); requests < reached || requests > reached*1.02+1 {
				t.Errorf("%g requests are counted, and %g reached the provider\n%s", requests, reached, last)
			}
		})
	}
}

// storm sends requests of which most clients leave.
func (l *limitedGateway) storm(key string, clients int) {
	random := rand.New(rand.NewPCG(16, uint64(clients)))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	defer client.CloseIdleConnections()
	room := make(chan bool, 64)
	var wg sync.WaitGroup
	var complete atomic.Int64
	for i := range clients {
		point, wait := random.IntN(5), time.Duration(random.Int64N(int64(5*time.Millisecond)))
		room <- true
		wg.Go(func() {
			defer func() { <-room }()
			ctx, leave := context.WithCancel(l.t.Context())
			defer leave()
			body := fmt.Sprintf(`{"model":"sim-1","max_tokens":40,"stream":%t,"messages":[{"role":"user","content":"hello %d"}]}`, i%4 > 0, i)
			req := l.Request("POST", "/chat/completions", body, "x-gateway-api-key", key, "x-gateway-provider", "@storm").WithContext(ctx)
			switch point {
			case 0: // at once
				time.AfterFunc(wait/8, leave)
			case 1: // before or about the first event
				time.AfterFunc(wait, leave)
			}
			res, err := client.Do(req)
			if err != nil {
				return
			}
			defer res.Body.Close()
			if point == 2 { // in the middle
				io.CopyN(io.Discard, res.Body, int64(i%2000))
				return
			}
			if _, err := io.Copy(io.Discard, res.Body); err == nil && res.StatusCode == 200 {
				complete.Add(1)
			}
		})
	}
	wg.Wait()
	if complete.Load() == 0 || complete.Load() == int64(clients) {
		l.t.Errorf("%d of %d requests were read to their end", complete.Load(), clients)
	}
}

// settledSum returns what the ledger has for the counters of a policy.
func (l *limitedGateway) settledSum(policy string) (sum float64) {
	l.t.Helper()
	res := l.Get("/policies/usage-limits/"+policy+"/entities", "x-gateway-api-key", gatewaytest.Key)
	var out struct {
		Data []struct {
			Usage float64 `json:"current_usage"`
		}
	}
	if err := json.Unmarshal(res.Body, &out); err != nil || res.Status != 200 {
		l.t.Fatalf("%d %s, %v", res.Status, res.Body, err)
	}
	for _, one := range out.Data {
		sum += one.Usage
	}
	return sum
}
