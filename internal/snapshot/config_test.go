package snapshot_test

import (
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
)

func TestASavedConfigNamesProvidersThatExist(t *testing.T) {
	in := snapshot.Input{
		Specs:     []*provider.Spec{{ID: "groq", BaseURL: "https://groq.example/v1", Aliases: []string{"quick"}}},
		Providers: []snapshot.ManagedProvider{{Slug: "fast", Provider: "groq"}},
	}
	for _, tt := range []struct{ name, config, want string }{
		{"a slug", `{"provider":"@fast"}`, ""},
		{"a virtual key", `{"virtual_key":"fast"}`, ""},
		{"an alias", `{"provider":"quick","api_key":"k"}`, ""},
		{"none, the request names it", `{"retry":{"attempts":1}}`, ""},
		{"no such slug", `{"strategy":{"mode":"single"},"targets":[{"provider":"@fats"}]}`, `config "pc": config.targets[0] names @fats`},
		{"no such virtual key", `{"virtual_key":"fats"}`, `config "pc": config names @fats`},
		{"no such provider", `{"provider":"grok","api_key":"k"}`, `did you mean "groq"?`},
		{"invalid", `{"provider":7}`, `config "pc": AB01`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in.Configs = []snapshot.Config{{Slug: "pc", Text: secret.New(tt.config)}}
			_, err := snapshot.Build(in)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Build = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestConfigOfRunningSettingsMayLoseItsProvider(t *testing.T) {
	in := snapshot.Input{
		Specs:   []*provider.Spec{{ID: "groq", BaseURL: "https://groq.example/v1"}},
		Configs: []snapshot.Config{{Slug: "lost", Text: secret.New(`{"provider":"@gone"}`)}, {Slug: "good", Text: secret.New(`{"provider":"groq","api_key":"k"}`)}},
	}
	if _, err := snapshot.Build(in); err == nil {
		t.Error("Build = nil, want an error for settings that are new")
	}
	in.Running = true
	s, err := snapshot.Build(in)
	if err != nil {
		t.Fatalf("Build = %v, want no error for settings that run", err)
	}
	if len(s.Dangling) != 1 || !strings.Contains(s.Dangling[0].Error(), `config "lost": config names @gone`) {
		t.Errorf("Dangling = %v, want the config that lost its provider", s.Dangling)
	}
	for _, slug := range []string{"lost", "good"} {
		if _, ok := s.Config("", slug); !ok {
			t.Errorf("the config %q is not in the snapshot", slug)
		}
	}
}
