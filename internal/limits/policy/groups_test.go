package policy_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"modelgate/internal/limits/policy"
)

// teams is a usage limit, or a rate limit, of each team that clients name.
type teams struct {
	policy policy.Policy
	set    *policy.Set
	facts  policy.Facts
}

func newTeams(window time.Duration, period policy.Period) *teams {
	p := rate("p", []string{"metadata.team"}, when("api_key", nil, "*"))
	p.Window, p.Period = window, period
	g := &teams{policy: p, facts: facts()}
	g.facts.Time = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC) // a Monday
	g.publish()
	return g
}

// publish compiles the policy again, as one that has changed.
func (g *teams) publish() {
	g.policy.Version++
	g.set = policy.Compile([]policy.Policy{g.policy}, g.set)
}

// counter returns the counter of a team.
func (g *teams) counter(team string) string {
	g.facts.Metadata = map[string]string{"team": team}
	return counters(g.set, g.facts)[0]
}

// flood sends requests of as many new teams in each of hours hours.
func (g *teams) flood(hours, each int) map[string]bool {
	seen := make(map[string]bool)
	for h := range hours {
		for i := range each {
			seen[g.counter(fmt.Sprintf("flood-%d-%d", h, i))] = true
		}
		g.facts.Time = g.facts.Time.Add(time.Hour)
	}
	return seen
}

func TestGroupsAreBoundedInAPeriod(t *testing.T) {
	for _, tt := range []struct {
		name   string
		window time.Duration
		period policy.Period
		prefix string
	}{
		{"a month", 0, policy.Period{Every: policy.Monthly}, "policy/p/2026-11-01/0/"},
		{"a period without an end", 0, policy.Period{}, "policy/p/-/0/"},
		{"a window of a day", 24 * time.Hour, policy.Period{}, "policy/p/0/"},
		{"a window of a week", 7 * 24 * time.Hour, policy.Period{}, "policy/p/0/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newTeams(tt.window, tt.period)
			known := g.counter("known")
			if n := len(g.flood(12, 11_000)); n > policy.MaxGroups+1 {
				t.Errorf("%d counters, want at most %d", n, policy.MaxGroups+1)
			}
			if got := g.counter("new"); got != tt.prefix+policy.OverflowKey {
				t.Errorf("beyond the bound a new team has the counter %s, want %s", got, tt.prefix+policy.OverflowKey)
			}
			if got := g.counter("known"); got != known {
				t.Errorf("a known team has the counter %s, want %s", got, known)
			}
			g.publish()
			if got := g.counter("new"); got != tt.prefix+policy.OverflowKey {
				t.Errorf("after a change of the policy a new team has the counter %s", got)
			}
		})
	}
}

func TestGroupsOfTheLastPeriodKeepTheirOwn(t *testing.T) {
	g := newTeams(24*time.Hour, policy.Period{})
	known := g.counter("known")
	g.facts.Time = g.facts.Time.Add(24 * time.Hour)
	for i := range 11_000 {
		g.counter(fmt.Sprint(i))
	}
	if got := g.counter("known"); got != known {
		t.Errorf("after a flood in the next period a known team has the counter %s, want %s", got, known)
	}
	if got, want := g.counter("new"), "policy/p/0/overflow"; got != want {
		t.Errorf("a new team has the counter %s, want %s", got, want)
	}
}

func TestRememberedGroupsHaveTheirOwnCounters(t *testing.T) {
	g := newTeams(0, policy.Period{Every: policy.Monthly})
	for _, counter := range []string{"p/2026-11-01/3/metadata.team:known", "p/2026-10-01/0/metadata.team:old", "p/2026-11-01/0", "other/2026-11-01/0/metadata.team:new"} {
		g.set.Remember(counter, g.facts.Time)
	}
	for i := range 10_000 {
		g.counter(fmt.Sprint(i))
	}
	for team, want := range map[string]string{"known": "metadata.team:known", "old": "overflow", "new": "overflow", "overflow": "overflow"} {
		if got := g.counter(team); got != "policy/p/2026-11-01/0/"+want {
			t.Errorf("team %s has the counter %s, want %s", team, got, want)
		}
	}
}

func TestConcurrentRequestsKeepTheBoundOfGroups(t *testing.T) {
	g := newTeams(0, policy.Period{Every: policy.Monthly})
	var mu sync.Mutex
	seen := make(map[string]bool)
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			f := g.facts
			for i := range 4_000 {
				f.Metadata = map[string]string{"team": fmt.Sprint(worker, i)}
				name := counters(g.set, f)[0]
				mu.Lock()
				seen[name] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) > 10_000+4 { // each worker may be between the check and the addition
		t.Errorf("%d counters, want 10,000 and a shared one", len(seen))
	}
}
