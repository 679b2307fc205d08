package security

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// twoTargets is a config of a strategy whose targets are @same and @spare.
func twoTargets(strategy, more string) string {
	return fmt.Sprintf(`{"strategy":{%s},"targets":[{"provider":"@same"%s},{"provider":"@spare"}]}`, strategy, more)
}

func TestFailuresOfOneWorkspaceSteerNoOther(t *testing.T) {
	t.Parallel()
	failing := (&tenant{name: "alder"}).credential("same")
	const breaker = `,"cb_config":{"cooldown_interval":60000,"failure_threshold":1}`
	for _, tt := range []struct {
		name, config string
		status       int      // of the failing target's response
		header       []string // of it
	}{
		{"an open circuit", twoTargets(`"mode":"fallback"`, breaker), http.StatusInternalServerError, nil},
		{"a target that asked to be left alone", twoTargets(`"mode":"fallback"`, ""), http.StatusTooManyRequests, []string{"Retry-After", "600"}},
	} {
		w := newTenants(t, options{}, failsFor(tt.status, failing, tt.header...))
		attack(t, "isolation", tt.name+" of another workspace", func(t *testing.T) {
			calls := func(n *tenant) []string {
				w.provider.reset()
				for range 3 {
					w.ask(t, n, "x-gateway-config", tt.config).ok(t)
				}
				return w.credentials()
			}
			same, spare := w.all[0].credential("same"), w.all[0].credential("spare")
			if got, want := calls(w.all[0]), []string{same, spare, spare, spare}; !slices.Equal(got, want) {
				t.Fatalf("the failing target was called as in %v, want %v", got, want)
			}
			for _, n := range w.all[1:] {
				own := n.credential("same")
				if got, want := calls(n), []string{own, own, own}; !slices.Equal(got, want) {
					t.Errorf("requests of %s went to %v, want %v", n.name, got, want)
				}
			}
		})
	}
}

func TestLatenciesOfOneWorkspaceSteerNoOther(t *testing.T) {
	failing := (&tenant{name: "alder"}).credential("same")
	w := newTenants(t, options{}, failsFor(http.StatusInternalServerError, failing)) // a failure counts as a second at least
	attack(t, "isolation", "latencies of another workspace", func(t *testing.T) {
		config := twoTargets(`"mode":"latency"`, "")
		for range 6 {
			w.ask(t, w.all[0], "x-gateway-config", config)
		}
		if got := w.credentials(); !slices.Contains(got, failing) || got[5] == failing {
			t.Fatalf("the slow target was called as in %v, want it to be avoided", got)
		}
		for _, n := range w.all[1:] {
			w.provider.reset()
			for range 2 { // a target without a measurement is the quicker one
				w.ask(t, n, "x-gateway-config", config).ok(t)
			}
			if got := w.credentials(); !slices.Contains(got, n.credential("same")) || !slices.Contains(got, n.credential("spare")) {
				t.Errorf("the first requests of %s went to %v, want both targets", n.name, got)
			}
		}
	})
}

func TestStickyTargetsAreTheirWorkspacesOwn(t *testing.T) {
	t.Parallel()
	const users = 40
	w := newTenants(t, options{}, nil)
	config := twoTargets(`"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["metadata.user"],"ttl":600}`, "")
	drawn := func(n *tenant) (targets []bool) { // of each user, whether it is @same
		w.provider.reset()
		for i := range users {
			w.ask(t, n, "x-gateway-config", config, "x-gateway-metadata", fmt.Sprintf(`{"user":"u%d"}`, i)).ok(t)
		}
		for _, c := range w.credentials() {
			targets = append(targets, c == n.credential("same"))
		}
		return targets
	}
	first := drawn(w.all[0])
	if again := drawn(w.all[0]); !slices.Equal(first, again) {
		t.Fatalf("users of one workspace were not kept on their targets: %v, then %v", first, again)
	}
	for _, n := range w.all[1:] {
		attack(t, "isolation", "sticky targets of another workspace: "+n.name, func(t *testing.T) {
			if slices.Equal(first, drawn(n)) {
				t.Errorf("%d users of %s are on the targets that were drawn for another workspace", users, n.name)
			}
		})
	}
}

func TestBrokenCredentialOfOneClientBreaksNoOther(t *testing.T) {
	t.Parallel()
	const broken, working, spare = "sk-broken-0123456789", "sk-working-0123456789", "sk-spare-0123456789"
	w := newTenants(t, options{}, failsFor(http.StatusInternalServerError, broken))
	config := fmt.Sprintf(`{"strategy":{"mode":"fallback"},"targets":[{"passthrough":true,"cb_config":{"cooldown_interval":60000,"failure_threshold":1}},{"provider":"openai","api_key":%q,"custom_host":%q}]}`, spare, w.provider.url)
	calls := func(n *tenant, credential string) []string {
		w.provider.reset()
		for range 2 {
			w.ask(t, n, "x-gateway-config", config, "x-gateway-provider", "openai-compatible", "x-gateway-custom-host", w.provider.url, "Authorization", "Bearer "+credential).ok(t)
		}
		return w.credentials()
	}
	attack(t, "isolation", "an open circuit of another client's credential", func(t *testing.T) {
		if got, want := calls(w.all[0], broken), []string{broken, spare, spare}; !slices.Equal(got, want) {
			t.Fatalf("the broken credential was used as in %v, want %v", got, want)
		}
		for _, n := range w.all {
			if got, want := calls(n, working), []string{working, working}; !slices.Equal(got, want) {
				t.Errorf("requests of %s with another credential went to %v, want %v", n.name, got, want)
			}
		}
		for _, n := range w.all[1:] {
			if got, want := calls(n, broken), []string{broken, spare, spare}; !slices.Equal(got, want) {
				t.Errorf("the same credential in the workspace of %s was used as in %v, want %v", n.name, got, want)
			}
		}
	})
}
