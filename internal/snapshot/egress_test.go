package snapshot_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/identity/access"
	"modelgate/internal/snapshot"
)

func TestNarrowestEgressPolicyWins(t *testing.T) {
	hosts := func(list ...string) *egress.Policy {
		return (&egress.Policy{CustomHosts: append([]string{}, list...)}).Strict()
	}
	host := func(name string) egress.Request {
		return egress.Request{Host: &url.URL{Scheme: "https", Host: name}}
	}
	key := func(list ...*egress.Policy) *access.Identity {
		return &access.Identity{Organisation: "o", Workspace: "w", Egress: list}
	}
	s, err := snapshot.Build(snapshot.Input{Egress: map[string]*egress.Policy{"o": hosts("a.example.com", "b.example.com"), "w": hosts("b.example.com", "c.example.com")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		id   *access.Identity
		r    egress.Request
		want string
	}{
		{"both list it", key(), host("b.example.com"), ""},
		{"the workspace does not", key(), host("a.example.com"), "egress_policy.custom_hosts of the workspace"},
		{"the organisation does not", key(), host("c.example.com"), "egress_policy.custom_hosts of the organisation"},
		{"a key does not widen", key(hosts("*")), host("c.example.com"), "of the organisation"},
		{"a key narrows", key(hosts()), host("b.example.com"), "of the key"},
		{"every policy of a key holds", key(hosts("*"), hosts("a.example.com")), host("b.example.com"), "of the key"},
		{"an own address", key(hosts()), egress.Request{}, ""},
		{"a key of another organisation", &access.Identity{Organisation: "p", Workspace: "x"}, host("z.example.com"), ""},
	} {
		err := s.Egress(tt.id).Check(tt.r)
		e, _ := errors.AsType[*apierr.Error](err)
		if (err == nil) != (tt.want == "") || err != nil && (e == nil || e.Kind != apierr.Forbidden || e.Code != egress.Code || !strings.Contains(e.Message, tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
