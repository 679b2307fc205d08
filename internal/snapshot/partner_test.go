package snapshot_test

import (
	"errors"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/snapshot"
)

func TestTheNearestCredentialsOfAPartnerAreUsed(t *testing.T) {
	stored := func(organisation, workspace, partner string) snapshot.PartnerCredentials {
		name := organisation + "/" + workspace + "/" + partner
		return snapshot.PartnerCredentials{
			Organisation: organisation, Workspace: workspace, Partner: partner,
			Values: map[string]secret.String{"apiKey": secret.New(name)},
		}
	}
	broken := stored("acme", "c", "azure")
	broken.Err = errors.New("cannot be opened")
	s := mustBuild(t, snapshot.Input{Partners: []snapshot.PartnerCredentials{
		stored("acme", "", "azure"), stored("acme", "", "azure.pii"), stored("acme", "a", "azure"), stored("acme", "b", "azure"), stored("acme", "b", "azure.pii"),
		stored("rival", "a", "lakera"), broken,
	}})
	for _, tt := range []struct{ organisation, workspace, check, want string }{
		{"acme", "a", "azure.shieldPrompt", "acme/a/azure"},
		{"acme", "a", "azure.pii", "acme/a/azure"},
		{"acme", "b", "azure.pii", "acme/b/azure.pii"},
		{"acme", "b", "azure.shieldPrompt", "acme/b/azure"},
		{"acme", "d", "azure.pii", "acme//azure.pii"},
		{"acme", "d", "azure.shieldPrompt", "acme//azure"},
		{"acme", "", "azure.pii", "acme//azure.pii"},
		{"acme", "a", "lakera.guard", ""},
		{"rival", "a", "azure.pii", ""},
		{"rival", "", "lakera.guard", ""},
		{"rival", "a", "lakera.guard", "rival/a/lakera"},
	} {
		got, err := s.Partner(tt.organisation, tt.workspace, tt.check)
		if key := got["apiKey"]; err != nil || key.Reveal() != tt.want {
			t.Errorf("%s of %s/%s: %q, %v; want %q", tt.check, tt.organisation, tt.workspace, key.Reveal(), err, tt.want)
		}
	}
	if _, err := s.Partner("acme", "c", "azure.pii"); err == nil {
		t.Error("credentials that cannot be opened are replaced by others")
	}
}
