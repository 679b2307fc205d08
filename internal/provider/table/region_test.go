package table_test

import (
	"net/url"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
)

// A profile exists in the region of its ARN only. A region that is set wins, and so
// does a custom host.
func TestRegionOfAnARNIsUsedIfNoneIsSet(t *testing.T) {
	const ireland = "https://bedrock-runtime.eu-west-1.amazonaws.com"
	for _, tt := range []struct {
		model   string
		options options
		host    string
		region  string
	}{
		{bedrockARN, nil, ireland, "eu-west-1"},
		{url.PathEscape(bedrockARN), nil, ireland, "eu-west-1"},
		{strings.ReplaceAll(bedrockARN, ":", "%3A"), options{"access_key_id": "a"}, ireland, "eu-west-1"},
		{bedrockARN, options{"region": "us-west-2"}, "https://bedrock-runtime.us-west-2.amazonaws.com", "us-west-2"},
		{bedrockARN, options{"cloud_a_region": "us-east-1"}, "https://bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"},
		{"eu.anthropic.claude-x-v1:0", nil, "https://bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"},
		{"arn:aws:bedrock::123456789012:prompt/x", nil, "https://bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"},
		{"arn:aws:bedrock:evil.example.com/:123456789012:prompt/x", nil, "https://bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"},
		{"arn:aws:s3:eu-west-1:123456789012:x", nil, "https://bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"},
	} {
		spec, _ := table.Lookup("bedrock")
		target, err := provider.NewTarget(spec, provider.Settings{Options: tt.options})
		if err != nil {
			t.Fatal(err)
		}
		target.Prepare()
		there := target.InRegionOf(tt.model)
		req, err := provider.NewRequest(t.Context(), there, &provider.Call{Operation: api.Converse, Method: "POST", Model: tt.model})
		if err != nil {
			t.Fatal(err)
		}
		if got := "https://" + req.URL.Host; got != tt.host || there.Option("region") != tt.region {
			t.Errorf("%s with %v: called at %s, signed for %s; want %s, %s", tt.model, tt.options, got, there.Option("region"), tt.host, tt.region)
		}
		if target.Option("region") != tt.region && target == there {
			t.Error("the shared target was changed")
		}
	}
	spec, _ := table.Lookup("bedrock")
	custom, err := provider.NewTarget(spec, provider.Settings{CustomHost: "https://vpce.example.com"})
	if err != nil || custom.InRegionOf(bedrockARN) != custom {
		t.Errorf("a custom host was replaced: %v", err)
	}
}
