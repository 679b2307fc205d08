package security

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// tokenSigner is an issuer of tokens whose one key has the kid that all have.
type tokenSigner struct{ key *rsa.PrivateKey }

func newTokenSigner(t *testing.T) *tokenSigner {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &tokenSigner{key}
}

// set returns the JSON Web Key Set of the signer.
func (s *tokenSigner) set() string {
	return fmt.Sprintf(`{"keys":[{"kty":"RSA","use":"sig","alg":"RS256","kid":"common","e":"AQAB","n":%q}]}`, base64.RawURLEncoding.EncodeToString(s.key.N.Bytes()))
}

// token signs claims.
func (s *tokenSigner) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := part(map[string]any{"alg": "RS256", "kid": "common"}) + "." + part(claims)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(nil, s.key, crypto.SHA256, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestIssuersWithOneKidSignForTheirOrganisationAlone(t *testing.T) {
	t.Parallel()
	signers := []*tokenSigner{newTokenSigner(t), newTokenSigner(t)}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(signers[map[string]int{"/0": 0, "/1": 1}[r.URL.Path]].set()))
	}))
	t.Cleanup(server.Close)
	authority := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		name string
		jwt  func(i int) string
	}{
		{"an address", func(i int) string { return fmt.Sprintf(`{"jwks_url":"%s/%d"}`, server.URL, i) }},
		{"a set", func(i int) string { return `{"jwks":` + signers[i].set() + `}` }},
	} {
		g := launch(t, options{env: []string{"SSL_CERT_FILE=" + authority}})
		owners := []string{rootKey, g.organisation(t, "birch")}
		var organisations, workspaces []string
		for i, owner := range owners {
			g.as(t, owner, "PUT", "/v1/admin/organisation", `{"settings":{"jwt":`+way.jwt(i)+`}}`).ok(t)
			me := g.as(t, g.key(t, owner, "default", []string{"completions.write"}, ""), "GET", "/v1/auth/me", "").ok(t)
			organisations, workspaces = append(organisations, me.text(t, "organisation_id")), append(workspaces, me.text(t, "workspace_id"))
		}
		claims := func(organisation int, more map[string]any) map[string]any {
			c := map[string]any{"gateway_oid": organisations[organisation], "gateway_workspace": "default", "scope": "configs.list", "sub": "ada", "exp": time.Now().Add(time.Hour).Unix()}
			maps.Copy(c, more)
			return c
		}
		for i := range owners {
			other := 1 - i
			attack(t, "isolation", fmt.Sprintf("a token of issuer %d by %s for its own organisation", i, way.name), func(t *testing.T) {
				token := signers[i].token(t, claims(i, nil))
				waittest.Until(t, "the token is accepted", func() bool { return g.as(t, token, "GET", "/v1/configs", "").status == http.StatusOK })
			})
			for name, c := range map[string]map[string]any{
				"for the other organisation":            claims(other, nil),
				"for both organisations":                claims(other, map[string]any{"organisation_id": organisations[i]}),
				"for both organisations the other way":  claims(i, map[string]any{"organisation_id": organisations[other]}),
				"for a workspace of the other":          claims(i, map[string]any{"gateway_workspace": workspaces[other]}),
				"for a workspace of the other, by slug": claims(i, map[string]any{"workspace_slug": workspaces[other]}),
			} {
				attack(t, "isolation", fmt.Sprintf("a token of issuer %d by %s %s", i, way.name, name), func(t *testing.T) {
					token := signers[i].token(t, c)
					for range 2 { // the second time from memory
						if r := g.as(t, token, "GET", "/v1/auth/me", ""); r.status != http.StatusUnauthorized && r.status != http.StatusForbidden {
							if got := r.text(t, "organisation_id"); r.status != http.StatusOK || got != organisations[i] || r.text(t, "workspace_id") != workspaces[i] {
								t.Errorf("status %d: %.300s", r.status, r.body)
							}
						}
					}
				})
			}
		}
	}
}
