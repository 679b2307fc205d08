package security

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// TestSettingsDoNotLeadToOwnListeners names the gateway's own listener as the destination of
// the audit log.
func TestSettingsDoNotLeadToOwnListeners(t *testing.T) {
	t.Parallel()
	for name, setting := range map[string]string{
		"the webhook of the audit log":       "audit: {webhook: {url: \"http://%s/v1/x\", secret: \"${AUDIT_SECRET}\"}}\n",
		"the syslog server of the audit log": "audit: {syslog: {address: \"%s\", protocol: tcp}}\n",
	} {
		for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "::ffff:127.0.0.1"} {
			attack(t, "exhaustion", "the gateway as "+name+" by "+host, func(t *testing.T) {
				free, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				_, port, _ := net.SplitHostPort(free.Addr().String())
				free.Close()
				g := launch(t, options{settings: fmt.Sprintf("version: 1\n"+setting, net.JoinHostPort(host, port)), flags: []string{"--listen", "127.0.0.1:" + port}, env: []string{"AUDIT_SECRET=a-secret-of-the-audit"}})
				g.as(t, rootKey, "POST", "/v1/configs", `{"name":"c","workspace_id":"default","config":{"provider":"openai","api_key":"sk-x"}}`).ok(t)
				waittest.Until(t, "the connection is refused", func() bool { return strings.Contains(g.output.String(), "own-host") })
			})
		}
	}
}
