package dialects

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
)

// A contentUnion lists the types of content of a vendor's SDK.
type contentUnion struct {
	Dialect api.Dialect
	Union   string
	Source  string
	Version string
	Types   []string
}

func mustContentUnions(t *testing.T) (list []contentUnion) {
	t.Helper()
	b, err := os.ReadFile("testdata/content_types.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// The lists of content types are complete as far as the Go SDKs go; test/clients
// compares those of the npm packages.
func TestContentTypesAreThoseOfTheSDKs(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	unions := map[string]reflect.Type{
		"ResponseInputItemUnionParam":                                       reflect.TypeFor[responses.ResponseInputItemUnionParam](),
		"ResponseInputContentUnionParam":                                    reflect.TypeFor[responses.ResponseInputContentUnionParam](),
		"ResponseOutputMessageContentUnionParam":                            reflect.TypeFor[responses.ResponseOutputMessageContentUnionParam](),
		"ChatCompletionContentPartUnionParam":                               reflect.TypeFor[openai.ChatCompletionContentPartUnionParam](),
		"ChatCompletionAssistantMessageParamContentArrayOfContentPartUnion": reflect.TypeFor[openai.ChatCompletionAssistantMessageParamContentArrayOfContentPartUnion](),
		"ChatCompletionMessageToolCallUnionParam":                           reflect.TypeFor[openai.ChatCompletionMessageToolCallUnionParam](),
		"ChatCompletionAssistantMessageParam":                               reflect.TypeFor[openai.ChatCompletionAssistantMessageParam](),
		"ContentBlockParamUnion":                                            reflect.TypeFor[anthropic.ContentBlockParamUnion](),
		"BetaContentBlockParamUnion":                                        reflect.TypeFor[anthropic.BetaContentBlockParamUnion](),
		"BetaToolResultBlockParamContentUnion":                              reflect.TypeFor[anthropic.BetaToolResultBlockParamContentUnion](),
	}
	for _, u := range mustContentUnions(t) {
		if strings.HasPrefix(u.Source, "@") {
			continue
		}
		typ, ok := unions[u.Union]
		if !ok {
			t.Errorf("%s: nothing compares it with the SDK", u.Union)
			continue
		}
		if got := variants(typ); !slices.Equal(got, u.Types) {
			t.Errorf("%s of %s has %q, the list %q", u.Union, u.Source, got, u.Types)
		}
		if line := u.Source + " " + u.Version; !strings.Contains(string(mod), line) {
			t.Errorf("%s: go.mod does not require %s", u.Union, line)
		}
	}
}

// variants returns the names of the members of a struct, or of the types of a
// union.
func variants(union reflect.Type) (list []string) {
	for f := range fieldsOf(union) {
		if !strings.HasPrefix(f.Name, "Of") {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			list = append(list, name)
			continue
		}
		name := snake(strings.TrimPrefix(f.Name, "Of"))
		if typ, ok := f.Type.Elem().FieldByName("Type"); ok && typ.Tag.Get("default") != "" && typ.Tag.Get("default") != "message" {
			name = typ.Tag.Get("default")
		}
		list = append(list, name)
	}
	return list
}

func fieldsOf(typ reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for f := range typ.Fields() {
			if f.IsExported() && !f.Anonymous && f.Tag.Get("json") != "-" && !yield(f) {
				return
			}
		}
	}
}

func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

func TestEveryContentTypeHasASample(t *testing.T) {
	for _, u := range mustContentUnions(t) {
		for _, typ := range u.Types {
			if !slices.ContainsFunc(historySamples[u.Dialect], func(s historySample) bool { return s.typ == typ }) {
				t.Errorf("%s: no sample of %s", u.Dialect, typ)
			}
		}
	}
}

// historyTargets are the targets of the matrix, and those that deviate from them
// in what a conversation can hold.
var historyTargets = append(slices.Clip(targets),
	&target{dialect: api.DialectChat, row: "mistral", id: "mistral", model: "magistral-medium"},
	&target{dialect: api.DialectChat, row: "deepseek", id: "deepseek", model: "deepseek-chat"},
	&target{dialect: api.DialectChat, row: "openrouter", id: "openrouter", model: "anthropic/claude-sonnet-4-5"},
	&target{dialect: api.DialectGemini, row: "google", id: "google", model: "gemini-3-pro-preview"},
	&target{dialect: api.DialectConverse, row: "bedrock", id: "bedrock", model: "amazon.nova-pro-v1:0"},
	&target{dialect: api.DialectOllama, id: "ollama-native", model: "llama3.2"},
	&target{dialect: api.DialectOracle, id: "oracle", model: "meta.llama-3.3-70b-instruct"},
	&target{dialect: api.DialectOracle, id: "oracle", model: "cohere.command-r-plus"},
	&target{dialect: api.DialectReplicate, id: "replicate", model: "meta/meta-llama-3-8b-instruct"},
)

// Every type of content that a client's official SDK can send is carried,
// announced or refused at each target.
func TestNothingOfTheHistoryVanishes(t *testing.T) {
	for _, from := range clients {
		d := api.Dialect(from.name)
		for i := range historySamples[d] {
			s := &historySamples[d][i]
			for _, to := range historyTargets {
				if to.dialect == d {
					continue
				}
				if outcome, problem := historyOutcome(t, d, to, s); problem != "" {
					t.Errorf("%s %s to %s, %s: %s: %s", d, s.typ, to.dialect, to.model, outcome, problem)
				}
			}
		}
	}
}

// historyOutcome returns what happens to a sample at a target, and what is wrong
// with that.
func historyOutcome(t *testing.T, from api.Dialect, to *target, s *historySample) (outcome, problem string) {
	t.Helper()
	sent, changes, err := encoded(t, from, to, mustObject(t, s.body))
	if err != nil {
		e, ok := errors.AsType[*apierr.Error](err)
		switch {
		case !ok:
			return refusedWord, fmt.Sprintf("%v is not an error for clients", err)
		case !strings.HasPrefix(e.Param, s.path) && to.dialect != api.DialectReplicate || // which takes no calls at all
			!strings.Contains(e.Message, e.Param):
			return refusedWord, fmt.Sprintf("%q (%s) does not name %s", e.Message, e.Param, s.path)
		case !strings.Contains(e.Message, `"`+to.id+`"`):
			return refusedWord, fmt.Sprintf("%q does not name the target", e.Message)
		}
		return refusedWord, ""
	}
	if slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(string(sent), sign) }) {
		for _, c := range changes {
			if c.Outcome == dialect.Adapted && (c.Name == s.typ || strings.HasPrefix(c.Name, s.path)) {
				return adapted + ": " + c.Note, ""
			}
		}
		return carried, ""
	}
	for _, c := range changes {
		if strings.HasPrefix(c.Name, s.path) || s.said != "" && c.Name == s.said || c.Outcome == dialect.Dropped && c.Name == s.typ {
			return string(c.Outcome), ""
		}
	}
	return "vanished", fmt.Sprintf("%v, %s", changes, sent)
}
