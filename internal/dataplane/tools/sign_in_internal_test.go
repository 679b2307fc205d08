package tools

import (
	"context"
	"errors"
	"testing"

	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
)

// storedCredential is what a user has at every server.
type storedCredential struct {
	key string
	err error
}

func (c storedCredential) Credential(context.Context, *toolserver.Server, *access.Identity) (peer.Credential, error) {
	return peer.Credential{Key: c.key}, c.err
}

// TestASignInIsCompleteWithAnotherCredential has users who were asked to sign in, for the first time or for
// more rights.
func TestASignInIsCompleteWithAnotherCredential(t *testing.T) {
	for name, f := range map[string]struct {
		before string
		now    storedCredential
		want   bool
	}{
		"none yet":             {"", storedCredential{err: &SignInError{}}, false},
		"the first":            {"", storedCredential{key: "user ann 1"}, true},
		"with the same rights": {"user ann 1", storedCredential{key: "user ann 1"}, false},
		"with more rights":     {"user ann 1", storedCredential{key: "user ann 2"}, true},
		"the database is away": {"", storedCredential{err: errors.New("away")}, false},
		"it was revoked":       {"user ann 1", storedCredential{err: &SignInError{}}, false},
	} {
		w := &watch{request: &request{Relay: &Relay{Options: Options{Credentials: f.now}}, tools: &dataplane.ToolRequest{}}}
		if got := w.hasSignedIn(t.Context(), &awaitedSignIn{key: f.before, server: &toolserver.Server{}}); got != f.want {
			t.Errorf("%s: %t, want %t", name, got, f.want)
		}
	}
}
