package snapshot_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/secret"
	"modelgate/internal/snapshot"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func identity(key string, ends time.Time) *access.Identity {
	return &access.Identity{KeyID: key, Hash: access.HashKey(key), ExpiresAt: ends}
}

func mustBuild(t *testing.T, in snapshot.Input) *snapshot.Snapshot {
	t.Helper()
	s, err := snapshot.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAuthenticateFindsTheOwnerOfAKey(t *testing.T) {
	s := mustBuild(t, snapshot.Input{HeaderPrefixes: []string{"X-Old-"},
		Keys: []*access.Identity{identity("good", time.Time{}), identity("ends", noon)}})
	for _, tt := range []struct {
		name   string
		header http.Header
		now    time.Time
		id     string
		own    bool
		code   string
	}{
		{"own header", http.Header{"X-Gateway-Api-Key": {"good"}}, noon, "good", true, ""},
		{"own header beside a bearer token", http.Header{"X-Gateway-Api-Key": {"good"}, "Authorization": {"Bearer sk"}}, noon, "good", true, ""},
		{"further family", http.Header{"X-Old-Api-Key": {"good"}}, noon, "good", true, ""},
		{"unknown family", http.Header{"X-Other-Api-Key": {"good"}}, noon, "", false, "missing_api_key"},
		{"bearer token", http.Header{"Authorization": {"Bearer good"}}, noon, "good", false, ""},
		{"scheme in any case", http.Header{"Authorization": {"bEARER   good "}}, noon, "good", false, ""},
		{"another scheme", http.Header{"Authorization": {"Basic good"}}, noon, "", false, "missing_api_key"},
		{"x-api-key", http.Header{"X-Api-Key": {"good"}}, noon, "good", false, ""},
		{"nothing", http.Header{}, noon, "", false, "missing_api_key"},
		{"empty", http.Header{"X-Gateway-Api-Key": {""}}, noon, "", false, "missing_api_key"},
		{"unknown", http.Header{"X-Gateway-Api-Key": {"bad"}}, noon, "", false, "invalid_api_key"},
		{"a wrong key of its own is not made good by another", http.Header{"X-Gateway-Api-Key": {"bad"}, "Authorization": {"Bearer good"}}, noon, "", false, "invalid_api_key"},
		{"the hash is no key", http.Header{"X-Gateway-Api-Key": {access.HashKey("good").String()}}, noon, "", false, "invalid_api_key"},
		{"a key in another case", http.Header{"X-Gateway-Api-Key": {"GOOD"}}, noon, "", false, "invalid_api_key"},
		{"twice", http.Header{"Authorization": {"Bearer good", "Bearer good"}}, noon, "", false, "missing_api_key"},
		{"just before its end", http.Header{"X-Gateway-Api-Key": {"ends"}}, noon.Add(-time.Nanosecond), "ends", true, ""},
		{"at its end", http.Header{"X-Gateway-Api-Key": {"ends"}}, noon, "", false, "expired_api_key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, own, err := s.Authenticate(tt.header, tt.now)
			got := ""
			if id != nil {
				got = id.KeyID
			}
			code := ""
			if err != nil {
				code = apierr.From(err).CodeOrDefault()
			}
			if got != tt.id || own != tt.own || code != tt.code {
				t.Errorf("Authenticate() = %q, %t, %q; want %q, %t, %q", got, own, code, tt.id, tt.own, tt.code)
			}
			if err != nil && strings.Contains(err.Error(), "good") {
				t.Errorf("the error repeats the key: %v", err)
			}
		})
	}
}

func TestBuildNamesTheEntryAtFault(t *testing.T) {
	for name, tt := range map[string]struct {
		entries []snapshot.Managed
		want    string
	}{
		"unknown row":    {[]snapshot.Managed{{Slug: "a", Provider: "nobody"}}, `"nobody"`},
		"slug twice":     {[]snapshot.Managed{{Slug: "a", Provider: "openai"}, {Slug: "a", Provider: "groq"}}, `"a"`},
		"no address":     {[]snapshot.Managed{{Slug: "a", Provider: "openai-compatible"}}, "openai-compatible"},
		"address no URL": {[]snapshot.Managed{{Slug: "a", Provider: "openai", Settings: provider.Settings{CustomHost: "ftp://x"}}}, "openai"},
	} {
		_, err := snapshot.Build(snapshot.Input{Specs: table.All(), Providers: tt.entries})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Build() = %v, want an error with %s", name, err, tt.want)
		}
	}
}

func TestASnapshotFindsRowsAndEntries(t *testing.T) {
	s := mustBuild(t, snapshot.Input{Specs: table.All(), Providers: []snapshot.Managed{
		{Slug: "b", Provider: "vendora", Settings: provider.Settings{Key: secret.New("k")}, Models: []string{}},
		{Slug: "a", Provider: "openai"},
	}})
	for id, want := range map[string]string{"openai": "openai", "OpenAI": "openai", "vendora": "openai", "nobody": ""} {
		spec, ok := s.Spec(id)
		if ok != (want != "") || ok && spec.ID != want {
			t.Errorf("Spec(%q) = %v, %t; want %q", id, spec, ok, want)
		}
	}
	if got := strings.Join(s.Slugs(""), " "); got != "b a" {
		t.Errorf("Slugs() = %s, want the order given", got)
	}
	b, _ := s.Managed("", "b")
	if m, ok := b.Models(); !ok || len(m) != 0 {
		t.Errorf("Models of b = %v, %t; an empty list is a list", m, ok)
	}
	a, _ := s.Managed("", "a")
	if _, ok := a.Models(); ok {
		t.Error("Models of a = true, want the provider to be asked")
	}
	if _, ok := s.Managed("", "openai"); ok {
		t.Error("a row's id is taken for a slug")
	}
}

func TestAHolderSwapsWhole(t *testing.T) {
	h := new(snapshot.Holder)
	one, two := mustBuild(t, snapshot.Input{Revision: 1}), mustBuild(t, snapshot.Input{Revision: 2})
	h.Publish(one)
	held := h.Load()
	h.Publish(two)
	if held.Revision != 1 || h.Load() != two {
		t.Errorf("held %d, now %d; want 1 and 2", held.Revision, h.Load().Revision)
	}
}
