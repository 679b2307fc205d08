package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// endOfUnit returns when the window of a unit that contains now ends. Windows are aligned
// to UTC, and those of a week begin on Monday.
func endOfUnit(unit string, now time.Time) time.Time {
	const day = 24 * time.Hour
	now = now.UTC()
	switch unit {
	case "rpm":
		return now.Truncate(time.Minute).Add(time.Minute)
	case "rph":
		return now.Truncate(time.Hour).Add(time.Hour)
	case "rpw":
		toMonday := (int(time.Monday-now.Weekday()) + 6) % 7
		return now.Truncate(day).AddDate(0, 0, toMonday+1)
	}
	return now.Truncate(day).Add(day)
}

// onceADay creates a policy that admits one request a day.
func (s *spenders) onceADay(t *testing.T, conditions, group string) {
	t.Helper()
	s.policy(t, "rate-limits", conditions, group, `"type":"requests","unit":"rpd","value":1`)
}

// admits sends a request and fails the test unless the policies admit it, or refuse it.
func (s *spenders) admits(t *testing.T, key, metadata string, want bool) {
	t.Helper()
	got := s.chat(t, key, metadata, chatOf("gpt-4.1-mini"))
	if want {
		got.wantOK(t)
		return
	}
	got.refused(t, http.StatusTooManyRequests)
}

// proveConditions proves which requests policies apply to: those that meet all their
// conditions, each by one of its values and by none that it excludes, in their workspace.
func (s *spenders) proveConditions(t *testing.T, otherKey string) {
	s.onceADay(t, condition("metadata.team", "both")+","+condition("metadata.plan", "pro"), "metadata.team")
	s.onceADay(t, `{"key":"metadata.team","value":["one","two"]}`, "metadata.team")
	s.onceADay(t, `{"key":"metadata.region","value":"*","excludes":["free"]}`, "metadata.region")
	s.onceADay(t, condition("metadata.team", "here"), "metadata.team")
	away := s.elsewhere(t)
	s.settled(t)
	for _, tt := range []struct {
		name, metadata string
		limited        bool
	}{
		{"all conditions are met", `{"team":"both","plan":"pro"}`, true},
		{"the second condition is not met", `{"team":"both","plan":"basic"}`, false},
		{"the second condition has no value", `{"team":"both"}`, false},
		{"the first of several values", team("one"), true},
		{"the last of several values", team("two"), true},
		{"none of several values", team("three"), false},
		{"any value", `{"region":"eu"}`, true},
		{"any other value", `{"region":"us"}`, true},
		{"a value that is excluded", `{"region":"free"}`, false},
		{"no value where there may be any", `{}`, false},
	} {
		prove(t, "S-224", tt.name, func(t *testing.T) {
			s.admits(t, s.key, tt.metadata, true)
			s.admits(t, s.key, tt.metadata, !tt.limited)
		})
	}
	prove(t, "S-224", "requests of another workspace are not limited", func(t *testing.T) {
		for range 2 {
			s.admits(t, away, team("here"), true)
		}
		s.admits(t, otherKey, team("here"), true)
		s.admits(t, otherKey, team("here"), false)
	})
}

// elsewhere returns a key of another workspace that may use the same provider.
func (s *spenders) elsewhere(t *testing.T) string {
	t.Helper()
	away, _ := s.root(t, "POST", "/v1/admin/workspaces", `{"name":"Away"}`)["id"].(string)
	s.root(t, "PUT", "/v1/integrations/some/workspaces", `{"workspaces":[{"id":"`+away+`","enabled":true}]}`)
	key, _ := s.root(t, "POST", "/v1/api-keys/workspace/service", `{"name":"a","workspace_id":"`+away+`","scopes":["completions.write"]}`)["key"].(string)
	return key
}

// proveGroups proves which requests are counted together: those with the same values of
// all keys of group_by. Those that lack one are not counted.
func (s *spenders) proveGroups(t *testing.T, otherKey string) {
	s.onceADay(t, condition("metadata.team", "groups"), "api_key metadata.plan")
	s.settled(t)
	with := func(plan string) string { return `{"team":"groups","plan":"` + plan + `"}` }
	prove(t, "S-226", "each combination of values is counted apart", func(t *testing.T) {
		for _, plan := range []string{"a", "b"} {
			for _, key := range []string{s.key, otherKey} {
				s.admits(t, key, with(plan), true)
				s.admits(t, key, with(plan), false)
			}
		}
	})
	prove(t, "S-226", "a request without one of the keys is not counted", func(t *testing.T) {
		for range 3 {
			s.admits(t, s.key, team("groups"), true)
		}
	})
}

// proveChanges proves what a change of a policy is checked for, and what it leaves.
func (s *spenders) proveChanges(t *testing.T) {
	at := s.policy(t, "rate-limits", condition("metadata.team", "changes"), "metadata.team", `"type":"requests","unit":"rpd","value":1`)
	read := func() map[string]any { return s.root(t, "GET", at, "") }
	for name, tt := range map[string]struct{ numbers, body string }{
		"an unknown key":                     {"S-230", `{"conditions":[{"key":"colour","value":"red"}]}`},
		"a field of metadata without a name": {"S-230", `{"conditions":[{"key":"metadata.","value":"red"}]}`},
		"no conditions":                      {"S-223", `{"conditions":[]}`},
		"a condition with an empty list":     {"S-223", `{"conditions":[{"key":"api_key","value":[]}]}`},
		"a condition with an empty value":    {"S-223", `{"conditions":[{"key":"api_key","value":""}]}`},
		"a condition without a value":        {"S-223", `{"conditions":[{"key":"api_key"}]}`},
		"a condition without a key":          {"S-223", `{"conditions":[{"value":"x"}]}`},
		"a name of 256 characters":           {"S-218 S-504", `{"name":"` + longName(256) + `"}`},
		"a limit of nothing":                 {"S-221", `{"value":0}`},
		"a limit that is not a number":       {"S-221", `{"value":"2"}`},
		"an unknown unit":                    {"S-220", `{"unit":"rps"}`},
	} {
		prove(t, tt.numbers, "a change to "+name+" is refused", func(t *testing.T) {
			before := read()
			if got := s.as(t, bootstrapKey, "PUT", at, tt.body); got.status != http.StatusBadRequest {
				t.Errorf("status %d, want 400: %s", got.status, got.body)
			}
			if after := read(); after["last_updated_at"] != before["last_updated_at"] {
				t.Errorf("it was changed at %v", after["last_updated_at"])
			}
		})
	}
	prove(t, "S-229 S-221 S-220 S-218", "a change is read, with its time", func(t *testing.T) {
		before := read()
		s.root(t, "PUT", at, `{"name":"`+longName(255)+`","unit":"rpw","value":2}`)
		after := read()
		if number := fmt.Sprint(after["value"]); after["unit"] != "rpw" || number != "2" || after["name"] != longName(255) {
			t.Errorf("it is %v per %v with the name %.20q, want 2 per rpw", number, after["unit"], after["name"])
		}
		was, now := fmt.Sprint(before["last_updated_at"]), fmt.Sprint(after["last_updated_at"])
		if now <= was || after["created_at"] != before["created_at"] {
			t.Errorf("changed at %s after %s, created at %v after %v", now, was, after["created_at"], before["created_at"])
		}
	})
	prove(t, "S-221", "a changed limit counts", func(t *testing.T) {
		s.settled(t)
		for range 2 {
			s.admits(t, s.key, team("changes"), true)
		}
		s.admits(t, s.key, team("changes"), false)
	})
}

// longName returns a name of n characters, each of two bytes.
func longName(n int) string { return strings.Repeat("é", n) }

// proveEntities proves that the counters of a rate limit are listed with what each has used.
func (s *spenders) proveEntities(t *testing.T) {
	prove(t, "S-565", "the entities of a rate limit show what each has used", func(t *testing.T) {
		at := s.policy(t, "rate-limits", condition("metadata.team", "counted"), "metadata.plan", `"type":"requests","unit":"rpd","value":3`)
		s.settled(t)
		var got []string
		for end := (time.Time{}); !end.Equal(endOfUnit("rpd", time.Now())); { // again if the day ended in the meantime
			end = endOfUnit("rpd", time.Now())
			for _, plan := range []string{"a", "a", "b"} {
				s.admits(t, s.key, `{"team":"counted","plan":"`+plan+`"}`, true)
			}
			got = nil
			list, _ := s.root(t, "GET", at+"/entities", "")["data"].([]any)
			for _, v := range list {
				e, _ := v.(map[string]any)
				got = append(got, fmt.Sprint(e["value_key"], " ", e["current_usage"], " ", e["status"]))
			}
		}
		wantItems(t, got, "metadata.plan:a 2 active", "metadata.plan:b 1 active")
	})
}

// proveFields proves that policies are read with every field that they were created with, and
// then changed to.
func (s *spenders) proveFields(t *testing.T) {
	check := func(t *testing.T, path, body string) {
		t.Helper()
		var want map[string]any
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatal(err)
		}
		got := s.root(t, "GET", path, "")
		for field, value := range want {
			if fmt.Sprint(got[field]) != fmt.Sprint(value) {
				t.Errorf("%s = %v, want %v", field, got[field], value)
			}
		}
	}
	for kind, tt := range map[string]struct{ numbers, body, change string }{
		"rate-limits": {
			"S-388 S-590", `"type":"tokens","unit":"rph","value":7,"on_store_down":"closed","loop_detection":{"same_tool_call":3}`,
			`{"name":"q","description":"e","conditions":[{"key":"metadata.a","value":"b","excludes":["c"]}],"unit":"rpd","value":8,"on_store_down":"open","loop_detection":null}`,
		},
		"usage-limits": {
			"S-589", `"type":"tokens","credit_limit":500,"alert_threshold":400,"periodic_reset":"monthly","on_budget_end":"stop"`,
			`{"name":"q","description":"e","credit_limit":600,"alert_threshold":300,"periodic_reset":null,"periodic_reset_days":7,"on_budget_end":"finish"}`,
		},
	} {
		body := fmt.Sprintf(`{"name":"p","description":"d","workspace_id":%q,"conditions":[{"key":"metadata.team","value":["x","y"],"excludes":"z"},{"key":"model","value":"*"}],`+
			`"group_by":[{"key":"api_key"},{"key":"metadata.team"}],%s}`, s.workspace, tt.body)
		prove(t, tt.numbers, kind+" are read with every field", func(t *testing.T) {
			path := "/v1/policies/" + kind + "/" + fmt.Sprint(s.root(t, "POST", "/v1/policies/"+kind, body)["id"])
			check(t, path, body)
			s.root(t, "PUT", path, tt.change)
			check(t, path, tt.change)
		})
	}
}
