package store_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/gob"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/jwt"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/upstream"
)

// publicSet is a JSON Web Key Set with one key and a member that nobody reads.
func publicSet(t *testing.T, bits int) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return `{"keys":[{"kty":"RSA","kid":"one","e":"AQAB","x5t":"kept","n":"` + base64.RawURLEncoding.EncodeToString(key.N.Bytes()) + `"}]}`
}

func TestIssuersArePublishedWithTheWorkspacesThatAreActive(t *testing.T) {
	set := publicSet(t, 2048)
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		raw := mustRaw(t, dsn)
		var before *publication.State
		step := func(name string, want []jwt.Issuer, do ...string) {
			t.Helper()
			for _, text := range append(do, `UPDATE revision SET value = value + 1`) {
				mustRun(t, raw, text)
			}
			got, err := publication.Load(t.Context(), db, before)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var copied publication.State
			var text bytes.Buffer
			if err := errors.Join(gob.NewEncoder(&text).Encode(got), gob.NewDecoder(&text).Decode(&copied)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for of, issuers := range map[string][]jwt.Issuer{"published": got.Issuers, "copied": copied.Issuers} {
				if diff := cmp.Diff(want, issuers, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s, %s: (-want +got)\n%s", name, of, diff)
				}
			}
			before = got
		}
		first := jwt.Workspace{ID: store.DefaultWorkspace, Slug: "default"}
		named := first
		named.Metadata = map[string]string{"team": "a"}
		byURL := jwt.Issuer{Organisation: store.DefaultOrganisation, URL: "https://id.example.com/keys", Name: "i", Audience: "a",
			Scopes: []access.Scope{"configs.list"}, Workspaces: []jwt.Workspace{first}}
		inline := jwt.Issuer{Organisation: store.DefaultOrganisation, Set: sortedJSON(t, set), Workspaces: []jwt.Workspace{named}}
		none := inline
		none.Workspaces = nil

		step("nobody", nil)
		step("an address", []jwt.Issuer{byURL}, `UPDATE organisations SET settings = '{"jwt":{"jwks_url":"https://id.example.com/keys","issuer":"i","audience":"a","default_scopes":["configs.list"]},"other":1}'`)
		step("a set, and a workspace that names itself", []jwt.Issuer{inline}, `UPDATE organisations SET settings = '{"jwt":{"jwks":`+set+`}}'`,
			`UPDATE workspaces SET defaults = '{"metadata":{"team":"a"}}'`)
		step("an archived workspace", []jwt.Issuer{none}, `UPDATE workspaces SET status = 'archived'`)
		step("nobody any more", nil, `UPDATE organisations SET settings = '{"jwt":null}'`)
	})
}

// sortedJSON is JSON as this program writes it.
func sortedJSON(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAChangeOfSettingsIsPublished(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		before, err := publication.Load(t.Context(), db, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(t.Context(), nil, func(tx *store.Tx) error {
			o, err := tx.Organisation(t.Context(), store.DefaultOrganisation)
			if err != nil {
				return err
			}
			o.UpdatedAt = time.Now()
			if err := json.Unmarshal([]byte(`{"jwt":{"jwks_url":"https://id.example.com/keys"}}`), &o.Settings); err != nil {
				return err
			}
			return tx.UpdateOrganisation(t.Context(), o)
		})
		if err != nil {
			t.Fatal(err)
		}
		after, err := publication.Load(t.Context(), db, before)
		if err != nil || len(after.Issuers) != 1 || after.Issuers[0].URL == "" || len(after.Issuers[0].Workspaces) != 1 {
			t.Errorf("Published() = %+v, %v; want the issuer", after.Issuers, err)
		}
	})
}

func TestSettingsOfTokensAreChecked(t *testing.T) {
	checkHost := upstream.New(upstream.Options{}).CheckHost
	good := publicSet(t, 2048)
	for _, tt := range []struct{ name, settings, field, word string }{
		{"an address", `{"jwks_url":"https://id.example.com/keys?v=1"}`, "", ""},
		{"a set", `{"jwks":` + good + `}`, "", ""},
		{"scopes spelled differently", `{"jwks":` + good + `,"default_scopes":["gateway.configs:read"]}`, "", ""},
		{"nothing", `{}`, "jwt", "either"},
		{"a null set", `{"jwks":null}`, "jwt", "either"},
		{"both", `{"jwks_url":"https://id.example.com/keys","jwks":` + good + `}`, "jwt", "either"},
		{"no encryption", `{"jwks_url":"http://id.example.com/keys"}`, "jwt.jwks_url", "https"},
		{"another scheme", `{"jwks_url":"file:///etc/passwd"}`, "jwt.jwks_url", "https"},
		{"no host", `{"jwks_url":"https:///keys"}`, "jwt.jwks_url", "https"},
		{"a password", `{"jwks_url":"https://a:b@id.example.com/keys"}`, "jwt.jwks_url", "https"},
		{"a fragment", `{"jwks_url":"https://id.example.com/keys#a"}`, "jwt.jwks_url", "https"},
		{"a private address", `{"jwks_url":"https://10.0.0.1/keys"}`, "jwt.jwks_url", "private-address"},
		{"a metadata address", `{"jwks_url":"https://169.254.169.254/keys"}`, "jwt.jwks_url", "metadata"},
		{"a private name", `{"jwks_url":"https://keys.internal/keys"}`, "jwt.jwks_url", "refused"},
		{"an empty set", `{"jwks":{"keys":[]}}`, "jwt.jwks", "no RSA key"},
		{"a small key", `{"jwks":` + publicSet(t, 1024) + `}`, "jwt.jwks", "1024 bits"},
		{"a private key", `{"jwks":` + strings.Replace(good, `"x5t"`, `"d"`, 1) + `}`, "jwt.jwks", "private part"},
		{"an unknown scope", `{"jwks":` + good + `,"default_scopes":["configs.list","cinfigs.read"]}`, "jwt.default_scopes[1]", "cinfigs.read"},
		{"every scope", `{"jwks":` + good + `,"default_scopes":["*"]}`, "jwt.default_scopes[0]", "installation"},
		{"an organisation's scope", `{"jwks":` + good + `,"default_scopes":["audit_logs.list"]}`, "jwt.default_scopes[0]", "audit_logs.list"},
	} {
		var s store.JWTSettings
		if err := json.Unmarshal([]byte(tt.settings), &s); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		out, err := s.Checked("jwt", checkHost)
		if tt.field == "" {
			if err != nil || len(out.Scopes) > 0 && out.Scopes[0] != "configs.read" {
				t.Errorf("%s: Checked() = %v, %v", tt.name, out, err)
			}
			continue
		}
		if e := apierr.From(err); e == nil || e.Kind != apierr.Invalid || e.Param != tt.field || !strings.Contains(e.Message, tt.word) {
			t.Errorf("%s: Checked() = %v, want %s and %q", tt.name, err, tt.field, tt.word)
		}
	}
}
