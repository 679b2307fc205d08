package policy

import (
	"fmt"
	"testing"
	"time"
)

// TestARequestLooksOnlyAtPoliciesThatCanApply counts the policies that a request
// looks at, of 2,000 in its workspace and 2,000 elsewhere.
func TestARequestLooksOnlyAtPoliciesThatCanApply(t *testing.T) {
	for _, tt := range []struct {
		name string
		key  string
		f    Facts
	}{
		{"keys", KeyAPIKey, Facts{KeyID: "v77"}},
		{"users", KeyUser, Facts{User: "v77"}},
		{"models", KeyModel, Facts{Model: "v77"}},
		{"models of a managed provider", KeyModel, Facts{Model: "@p/v77"}},
		{"managed providers", KeyVirtualKey, Facts{Slug: "v77"}},
		{"metadata", "metadata.team", Facts{Metadata: map[string]string{"team": "v77", "env": "x"}}},
		{"sessions", KeySession, Facts{Metadata: map[string]string{SessionField: "v77"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var list []Policy
			for i := range 4_000 {
				list = append(list, Policy{
					ID: fmt.Sprint(i), Organisation: "o", Workspace: fmt.Sprint("w", i%2), GroupBy: []string{KeyWorkspace}, Window: time.Minute, Max: 1,
					Conditions: []Condition{
						{Key: KeyWorkspace, Value: Values{List: []string{Any}}},
						{Key: tt.key, Value: Values{List: []string{fmt.Sprint("v", i)}}},
						{Key: KeyOrganisation, Value: Values{List: []string{"o"}}},
					},
				})
			}
			s := Compile(list, nil)
			f := tt.f
			f.Time, f.Organisation, f.Workspace = time.Unix(1e9, 0), "o", "w1"
			looked := 0
			s.limits.each(&f, func(*compiled, *Facts) { looked++ })
			if got := len(s.Match(nil, &f)); looked != 1 || got != 1 {
				t.Errorf("looked at %d policies, %d of which apply; want 1 and 1", looked, got)
			}
		})
	}
}

// TestRequestsDoNotSearchForeignMetadata is about 10,000 policies with a field of
// metadata each.
func TestRequestsDoNotSearchForeignMetadata(t *testing.T) {
	var list []Policy
	for i := range 10_000 {
		list = append(list, Policy{
			ID: fmt.Sprint(i), Organisation: "o", GroupBy: []string{KeyWorkspace}, Window: time.Minute, Max: 1,
			Conditions: []Condition{{Key: fmt.Sprint("metadata.f", i), Value: Values{List: []string{Any}}}},
		})
	}
	s := Compile(list, nil)
	f := Facts{Time: time.Unix(1e9, 0), Organisation: "o", Workspace: "w", Metadata: map[string]string{"f5": "x", "f6": "", "other": "y"}}
	looked := 0
	s.limits.each(&f, func(*compiled, *Facts) { looked++ })
	if looked != 1 {
		t.Errorf("looked at %d policies, want 1", looked)
	}
}
