package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // machines without a database of time zones

	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
)

// now is a Wednesday.
var now = time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)

// when returns a condition; excludes may be empty.
func when(key string, excludes []string, values ...string) policy.Condition {
	return policy.Condition{Key: key, Value: policy.Values{List: values, Array: true}, Excludes: policy.Values{List: excludes}}
}

// rate returns a rate limit of workspace w in organisation o.
func rate(id string, group []string, conditions ...policy.Condition) policy.Policy {
	return policy.Policy{ID: id, Organisation: "o", Workspace: "w", Conditions: conditions, GroupBy: group, Max: 5, Window: time.Minute}
}

// facts returns those of a usual request.
func facts() policy.Facts {
	return policy.Facts{
		Time: now, Organisation: "o", Workspace: "w", KeyID: "k1", User: "u1", Model: "gpt-4o", Prompt: "pp-a", Config: "pc-a", EndpointType: "chat",
		TraceID: "t1", Provider: "openai", Slug: "prod", Metadata: map[string]string{"team": "a", "_user": "alice", "session_id": "s1"},
	}
}

// counters returns the names of the counters that apply, sorted.
func counters(s *policy.Set, f policy.Facts) []string {
	var list []string
	for _, l := range s.Match(nil, &f) {
		list = append(list, l.Counter)
	}
	slices.Sort(list)
	return list
}

func TestConditionsDecideWhichRequestsAPolicyAppliesTo(t *testing.T) {
	for _, tt := range []struct {
		name       string
		conditions []policy.Condition
		want       bool
	}{
		{"equal", []policy.Condition{when("api_key", nil, "k1")}, true},
		{"another value", []policy.Condition{when("api_key", nil, "k2")}, false},
		{"one of several values", []policy.Condition{when("api_key", nil, "k2", "k1")}, true},
		{"all conditions", []policy.Condition{when("api_key", nil, "k1"), when("metadata.team", nil, "a")}, true},
		{"not all conditions", []policy.Condition{when("api_key", nil, "k1"), when("metadata.team", nil, "b")}, false},
		{"any value", []policy.Condition{when("metadata.team", nil, "*")}, true},
		{"no value", []policy.Condition{when("metadata.other", nil, "*")}, false},
		{"excluded", []policy.Condition{when("metadata.team", []string{"a"}, "*")}, false},
		{"another is excluded", []policy.Condition{when("metadata.team", []string{"b"}, "*")}, true},
		{"workspace", []policy.Condition{when("workspace_id", nil, "w")}, true},
		{"organisation", []policy.Condition{when("organisation_id", nil, "o")}, true},
		{"user", []policy.Condition{when("user", nil, "u1")}, true},
		{"provider", []policy.Condition{when("provider", nil, "openai")}, true},
		{"another provider", []policy.Condition{when("provider", nil, "anthropic")}, false},
		{"virtual key", []policy.Condition{when("virtual_key", nil, "prod")}, true},
		{"virtual key with prefix", []policy.Condition{when("virtual_key", nil, "@prod")}, true},
		{"prompt", []policy.Condition{when("prompt", nil, "pp-a")}, true},
		{"config", []policy.Condition{when("config", nil, "pc-a")}, true},
		{"endpoint", []policy.Condition{when("endpoint_type", nil, "chat")}, true},
		{"trace", []policy.Condition{when("trace_id", nil, "t1")}, true},
		{"session", []policy.Condition{when("session", nil, "s1")}, true},
		{"model", []policy.Condition{when("model", nil, "gpt-4o")}, true},
		{"any model", []policy.Condition{when("model", nil, "*")}, true},
		{"models of the managed provider", []policy.Condition{when("model", nil, "@prod/*")}, true},
		{"model of the managed provider", []policy.Condition{when("model", nil, "@prod/gpt-4o")}, true},
		{"models of another managed provider", []policy.Condition{when("model", nil, "@dev/*")}, false},
		{"excluded models of the managed provider", []policy.Condition{when("model", []string{"@prod/*"}, "*")}, false},
		{"a model and any", []policy.Condition{when("model", nil, "@dev/*", "*")}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := policy.Compile([]policy.Policy{rate("p", []string{"api_key"}, tt.conditions...)}, nil)
			if got := len(counters(s, facts())) == 1; got != tt.want {
				t.Errorf("it applies: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestAModelWithAPrefixIsTheSameModel(t *testing.T) {
	s := policy.Compile([]policy.Policy{
		rate("bare", []string{"model"}, when("model", nil, "gpt-4o")),
		rate("prefixed", []string{"model"}, when("model", nil, "@prod/gpt-4o", "@prod/*", "gpt-4o")),
	}, nil)
	f := facts()
	f.Model = "@prod/gpt-4o"
	want := []string{"policy/bare/0/model:gpt-4o", "policy/prefixed/0/model:gpt-4o"}
	if got := counters(s, f); !slices.Equal(got, want) {
		t.Errorf("counters %q, want %q", got, want)
	}
}

func TestATargetIsKnownOnlyToAttempts(t *testing.T) {
	s := policy.Compile([]policy.Policy{
		rate("provider", []string{"api_key"}, when("provider", nil, "openai")),
		rate("group", []string{"virtual_key"}, when("api_key", nil, "*")),
		rate("model", []string{"api_key"}, when("model", nil, "@prod/*")),
		rate("key", []string{"api_key"}, when("api_key", nil, "*")),
	}, nil)
	f := facts()
	for _, l := range s.Match(nil, &f) {
		if want := l.Holder.ID != "key"; l.PerAttempt != want {
			t.Errorf("policy %s counts per attempt: %t, want %t", l.Holder.ID, l.PerAttempt, want)
		}
	}
	f.Provider, f.Slug = "", ""
	if got, want := counters(s, f), []string{"policy/key/0/api_key:k1"}; !slices.Equal(got, want) {
		t.Errorf("without a target %q, want %q", got, want)
	}
}

func TestGroupsHaveACounterForEachTuple(t *testing.T) {
	s := policy.Compile([]policy.Policy{rate("p", []string{"metadata._user", "api_key"}, when("workspace_id", nil, "w"))}, nil)
	user := func(name, key string) policy.Facts {
		f := facts()
		f.KeyID, f.Metadata = key, map[string]string{"_user": name}
		return f
	}
	for _, tt := range []struct {
		f    policy.Facts
		want []string
	}{
		{user("alice", "k1"), []string{"policy/p/0/metadata._user:alice|api_key:k1"}},
		{user("alice", "k2"), []string{"policy/p/0/metadata._user:alice|api_key:k2"}},
		{user("a|api_key:k2", "k1"), []string{"policy/p/0/metadata._user:a%7Capi_key:k2|api_key:k1"}},
		{user("", "k1"), nil},
	} {
		if got := counters(s, tt.f); !slices.Equal(got, tt.want) {
			t.Errorf("counters %q, want %q", got, tt.want)
		}
	}
}

func TestAPolicyWithoutConditionsAppliesToNothing(t *testing.T) {
	if got := counters(policy.Compile([]policy.Policy{rate("p", []string{"api_key"})}, nil), facts()); len(got) != 0 {
		t.Errorf("counters %q, want none", got)
	}
}

func TestTenantsDoNotShareAPolicy(t *testing.T) {
	all := rate("all", []string{"organisation_id"}, when("api_key", nil, "*"))
	all.Workspace = ""
	s := policy.Compile([]policy.Policy{rate("w", []string{"workspace_id"}, when("api_key", nil, "*")), all}, nil)
	for _, tt := range []struct {
		organisation, workspace string
		want                    []string
	}{
		{"o", "w", []string{"policy/all/0/organisation_id:o", "policy/w/0/workspace_id:w"}},
		{"o", "v", []string{"policy/all/0/organisation_id:o"}},
		{"o2", "v2", nil},
	} {
		f := facts()
		f.Organisation, f.Workspace = tt.organisation, tt.workspace
		if got := counters(s, f); !slices.Equal(got, tt.want) {
			t.Errorf("%s/%s: %q, want %q", tt.organisation, tt.workspace, got, tt.want)
		}
	}
}

func TestALimitHasTheValuesOfItsPolicy(t *testing.T) {
	p := rate("p", []string{"session"}, when("api_key", nil, "k1"))
	p.Name, p.Measure, p.Stop, p.Down = "runs", quota.Tokens, true, quota.DownClosed
	f := facts()
	l := policy.Compile([]policy.Policy{p}, nil).Match(nil, &f)[0]
	want := quota.Limit{
		Counter: "policy/p/0/session:s1", Measure: quota.Tokens, Max: 5, Window: time.Minute, Stop: true, Down: quota.DownClosed,
		Holder: quota.Holder{Kind: "session", ID: "p", Name: "runs"},
	}
	if *l != want {
		t.Errorf("limit %+v, want %+v", *l, want)
	}
}

func TestUsageCountersAreNamedAfterTheirPeriod(t *testing.T) {
	for _, tt := range []struct {
		name   string
		period policy.Period
		at     string
		label  string
		end    string
	}{
		{"never", policy.Period{}, "2026-11-25T10:00:00Z", "-", ""},
		{"monthly", policy.Period{Every: "monthly"}, "2026-11-25T10:00:00Z", "2026-11-01", "2026-12-01"},
		{"end of a month", policy.Period{Every: "monthly"}, "2026-12-31T23:59:59Z", "2026-12-01", "2027-01-01"},
		{"a week begins on Monday", policy.Period{Every: "weekly"}, "2026-11-25T10:00:00Z", "2026-11-23", "2026-11-30"},
		{"Monday", policy.Period{Every: "weekly"}, "2026-11-23T00:00:00Z", "2026-11-23", "2026-11-30"},
		{"Sunday", policy.Period{Every: "weekly"}, "2026-11-29T23:59:59Z", "2026-11-23", "2026-11-30"},
		{"days", policy.Period{Days: 10, Since: day("2026-11-01")}, "2026-11-25T10:00:00Z", "2026-11-21", "2026-12-01"},
		{"one day, at summer time", policy.Period{Days: 1, Since: day("2026-01-01")}, "2026-03-29T03:00:00+02:00", "2026-03-29", "2026-03-30"},
		{"before the first reset", policy.Period{Every: "monthly", First: day("2026-11-26")}, "2026-11-25T23:59:59Z", "-", "2026-11-26"},
		{"after the first reset", policy.Period{Every: "monthly", First: day("2026-11-26")}, "2026-11-26T00:00:00Z", "2026-11-26", "2026-12-01"},
		{"days after the first reset", policy.Period{Days: 7, Since: day("2026-01-01"), First: day("2026-11-11")}, "2026-11-25T00:00:00Z", "2026-11-25", "2026-12-02"},
		{"before a first reset today", policy.Period{Days: 2, First: day("2026-11-25").Add(15 * time.Hour)}, "2026-11-25T14:59:59Z", "-", "2026-11-25T15:00:00Z"},
		{"days after a first reset in the afternoon", policy.Period{Days: 2, First: day("2026-11-25").Add(15 * time.Hour)}, "2026-11-27T14:59:59Z", "2026-11-25T15:00:00Z", "2026-11-27T15:00:00Z"},
		{"months after a first reset in the afternoon", policy.Period{Every: "monthly", First: day("2026-11-25").Add(15 * time.Hour)}, "2026-11-25T15:00:00Z", "2026-11-25T15:00:00Z", "2026-12-01"},
		{"a month in Berlin", policy.Period{Every: "monthly", Zone: "Europe/Berlin"}, "2026-11-30T22:59:59Z", "2026-10-31T23:00:00Z", "2026-11-30T23:00:00Z"},
		{"the next month in Berlin", policy.Period{Every: "monthly", Zone: "Europe/Berlin"}, "2026-11-30T23:00:00Z", "2026-11-30T23:00:00Z", "2026-12-31T23:00:00Z"},
		{"a month of both clocks in Berlin", policy.Period{Every: "monthly", Zone: "Europe/Berlin"}, "2026-03-29T03:00:00+02:00", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"},
		{"a week of both clocks in Berlin", policy.Period{Every: "weekly", Zone: "Europe/Berlin"}, "2026-10-25T12:00:00Z", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"a day of 23 hours in Berlin", policy.Period{Days: 1, Since: day("2026-01-01"), Zone: "Europe/Berlin"}, "2026-03-29T21:59:59Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"a day of 25 hours in Berlin", policy.Period{Days: 1, Since: day("2026-01-01"), Zone: "Europe/Berlin"}, "2026-10-25T22:59:59Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"days over the change of the clock", policy.Period{Days: 10, Since: day("2026-03-20"), Zone: "America/New_York"}, "2026-03-20T12:00:00Z", "2026-03-19T04:00:00Z", "2026-03-29T04:00:00Z"},
		{"a day whose 00:00 is skipped", policy.Period{Days: 1, Since: day("2026-01-01"), Zone: "America/Santiago"}, "2026-09-06T03:59:59Z", "2026-09-05T04:00:00Z", "2026-09-06T04:00:00Z"},
		{"the hour at which it begins", policy.Period{Days: 1, Since: day("2026-01-01"), Zone: "America/Santiago"}, "2026-09-06T04:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"},
		{"a first reset at noon, over the change", policy.Period{Days: 1, First: day("2026-03-28T11:00:00Z"), Zone: "Europe/Berlin"}, "2026-03-29T09:59:59Z", "2026-03-28T11:00:00Z", "2026-03-29T10:00:00Z"},
		{"midnight of half an hour", policy.Period{Days: 1, Since: day("2026-01-01"), Zone: "Asia/Kolkata"}, "2026-11-25T18:29:59Z", "2026-11-24T18:30:00Z", "2026-11-25T18:30:00Z"},
		{"one reset", policy.Period{First: day("2026-11-11")}, "2026-11-25T00:00:00Z", "2026-11-11", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := rate("p", []string{"api_key"}, when("api_key", nil, "*"))
			p.Window, p.Period, p.Generations = 0, tt.period, map[string]int64{policy.EntityID("api_key:k1"): 3}
			f := facts()
			f.Time, _ = time.Parse(time.RFC3339, tt.at)
			l := policy.Compile([]policy.Policy{p}, nil).Match(nil, &f)[0]
			if want := "policy/p/" + tt.label + "/3/api_key:k1"; l.Counter != want || l.Resets != day(tt.end) {
				t.Errorf("counter %s until %v, want %s until %v", l.Counter, l.Resets, want, day(tt.end))
			}
		})
	}
}

// day parses a day; empty is the zero time.
func day(text string) time.Time {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at
	}
	d, _ := time.Parse(time.DateOnly, text)
	return d
}

func TestANewPeriodHasNewCounters(t *testing.T) {
	p := rate("p", []string{"api_key"}, when("api_key", nil, "*"))
	p.Window, p.Period = 0, policy.Period{Every: "monthly"}
	s := policy.Compile([]policy.Policy{p}, nil)
	f := facts()
	for _, tt := range [][2]string{{"2026-11-30T23:59:59Z", "2026-11-01"}, {"2026-12-01T00:00:00Z", "2026-12-01"}, {"2026-11-30T23:59:58Z", "2026-11-01"}} {
		f.Time, _ = time.Parse(time.RFC3339, tt[0])
		if got, want := counters(s, f)[0], "policy/p/"+tt[1]+"/0/api_key:k1"; got != want {
			t.Errorf("at %s %s, want %s", tt[0], got, want)
		}
	}
}

// TestAPeriodBeginsWithinAnHour counts before and after midnight in zones whose clock differs
// from UTC by half an hour, and in any order.
func TestAPeriodBeginsWithinAnHour(t *testing.T) {
	p := rate("p", []string{"api_key"}, when("api_key", nil, "*"))
	p.Window, p.Period = 0, policy.Period{Every: "monthly", Zone: "Asia/Kolkata"}
	s := policy.Compile([]policy.Policy{p}, nil)
	f := facts()
	for _, tt := range [][2]string{
		{"2026-11-30T18:10:00Z", "2026-10-31T18:30:00Z"}, {"2026-11-30T18:29:59Z", "2026-10-31T18:30:00Z"}, {"2026-11-30T18:30:00Z", "2026-11-30T18:30:00Z"},
		{"2026-11-30T18:59:59Z", "2026-11-30T18:30:00Z"}, {"2026-11-30T19:00:00Z", "2026-11-30T18:30:00Z"}, {"2026-11-30T18:29:00Z", "2026-10-31T18:30:00Z"},
	} {
		f.Time, _ = time.Parse(time.RFC3339, tt[0])
		if got, want := counters(s, f)[0], "policy/p/"+tt[1]+"/0/api_key:k1"; got != want {
			t.Errorf("at %s %s, want %s", tt[0], got, want)
		}
	}
}

func TestLongValuesAreHashed(t *testing.T) {
	s := policy.Compile([]policy.Policy{rate("p", []string{"metadata.team"}, when("api_key", nil, "*"))}, nil)
	name := func(team string) string {
		f := facts()
		f.Metadata = map[string]string{"team": team}
		return counters(s, f)[0]
	}
	long := strings.Repeat("é", 300)
	a, b := name(long+"a"), name(long+"b")
	if a == b || a != name(long+"a") || len(a) > 250 {
		t.Errorf("counters %q and %q; want two of at most 250 bytes", a, b)
	}
	key := strings.TrimPrefix(a, "policy/p/0/metadata.team:")
	if forged := name(key); forged == a {
		t.Errorf("the value %q has the counter of a longer one", key)
	}
}

func TestRandomMetadataMakesABoundedNumberOfCounters(t *testing.T) {
	s := policy.Compile([]policy.Policy{rate("p", []string{"metadata.team"}, when("api_key", nil, "*"))}, nil)
	seen := make(map[string]bool)
	f := facts()
	named := func(team string) string {
		f.Metadata = map[string]string{"team": team}
		return counters(s, f)[0]
	}
	early := named("early")
	for i := range 30_000 {
		seen[named(fmt.Sprint(i))] = true
	}
	if len(seen) != 10_000 {
		t.Errorf("%d counters, want 9,999 and a shared one", len(seen))
	}
	if named("late") != "policy/p/0/overflow" || named("later") != named("late") || named("early") != early {
		t.Errorf("new values have the counters %s and %s and an old one %s, want a shared one and %s", named("late"), named("later"), named("early"), early)
	}
	f.Time = f.Time.Add(time.Hour)
	if got := named("early"); got != early {
		t.Errorf("an hour later a value in use has the counter %s, want %s", got, early)
	}
	if got, want := named("late"), "policy/p/0/metadata.team:late"; got != want {
		t.Errorf("an hour later a new value has the counter %s, want %s", got, want)
	}
}

func TestCountersOfKeysAreNeverShared(t *testing.T) {
	s := policy.Compile([]policy.Policy{rate("p", []string{"api_key"}, when("workspace_id", nil, "*"))}, nil)
	f := facts()
	for i := range 10_100 {
		f.KeyID = fmt.Sprint(i)
		if got := counters(s, f)[0]; got != "policy/p/0/api_key:"+f.KeyID {
			t.Fatalf("key %d has the counter %s", i, got)
		}
	}
}

func TestAChangedPolicyHasNewLimits(t *testing.T) {
	f := facts()
	list := []policy.Policy{rate("a", []string{"api_key"}, when("api_key", nil, "*")), rate("b", []string{"api_key"}, when("api_key", nil, "*"))}
	before := policy.Compile(list, nil)
	if policy.Compile(list, before) != before {
		t.Error("the same list is compiled twice")
	}
	list = slices.Clone(list)
	list[0].Max, list[0].Version = 9, 1
	after := policy.Compile(list, before)
	old := before.Match(nil, &f)
	for _, l := range after.Match(nil, &f) {
		switch {
		case l.Holder.ID == "a" && l.Max != 9:
			t.Errorf("the changed policy allows %d, want 9", l.Max)
		case l.Holder.ID == "b" && !slices.Contains(old, l):
			t.Error("a policy that did not change has another limit")
		}
	}
}

func TestAMatchingPolicyCostsNoAllocation(t *testing.T) {
	s := policy.Compile([]policy.Policy{rate("p", []string{"metadata._user"}, when("api_key", nil, "k1"))}, nil)
	f := facts()
	dst := s.Match(nil, &f)
	if n := testing.AllocsPerRun(100, func() { dst = s.Match(dst[:0], &f) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkMatchOf10000Policies(b *testing.B) {
	var list []policy.Policy
	for i := range 10_000 {
		list = append(list, rate(fmt.Sprint(i), []string{"api_key"}, when("workspace_id", nil, "*"), when("metadata._user", nil, fmt.Sprint("user", i))))
	}
	s := policy.Compile(list, nil)
	f := facts()
	f.Metadata["_user"] = "user77"
	var dst []*quota.Limit
	for b.Loop() {
		dst = s.Match(dst[:0], &f)
	}
	if len(dst) != 1 {
		b.Fatalf("%d match, want 1", len(dst))
	}
}

func TestCountersThatArePastAreNotInUse(t *testing.T) {
	plain, monthly, limited := rate("plain", []string{"api_key"}, when("api_key", nil, "*")), rate("monthly", []string{"api_key"}, when("api_key", nil, "*")), rate("limited", []string{"api_key"}, when("api_key", nil, "*"))
	plain.Window, monthly.Window, monthly.Period = 0, 0, policy.Period{Every: policy.Monthly}
	plain.Generations = map[string]int64{policy.EntityID("api_key:k1"): 3}
	s := policy.Compile([]policy.Policy{plain, monthly, limited}, nil)
	f := facts()
	for _, l := range s.Match(nil, &f) {
		if !s.InUse(l.Counter, now) {
			t.Errorf("the counter %s of a request is not in use", l.Counter)
		}
	}
	month := now.Format("2006-01") + "-01"
	for counter, want := range map[string]bool{
		"policy/plain/-/3/api_key:k1":               true,
		"policy/plain/-/2/api_key:k1":               false,
		"policy/plain/-/0/api_key:k2":               true,
		"policy/deleted/-/0/api_key:k1":             false,
		"policy/monthly/" + month + "/0/api_key:k1": true,
		"policy/monthly/2019-01-01/0/api_key:k1":    false,
		"policy/limited/0/api_key:k1":               true,
		"key/k1/cost/":                              false,
	} {
		if got := s.InUse(counter, now); got != want {
			t.Errorf("InUse(%s) = %t, want %t", counter, got, want)
		}
	}
	if (*policy.Set)(nil).InUse("policy/p/-/0/k", now) {
		t.Error("a counter is in use without policies")
	}
}

// A policy of a model holds for its dated versions and its variants: vendors serve them with
// the same model, so that naming one must not avoid the limit. The names are those of vendors.
func TestAPolicyOfAModelHoldsForItsVersionsAndVariants(t *testing.T) {
	for _, tt := range []struct {
		policy  string
		is, not []string
	}{
		{"gpt-4o", []string{"gpt-4o", "gpt-4o-2024-08-06", "gpt-4o:free", "gpt-4o-latest", "GPT-4o-2024-08-06", "@main/gpt-4o-2024-08-06"},
			[]string{"gpt-4o-mini", "gpt-4o-mini-2024-07-18", "gpt-4", "gpt-4o-audio-preview", "openai/gpt-4o", "gpt-4o-", "gpt-4o:", "my-gpt-4o"}},
		{"gpt-4o-2024-08-06", []string{"gpt-4o-2024-08-06"}, []string{"gpt-4o", "gpt-4o-2024-11-20"}},
		{"openai/gpt-4o", []string{"openai/gpt-4o:free", "openai/gpt-4o:nitro", "openai/gpt-4o:floor", "openai/gpt-4o-2024-05-13", "openai/gpt-4o-2024-05-13:online"}, []string{"openai/gpt-4o-mini:free", "openai"}},
		{"openai/gpt-4o:free", []string{"openai/gpt-4o:free", "openai/gpt-4o:free:nitro"}, []string{"openai/gpt-4o", "openai/gpt-4o:extended"}},
		{"openai/gpt-4o:nitro", []string{"openai/gpt-4o", "openai/gpt-4o:floor"}, nil},
		{"claude-sonnet-4", []string{"claude-sonnet-4-20250514", "claude-sonnet-4@20250514"}, []string{"claude-sonnet-4-5", "claude-sonnet-4-5-20250929"}},
		{"claude-opus", nil, []string{"claude-opus-4", "claude-opus-4-1", "claude-opus-4-1-20250805"}},
		{"anthropic.claude-sonnet-4", []string{"anthropic.claude-sonnet-4-20250514-v1:0"}, []string{"us.anthropic.claude-sonnet-4-20250514-v1:0"}},
		{"gpt-4", []string{"gpt-4-0613"}, []string{"gpt-4-turbo", "gpt-4-1106-preview", "gpt-4-32k", "gpt-4.1", "gpt-4-vision"}},
		{"gpt", nil, []string{"gpt-4", "gpt-4-0613"}},
		{"gemini-2.0-flash", []string{"gemini-2.0-flash-001", "models/gemini-2.0-flash-001"}, []string{"gemini-2.0-flash-lite", "gemini-2.0-flash-lite-001"}},
		{"gemini-2.5-pro-preview", []string{"gemini-2.5-pro-preview-05-06"}, []string{"gemini-2.5-pro"}},
		{"command-r", []string{"command-r-08-2024"}, []string{"command-r-plus", "command-r-plus-08-2024", "command-r7b-12-2024"}},
		{"llama3", []string{"llama3", "llama3:latest", "llama3:8b"}, []string{"llama3.1"}},
		{"llama3:8b", []string{"llama3:8b"}, []string{"llama3", "llama3:latest", "llama3:80b"}},
	} {
		limits := func(model string) int {
			f := facts()
			f.Model = model
			return len(counters(policy.Compile([]policy.Policy{rate("p", []string{"api_key"}, when("model", nil, tt.policy))}, nil), f))
		}
		for _, model := range tt.is {
			if limits(model) != 1 {
				t.Errorf("a policy of %s does not hold for %s", tt.policy, model)
			}
		}
		for _, model := range tt.not {
			if limits(model) != 0 {
				t.Errorf("a policy of %s holds for %s", tt.policy, model)
			}
		}
	}
}

// Dated versions of a model share its counter: vendors serve them with the same model, and a
// client names the one that it likes.
func TestModelsAreGroupedWithoutTheDatesOfTheirVersions(t *testing.T) {
	for model, want := range map[string]string{
		"gpt-4o": "gpt-4o", "gpt-4o-2024-08-06": "gpt-4o", "@main/GPT-4o-2024-11-20": "gpt-4o", "gpt-4o-latest": "gpt-4o", "gpt-4o-mini-2024-07-18": "gpt-4o-mini",
		"openai/gpt-4o-2024-05-13:free": "openai/gpt-4o:free", "openai/gpt-4o-2024-05-13:nitro": "openai/gpt-4o", "openai/gpt-4o:free": "openai/gpt-4o:free", "llama3:8b": "llama3:8b",
		"anthropic.claude-sonnet-4-20250514-v1:0": "anthropic.claude-sonnet-4", "claude-sonnet-4@20250514": "claude-sonnet-4", "claude-opus-4-1": "claude-opus-4-1", "command-r-08-2024": "command-r",
		"gemini-2.0-flash-001": "gemini-2.0-flash", "gpt-4-32k-0613": "gpt-4-32k", "phi-4": "phi-4", "-0613": "-0613",
	} {
		f := facts()
		f.Model = model
		list := counters(policy.Compile([]policy.Policy{rate("p", []string{"model"}, when("api_key", nil, "*"))}, nil), f)
		if len(list) != 1 || !strings.HasSuffix(list[0], "/model:"+want) {
			t.Errorf("%s is counted by %q, want model:%s", model, list, want)
		}
	}
}

func TestExcludedModelsAreExact(t *testing.T) {
	f, set := facts(), policy.Compile([]policy.Policy{rate("p", []string{"api_key"}, when("model", []string{"openai/gpt-4o:free", "gpt-4o-mini"}, "*"))}, nil)
	for model, want := range map[string]int{"openai/gpt-4o:free": 0, "OpenAI/GPT-4o:free": 0, "openai/gpt-4o": 1, "openai/gpt-4o:free:x": 1, "gpt-4o-mini": 0, "gpt-4o-mini-2024-07-18": 1} {
		if f.Model = model; len(counters(set, f)) != want {
			t.Errorf("%s is limited by %d policies, want %d", model, len(counters(set, f)), want)
		}
	}
}

func TestAPolicyOfAProviderHoldsForRequestsWithoutAModel(t *testing.T) {
	for _, tt := range []struct {
		condition policy.Condition
		want      int
	}{
		{when("model", nil, "@prod/*"), 1}, {when("model", nil, "@dev/*"), 0}, {when("model", nil, "*"), 0}, {when("model", nil, "@prod/gpt-4o"), 0}, {when("model", []string{"@prod/*"}, "@prod/*"), 0},
	} {
		f := facts()
		f.Model = ""
		if got := counters(policy.Compile([]policy.Policy{rate("p", []string{"api_key"}, tt.condition)}, nil), f); len(got) != tt.want {
			t.Errorf("%+v: %v, want %d", tt.condition, got, tt.want)
		}
	}
}

func TestAModelInAPathBeginsWithItsName(t *testing.T) {
	f := facts()
	f.Model, f.ModelInPath = "owner/name/predictions", true
	for model, want := range map[string]int{"owner/name": 1, "owner": 1, "owner/na": 0, "name": 0} {
		set := policy.Compile([]policy.Policy{rate("p", []string{"api_key"}, when("model", nil, model))}, nil)
		if got := counters(set, f); len(got) != want {
			t.Errorf("%s: %v, want %d", model, got, want)
		}
	}
	f.Model, f.ModelInPath = "owner/name", false
	if got := counters(policy.Compile([]policy.Policy{rate("p", []string{"api_key"}, when("model", nil, "owner"))}, nil), f); len(got) != 0 {
		t.Errorf("an owner in a body is taken for a model: %v", got)
	}
}

func TestModelsAreNeededOnlyWhereAPolicyReadsThem(t *testing.T) {
	f := policy.Facts{Workspace: "w", Organisation: "o", KeyID: "k", Metadata: map[string]string{"app": "a"}}
	reads := func(p policy.Policy) bool { return policy.Compile([]policy.Policy{p}, nil).ReadsModels(&f) }
	more := func(p policy.Policy, c policy.Condition) policy.Policy {
		p.Conditions = append(p.Conditions, c)
		return p
	}
	other := rate("p", []string{"api_key"}, when("model", nil, "m"))
	other.Workspace = "another"
	for _, tt := range []struct {
		policy policy.Policy
		want   bool
	}{
		{rate("p", []string{"api_key"}, when("model", nil, "m")), true},
		{rate("p", []string{"api_key"}, when("model", nil, "*")), true},
		{rate("p", []string{"model"}, when("api_key", nil, "*")), true},
		{rate("p", []string{"api_key"}, when("model", nil, "@prod/*")), false},
		{rate("p", []string{"api_key"}, when("model", []string{"m"}, "@prod/*")), true},
		{rate("p", []string{"api_key"}, when("api_key", nil, "*")), false},
		{other, false},
		{more(rate("p", []string{"api_key"}, when("model", nil, "m")), when("metadata.app", nil, "a")), true},
		{more(rate("p", []string{"api_key"}, when("model", nil, "m")), when("metadata.app", nil, "b")), false},
		{more(rate("p", []string{"api_key"}, when("model", nil, "m")), when("api_key", nil, "other")), false},
		{more(rate("p", []string{"api_key"}, when("model", nil, "m")), when("provider", nil, "openai")), true},
		{rate("p", []string{"model", "metadata.app"}, when("api_key", nil, "*")), true},
		{rate("p", []string{"model", "metadata.team"}, when("api_key", nil, "*")), false},
	} {
		if got := reads(tt.policy); got != tt.want {
			t.Errorf("%+v: %t", tt.policy.Conditions, got)
		}
	}
	if (*policy.Set)(nil).ReadsModels(&f) {
		t.Error("no policies need models")
	}
}
