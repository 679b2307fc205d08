package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/internal/model/catalog"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

func TestTermsAreReadFromWhatIsStored(t *testing.T) {
	t.Parallel()
	models := []store.IntegrationModel{
		{Slug: "plain", Pricing: []byte(`null`)},
		{Slug: "mine", Pricing: []byte(`{"type":"static","pay_as_you_go":{"request_token":{"price":0.0002},"cache_read_input_token":{"price":0},"response_token":{"price":0.0008},` +
			`"additional_units":{"thinking_token":{"price":0.001}}},"currency":"USD"}`)},
		{Slug: "nothing", Pricing: []byte(`{"pay_as_you_go":{}}`)},
	}
	own := map[string]*catalog.Price{"mine": {Provider: "integration", Model: "mine", Rates: catalog.RatesOf(map[catalog.Kind]catalog.Rate{
		catalog.Input: 2_000_000, catalog.CachedInput: 0, catalog.Output: 8_000_000, catalog.Reasoning: 10_000_000})}}
	for _, tt := range []struct {
		name string
		in   publication.Integration
		want *catalog.NegotiatedPricing
	}{
		{"nothing", publication.Integration{Row: store.Integration{Pricing: []byte(`null`)}}, nil},
		{"nothing said", publication.Integration{Models: models[:1]}, nil},
		{"reserved", publication.Integration{Row: store.Integration{Configuration: store.IntegrationSettings{Reserved: true}}}, &catalog.NegotiatedPricing{Reserved: true}},
		{"prices of models", publication.Integration{Models: models}, &catalog.NegotiatedPricing{Own: own}},
		{"a factor", publication.Integration{Row: store.Integration{Pricing: []byte(`{"multiplier":1.25}`)}}, &catalog.NegotiatedPricing{Factors: map[string]float64{"": 1.25}}},
		{"factors", publication.Integration{Row: store.Integration{Pricing: []byte(`{"default":{"multiplier":2},"multiplier":9,"m":{"multiplier":0},"n":{"other":1}}`)}}, &catalog.NegotiatedPricing{Factors: map[string]float64{"": 2, "m": 0}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, pricingOf(&tt.in), cmpopts.IgnoreUnexported(catalog.Price{})); diff != "" {
				t.Errorf("terms() differs (-want +got):\n%s", diff)
			}
		})
	}
}
