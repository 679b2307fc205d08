package table_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/cohere"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
)

var (
	idShape     = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
	aliasShape  = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
	envShape    = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)
	optionShape = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	placeholder = regexp.MustCompile(`\{([^}]*)\}`)
)

// eachRow runs check for every row under the row's id.
func eachRow(t *testing.T, check func(*testing.T, *provider.Spec)) {
	t.Helper()
	for _, s := range table.All() {
		t.Run(s.ID, func(t *testing.T) { check(t, s) })
	}
}

func TestTableHasEveryProviderOnceInOrder(t *testing.T) {
	all := table.All()
	if len(all) != 140 {
		t.Errorf("table.All() has %d rows, want 140", len(all))
	}
	seen := map[string]string{}
	for i, s := range all {
		if i > 0 && all[i-1].ID >= s.ID {
			t.Errorf("row %s stands after %s", s.ID, all[i-1].ID)
		}
		for _, name := range append([]string{s.ID}, s.Aliases...) {
			if other, taken := seen[name]; taken {
				t.Errorf("%s names both %s and %s", name, other, s.ID)
			}
			seen[name] = s.ID
		}
	}
}

func TestTableIsNotChangedThroughItsCopies(t *testing.T) {
	all := table.All()
	first := all[0]
	all[0] = nil
	if got := table.All()[0]; got != first {
		t.Errorf("All()[0] = %v after a caller changed its copy, want %v", got, first)
	}
}

func TestLookupKnowsIdsAliasesAndNeutralWords(t *testing.T) {
	for name, want := range map[string]string{
		"openai": "openai", "vendora": "openai",
		"anthropic": "anthropic", "vendorb": "anthropic",
		"bedrock": "bedrock", "cloud_a": "bedrock",
		"vertex-ai": "vertex-ai", "cloud_b": "vertex-ai", "google-vertex-ai": "vertex-ai",
		"azure-openai": "azure-openai", "cloud_c": "azure-openai", "azure": "azure-openai",
		"gemini": "google", "xai": "x-ai", "local-ai": "localai", "302ai": "302ai",
	} {
		s, ok := table.Lookup(name)
		if !ok || s.ID != want {
			t.Errorf("Lookup(%q) = %v, %t; want %s", name, s, ok, want)
		}
	}
	for _, name := range []string{"", "OpenAI", "nobody"} {
		if s, ok := table.Lookup(name); ok {
			t.Errorf("Lookup(%q) = %s, want none", name, s.ID)
		}
	}
}

func TestSiblingsShareAnAliasAndDifferInOptions(t *testing.T) {
	eachRow(t, func(t *testing.T, s *provider.Spec) {
		if s.Sibling.ID == "" {
			return
		}
		other, ok := table.Lookup(s.Sibling.ID)
		if !ok || other.OptionPrefix != s.OptionPrefix || !slices.Contains(s.Aliases, s.Sibling.Alias) {
			t.Fatalf("sibling %+v: wants an alias of the row and a row with its prefix", s.Sibling)
		}
		for _, name := range s.Sibling.Options {
			if !other.Takes(name) || s.Takes(name) {
				t.Errorf("option %q is not one of the sibling only", name)
			}
		}
	})
}

func TestRowsAreNamed(t *testing.T) {
	eachRow(t, func(t *testing.T, s *provider.Spec) {
		if !idShape.MatchString(s.ID) || strings.TrimSpace(s.Name) == "" {
			t.Errorf("id %q, name %q", s.ID, s.Name)
		}
		for _, a := range s.Aliases {
			if !aliasShape.MatchString(a) {
				t.Errorf("alias %q", a)
			}
		}
		if s.Env != "" && !envShape.MatchString(s.Env) {
			t.Errorf("Env = %q, want the shape of an environment variable", s.Env)
		}
		if s.Docs != "" && !strings.HasPrefix(s.Docs, "https://") {
			t.Errorf("Docs = %q, want an https address", s.Docs)
		}
	})
}

func TestRowsHaveSafeAddresses(t *testing.T) {
	eachRow(t, func(t *testing.T, s *provider.Spec) {
		if s.BaseURL == "" {
			return
		}
		u, err := url.Parse(placeholder.ReplaceAllString(s.BaseURL, "x"))
		if err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || strings.HasSuffix(u.Path, "/") {
			t.Errorf("BaseURL = %q, want an https address without query and final slash", s.BaseURL)
		}
	})
}

// Who chooses an account chooses who gets the credential, so each option that is
// part of a host says what it names.
func TestOptionsInHostsSayWhatTheyName(t *testing.T) {
	settled := map[string]bool{"azure-ai deployment_name": true, "azure-ai endpoint_name": true, "azure-ai region": true} // see azureAIAddress
	eachRow(t, func(t *testing.T, s *provider.Spec) {
		inHost := make(map[string]bool)
		for _, address := range append(slices.Collect(maps.Values(s.Paths)), s.BaseURL) {
			rest, absolute := strings.CutPrefix(address, "https://")
			host, _, _ := strings.Cut(rest, "/")
			for _, m := range placeholder.FindAllStringSubmatch(host, -1) {
				inHost[m[1]] = inHost[m[1]] || absolute
			}
		}
		for _, o := range s.Options {
			if part := o.Host != provider.HostNone; part != (inHost[o.Name] || settled[s.ID+" "+o.Name]) {
				t.Errorf("option %q: part of a host: %t, and it says %d", o.Name, inHost[o.Name], o.Host)
			}
		}
	})
}

func TestOnlyAnAddressThatNamesNobodyIsTheProvidersOwn(t *testing.T) {
	for _, tt := range []struct {
		provider string
		settings provider.Settings
		own      bool
	}{
		{"openai", provider.Settings{}, true},
		{"openai", provider.Settings{CustomHost: "https://api.openai.com/v1"}, false},
		{"bedrock", provider.Settings{Options: map[string]string{"cloud_a_region": "eu-west-1"}}, true},
		{"vertex-ai", provider.Settings{Options: map[string]string{"region": "global", "project_id": "p"}}, true},
		{"workers-ai", provider.Settings{Options: map[string]string{"account_id": "a"}}, true},
		{"azure-openai", provider.Settings{Options: map[string]string{"resource_name": "r"}}, false},
		{"azure-ai", provider.Settings{Options: map[string]string{"cloud_c_resource_name": "r"}}, false},
		{"azure-ai", provider.Settings{Options: map[string]string{"deployment_name": "d", "region": "eastus"}}, false},
		{"azure-ai", provider.Settings{Options: map[string]string{"endpoint_name": "e", "region": "eastus"}}, false},
		{"azure-ai", provider.Settings{Options: map[string]string{"foundry_url": "https://models.example.com"}}, false},
		{"databricks", provider.Settings{Options: map[string]string{"workspace": "w"}}, false},
		{"cortex", provider.Settings{Options: map[string]string{"account": "a"}}, false},
	} {
		spec, ok := table.Lookup(tt.provider)
		if !ok {
			t.Fatal(tt.provider)
		}
		target, err := provider.NewTarget(spec, tt.settings)
		if err != nil || target.OwnAddress() != tt.own {
			t.Errorf("%s %v: %v, own address %t, want %t", tt.provider, tt.settings, err, err == nil && target.OwnAddress(), tt.own)
		}
	}
	for _, region := range []string{"x.execute-api.us-east-1", "eu_west", "eu-west-1.evil"} {
		spec, _ := table.Lookup("bedrock")
		if _, err := provider.NewTarget(spec, provider.Settings{Options: map[string]string{"region": region}}); err == nil {
			t.Errorf("the region %q is accepted", region)
		}
	}
}

// A path that names a host goes to the provider's own: https, and never when
// somebody else chose the address, since the credential would go along.
func TestPathsStayBelowTheAddress(t *testing.T) {
	eachRow(t, func(t *testing.T, s *provider.Spec) {
		for op, path := range s.Paths {
			if strings.HasPrefix(path, "https://") {
				mustNotServe(t, s, op)
				continue
			}
			path = strings.TrimSuffix(path, "?alt=sse")
			if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "?#") {
				t.Errorf("path of %s = %q", op, path)
			}
		}
	})
}

func mustNotServe(t *testing.T, s *provider.Spec, op api.Operation) {
	t.Helper()
	target, err := provider.NewTarget(s, provider.Settings{CustomHost: "https://front.example.test"})
	if err != nil {
		t.Fatal(err)
	}
	if path, offered := target.Path(op); offered {
		t.Errorf("%s behind a custom host goes to %s", op, path)
	}
	for d, other := range map[api.Dialect]api.Operation{api.DialectMessages: api.Messages, api.DialectChat: api.Chat} {
		if other == op && target.DialectFor(d, "anthropic.claude") == d {
			t.Errorf("a custom host is told to speak %s", d)
		}
	}
}

// Each dialect that a row tells has its path, or the pipeline would choose one
// that leads nowhere.
func TestEachDialectOfARowHasAPath(t *testing.T) {
	eachRow(t, func(t *testing.T, s *provider.Spec) {
		for _, model := range []string{"gpt-5", "claude-x", "anthropic.claude-x", "gemini-x", "meta/llama", "mistral-x", "endpoints.1", "", "a/b"} {
			if s.Dialects == nil {
				break
			}
			spoken := s.Dialects(model)
			if len(spoken) == 0 {
				t.Errorf("speaks nothing to %q", model)
			}
			for _, d := range spoken {
				if _, ok := s.Path(d.ConversationOperation()); !ok {
					t.Errorf("speaks %s to %q and has no path for it", d, model)
				}
			}
		}
		if _, ok := s.Path(s.Dialect.ConversationOperation()); !ok && len(s.Paths) > 0 && s.Dialect.ConversationOperation() != "" && !slices.Contains([]string{"jina", "voyage", "recraft-ai"}, s.ID) {
			t.Errorf("dialect %s has no path", s.Dialect)
		}
	})
}

func TestEveryPlaceholderHasAnOption(t *testing.T) {
	eachRow(t, func(t *testing.T, s *provider.Spec) {
		texts := append(slices.Collect(maps.Values(s.Paths)), s.BaseURL)
		for _, service := range s.Services {
			texts = append(texts, service.Address)
		}
		for _, text := range texts {
			for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
				if m[1] != "model" && !slices.ContainsFunc(s.Options, func(o provider.Option) bool { return o.Name == m[1] }) {
					t.Errorf("%q has a placeholder without an option: %s", text, m[1])
				}
			}
		}
	})
}

// usedInPaths are options that only requests of the state plane use, in their paths.
var usedInPaths = map[string]string{"fireworks-ai": "account_id"}

func TestEveryOptionIsExplainedAndUsed(t *testing.T) {
	eachRow(t, func(t *testing.T, s *provider.Spec) {
		texts := strings.Join(append(slices.Collect(maps.Values(s.Paths)), s.BaseURL), " ")
		seen := map[string]bool{}
		for _, o := range s.Options {
			if !optionShape.MatchString(o.Name) || o.Doc == "" || seen[o.Name] {
				t.Errorf("option %+v: wants a name of its own and a doc", o)
			}
			seen[o.Name] = true
			used := o.Header != "" || s.URL != nil || s.Auth.Sign != nil || s.Auth.Method != "" || s.Complete != nil || strings.Contains(texts, "{"+o.Name+"}") ||
				usedInPaths[s.ID] == o.Name
			if !used {
				t.Errorf("option %q is used by nothing", o.Name)
			}
		}
	})
}

func TestEveryRowSaysWhereTheCredentialGoes(t *testing.T) {
	eachRow(t, func(t *testing.T, s *provider.Spec) {
		a := s.Auth
		if s.ID == "triton" { // takes no credential
			if a.Header != "" || a.Query != "" {
				t.Errorf("Auth = %+v, want none", a)
			}
			return
		}
		if a.Header == "" && a.Query == "" && a.Method == "" {
			t.Error("Auth is not set")
		}
		for _, name := range a.KeyAlternatives {
			if !slices.ContainsFunc(s.Options, func(o provider.Option) bool { return o.Name == name }) {
				t.Errorf("the option %q would stand for the key and is none", name)
			}
		}
		if a.Method == provider.MethodAWS && a.Service == "" {
			t.Error("signs for no service")
		}
		if a.Header != http.CanonicalHeaderKey(a.Header) {
			t.Errorf("Auth.Header = %q, want canonical form", a.Header)
		}
	})
}

func TestOnlyTheChatDialectOffersChatToAllModels(t *testing.T) {
	known := []api.Dialect{api.DialectChat, api.DialectMessages, api.DialectGemini,
		api.DialectConverse, api.DialectCohere, api.DialectOracle, api.DialectReplicate, api.DialectNative}
	offering := 0
	for _, s := range table.All() {
		_, chat := s.Path(api.Chat)
		if chat {
			offering++
		}
		if !slices.Contains(known, s.Dialect) || chat && s.Dialect != api.DialectChat && s.Dialects == nil {
			t.Errorf("%s: dialect %q, offers chat: %t", s.ID, s.Dialect, chat)
		}
	}
	if offering < 100 {
		t.Errorf("%d rows offer chat, want 100 at least", offering)
	}
}

func TestQuirksDoNotContradictEachOther(t *testing.T) {
	needed := []string{"model", "messages", "stream", "input", "prompt", "tools", "response_format"}
	check := func(t *testing.T, drop []string, rename map[string]string) {
		t.Helper()
		for _, f := range drop {
			if _, both := rename[f]; both || slices.Contains(needed, f) {
				t.Errorf("drops %s", f)
			}
		}
		for from, to := range rename {
			if from == to || slices.Contains(needed, from) && from != "model" || slices.Contains(drop, to) {
				t.Errorf("renames %s to %s", from, to)
			}
		}
	}
	eachRow(t, func(t *testing.T, s *provider.Spec) {
		check(t, s.Drop, s.Rename)
		for _, m := range s.Models {
			check(t, m.Drop, m.Rename)
		}
		for field, r := range s.Limits {
			if r.Min > r.Max {
				t.Errorf("limit of %s is %v", field, r)
			}
		}
	})
}

// A form for an operation is of no use where the row has no path for it. Some
// models have forms of their own, so a row is asked for one of each kind.
func TestOperationsThatCodecsTranslateHaveAPath(t *testing.T) {
	models := []string{"m", "amazon.titan-embed-text-v2:0", "cohere.embed-v4:0", "amazon.nova-canvas-v1:0", "stability.stable-image-core-v1:1",
		"gemini-embedding-001", "gemini-embedding-2-preview", "text-embedding-005", "imagen-4.0-generate-001", "gemini-2.5-flash-image"}
	formers := map[api.Dialect]dialect.OperationTranslator{
		api.DialectCohere: cohere.Dialect{}, api.DialectConverse: converse.Dialect{}, api.DialectGemini: gemini.Dialect{},
	}
	seen := 0
	eachRow(t, func(t *testing.T, s *provider.Spec) {
		codec, ok := formers[s.Dialect]
		if !ok {
			return
		}
		for _, op := range []api.Operation{api.Embeddings, api.Images, api.Rerank} {
			for _, model := range models {
				if _, ok := codec.Translator(op, dialect.RequestTarget{Provider: s.ID, Model: model}); !ok {
					continue
				}
				seen++
				if _, ok := s.Path(op); !ok {
					t.Errorf("the codec of %s translates %s for %s, and the row has no path for it", s.Dialect, op, model)
				}
			}
		}
	})
	if seen < 20 {
		t.Errorf("%d forms were found, want more", seen)
	}
}
