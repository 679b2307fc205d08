package directory_test

import (
	"context"
	"strings"
	"testing"

	"modelgate/internal/controlplane/directory"
	"modelgate/internal/identity/scim"
	"modelgate/internal/store"
)

func TestAddressesThatTheOrganisationMayNotUseAreRefused(t *testing.T) {
	check := func(_ context.Context, _ store.Queries, organisation, email string) error {
		if organisation == store.DefaultOrganisation && !strings.HasSuffix(email, "@example.com") {
			return scim.Errorf(scim.InvalidValue, "the domain of %s is not verified", email)
		}
		return nil
	}
	onBoth(t, directory.Routes{CheckEmail: check}, func(b *bench) {
		if out := b.scim(400, "POST", "/Users", `{"userName":"eve@other.example"}`); !strings.Contains(toJSON(out), "not verified") {
			t.Errorf("refused with %v", out)
		}
		ann := b.user("ann@example.com")
		b.scim(400, "PUT", "/Users/"+ann, `{"userName":"ann@example.com","emails":[{"value":"ann@other.example","primary":true}]}`)
		b.scim(200, "PUT", "/Users/"+ann, `{"userName":"ann@example.com","emails":[{"value":"ann@other.example"},{"value":"a@example.com","type":"work"}]}`)
		if u, err := b.db.User(t.Context(), store.DefaultOrganisation, ann); err != nil || u.Email != "a@example.com" {
			t.Errorf("she signs in as %s, %v", u.Email, err)
		}
	})
}

func TestTheAuditLogHasNoSecretsOfDirectories(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		b.scim(201, "POST", "/Users", `{"userName":"ann","password":"a secret of hers"}`)
		list, _, err := b.db.Audits(t.Context(), store.AuditQuery{Organisation: store.DefaultOrganisation, To: b.clock.AddDate(1, 0, 0)}, store.Page{})
		if err != nil || len(list) == 0 {
			t.Fatalf("%d events, %v", len(list), err)
		}
		for _, e := range list {
			for _, secret := range []string{"a secret of hers", b.token} {
				if text := toJSON(e); strings.Contains(text, secret) {
					t.Errorf("the audit log has %s", text)
				}
			}
			if e.ResourceType != "user" || e.Action != "create" || e.UserID != "token-of-"+store.DefaultOrganisation {
				t.Errorf("the event is %+v", e)
			}
		}
	})
}
