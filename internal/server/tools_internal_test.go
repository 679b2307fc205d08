package server

import (
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

func TestToolServersWhoseSecretsCannotBeOpenedHaveAFault(t *testing.T) {
	row := func(id, sealed, address string) publication.ToolServer {
		return publication.ToolServer{Row: store.ToolServer{ID: id, Slug: id},
			Integration: &store.ToolIntegration{Organisation: "o", URL: address, Transport: "http", Auth: "none", Sealed: sealed}}
	}
	open := secretOpener{ring: datakey.New(nil, nil)}
	list := new(Server).openToolServers(open, []publication.ToolServer{
		row("good", "", "https://tools.example.com/mcp"), row("sealed", "of another master key", "https://tools.example.com/mcp"), row("address", "", "https://a b/\x00"),
	})
	for _, s := range list {
		if (s.Fault == nil) != (s.ID == "good") || s.Fault != nil && apierr.From(s.Fault).Code != "tool_server_unusable" {
			t.Errorf("%s has the fault %v", s.ID, s.Fault)
		}
		if !s.Guarded {
			t.Errorf("%s is not guarded", s.ID)
		}
	}
	if b := toolBundles([]store.ToolBundle{{Slug: "b"}}); b[0].Selection == nil || b[0].Selection.HasServer("good") {
		t.Error("a bundle without patterns selects everything")
	}
}
