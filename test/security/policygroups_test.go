package security

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// groupsAnHour is how many groups of a policy may begin in an hour.
const groupsAnHour = 10_000

// TestGroupsThatClientsNameAreBounded sends more values of metadata than a policy has
// groups for. The first value keeps its own limit, further values share one, and the
// counters, alerts and audit rows about them are bounded.
func TestGroupsThatClientsNameAreBounded(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		if o.database != "" { // no request is counted without the store because it is slow
			o.settings = "version: 1\nlimits:\n  counters:\n    deadline: 10s\n"
		}
		g, p := launch(t, o), newProvider(t, nil)
		key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
		budget := g.create(t, rootKey, "/v1/policies/usage-limits", `{"name":"teams","workspace_id":"default","conditions":[{"key":"metadata.team","value":"*"}],"group_by":[{"key":"metadata.team"}],
			"type":"requests","credit_limit":3,"alert_threshold":1,"periodic_reset":"monthly"}`, "id")
		g.create(t, rootKey, "/v1/policies/rate-limits", `{"name":"groups","workspace_id":"default","conditions":[{"key":"metadata.group","value":"*"}],"group_by":[{"key":"metadata.group"}],
			"type":"requests","unit":"rpw","value":3}`, "id")
		send := func(field, value string) int {
			return g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(key, p, "x-gateway-metadata", fmt.Sprintf(`{%q:%q}`, field, value))...).status
		}
		for _, c := range []struct {
			field   string
			refused int
		}{{"team", http.StatusPreconditionFailed}, {"group", http.StatusTooManyRequests}} {
			waittest.Until(t, "the policy is published", func() bool { return send(c.field, "probe") == c.refused })
			attack(t, "exhaustion", "values without end for a policy on metadata."+c.field, func(t *testing.T) {
				if status := send(c.field, "known"); status != http.StatusOK {
					t.Fatalf("the first request of a value gets %d", status)
				}
				passed := beyond(func(round, i int) bool { return send(c.field, fmt.Sprint("value-", round, "-", i)) == http.StatusOK })
				if passed > 3 {
					t.Errorf("%d requests of values beyond the bound pass, want the 3 that their common limit admits", passed)
				}
				got := []int{send(c.field, "known"), send(c.field, "known"), send(c.field, "known")}
				if want := fmt.Sprint([]int{200, 200, c.refused}); fmt.Sprint(got) != want {
					t.Errorf("the other requests of a known value get %d, want %s", got, want)
				}
			})
		}
		attack(t, "exhaustion", "counters, alerts and audit rows of values without end", func(t *testing.T) {
			var counters, events map[string]any
			waittest.Until(t, "the ledger is counted", func() bool {
				counters = g.as(t, rootKey, "GET", "/v1/policies/usage-limits/"+budget+"/entities?page_size=1", "").ok(t).object(t)
				return total(counters) >= groupsAnHour
			})
			query := url.Values{"action": {"budget_threshold"}, "start_time": {time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}, "end_time": {time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}}
			var body string
			waittest.Until(t, "the groups are reported together", func() bool {
				r := g.as(t, rootKey, "GET", "/v1/audit-logs?"+query.Encode(), "").ok(t)
				events, body = r.object(t), string(r.body)
				return strings.Contains(body, `\"groups\":`)
			})
			if n := total(counters); n > 2*groupsAnHour+1 {
				t.Errorf("%d counters, want at most %d", n, 2*groupsAnHour+1)
			}
			if n := total(events); n > 102 {
				t.Errorf("%d audit rows, want at most 102", n)
			}
		})
	})
}

// beyond makes the requests of as many values as may have groups in an hour, and returns how
// many requests of 40 further ones pass in the same hour.
func beyond(send func(round, i int) bool) (passed int) {
	for round := 0; ; round++ {
		hour := time.Now().Truncate(time.Hour)
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				for i := worker; i < groupsAnHour; i += 8 {
					send(round, i)
				}
			})
		}
		all.Wait()
		passed = 0
		for i := range 40 {
			if send(round, groupsAnHour+i) {
				passed++
			}
		}
		if time.Now().Truncate(time.Hour).Equal(hour) {
			return passed
		}
	}
}

// total returns the number of all rows of a list.
func total(list map[string]any) int64 {
	number, _ := list["total"].(json.Number)
	n, _ := number.Int64()
	return n
}
