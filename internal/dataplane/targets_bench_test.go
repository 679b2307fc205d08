package dataplane_test

import (
	"encoding/json"
	"log/slog"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/prompt"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/snapshot"
	"modelgate/internal/upstream"
)

// BenchmarkTargets is the price of a dry run, most of which is finding the targets of
// the request.
func BenchmarkTargets(b *testing.B) {
	content := prompt.Content{String: `[{"role":"user","content":"Greet {{name}}"}]`, Model: "gpt-4o"}
	id := &access.Identity{KeyID: "k", Hash: access.HashKey("key"), Scopes: []access.Scope{access.ScopeAll}, Workspace: "w"}
	snap, err := snapshot.Build(snapshot.Input{
		Specs: table.All(), Keys: []*access.Identity{id},
		Providers: []snapshot.ManagedProvider{{Workspace: "w", Slug: "up", Provider: "openai",
			Settings: provider.Settings{Key: secret.New("sk-provider")}}},
		Prompts: []*prompt.Saved{{Workspace: "w", ID: "1", Slug: "pp-a", Published: 1,
			Versions: []prompt.Version{{ID: "v", Number: 1, Text: content.Encode()}}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	holder := new(snapshot.Holder)
	holder.Publish(snap)
	plane := dataplane.New(dataplane.Options{
		Snapshot: holder, Logger: slog.New(slog.DiscardHandler),
		Engine: &attempt.Engine{Client: upstream.New(upstream.Options{}), Codecs: map[api.Dialect]dialect.ProviderCodec{},
			Bounds: exchange.Bounds{Pool: newPool(), MaxEvent: 1 << 20, MaxDecoded: 1 << 20}},
		Clients: map[api.Dialect]dialect.ClientDialect{api.DialectChat: chat.Dialect{}},
	})
	const leaf = `{"provider":"@up","override_params":{"model":"gpt-4o","temperature":0.5}}`
	for name, config := range map[string]string{
		"none":     `{"provider":"@up"}`,
		"fallback": `{"strategy":{"mode":"fallback"},"targets":[` + leaf + `,` + leaf + `,` + leaf + `]}`,
		"prompts":  `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@up","prompt_id":"pp-a"},{"provider":"@up","prompt_id":"pp-a"}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			var q dataplane.ExplainRequest
			q.Config = json.RawMessage(config)
			q.Request.Body = json.RawMessage(`{"model":"gpt-4o","variables":{"name":"Ada"},"messages":[{"role":"user","content":"hello"}]}`)
			if name != "prompts" {
				q.Request.Body = json.RawMessage(`{"model":"gpt-4o","messages":[{"role":"user","content":"hello"}]}`)
			}
			b.ReportAllocs()
			for b.Loop() {
				if out := plane.Explain(b.Context(), id, q); out.Status != 200 || out.Attempt == nil {
					b.Fatalf("%+v", out)
				}
			}
		})
	}
}
