package provider_test

import (
	"testing"

	"modelgate/api"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
)

// S-350
func TestATargetWithoutAuthenticationSendsItsOwnersHeadersAlone(t *testing.T) {
	spec, _ := table.Lookup("azure-openai")
	target, err := provider.NewTarget(spec, provider.Settings{
		Key: secret.New("sk-canary"), CustomHost: "https://models.example.com/v1", Options: map[string]string{"auth_mode": "managed", "deployment_id": "d"},
		Headers: map[string]secret.String{"x-tenant": secret.New("one")}, NoAuth: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	req, err := provider.NewRequest(t.Context(), target.Prepare(), &provider.Call{Operation: api.Chat, Method: "POST", Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if req.Header.Get("Api-Key") != "" || req.Header.Get("Authorization") != "" || target.Auth.Method != "" || !target.Key.Empty() || req.Header.Get("X-Tenant") != "one" {
		t.Errorf("it sends %v and is signed by %q", req.Header, target.Auth.Method)
	}
}
