package conformance

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// bounded is a holder of a rate limit and a budget in the order of enforcement, and how
// refusals name it.
type bounded struct {
	holder
	named string // by a rate limit
	owned string // by a budget
}

// ordered are spenders whose key is a user's.
type ordered struct {
	*spenders
	user string // id
}

func newOrdered(t *testing.T) *ordered {
	t.Helper()
	s := &ordered{spenders: newSpenders(t)}
	invite := fmt.Sprintf(`{"email":"ann@example.com","role":"member","workspaces":[{"id":%q,"role":"member"}]}`, s.workspace)
	link, _ := s.root(t, "POST", "/v1/admin/users/invites", invite)["invite_link"].(string)
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	accepted := s.do(t, "POST", "/v1/auth/invites/accept", fmt.Sprintf(`{"token":%q,"password":"a long password of a test"}`, u.Query().Get("token"))).wantOK(t).object(t)
	s.user, _ = accepted["user_id"].(string)
	made := s.root(t, "POST", "/v1/api-keys/workspace/user", fmt.Sprintf(`{"name":"k","workspace_id":%q,"user_id":%q,"scopes":["completions.write"]}`, s.workspace, s.user))
	s.key, _ = made["key"].(string)
	s.keyID, _ = made["id"].(string)
	return s
}

// levels returns the holders in the order in which their limits are checked.
func (s *ordered) levels() []bounded {
	h := s.holders()
	path := "/v1/admin/users/" + s.user
	user := holder{"user", path, `{%s}`, func(t *testing.T) (string, map[string]any) {
		t.Helper()
		u, _ := s.root(t, "GET", path, "")["usage_limits"].(map[string]any)
		return fmt.Sprint(u["status"]), u
	}}
	return []bounded{
		{h[0], "this gateway key", "this gateway key"},
		{user, "this key's user", "this key's user"},
		{h[3], "this key's workspace", "this key's workspace"},
		{h[1], "the provider I", "the provider @some"},
		{h[2], "the integration I in this workspace", "the provider @some"},
		{holder{name: "policy"}, "the policy p", "the policy p"},
	}
}

// limit is one of the kinds of limits that are checked one after the other.
type limit struct {
	bounded
	budget bool
}

func (l *limit) String() string {
	if l.budget {
		return "budget of the " + l.name
	}
	return "rate limit of the " + l.name
}

// room sets limits: rate limits that the first request uses up, and budgets that have no room
// for a large one. It sends the first.
func (s *ordered) room(t *testing.T, list ...limit) {
	t.Helper()
	for _, l := range list {
		switch {
		case l.name == "policy":
			s.policy(t, "rate-limits", condition("metadata.team", "ordered"), "metadata.team", `"type":"requests","unit":"rpd","value":1`)
		case l.budget:
			s.set(t, l.holder, `{"type":"tokens","credit_limit":5000,"on_budget_end":"stop"}`)
		default:
			s.root(t, "PUT", l.path, fmt.Sprintf(l.body, `"rate_limits":[{"type":"requests","unit":"rpd","value":1}]`))
		}
	}
	s.published(t)
	s.chat(t, s.key, team("ordered"), withOutput(10)).wantOK(t)
}

// exhaust lowers the budgets to what is used, and waits until they are marked as exhausted
// where requests are served.
func (s *ordered) exhaust(t *testing.T, list ...limit) {
	t.Helper()
	for _, l := range list {
		if l.budget {
			l.used(t, cost)
			s.set(t, l.holder, fmt.Sprintf(`{"type":"tokens","credit_limit":%d}`, cost))
			waittest.Until(t, "it is exhausted", func() bool { status, _ := l.read(t); return status == "exhausted" })
		}
	}
	s.published(t)
}

// withOutput returns a request for at most n tokens.
func withOutput(n int) string {
	return fmt.Sprintf(`{"model":"gpt-4.1-mini","max_tokens":%d,"messages":[{"role":"user","content":"hi"}]}`, n)
}

// published waits until requests meet everything that was changed before.
func (s *ordered) published(t *testing.T) {
	t.Helper()
	key := s.made(t, "/v1/api-keys/workspace/service", `{"name":"new","workspace_id":"`+s.workspace+`","scopes":["completions.write"]}`)
	waittest.Until(t, "a new key is known", func() bool {
		return s.do(t, "GET", "/v1/models", "", "x-gateway-api-key", key).status != http.StatusUnauthorized
	})
}

func TestLimitsAreCheckedInOrder(t *testing.T) {
	names := (&ordered{spenders: &spenders{}}).levels()
	for i := range 2*len(names) - 2 { // policies have no order
		at := func(s *ordered, i int) limit { return limit{s.levels()[i/2], i%2 == 1} }
		first, second := limit{names[i/2], i%2 == 1}, limit{names[(i+1)/2], i%2 == 0}
		prove(t, "M-197", first.String()+" before "+second.String(), func(t *testing.T) {
			t.Parallel()
			covers(t, "M-040") // by the dry run
			s := newOrdered(t)
			first, second := at(s, i), at(s, i+1)
			s.room(t, second, first)
			s.names(t, &first, withOutput(100_000), "the budget of "+first.named+" has ")
			s.exhaust(t, second, first)
			s.names(t, &first, withOutput(10), "the budget of "+first.owned+" is exhausted")
			s.explains(t, &first)
		})
	}
}

// explains fails the test unless the dry run of a request is refused like the request by
// l, where a budget is marked as exhausted.
func (s *ordered) explains(t *testing.T, l *limit) {
	t.Helper()
	want := "429"
	if l.budget {
		want = "412"
	}
	body := fmt.Sprintf(`{"request":{"headers":{"x-gateway-provider":"@some","x-gateway-metadata":%q},"body":%s}}`, team("ordered"), withOutput(10))
	got := s.do(t, "POST", "/v1/explain", body, "x-gateway-api-key", s.key).wantOK(t).object(t)
	if fmt.Sprint(got["status"]) != want || !strings.Contains(jsonText(got["error"]), l.named) && !strings.Contains(jsonText(got["error"]), l.owned) {
		t.Errorf("explain says %v %s, want %s for the %s", got["status"], jsonText(got["error"]), want, l)
	}
}

// names fails the test unless requests, with and without a config, are refused by l, with
// text if it is a budget.
func (s *ordered) names(t *testing.T, l *limit, body, text string) {
	t.Helper()
	status := http.StatusPreconditionFailed
	if !l.budget {
		status, text = http.StatusTooManyRequests, "the rate limit of "+l.named+" is reached"
	}
	header := []string{"x-gateway-api-key", s.key, "x-gateway-metadata", team("ordered")}
	for _, more := range [][]string{{"x-gateway-provider", "@some"}, {"x-gateway-config", `{"provider":"@some"}`}} {
		got := s.do(t, "POST", "/v1/chat/completions", body, append(header[:len(header):len(header)], more...)...)
		if got.status != status || !strings.Contains(string(got.body), text) {
			t.Errorf("with %s the request is answered %d %s, want %d and %q", more[0], got.status, got.body, status, text)
		}
	}
}
