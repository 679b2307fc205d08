package server_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/server"
	"modelgate/internal/testing/gatewaytest"
)

// privateProvider returns the address of a provider and the file of its authority.
func privateProvider(t *testing.T) (address, ca string) {
	t.Helper()
	s := httptest.NewTLSServer(moody{goodKey})
	t.Cleanup(s.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return s.URL + "/v1", ca
}

func TestProviderWithAPrivateAuthorityIsTrustedBySettings(t *testing.T) {
	t.Parallel()
	address, ca := privateProvider(t)
	body := `{"name":"n","slug":"private","ai_provider_id":"openai","key":"` + goodKey + `","configurations":{"custom_host":"` + address + `"}}`
	for name, tt := range map[string]struct {
		settings string
		status   int
		steps    string // of a test
	}{
		"without it":  {"version: 1\n", http.StatusBadGateway, "tls failed"},
		"with it":     {"version: 1\nupstream: {ca: " + ca + "}\n", http.StatusOK, "tls ok, credential ok"},
		"with a text": {"version: 1\nupstream:\n  ca: |\n" + indent(t, ca), http.StatusOK, "tls ok, credential ok"},
		"alone":       {"version: 1\nupstream: {ca: " + ca + ", only_ca: true}\n", http.StatusOK, "tls ok, credential ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.New(t, gatewaytest.Options{MasterKey: master, Settings: tt.settings})
			mustCall(t, g, "POST", "/integrations", body)
			res := g.Post("/chat/completions", `{"model":"first","messages":[{"role":"user","content":"hi"}]}`, "x-gateway-provider", "@private")
			if res.Status != tt.status {
				t.Errorf("a request: %d %s, want %d", res.Status, res.Body, tt.status)
			}
			if got := tryIntegration(t, g, `{"integration":"private"}`); !strings.Contains(got.states(), tt.steps) {
				t.Errorf("a test: %s, want %s", got.states(), tt.steps)
			}
		})
	}
}

// indent returns a file as the text of a block in YAML.
func indent(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return "    " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ") + "\n"
}

func TestGatewayDoesNotStartWithUnusableAuthorities(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "modelgate.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nupstream: {ca: "+t.TempDir()+"/none.pem}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := server.New(t.Context(), server.Options{Data: t.TempDir(), Listen: "127.0.0.1:0", Config: file})
	if err == nil || !strings.Contains(err.Error(), "upstream.ca: ") {
		t.Errorf("New() = %v, want an error that names upstream.ca", err)
	}
	if _, err := server.CheckSettings(file, nil, secret.New(""), secret.New("")); err == nil || !strings.Contains(err.Error(), "upstream.ca: ") {
		t.Errorf("CheckSettings() = %v, want an error that names upstream.ca", err)
	}
}
