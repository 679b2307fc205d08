package routing_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/secret"
	"modelgate/internal/model/catalog"
	"modelgate/internal/provider"
	"modelgate/internal/testing/pipelinetest"
)

// rtPrice is a price of a provider in millionths of a dollar.
func rtPrice(id string, input, output catalog.Rate) catalog.Price {
	const dollar = 1_000_000
	return catalog.Price{Provider: id, Model: "*", Rates: catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: input * dollar, catalog.Output: output * dollar})}
}

// rtProviders gives the targets of an exchange these providers, in the order of
// their paths, and the body to the exchange.
func rtProviders(t *testing.T, pool *bytepool.Pool, body string, book *catalog.PriceBook, ids ...string) func(x *pipelinetest.Request) {
	return func(x *pipelinetest.Request) {
		var err error
		if x.Received.Body, err = pool.ReadAll(strings.NewReader(body), int64(len(body)), 1<<20); err != nil {
			t.Fatal(err)
		}
		pipelinetest.SetBody(t, x, body)
		x.Dialect, x.Model, x.Limiting.Prices = api.DialectChat, "m", book
		x.Resolve = func(leaf *config.Config) (*provider.Target, error) {
			spec := *pipelinetest.Spec
			var n int
			fmt.Sscanf(leaf.Path, "config.targets[%d]", &n)
			if spec.ID = ids[n]; spec.ID == "mute" {
				spec.Dialect, spec.Paths = "", nil
			}
			return provider.NewTarget(&spec, provider.Settings{Key: secret.New("provider-key")})
		}
	}
}

// A target whose input costs 1 and whose output costs 10 is cheaper than one the
// other way round as long as there is less output than input.
func TestCostIsOfTheRequestAndTheLongestAllowedResponse(t *testing.T) {
	book := catalog.NewBook([]catalog.Price{rtPrice("dear-output", 1, 10), rtPrice("dear-input", 10, 1)}, nil)
	pool := bytepool.New(0)
	// sized returns a body of 4 × tokens bytes with this member.
	sized := func(tokens int, member string) string {
		body := `{"model":"m",` + member + `"user":""}`
		return strings.Replace(body, `""}`, `"`+strings.Repeat("u", 4*tokens-len(body))+`"}`, 1)
	}
	for _, tt := range []struct{ name, body, want string }{
		{"less output", sized(40, `"max_tokens":39,`), "0"},
		{"as much output, where the first serves", sized(40, `"max_tokens":40,`), "0"},
		{"more output", sized(40, `"max_tokens":41,`), "1"},
		{"a byte more of input", strings.Replace(sized(40, `"max_tokens":41,`), "uu", "uuu", 1), "0"},
		{"the newer name of the limit", sized(40, `"max_completion_tokens":41,`), "1"},
		{"a limit of another API is none", sized(499, `"inferenceConfig":{"maxTokens":39},`), "1"},
		{"no limit and little input", sized(499, ""), "1"},
		{"no limit and much input", sized(501, ""), "0"},
		{"a limit of zero is none", sized(499, `"max_tokens":0,`), "1"},
		{"a limit below zero is none", sized(499, `"max_tokens":-1,`), "1"},
		{"a limit that is not a number is none", sized(499, `"max_tokens":"few",`), "1"},
		{"a limit in a string, as some readers accept it", sized(499, `"max_tokens":"9",`), "0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := pipelinetest.New(t, pipelinetest.Tree("cost", 2, ""))
			if got := r.Send(rtProviders(t, pool, tt.body, book, "dear-output", "dear-input")); got.Path != tt.want {
				t.Errorf("%d bytes went to %s, want %s: %v", len(tt.body), got.Path, tt.want, got.X.Trail.Decisions)
			}
		})
	}
}

func TestCostSkipsTargetsThatDoNotServe(t *testing.T) {
	book := catalog.NewBook([]catalog.Price{rtPrice("cheap", 1, 1), rtPrice("dear", 9, 9), rtPrice("mute", 0, 0)}, nil)
	pool := bytepool.New(0)
	for _, tt := range []struct {
		name, targets, want string
	}{
		{"the cheaper one first", "cheap dear", "0"},
		{"the cheaper one last", "dear cheap", "1"},
		{"equal prices", "cheap cheap", "0"},
		{"one without a price comes last", "unknown dear", "1"},
		{"none with a price", "unknown unknown", "0"},
		{"one that does not offer it", "mute dear", "1"},
		{"none that offers it", "mute mute", "0"},
		{"in the middle", "dear cheap dear", "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ids := strings.Fields(tt.targets)
			r := pipelinetest.New(t, pipelinetest.Tree("cost", len(ids), ""))
			if got := r.Send(rtProviders(t, pool, `{"model":"m"}`, book, ids...)); got.Path != tt.want || got.TargetList() != tt.want {
				t.Errorf("%s: went to %q, want %s: %v", tt.targets, got.TargetList(), tt.want, got.X.Trail.Decisions)
			}
		})
	}
}

// The model of a target is the one that is sent to it, which the request may not name.
func TestCostIsThatOfTheModelThatIsSent(t *testing.T) {
	price := func(model string, each catalog.Rate) catalog.Price {
		p := rtPrice("quirky", each, each)
		p.Model = model
		return p
	}
	book := catalog.NewBook([]catalog.Price{price("dear", 10), price("cheap", 1)}, nil)
	pool := bytepool.New(0)
	r := pipelinetest.New(t, `{"strategy":{"mode":"cost"},"targets":[
		{"provider":"@a","default_params":{"model":"dear"}},{"provider":"@a","default_params":{"model":"cheap"}}]}`)
	got := r.Send(rtProviders(t, pool, `{"max_tokens":10}`, book, "quirky", "quirky"), func(x *pipelinetest.Request) {
		x.Model = ""
		defer x.Received.Body.Release()
	})
	if got.Path != "1" {
		t.Errorf("sent to target %q, want the one whose default model is cheap", got.Path)
	}
}
