package conformance

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// policyBody returns a policy of the spenders' workspace.
func (s *spenders) policyBody(conditions, group, rest string) string {
	var groups []string
	for key := range strings.FieldsSeq(group) {
		groups = append(groups, `{"key":"`+key+`"}`)
	}
	return fmt.Sprintf(`{"name":"p","workspace_id":%q,"conditions":[%s],"group_by":[%s],%s}`, s.workspace, conditions, strings.Join(groups, ","), rest)
}

// policy creates a policy and returns its path.
func (s *spenders) policy(t *testing.T, kind, conditions, group, rest string) string {
	t.Helper()
	made := s.root(t, "POST", "/v1/policies/"+kind, s.policyBody(conditions, group, rest))
	id, _ := made["id"].(string)
	return "/v1/policies/" + kind + "/" + id
}

// condition returns a condition.
func condition(key, value string) string { return fmt.Sprintf(`{"key":%q,"value":%q}`, key, value) }

// chat sends a request with a key and metadata.
func (s *spenders) chat(t *testing.T, key, metadata, body string) response {
	t.Helper()
	return s.do(t, "POST", "/v1/chat/completions", body, "x-gateway-api-key", key, "x-gateway-provider", "@some", "x-gateway-metadata", metadata)
}

// team returns the metadata of a team.
func team(name string) string { return `{"team":"` + name + `"}` }

func TestPoliciesLimitRequests(t *testing.T) {
	s := newSpenders(t)
	plain := chatOf("gpt-4.1-mini")
	other := s.root(t, "POST", "/v1/api-keys/workspace/service", `{"name":"o","workspace_id":"`+s.workspace+`","scopes":["completions.write"]}`)
	otherKey, _ := other["key"].(string)

	// applies waits until a policy refuses requests, which at most allowed were admitted to.
	limited := func(t *testing.T, key, metadata, body string, allowed, status int) response {
		t.Helper()
		for n := range allowed {
			if got := s.chat(t, key, metadata, body); got.status != http.StatusOK {
				t.Fatalf("request %d of %d is answered %d: %s", n+1, allowed, got.status, got.body)
			}
		}
		got := s.chat(t, key, metadata, body)
		got.refused(t, status)
		return got
	}

	n := 0
	for _, typ := range []string{"requests", "tokens"} {
		for _, unit := range []string{"rpm", "rph", "rpd", "rpw"} {
			prove(t, "S-508 S-219 S-220 S-221 S-590 S-014", typ+" "+unit, func(t *testing.T) {
				n++
				name, value := fmt.Sprint("unit", n), 2
				if typ == "tokens" {
					value = 2 * cost
				}
				s.policy(t, "rate-limits", condition("metadata.team", name), "metadata.team", fmt.Sprintf(`"type":%q,"unit":%q,"value":%d`, typ, unit, value))
				s.settled(t)
				sent := time.Now()
				got := limited(t, s.key, team(name), plain, 2, http.StatusTooManyRequests)
				wait, err := time.ParseDuration(got.header.Get("Retry-After") + "s")
				if least, most := time.Until(endOfUnit(unit, sent)), endOfUnit(unit, sent).Sub(sent)+time.Second; err != nil || wait < least || wait > most {
					t.Errorf("Retry-After = %q, want %v to %v, the end of the window", got.header.Get("Retry-After"), least, most)
				}
			})
		}
	}

	s.proveConditions(t, otherKey)
	s.proveGroups(t, otherKey)
	s.proveEntities(t)
	prove(t, "S-224", "a request that does not match is not limited", func(t *testing.T) {
		s.policy(t, "rate-limits", condition("metadata.team", "matches"), "metadata.team", `"type":"requests","unit":"rpd","value":1`)
		s.settled(t)
		limited(t, s.key, team("matches"), plain, 1, http.StatusTooManyRequests)
		for range 2 {
			s.chat(t, s.key, team("another"), plain).wantOK(t)
		}
	})
	prove(t, "S-226 S-230", "keys are counted apart by api_key", func(t *testing.T) {
		s.policy(t, "rate-limits", condition("metadata.team", "apart"), "api_key", `"type":"requests","unit":"rpd","value":1`)
		s.settled(t)
		limited(t, s.key, team("apart"), plain, 1, http.StatusTooManyRequests)
		limited(t, otherKey, team("apart"), plain, 1, http.StatusTooManyRequests)
	})
	prove(t, "S-226 S-230", "and together by workspace_id", func(t *testing.T) {
		s.policy(t, "rate-limits", condition("metadata.team", "together"), "workspace_id", `"type":"requests","unit":"rpd","value":1`)
		s.settled(t)
		limited(t, s.key, team("together"), plain, 1, http.StatusTooManyRequests)
		s.chat(t, otherKey, team("together"), plain).refused(t, http.StatusTooManyRequests)
	})

	for _, tt := range []struct{ key, value, name, other string }{
		{"provider", `"openai"`, "", `"another"`},
		{"virtual_key", `"some"`, "", `"another"`},
		{"virtual_key", `"@some"`, " by its reference", `"openai"`},
		{"model", `"gpt-4.1-mini"`, "", `"another"`},
		{"model", `"@some/gpt-4.1-mini"`, " of a provider", `"@another/gpt-4.1-mini"`},
		{"model", `["another","gpt-4.1-mini"]`, " of several", `["*"],"excludes":["gpt-4.1-mini"]`},
		{"model", `"@some/*"`, " of any of a provider", `"@another/*"`},
		{"api_key", fmt.Sprintf("%q", s.keyID), "", `"another"`},
		{"workspace_id", fmt.Sprintf("%q", s.workspace), "", `"another"`},
	} {
		prove(t, "S-555 S-230", tt.key+tt.name+" as a condition", func(t *testing.T) {
			name := strings.ReplaceAll("condition-"+tt.key+tt.name, " ", "-")
			one := func(value string) string { return fmt.Sprintf(`{"key":%q,"value":%s}`, tt.key, value) }
			s.policy(t, "rate-limits", condition("metadata.team", name)+","+one(tt.value), "metadata.team", `"type":"requests","unit":"rpd","value":1`)
			s.policy(t, "rate-limits", condition("metadata.team", "not-"+name)+","+one(tt.other), "metadata.team", `"type":"requests","unit":"rpd","value":1`)
			s.settled(t)
			limited(t, s.key, team(name), plain, 1, http.StatusTooManyRequests)
			for range 2 {
				s.chat(t, s.key, team("not-"+name), plain).wantOK(t)
			}
		})
	}

	for key, path := range map[string]string{"config": "/v1/chat/completions", "prompt": "/v1/prompts/PROMPT/completions"} {
		prove(t, "S-555", key+" as a condition", func(t *testing.T) {
			var slug string
			body, header := plain, []string{"x-gateway-api-key", s.key, "x-gateway-metadata", team("of-" + key)}
			if key == "config" {
				made, _ := s.root(t, "POST", "/v1/configs", `{"name":"c","workspace_id":"`+s.workspace+`","config":{"provider":"@some"}}`)["data"].(map[string]any)
				slug = fmt.Sprint(made["slug"])
				header = append(header, "x-gateway-config", slug)
			} else {
				slug = fmt.Sprint(s.root(t, "POST", "/v1/prompts", `{"name":"p","workspace_id":"`+s.workspace+`","string":"[{\"role\":\"user\",\"content\":\"hi\"}]","parameters":{},"model":"gpt-4.1-mini","virtual_key":"some"}`)["slug"])
				path, body = strings.Replace(path, "PROMPT", slug, 1), `{"variables":{}}`
			}
			s.policy(t, "rate-limits", condition(key, slug), "metadata.team", `"type":"requests","unit":"rpd","value":1`)
			s.settled(t)
			s.do(t, "POST", path, body, header...).wantOK(t)
			s.do(t, "POST", path, body, header...).refused(t, http.StatusTooManyRequests)
			s.chat(t, s.key, team("of-"+key), plain).wantOK(t)
		})
	}

	prove(t, "S-589", "a usage limit is read as it was created", func(t *testing.T) {
		at := s.policy(t, "usage-limits", condition("metadata.team", "read"), "metadata.team", `"type":"tokens","credit_limit":500,"alert_threshold":400,"periodic_reset":"monthly"`)
		got := s.root(t, "GET", at, "")
		for field, want := range map[string]any{"object": "policy_usage_limits", "name": "p", "type": "tokens", "credit_limit": 500, "alert_threshold": 400, "periodic_reset": "monthly",
			"periodic_reset_days": nil, "status": "active", "workspace_id": s.workspace} {
			if fmt.Sprint(got[field]) != fmt.Sprint(want) {
				t.Errorf("%s = %v, want %v", field, got[field], want)
			}
		}
	})
	prove(t, "S-589", "a usage limit is exhausted at its limit", func(t *testing.T) {
		at := s.policy(t, "usage-limits", condition("metadata.team", "usage"), "metadata.team", fmt.Sprintf(`"type":"tokens","credit_limit":%d`, 2*cost))
		s.settled(t)
		limited(t, s.key, team("usage"), plain, 2, http.StatusPreconditionFailed)
		prove(t, "S-565", "its entities show what was used", func(t *testing.T) {
			waittest.Until(t, "the usage is counted", func() bool {
				list, _ := s.root(t, "GET", at+"/entities", "")["data"].([]any)
				if len(list) != 1 {
					return false
				}
				e, _ := list[0].(map[string]any)
				return e["value_key"] == "metadata.team:usage" && fmt.Sprint(e["current_usage"]) == fmt.Sprint(2*cost) && e["status"] == "exhausted"
			})
		})
		prove(t, "S-589", "a reset of its entity admits requests again", func(t *testing.T) {
			list, _ := s.root(t, "GET", at+"/entities", "")["data"].([]any)
			e, _ := list[0].(map[string]any)
			s.root(t, "PUT", at+"/entities/"+fmt.Sprint(e["id"])+"/reset", "")
			s.settled(t)
			limited(t, s.key, team("usage"), plain, 2, http.StatusPreconditionFailed)
		})
		prove(t, "S-589", "a raised limit admits requests again", func(t *testing.T) {
			s.root(t, "PUT", at, fmt.Sprintf(`{"credit_limit":%d}`, 3*cost))
			s.settled(t)
			limited(t, s.key, team("usage"), plain, 1, http.StatusPreconditionFailed)
		})
	})

	prove(t, "S-590", "a changed value and unit apply", func(t *testing.T) {
		at := s.policy(t, "rate-limits", condition("metadata.team", "changed"), "metadata.team", `"type":"requests","unit":"rpd","value":1`)
		s.settled(t)
		limited(t, s.key, team("changed"), plain, 1, http.StatusTooManyRequests)
		s.root(t, "PUT", at, `{"value":2}`)
		s.settled(t)
		limited(t, s.key, team("changed"), plain, 1, http.StatusTooManyRequests)
		s.root(t, "PUT", at, `{"unit":"rpm","name":"renamed"}`)
		if got := s.root(t, "GET", at, ""); got["unit"] != "rpm" || fmt.Sprint(got["value"]) != "2" || got["name"] != "renamed" || got["type"] != "requests" {
			t.Errorf("changed, the policy is %v", got)
		}
	})
	prove(t, "S-590", "changed conditions apply", func(t *testing.T) {
		at := s.policy(t, "rate-limits", condition("metadata.team", "before"), "metadata.team", `"type":"requests","unit":"rpd","value":1`)
		s.root(t, "PUT", at, `{"conditions":[`+condition("metadata.team", "after")+`]}`)
		s.settled(t)
		limited(t, s.key, team("after"), plain, 1, http.StatusTooManyRequests)
		for range 2 {
			s.chat(t, s.key, team("before"), plain).wantOK(t)
		}
	})
	for kind, tt := range map[string]struct {
		numbers, rest string
		status        int
	}{
		"rate-limits":  {"S-590", `"type":"requests","unit":"rpd","value":1`, http.StatusTooManyRequests},
		"usage-limits": {"S-589", `"type":"requests","credit_limit":1`, http.StatusPreconditionFailed},
	} {
		prove(t, tt.numbers, "an archived policy limits nothing", func(t *testing.T) {
			name := "archived-" + kind
			at := s.policy(t, kind, condition("metadata.team", name), "metadata.team", tt.rest)
			s.settled(t)
			limited(t, s.key, team(name), plain, 1, tt.status)
			s.root(t, "DELETE", at, "")
			s.settled(t)
			s.chat(t, s.key, team(name), plain).wantOK(t)
			if got := s.root(t, "GET", at+"?status=archived", ""); got["status"] != "archived" {
				t.Errorf("status %v, want archived", got["status"])
			}
		})
	}

	prove(t, "S-589", "sessions are limited with an error for agents", func(t *testing.T) {
		s.policy(t, "usage-limits", condition("metadata.team", "calls"), "session", `"type":"requests","credit_limit":2,"periodic_reset_days":1`)
		s.settled(t)
		session := func(id string) string { return `{"team":"calls","session_id":"` + id + `"}` }
		got := limited(t, s.key, session("a"), plain, 2, http.StatusTooManyRequests).refused(t, http.StatusTooManyRequests)
		if got["code"] != "session_limit" || got["param"] != "metadata.session_id" {
			t.Errorf("error %v, want the code session_limit and the field of the session", got)
		}
		s.chat(t, s.key, session("b"), plain).wantOK(t)
	})
	prove(t, "S-590", "loops of tool calls are detected", func(t *testing.T) {
		s.policy(t, "rate-limits", condition("metadata.team", "loops"), "metadata.team", `"type":"requests","unit":"rpd","value":100,"loop_detection":{"same_tool_call":3}`)
		s.settled(t)
		body := func(calls int) string {
			turn := `,{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"read","arguments":"{\"p\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"x"}`
			return `{"model":"gpt-4.1-mini","messages":[{"role":"user","content":"go"}` + strings.Repeat(turn, calls) + `]}`
		}
		s.chat(t, s.key, team("loops"), body(2)).wantOK(t)
		got := s.chat(t, s.key, team("loops"), body(3)).refused(t, http.StatusTooManyRequests)
		if message, _ := got["message"].(string); got["code"] != "loop_detected" || !strings.Contains(message, `"read" was called 3 times`) {
			t.Errorf("error %v, want the code loop_detected and the tool", got)
		}
	})

	prove(t, "S-545", "no policy is enforced with POLICY_ENABLED=OFF", func(t *testing.T) {
		s.again(t, append(slices.Clone(budgetEnv), "POLICY_ENABLED=OFF")...)
		for _, name := range []string{"together", "usage", "matches"} {
			s.chat(t, s.key, team(name), plain).wantOK(t)
		}
	})
}

// settled waits until the gateway has published all changes.
func (s *spenders) settled(t *testing.T) {
	t.Helper()
	s.probes++
	name := fmt.Sprint("probe", s.probes)
	s.policy(t, "rate-limits", condition("metadata.team", name), "metadata.team", `"type":"requests","unit":"rpd","value":1`)
	waittest.Until(t, "changes are published", func() bool {
		return s.chat(t, s.key, team(name), chatOf("gpt-4.1-mini")).status == http.StatusTooManyRequests
	})
}

func TestPoliciesAreManaged(t *testing.T) {
	s := newSpenders(t)
	made := s.root(t, "POST", "/v1/api-keys/workspace/service", `{"name":"m","workspace_id":"`+s.workspace+`","scopes":["policies.create","policies.read","policies.list"]}`)
	key, _ := made["key"].(string)
	body := strings.Replace(s.policyBody(condition("api_key", "*"), "api_key", `"type":"requests","unit":"rpm","value":10`), fmt.Sprintf(`"workspace_id":%q,`, s.workspace), "", 1)
	var id string
	prove(t, "S-014 S-379 S-387 S-456 S-384", "a rate-limit policy is created with a gateway key", func(t *testing.T) {
		got := s.as(t, key, "POST", "/v1/policies/rate-limits", body).wantOK(t).object(t)
		id, _ = got["id"].(string)
		if own := s.as(t, key, "GET", "/v1/policies/rate-limits/"+id, "").wantOK(t).object(t)["workspace_id"]; own != s.workspace {
			t.Errorf("without a workspace in the body, it belongs to %v, want that of the key, %s", own, s.workspace)
		}
		if got["object"] != "policy_usage_limits" {
			t.Errorf("object %v, want that of the specification", got["object"])
		}
	})
	read := s.as(t, key, "GET", "/v1/policies/rate-limits/"+id, "").wantOK(t).object(t)
	for name, tt := range map[string]struct{ numbers, pattern string }{
		"id":              {"S-216 S-014", `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`},
		"object":          {"S-217 S-388", `^policy_rate_limits$`},
		"status":          {"S-222", `^active$`},
		"workspace_id":    {"S-227", `^` + s.workspace + `$`},
		"organisation_id": {"S-228", `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`},
		"created_at":      {"S-229", `^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`},
		"last_updated_at": {"S-229", `^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`},
	} {
		prove(t, tt.numbers, "and read with its "+name, func(t *testing.T) {
			if got := fmt.Sprint(read[name]); !regexp.MustCompile(tt.pattern).MatchString(got) {
				t.Errorf("%s = %q, want %s", name, got, tt.pattern)
			}
		})
	}
	prove(t, "S-383 S-227", "a workspace is given by its id or slug", func(t *testing.T) {
		slug := fmt.Sprint(s.root(t, "GET", "/v1/admin/workspaces/"+s.workspace, "")["slug"])
		made := s.root(t, "POST", "/v1/policies/rate-limits", strings.Replace(body, "{", `{"workspace_id":"`+slug+`",`, 1))
		if got := s.root(t, "GET", "/v1/policies/rate-limits/"+fmt.Sprint(made["id"]), ""); got["workspace_id"] != s.workspace {
			t.Errorf("created by slug, it belongs to %v, want %s", got["workspace_id"], s.workspace)
		}
		made = s.root(t, "POST", "/v1/policies/rate-limits", strings.Replace(body, "{", `{"workspace_id":"`+s.workspace+`",`, 1))
		if got := s.root(t, "GET", "/v1/policies/rate-limits/"+fmt.Sprint(made["id"]), ""); got["workspace_id"] != s.workspace {
			t.Errorf("created by id, it belongs to %v, want %s", got["workspace_id"], s.workspace)
		}
		if got := s.as(t, bootstrapKey, "POST", "/v1/policies/rate-limits", strings.Replace(body, "{", `{"workspace_id":"none",`, 1)); got.status != 404 {
			t.Errorf("an unknown workspace: status %d", got.status)
		}
	})
	for kind, rest := range map[string]string{"rate-limits": `"type":"requests","unit":"rpm","value":10`, "usage-limits": `"type":"tokens","credit_limit":1000`} {
		prove(t, "S-241 S-222", "a deleted policy of "+kind+" is archived", func(t *testing.T) {
			at := s.policy(t, kind, condition("api_key", "*"), "api_key", rest)
			s.root(t, "DELETE", at, "")
			if got := s.root(t, "GET", at+"?status=archived", ""); got["status"] != "archived" {
				t.Errorf("status %v, want archived", got["status"])
			}
			if got := s.as(t, bootstrapKey, "DELETE", at, ""); got.status != 404 {
				t.Errorf("deleted again: status %d, want 404", got.status)
			}
		})
	}
	s.proveChanges(t)
	s.proveFields(t)
	prove(t, "S-389", "an archived policy is read by that status alone", func(t *testing.T) {
		made := s.root(t, "POST", "/v1/policies/rate-limits", s.policyBody(condition("api_key", "*"), "api_key", `"type":"requests","unit":"rpm","value":10`))
		at := "/v1/policies/rate-limits/" + fmt.Sprint(made["id"])
		s.root(t, "DELETE", at, "")
		for status, want := range map[string]int{"": 404, "?status=active": 404, "?status=archived": 200} {
			if got := s.as(t, key, "GET", at+status, ""); got.status != want {
				t.Errorf("%q: status %d, want %d", status, got.status, want)
			}
		}
	})
	prove(t, "S-389", "by its status", func(t *testing.T) {
		for path, status := range map[string]int{id + "?status=archived": 404, id + "?status=gone": 400, "00000000-0000-7000-8000-00000000dead": 404} {
			if got := s.as(t, key, "GET", "/v1/policies/rate-limits/"+path, ""); got.status != status {
				t.Errorf("%s: status %d, want %d", path, got.status, status)
			}
		}
	})
	prove(t, "S-390", "a path that is no UUID", func(t *testing.T) {
		if got := s.as(t, key, "GET", "/v1/policies/rate-limits/not-a-uuid", ""); got.status != 400 {
			t.Errorf("status %d, want 400", got.status)
		}
	})
	for name, tt := range map[string]struct{ param, numbers, old, new string }{
		"value of 0":             {"value", "S-221 S-382", `:10`, `:0`},
		"value below 1":          {"value", "S-221 S-382", `:10`, `:0.5`},
		"value that is true":     {"value", "S-221 S-382", `:10`, `:true`},
		"value that is null":     {"value", "S-221 S-382", `:10`, `:null`},
		"value that is an array": {"value", "S-221 S-382", `:10`, `:[10]`},
		"type of no text":        {"type", "S-219 S-382", `"requests"`, `""`},
		"type of another case":   {"type", "S-219 S-382", `"requests"`, `"Requests"`},
	} {
		prove(t, tt.numbers, "a "+name+" is refused", func(t *testing.T) {
			got := s.as(t, key, "POST", "/v1/policies/rate-limits", strings.Replace(body, tt.old, tt.new, 1))
			if e, _ := got.object(t)["error"].(map[string]any); got.status != 400 || e["param"] != tt.param {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	for param, tt := range map[string]struct{ numbers, old, new string }{
		"name":              {"S-504 S-218 S-380", `"p"`, `"` + strings.Repeat("é", 256) + `"`},
		"conditions":        {"S-223 S-381", `[{"key":"api_key","value":"*"}]`, `[]`},
		"group_by":          {"S-225 S-381", `[{"key":"api_key"}]`, `[]`},
		"type":              {"S-219 S-382", `"requests"`, `"cost"`},
		"unit":              {"S-220 S-382", `"rpm"`, `"rps"`},
		"value":             {"S-221 S-382", `:10`, `:"10"`},
		"group_by[0].key":   {"S-230", `[{"key":"api_key"}]`, `[{"key":"colour"}]`},
		"conditions[0].key": {"S-230", `{"key":"api_key","value"`, `{"key":"colour","value"`},
	} {
		prove(t, tt.numbers, "a bad "+param+" is refused", func(t *testing.T) {
			got := s.as(t, key, "POST", "/v1/policies/rate-limits", strings.Replace(body, tt.old, tt.new, 1))
			if e, _ := got.object(t)["error"].(map[string]any); got.status != 400 || e["param"] != param || e["code"] != "AB01" {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	prove(t, "S-381", "null is refused", func(t *testing.T) {
		for field, list := range map[string]string{"conditions": `[{"key":"api_key","value":"*"}]`, "group_by": `[{"key":"api_key"}]`} {
			got := s.as(t, key, "POST", "/v1/policies/rate-limits", strings.Replace(body, list, "null", 1))
			if e, _ := got.object(t)["error"].(map[string]any); got.status != 400 || e["param"] != field || e["code"] != "AB01" {
				t.Errorf("%s: %d %s", field, got.status, got.body)
			}
		}
	})
	prove(t, "S-504 S-218", "a name of 255 characters", func(t *testing.T) {
		s.as(t, key, "POST", "/v1/policies/rate-limits", strings.Replace(body, `"p"`, `"`+strings.Repeat("é", 255)+`"`, 1)).wantOK(t)
	})
	prove(t, "S-386", "only the name may be left out", func(t *testing.T) {
		for _, field := range []string{`"conditions":[{"key":"api_key","value":"*"}],`, `"group_by":[{"key":"api_key"}],`, `"type":"requests",`, `"unit":"rpm",`, `,"value":10`} {
			if got := s.as(t, key, "POST", "/v1/policies/rate-limits", strings.Replace(body, field, "", 1)); got.status != 400 {
				t.Errorf("without %s: status %d, want 400", field, got.status)
			}
		}
		s.as(t, key, "POST", "/v1/policies/rate-limits", strings.Replace(body, `"name":"p",`, "", 1)).wantOK(t)
	})
}

func TestPoliciesWithoutAnAPIKeyNameTheirPlace(t *testing.T) {
	h := populate(t)
	body := `"conditions":[{"key":"api_key","value":"*"}],"group_by":[{"key":"api_key"}],"type":"requests","unit":"rpm","value":10}`
	for numbers, tt := range map[string][2]string{
		"S-384 S-457":       {`{"organisation_id":"default",`, "workspace_id"},
		"S-385 S-457":       {`{"workspace_id":"default",`, "organisation_id"},
		"S-384 S-385 S-457": {`{"workspace_id":"default","organisation_id":"default",`, ""},
		"S-385":             {`{"workspace_id":"default","organisation_id":"another",`, "organisation_id"},
	} {
		prove(t, numbers, "a session that sends "+tt[0], func(t *testing.T) {
			got := h.as(t, h.sessions["admin"], "POST", "/v1/policies/rate-limits", tt[0]+body)
			if tt[1] == "" {
				got.wantOK(t)
				return
			}
			if e, _ := got.object(t)["error"].(map[string]any); (got.status != 400 && got.status != 404) || e["param"] != tt[1] {
				t.Errorf("%d %s, want a refusal of %s", got.status, got.body, tt[1])
			}
		})
	}
}
