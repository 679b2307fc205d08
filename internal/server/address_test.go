package server_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/server"
)

func TestLinksFollowTheConfiguredAddressAndNotTheHostHeader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, option, setting, want string }{
		{"the flag", "https://flag.example", "https://file.example", "https://flag.example/accept-invite?token="},
		{"the settings", "", "https://file.example/base/", "https://file.example/base/accept-invite?token="},
		{"none", "", "", `"/accept-invite?token=`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			config := filepath.Join(dir, "modelgate.yaml")
			if err := os.WriteFile(config, []byte("version: 1\npublic_url: \""+tt.setting+"\"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := server.New(t.Context(), server.Options{Data: dir, Listen: "127.0.0.1:0", Config: config, PublicURL: tt.option, BootstrapKey: secret.New("a bootstrap key of a test")})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			r := httptest.NewRequest(http.MethodPost, "http://thief.example/v1/admin/users/invites", strings.NewReader(`{"email":"a@b.example","role":"member","workspaces":[{"id":"00000000-0000-7000-8000-000000000002","role":"member"}]}`))
			r.Header.Set("x-gateway-api-key", "a bootstrap key of a test")
			r.Header.Set("content-type", "application/json")
			r.Header.Set("X-Forwarded-Host", "thief.example")
			r.Header.Set("Forwarded", "host=thief.example;proto=https")
			r.Header.Set("X-Forwarded-Proto", "https")
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), tt.want) || strings.Contains(w.Body.String(), "thief") {
				t.Errorf("%d %s, want %s", w.Code, w.Body, tt.want)
			}
		})
	}
}

func TestPublicURLIsAnAddress(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"https://h/a/../b", "https://h/a//b", "https://h/%61", "gateway.example", "ftp://gateway.example", "https://user:secret@gateway.example", "https://gateway.example?x=1", "https://gateway.example/#a", "https://gateway.example/v1", "https://"} {
		dir := t.TempDir()
		config := filepath.Join(dir, "modelgate.yaml")
		if err := os.WriteFile(config, []byte("version: 1\npublic_url: \""+bad+"\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := server.New(t.Context(), server.Options{Data: dir, Listen: "127.0.0.1:0", Config: config}); err == nil || !strings.Contains(err.Error(), "public_url") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
			if s != nil {
				s.Close()
			}
		}
	}
}
