package security

import (
	"net/http"
	"net/url"
	"testing"
)

// TestOwnListenersAreOutOfReach names the gateway's own listeners as custom hosts, where
// the operator trusts all of this machine.
func TestOwnListenersAreOutOfReach(t *testing.T) {
	t.Parallel()
	const trust = "upstream: {trusted_hosts: [localhost, 127.0.0.0/8, 0.0.0.0, \"::1\", \"::ffff:127.0.0.1\"]}\n"
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		g := launch(t, options{settings: trust, flags: []string{"--listen", listen}})
		for name, root := range map[string]string{"API": g.root, "admin listener": g.admin} {
			u, err := url.Parse(root)
			if err != nil {
				t.Fatal(err)
			}
			for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0"} {
				for path, body := range map[string]string{
					"/v1/chat/completions": chatBody,
					"/v1/messages":         `{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"hi"}]}`,
					"/v1/embeddings":       `{"model":"m","input":"hi"}`,
					"/v1/other/path":       `{"model":"m"}`,
				} {
					attack(t, "exhaustion", name+" of "+listen+" as custom host "+host+" at "+path, func(t *testing.T) {
						g.do(t, "POST", path, body, toCustomHost(rootKey, &provider{url: "http://" + host + ":" + u.Port()})...).refused(t, http.StatusBadRequest, "own-host")
					})
				}
			}
		}
		p := newProvider(t, nil)
		g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(rootKey, p)...).ok(t)
	}
}
