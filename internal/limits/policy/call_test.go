package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
)

// toolPolicy returns a policy of tools with a condition.
func toolPolicy(key string, values, excludes []string) policy.Policy {
	c := policy.Condition{Key: key, Value: policy.Values{List: values, Array: true}}
	if excludes != nil {
		c.Excludes = policy.Values{List: excludes, Array: true}
	}
	return policy.Policy{ID: "p", Organisation: "o", Target: policy.TargetTools, Conditions: []policy.Condition{c}, GroupBy: []string{policy.KeyAPIKey},
		Max: 1, Window: time.Hour}
}

func callOf(server, tool string) *policy.Facts {
	return &policy.Facts{Time: time.Unix(1_800_000_000, 0), Organisation: "o", Workspace: "w", KeyID: "k", Tools: true, Server: server, Tool: tool}
}

func TestPatternsOfToolsMatchByServerAndName(t *testing.T) {
	for _, tt := range []struct {
		key             string
		value, excludes string
		is, not         string
	}{
		{policy.KeyTool, "github/create_issue", "", "github/create_issue", "gitlab/create_issue github/create_issues github/"},
		{policy.KeyTool, "create_issue", "", "github/create_issue gitlab/create_issue", "github/re_create_issue"},
		{policy.KeyTool, "create_*", "", "github/create_issue gitlab/create_", "github/recreate_x"},
		{policy.KeyTool, "github/*", "", "github/a github/a/b", "gitlab/github git/a"},
		{policy.KeyTool, "*/del*_*e", "", "x/delete_file x/del_e", "x/delete x/del_"},
		{policy.KeyTool, "*", "github/create_*", "github/list x/create_a", "github/create_a github/"},
		{policy.KeyServer, "git*", "", "github/x gitlab/", "legit/x"},
		{policy.KeyServer, "github", "", "github/x github/", "github2/x"},
	} {
		var excludes []string
		if tt.excludes != "" {
			excludes = []string{tt.excludes}
		}
		s := policy.Compile([]policy.Policy{toolPolicy(tt.key, []string{tt.value}, excludes)}, nil)
		for want, list := range map[bool]string{true: tt.is, false: tt.not} {
			for call := range strings.FieldsSeq(list) {
				server, tool, _ := strings.Cut(call, "/")
				if got := len(s.Match(nil, callOf(server, tool))) == 1; got != want {
					t.Errorf("%s %q without %q applies to %q: %t, want %t", tt.key, tt.value, tt.excludes, call, got, want)
				}
			}
		}
	}
}

func TestTargetsOfPoliciesAreApart(t *testing.T) {
	models := toolPolicy(policy.KeyAPIKey, []string{"*"}, nil)
	models.Target, models.Time, models.Max = "", true, 1
	tools := models
	tools.ID, tools.Target = "q", policy.TargetTools
	s := policy.Compile([]policy.Policy{models}, nil)
	request := callOf("", "")
	request.Tools, request.Model = false, "m"
	if s.Governs(callOf("github", "x")) || !s.Governs(request) {
		t.Error("a policy of models governs tools, or does not govern models")
	}
	s = policy.Compile([]policy.Policy{tools}, nil)
	if !s.Governs(callOf("github", "x")) || s.Governs(request) {
		t.Error("a policy of tools does not govern tools, or governs models")
	}
	for _, target := range []policy.Target{"", policy.TargetModels, policy.TargetTools} {
		p := toolPolicy(policy.KeyUser, []string{"*"}, nil)
		p.Target, p.Conditions[0].Key, p.GroupBy = target, policy.KeyAPIKey, []string{policy.KeyModel}
		if got := policy.Compile([]policy.Policy{p}, nil).ReadsModels(request); got != !target.IsTools() {
			t.Errorf("a policy of %q reads models: %t", target, got)
		}
	}
}

// A call is the same whatever the spelling of its arguments, and no other.
func TestCallsAreTheSameByTheirArguments(t *testing.T) {
	one := policy.CallDigest("github", "x", []byte(`{"a":1,"b":"\u0065"}`))
	if got := policy.CallDigest("github", "x", []byte(` {"b":"e" , "a":1}`)); got != one {
		t.Error("another spelling is another call")
	}
	for _, other := range [][3]string{
		{"github", "x", `{"a":2,"b":"e"}`}, {"github", "y", `{"a":1,"b":"e"}`}, {"gitlab", "x", `{"a":1,"b":"e"}`}, {"githubx", "", `{"a":1,"b":"e"}`},
		{"github", "x", ""}, {"github", "x", `{"a":1,"b":"e"} 1`}, {"github", "x", `{"a":12345678901234567890,"b":"e"}`},
	} {
		if policy.CallDigest(other[0], other[1], []byte(other[2])) == one {
			t.Errorf("%q is the same call", other)
		}
	}
	if policy.CallDigest("a", "x", []byte(`12345678901234567890`)) == policy.CallDigest("a", "x", []byte(`12345678901234567891`)) {
		t.Error("large numbers are the same")
	}
}

// Clients choose arguments, so that each call could take memory of its own.
func TestRandomToolCallsMakeABoundedNumberOfCounters(t *testing.T) {
	p := toolPolicy(policy.KeyAPIKey, []string{"*"}, nil)
	p.Loop.SameCalls = 3
	s := policy.Compile([]policy.Policy{p}, nil)
	call := func(n int, at time.Time) *policy.Facts {
		f := callOf("github", "x")
		f.Call, f.Metadata, f.Time = fmt.Sprint(n), map[string]string{policy.SessionField: "s"}, at
		return f
	}
	now := time.Unix(1_800_000_000, 0)
	names := map[string]bool{}
	loop := func(f *policy.Facts) (l *quota.Limit) {
		for _, one := range s.Match(nil, f) {
			if one.Holder.Kind == policy.LoopHolder {
				l = one
			}
		}
		return l
	}
	for n := range 12_000 {
		if l := loop(call(n, now)); l != nil {
			names[l.Counter] = true
		}
	}
	if len(names) != 10_000 {
		t.Errorf("%d counters, want 10000", len(names))
	}
	if l := loop(call(5, now)); l == nil || l.Max != 2 || l.Window != time.Hour || !l.PerAttempt {
		t.Errorf("a known call has the limit %+v", l)
	}
	if loop(call(11_999, now)) != nil || loop(call(11_999, now.Add(time.Hour))) == nil {
		t.Error("the bound does not end with its hour")
	}
}
