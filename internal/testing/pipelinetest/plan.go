package pipelinetest

import (
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/secret"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/routing"
	"modelgate/internal/provider"
)

// Spec is a provider row with one quirk of each kind.
var Spec = &provider.Spec{
	ID:      "quirky",
	BaseURL: "https://quirky.example.com/v1",
	Dialect: api.DialectChat,
	Auth:    provider.Auth{Header: "Authorization", Scheme: "Bearer"},
	Paths:   map[api.Operation]string{api.Chat: "/chat/completions"},
	Drop:    []string{"logit_bias"},
	Rename:  map[string]string{"max_tokens": "max_completion_tokens"},
	Limits:  map[string]provider.Range{"temperature": {Min: 0, Max: 1}},
	Models:  modeldata.NewTable(modeldata.Model{Pattern: "^thinker", Drop: []string{"temperature"}}),
}

// Plan sends nothing: it returns what would be sent first, and the request.
func Plan(t *testing.T, text, body string, edits ...func(*Request)) (exchange.DryRunRequest, *Request, error) {
	t.Helper()
	root, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	pool := bytepool.New(0)
	c := pipeline.Compiler{Engine: &attempt.Engine{Bounds: exchange.Bounds{Pool: pool}}, State: new(routing.State)}
	x := NewRequest()
	x.DryRun = true
	x.Resolve = func(*config.Config) (*provider.Target, error) {
		return provider.NewTarget(Spec, provider.Settings{Key: secret.New("provider-key")})
	}
	if body != "" {
		if x.Received.Body, err = pool.ReadAll(strings.NewReader(body), int64(len(body)), 1<<20); err != nil {
			t.Fatal(err)
		}
		defer func() {
			x.Received.Body.Release()
			if n := pool.Used(); n != 0 {
				t.Errorf("%d bytes of bodies are still lent", n)
			}
		}()
		SetBody(t, x, body)
		if v, ok := x.Received.Doc.Find("model"); ok {
			x.Model, _ = v.Text()
		}
	}
	for _, f := range edits {
		f(x)
	}
	res, err := x.Handle(t.Context(), c.Compile(root, routing.Key(root)))
	if err != nil {
		return exchange.DryRunRequest{}, x, err
	}
	res.Close()
	return x.Trail.Planned[0], x, nil
}
