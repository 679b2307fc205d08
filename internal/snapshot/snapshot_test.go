package snapshot_test

import (
	"cmp"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
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
		Keys: []*access.Identity{identity("good-key-of-a-test", time.Time{}), identity("ends-at-some-time", noon), identity("of fifteen byte", time.Time{}), identity("of sixteen bytes", time.Time{})}})
	for _, tt := range []struct {
		name   string
		header http.Header
		now    time.Time
		id     string
		own    bool
		code   string
	}{
		{"own header", http.Header{"X-Gateway-Api-Key": {"good-key-of-a-test"}}, noon, "good-key-of-a-test", true, ""},
		{"own header next to a bearer token", http.Header{"X-Gateway-Api-Key": {"good-key-of-a-test"}, "Authorization": {"Bearer sk"}}, noon, "good-key-of-a-test", true, ""},
		{"further family", http.Header{"X-Old-Api-Key": {"good-key-of-a-test"}}, noon, "good-key-of-a-test", true, ""},
		{"unknown family", http.Header{"X-Other-Api-Key": {"good-key-of-a-test"}}, noon, "", false, "missing_api_key"},
		{"bearer token", http.Header{"Authorization": {"Bearer good-key-of-a-test"}}, noon, "good-key-of-a-test", false, ""},
		{"scheme in any case", http.Header{"Authorization": {"bEARER   good-key-of-a-test "}}, noon, "good-key-of-a-test", false, ""},
		{"another scheme", http.Header{"Authorization": {"Basic good-key-of-a-test"}}, noon, "", false, "missing_api_key"},
		{"x-api-key", http.Header{"X-Api-Key": {"good-key-of-a-test"}}, noon, "good-key-of-a-test", false, ""},
		{"nothing", http.Header{}, noon, "", false, "missing_api_key"},
		{"empty", http.Header{"X-Gateway-Api-Key": {""}}, noon, "", false, "missing_api_key"},
		{"unknown", http.Header{"X-Gateway-Api-Key": {"bad"}}, noon, "", false, "invalid_api_key"},
		{"a wrong key of its own is not made good by another", http.Header{"X-Gateway-Api-Key": {"bad"}, "Authorization": {"Bearer good-key-of-a-test"}}, noon, "", false, "invalid_api_key"},
		{"the hash is not a key", http.Header{"X-Gateway-Api-Key": {access.HashKey("good-key-of-a-test").String()}}, noon, "", false, "invalid_api_key"},
		{"a key in another case", http.Header{"X-Gateway-Api-Key": {"GOOD-key-of-a-test"}}, noon, "", false, "invalid_api_key"},
		{"twice", http.Header{"Authorization": {"Bearer good-key-of-a-test", "Bearer good-key-of-a-test"}}, noon, "", false, "missing_api_key"},
		{"too short to be safe", http.Header{"X-Gateway-Api-Key": {"of fifteen byte"}}, noon, "", false, "short_api_key"},
		{"just long enough", http.Header{"X-Gateway-Api-Key": {"of sixteen bytes"}}, noon, "of sixteen bytes", true, ""},
		{"just before its end", http.Header{"X-Gateway-Api-Key": {"ends-at-some-time"}}, noon.Add(-time.Nanosecond), "ends-at-some-time", true, ""},
		{"at its end", http.Header{"X-Gateway-Api-Key": {"ends-at-some-time"}}, noon, "", false, "expired_api_key"},
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
			if err != nil && strings.Contains(err.Error(), "good-key") {
				t.Errorf("the error repeats the key: %v", err)
			}
		})
	}
}

// tokens takes one token.
type tokens string

func (k tokens) Verify(token string, hash access.Hash, _ time.Time) (*access.Identity, error) {
	if token != string(k) || hash != access.HashKey(token) {
		return nil, apierr.New(apierr.Unauthenticated, "the token is bad").WithCode("invalid_token")
	}
	return &access.Identity{KeyID: "of the token"}, nil
}

func TestAuthenticateVerifiesTokensThatAreNotKeys(t *testing.T) {
	s := mustBuild(t, snapshot.Input{Tokens: tokens("a.b.c"), Keys: []*access.Identity{identity("my.own.key-of-a-test", time.Time{}), identity("my.old.key-of-a-test", noon)}})
	for _, tt := range []struct {
		name   string
		header http.Header
		id     string
		own    bool
		code   string
	}{
		{"in the key's header", http.Header{"X-Gateway-Api-Key": {"a.b.c"}}, "of the token", true, ""},
		{"as a bearer token", http.Header{"Authorization": {"Bearer a.b.c"}}, "of the token", false, ""},
		{"a bearer token next to a key", http.Header{"X-Gateway-Api-Key": {"my.own.key-of-a-test"}, "Authorization": {"Bearer a.b.c"}}, "my.own.key-of-a-test", true, ""},
		{"a bearer token next to a wrong key", http.Header{"X-Gateway-Api-Key": {"wrong"}, "Authorization": {"Bearer a.b.c"}}, "", false, "invalid_api_key"},
		{"a key that looks like a token", http.Header{"X-Gateway-Api-Key": {"my.own.key-of-a-test"}}, "my.own.key-of-a-test", true, ""},
		{"an ended key that looks like a token", http.Header{"X-Gateway-Api-Key": {"my.old.key-of-a-test"}}, "", false, "expired_api_key"},
		{"a bad token", http.Header{"X-Gateway-Api-Key": {"a.b.d"}}, "", false, "invalid_token"},
		{"two parts", http.Header{"X-Gateway-Api-Key": {"a.b"}}, "", false, "invalid_api_key"},
		{"four parts", http.Header{"X-Gateway-Api-Key": {"a.b.c.d"}}, "", false, "invalid_api_key"},
	} {
		id, own, err := s.Authenticate(tt.header, noon)
		got, code := "", ""
		if id != nil {
			got = id.KeyID
		}
		if err != nil {
			code = apierr.From(err).CodeOrDefault()
		}
		if got != tt.id || own != tt.own || code != tt.code {
			t.Errorf("%s: Authenticate() = %q, %t, %q; want %q, %t, %q", tt.name, got, own, code, tt.id, tt.own, tt.code)
		}
	}
	for text, want := range map[string]bool{"a.b.c": true, "my.own.key-of-a-test": true, "my.old.key-of-a-test": true, "a.b.d": false, "other": false, "": false} {
		if got := s.IsCredential(text, noon); got != want {
			t.Errorf("Opens(%q) = %t, want %t", text, got, want)
		}
	}
	if _, err := mustBuild(t, snapshot.Input{}).Token("a.b.c", noon); err == nil {
		t.Error("a snapshot that takes no tokens takes one")
	}
}

func TestAKeyIsFoundWithoutAllocating(t *testing.T) {
	key := access.NewKey().Reveal()
	s := mustBuild(t, snapshot.Input{Tokens: tokens("a.b.c"), Keys: []*access.Identity{identity(key, time.Time{})}})
	h := http.Header{"X-Gateway-Api-Key": {key}}
	if n := testing.AllocsPerRun(100, func() { s.Authenticate(h, noon) }); n != 0 {
		t.Errorf("Authenticate allocates %g times for a key, want never", n)
	}
}

func TestBuildNamesTheEntryAtFault(t *testing.T) {
	for name, tt := range map[string]struct {
		entries []snapshot.ManagedProvider
		want    string
	}{
		"unknown row":    {[]snapshot.ManagedProvider{{Slug: "a", Provider: "nobody"}}, `"nobody"`},
		"slug twice":     {[]snapshot.ManagedProvider{{Slug: "a", Provider: "openai"}, {Slug: "a", Provider: "groq"}}, `"a"`},
		"no address":     {[]snapshot.ManagedProvider{{Slug: "a", Provider: "openai-compatible"}}, "openai-compatible"},
		"address no URL": {[]snapshot.ManagedProvider{{Slug: "a", Provider: "openai", Settings: provider.Settings{CustomHost: "ftp://x"}}}, "openai"},
	} {
		_, err := snapshot.Build(snapshot.Input{Specs: table.All(), Providers: tt.entries})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Build() = %v, want an error with %s", name, err, tt.want)
		}
	}
}

func TestASnapshotFindsRowsAndEntries(t *testing.T) {
	s := mustBuild(t, snapshot.Input{Specs: table.All(), Providers: []snapshot.ManagedProvider{
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
	if b.Models == nil || len(b.Models) != 0 {
		t.Errorf("Models of b = %#v; an empty list is a list", b.Models)
	}
	a, _ := s.Managed("", "a")
	if a.Models != nil {
		t.Errorf("Models of a = %v, want the provider to be asked", a.Models)
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

func TestNamesOfAWorkspaceStayInIt(t *testing.T) {
	entry := func(workspace, key string, stored bool) snapshot.ManagedProvider {
		return snapshot.ManagedProvider{Workspace: workspace, Slug: "main", Provider: "openai", Settings: provider.Settings{Key: secret.New(key)}, Stored: stored}
	}
	s := mustBuild(t, snapshot.Input{Specs: table.All(),
		Providers: []snapshot.ManagedProvider{entry("a", "file", false), entry("a", "stored", true), entry("b", "b's", true)},
		Configs: []snapshot.Config{
			{Workspace: "a", Slug: "pc", Text: secret.New(`{"provider":"@main"}`)},
			{Workspace: "a", ID: "1", Slug: "pc", Text: secret.New("stored"), Stored: true},
			{Workspace: "b", ID: "2", Slug: "pc", Text: secret.New("b's"), Stored: true},
		}})
	for workspace, want := range map[string]string{"a": "file", "b": "b's", "": "", "c": ""} {
		got := ""
		if e, ok := s.Managed(workspace, "main"); ok {
			got = e.Target.Key.Reveal()
		}
		if got != want {
			t.Errorf("@main of workspace %q has the key %q, want %q", workspace, got, want)
		}
	}
	for at, want := range map[[2]string][2]string{ // text, and what the log calls it
		{"a", "pc"}: {`{"provider":"@main"}`, "pc"}, {"a", "1"}: {"stored", "1"}, {"b", "pc"}: {"b's", "2"}, {"b", "2"}: {"b's", "2"},
		{"b", "1"}: {}, {"", "pc"}: {}, {"c", "2"}: {}, {"b", ""}: {},
	} {
		got, ok := s.Config(at[0], at[1])
		if ok != (want != [2]string{}) || ok && [2]string{got.Text.Reveal(), got.Ref()} != want {
			t.Errorf("Config(%q) = %+v, want %q", at, got, want)
		}
	}
	if got := s.Slugs("b"); len(got) != 1 || len(s.Slugs("c")) != 0 || s.Providers() != 2 {
		t.Errorf("Slugs(b) = %q, %d of c, %d in all", got, len(s.Slugs("c")), s.Providers())
	}
}

func TestAStoredEntryThatIsBrokenHurtsItsUsersAlone(t *testing.T) {
	s := mustBuild(t, snapshot.Input{Specs: table.All(), Providers: []snapshot.ManagedProvider{
		{Workspace: "a", Slug: "gone", Provider: "nobody", Stored: true},
		{Workspace: "a", Slug: "nowhere", Provider: "openai-compatible", Stored: true},
		{Workspace: "a", Slug: "faulty", Provider: "openai", Stored: true, Fault: apierr.New(apierr.Forbidden, "taken away")},
		{Workspace: "a", Slug: "ended", Provider: "openai", Stored: true, ExpiresAt: noon},
		{Workspace: "a", Slug: "fine", Provider: "openai", Stored: true, ExpiresAt: noon.Add(1)},
	}, Configs: []snapshot.Config{{Workspace: "a", Slug: "pc", Text: secret.New("not verified again"), Stored: true}}})
	for slug, want := range map[string]int{"gone": 400, "nowhere": 400, "faulty": 403, "ended": 412, "fine": 0} {
		e, ok := s.Managed("a", slug)
		if !ok {
			t.Fatalf("@%s is not there", slug)
		}
		got := 0
		if err := e.CheckUsable(noon); err != nil {
			got = apierr.From(err).Status()
		}
		if got != want || want == 0 && e.Target == nil {
			t.Errorf("@%s: status %d, want %d", slug, got, want)
		}
	}
}

func TestFindingAKeyAllocatesNothing(t *testing.T) {
	id := identity("mg-0123456789012345678901234567890123456789", time.Time{})
	id.Workspace = "a"
	s := mustBuild(t, snapshot.Input{Specs: table.All(), Keys: []*access.Identity{id},
		Providers: []snapshot.ManagedProvider{{Workspace: "a", Slug: "main", Provider: "openai"}},
		Configs:   []snapshot.Config{{Workspace: "a", Slug: "pc", Text: secret.New("{}"), Stored: true}}})
	header := http.Header{"X-Gateway-Api-Key": {id.KeyID}}
	n := testing.AllocsPerRun(100, func() {
		found, _, err := s.Authenticate(header, noon)
		if err != nil {
			t.Fatal(err)
		}
		s.Managed(found.Workspace, "main")
		s.Config(found.Workspace, "pc")
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestCountersOfASnapshotsLimitsAreInUse(t *testing.T) {
	now := time.Now()
	list := func(name string) []*quota.Limit { return []*quota.Limit{{Counter: name}} }
	s := mustBuild(t, snapshot.Input{
		Specs: table.All(), Keys: []*access.Identity{{KeyID: "k", Limits: list("key/k/cost/")}}, Limits: map[string][]*quota.Limit{"w": list("workspace/w/cost/")},
		Users:     []access.UserLimits{{Organisation: "o", ID: "u", Limits: list("user/o/u/cost/")}},
		Providers: []snapshot.ManagedProvider{{Workspace: "w", Slug: "s", Provider: "openai", Limits: append(list("provider/p/cost/"), list("grant/i/w/cost/")...)}},
		Policies:  policy.Compile([]policy.Policy{{ID: "p"}}, nil),
	})
	names := make(map[string]bool)
	for _, name := range []string{"key/k/cost/", "workspace/w/cost/", "user/o/u/cost/", "provider/p/cost/", "grant/i/w/cost/", "policy/p/-/0/a", "key/deleted/cost/", "policy/deleted/-/0/a"} {
		names[name] = true
	}
	s.DropUsed(names, now)
	if len(names) != 2 || !names["key/deleted/cost/"] || !names["policy/deleted/-/0/a"] {
		t.Errorf("%v are not in use, want those of the deleted key and policy", names)
	}
}

// The exhausted budget of a user binds whatever the request is made with.
func TestExhaustedUsersAreFoundByEveryCredential(t *testing.T) {
	for _, tt := range []struct {
		name string
		id   access.Identity
		want bool
	}{
		{"a key of the user", access.Identity{UserID: "u"}, true},
		{"a token with the id", access.Identity{Claims: &access.Claims{User: "u"}}, true},
		{"a token with the e-mail address", access.Identity{Claims: &access.Claims{User: "ANN@example.com"}}, true},
		{"a token with a letter that is another in lower case", access.Identity{Claims: &access.Claims{User: "\u212aim@example.com"}}, false},
		{"a token with the address of which that is a letter", access.Identity{Claims: &access.Claims{User: "Kim@example.com"}}, true},
		{"a key that a key of the user made", access.Identity{Makers: []string{"u"}}, true},
		{"a key of another user that a key of the user made", access.Identity{UserID: "other", Makers: []string{"u"}}, true},
		{"a key of another user", access.Identity{UserID: "other"}, false},
		{"a key of no user", access.Identity{}, false},
		{"a user of another organisation", access.Identity{Organisation: "elsewhere", UserID: "u"}, false},
	} {
		s := mustBuild(t, snapshot.Input{Users: []access.UserLimits{{Organisation: "o", ID: "u", Email: "ann@example.com", Exhausted: true}, {Organisation: "o", ID: "kim", Email: "kim@example.com", Exhausted: true}, {Organisation: "o", ID: "other"}}})
		tt.id.Organisation = cmp.Or(tt.id.Organisation, "o")
		if _, exhausted := s.UserLimits(&tt.id); exhausted != tt.want {
			t.Errorf("%s: exhausted = %t, want %t", tt.name, exhausted, tt.want)
		}
	}
}
