package policy_test

import (
	"regexp"
	"strings"
	"testing"
)

// dialer finds connections that are not refused if they lead to the gateway itself.
var dialer = regexp.MustCompile(`\bnet\.Dial|\btls\.Dial|\bhttp\.(DefaultClient|DefaultTransport|Get|Head|Post|PostForm)\b|\bhttp\.(Client|Transport)\{|\bnew\((net|tls)\.Dialer\)`)

// dialers are the files that may make connections outside of upstream, and why.
var dialers = map[string]string{
	"internal/alert/mail.go":              "server gives it a dialler",
	"internal/storage/blob/s3.go":         "server gives it a dialler",
	"internal/server/outbox/audits.go":    "uses the server's dialler",
	"internal/dataplane/socket/relay.go":  "sends what it is given through upstream.Client",
	"internal/identity/oidc/discovery.go": "sends what it is given through upstream.Client",
	"internal/testing/proxytest/":         "tests",
	"internal/testing/oidctest/":          "tests",
	"internal/testing/quotatest/redis.go": "tests",
	"internal/testing/storetest/":         "tests",
	"internal/testing/gatewaytest/":       "tests",
	"tools/bench/":                        "measures another process",
	"cmd/":                                "commands that call a gateway",
	"internal/testing/s3test/":            "tests",
	"internal/upstream/":                  "refuses its own listeners",
}

func TestConnectionsAreMadeByUpstream(t *testing.T) {
	used := map[string]bool{}
	for name, data := range mustTexts(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") {
			continue
		}
		at := dialer.FindIndex(data)
		if at == nil {
			continue
		}
		allowed := false
		for prefix := range dialers {
			if strings.HasPrefix(name, prefix) {
				allowed, used[prefix] = true, true
			}
		}
		if !allowed {
			t.Errorf("%s:%d: connects without refusing the gateway's own listeners; use upstream.Client or upstream.DialOther", name, lineOf(data, at[0]))
		}
	}
	for prefix := range dialers {
		if !used[prefix] {
			t.Errorf("%s makes no connections; remove it from dialers", prefix)
		}
	}
}
