package attempt_test

import (
	"testing"
	"testing/synctest"

	"modelgate/api"
	"modelgate/internal/model/catalog"
	"modelgate/internal/testing/pipelinetest"
)

// The prices are those of the pages of providers: an image at 0.04 dollars, or 0.08
// in high quality, a minute of recording at 0.006, a million characters at 15.
func TestImagesAndAudioArePricedByTheUnit(t *testing.T) {
	units := &catalog.UnitPrices{
		Images: map[string]catalog.NanoDollars{"": 40_000_000, "hd/1024x1024": 80_000_000}, Second: 100_000, Character: 15_000_000,
	}
	tokens := catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: 1_000_000, catalog.Output: 2_000_000, catalog.OutputImage: 30_000_000})
	only := catalog.Price{Provider: "quirky", Model: "*", NoInput: true, NoOutput: true, Units: units}
	both := catalog.Price{Provider: "quirky", Model: "*", Rates: tokens, Units: units}
	perRequest := catalog.Price{Provider: "quirky", Model: "*", NoInput: true, NoOutput: true, Units: units, Request: 1_000_000}
	noOutput := catalog.Price{Provider: "quirky", Model: "*", NoOutput: true, Rates: tokens}
	const picture = `{"created":1,"data":[{"b64_json":"AAAA"},{"b64_json":"AAAA"}]}`
	for _, tt := range []struct {
		name      string
		op        api.Operation
		price     catalog.Price
		body, got string
		want      catalog.NanoDollars
		known     bool
	}{
		{"two images", api.Images, only, `{"model":"m","prompt":"a kiwi","n":2}`, picture, 80_000_000, true},
		{"two images of a quality", api.Images, only, `{"model":"m","prompt":"a kiwi","n":2,"quality":"hd","size":"1024x1024"}`, picture, 160_000_000, true},
		{"two images, and a price of a request", api.Images, perRequest, `{"model":"m","prompt":"a kiwi","n":2}`, picture, 81_000_000, true},
		{"no image", api.Images, only, `{"model":"m","prompt":"a kiwi"}`, `{"created":1,"data":[]}`, 0, false},
		{"images that are billed by tokens", api.Images, both, `{"model":"m","prompt":"a kiwi"}`,
			`{"created":1,"data":[{"b64_json":"AAAA"}],"usage":{"input_tokens":10,"output_tokens":100,"output_tokens_details":{"image_tokens":90,"text_tokens":10}}}`, 10*1000 + 10*2000 + 90*30000, true},
		{"speech", api.AudioSpeech, only, `{"model":"m","input":"Grüße","voice":"a"}`, "\x00\x01\x02", 5 * 15_000, true},
		{"tokens without a price of output", api.Chat, noOutput, rtHello, rtResponseBody, 0, false},
		{"tokens of a model sold by the unit", api.Chat, only, rtHello, rtResponseBody, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				media := "application/json"
				if tt.op == api.AudioSpeech {
					media = "audio/mpeg"
				}
				p := rtServe(t, rtRespond(200, media, tt.got))
				p.prices = catalog.NewBook([]catalog.Price{tt.price}, nil)
				_, err := p.send(t.Context(), rtSingle, tt.body, nil, func(x *pipelinetest.Request) { x.Operation = tt.op })
				if err != nil || len(p.ledger.settlements) != 1 {
					t.Fatalf("%d settlements, %v", len(p.ledger.settlements), err)
				}
				if s := p.ledger.settlements[0]; s.Cost != tt.want || s.Priced != tt.known {
					t.Errorf("settled at %d nano-dollars, known %t; want %d, %t", s.Cost, s.Priced, tt.want, tt.known)
				}
			})
		})
	}
}

// What is priced is what is sent: quality, size and text may be those of the config.
func TestUnitsArePricedAsTheConfigSetsThem(t *testing.T) {
	units := &catalog.UnitPrices{Images: map[string]catalog.NanoDollars{"": 40_000_000, "hd/1024x1024": 80_000_000}, Character: 15_000_000}
	for _, tt := range []struct {
		name           string
		op             api.Operation
		override, body string
		media, got     string
		want           catalog.NanoDollars
	}{
		{"image", api.Images, `{"quality":"hd","size":"1024x1024"}`, `{"model":"m","prompt":"a kiwi","quality":"low"}`, "application/json", `{"created":1,"data":[{"b64_json":"AAAA"}]}`, 80_000_000},
		{"speech", api.AudioSpeech, `{"input":"four"}`, `{"model":"m","input":"","voice":"a"}`, "audio/mpeg", "\x00\x01", 4 * 15_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := rtServe(t, rtRespond(200, tt.media, tt.got))
				p.prices = catalog.NewBook([]catalog.Price{{Provider: "quirky", Model: "*", NoInput: true, NoOutput: true, Units: units}}, nil)
				_, err := p.send(t.Context(), `{"provider":"@a","override_params":`+tt.override+`}`, tt.body, nil, func(x *pipelinetest.Request) { x.Operation = tt.op })
				if err != nil || len(p.ledger.settlements) != 1 || p.ledger.settlements[0].Cost != tt.want {
					t.Errorf("settled %+v, want %d nano-dollars; %v", p.ledger.settlements, tt.want, err)
				}
			})
		})
	}
}
