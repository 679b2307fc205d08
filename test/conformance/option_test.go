package conformance

import (
	"net/http"
	"strings"
	"testing"
)

func TestConfigsNameTheirProvider(t *testing.T) {
	g, stored := start(t)
	p := newProvider(t, nil)
	prove(t, "S-081", "by id, by alias and by slug", func(t *testing.T) {
		for _, id := range []string{"openai", "vendora", "groq", "openai-compatible"} {
			p.forget()
			g.ask(t, node(`"provider":"`+id+`"`, `"api_key":"k"`, `"custom_host":"`+p.url+`"`)).wantOK(t)
			p.only(t)
		}
		stored.forget()
		g.ask(t, `{"provider":"@stored"}`).wantOK(t)
		if auth := stored.only(t).header.Get("Authorization"); auth != "Bearer "+storedKey {
			t.Errorf("Authorization at the provider = %q, want the stored credential", auth)
		}
	})
	for _, id := range []string{"no-such-provider", "OpenAI ", "", "@"} {
		prove(t, "S-081", "the unknown id '"+id+"' is refused", func(t *testing.T) {
			p.forget()
			unknown := node(`"provider":"`+id+`"`, `"api_key":"k"`, `"custom_host":"`+p.url+`"`)
			if id == "@" { // it would be a managed provider, which has its own
				unknown = `{"provider":"@"}`
			}
			g.ask(t, unknown).refused(t, http.StatusBadRequest)
			g.ask(t, tree(fallback, leaf(p), unknown)).refused(t, http.StatusBadRequest)
			p.wantNoRequests(t)
		})
	}
	for _, name := range []string{`7`, `true`, `["openai"]`, `null`} {
		prove(t, "S-081", "a provider of "+name+" is refused", func(t *testing.T) {
			g.refuses(t, p, node(`"provider":`+name, `"api_key":"k"`), "$.provider")
		})
	}
	prove(t, "S-081", "a slug that is not there is refused before anything is sent", func(t *testing.T) {
		p.forget()
		g.ask(t, tree(fallback, leaf(p), `{"provider":"@absent"}`)).refused(t, http.StatusNotFound)
		p.wantNoRequests(t)
	})
	prove(t, "S-084", "the older word does the same", func(t *testing.T) {
		for _, config := range []string{`{"virtual_key":"stored"}`, `{"virtual_key":"@stored"}`, `{"virtualKey":"stored"}`, tree(single, `{"virtual_key":"stored"}`)} {
			stored.forget()
			g.ask(t, config).wantOK(t)
			if auth := stored.only(t).header.Get("Authorization"); auth != "Bearer "+storedKey {
				t.Errorf("%s: Authorization at the provider = %q, want the stored credential", config, auth)
			}
		}
		g.ask(t, `{"virtual_key":"absent"}`).refused(t, http.StatusNotFound)
		g.refuses(t, p, `{"virtual_key":7}`, "$.virtual_key")
	})
	prove(t, "S-086", "a custom host is asked in the provider's form", func(t *testing.T) {
		for _, tt := range []struct{ provider, path, body, uri, header, value string }{
			{"openai", "/v1/chat/completions", modelRoutes[0].body, "/v1/chat/completions", "Authorization", "Bearer k-1"},
			{"azure-openai", "/v1/chat/completions", `{"model":"d-1","messages":[{"role":"user","content":"x"}]}`, "/v1/deployments/d-1/chat/completions?api-version=2024-10-21", "Api-Key", "k-1"},
			{"anthropic", "/v1/messages", messagesBody, "/v1/messages", "X-Api-Key", "k-1"},
		} {
			p.forget()
			g.do(t, "POST", tt.path, tt.body, "x-gateway-api-key", bootstrapKey, "x-gateway-config",
				node(`"provider":"`+tt.provider+`"`, `"api_key":"k-1"`, `"custom_host":"`+p.url+`"`)).wantOK(t)
			if in := p.only(t); in.uri != tt.uri || in.header.Get(tt.header) != tt.value {
				t.Errorf("%s was asked for %s with %s %q, want %s with %q", tt.provider, in.uri, tt.header, in.header.Get(tt.header), tt.uri, tt.value)
			}
		}
	})
	prove(t, "S-086", "it may need no credential", func(t *testing.T) {
		p.forget()
		g.ask(t, node(`"provider":"openai"`, `"custom_host":"`+p.url+`"`)).wantOK(t)
		if auth := p.only(t).header.Get("Authorization"); auth != "" {
			t.Errorf("Authorization at the provider = %q, want none", auth)
		}
	})
	prove(t, "S-105", "strict compliance refuses tools of other types", func(t *testing.T) {
		p.forget()
		body := strings.Replace(modelRoutes[0].body, "{", `{"tools":[{"type":"web_search"}],`, 1)
		ask := func(strict string) response {
			return g.do(t, "POST", modelRoutes[0].path, body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", leaf(p, `"strict_vendora_compliance":`+strict))
		}
		ask("true").refusedFor(t, "tools")
		p.wantNoRequests(t)
		ask("false").wantOK(t)
		p.only(t)
	})
}

// TestAddressesOfDeployments asks where a request would go, since the addresses
// are on the net.
func TestAddressesOfDeployments(t *testing.T) {
	g, _ := start(t)
	const azure, host = `"provider":"azure-openai"`, "https://contoso.openai.azure.com/openai/deployments/"
	const chat = "/chat/completions?api-version="
	resource := node(azure, `"api_key":"k"`, `"resource_name":"contoso"`, `"api_version":"2024-06-01"`)
	one := `{"deployment_id":"d-one","alias":"m-one","api_version":"2024-02-01"}`
	two := `{"deployment_id":"d-two","alias":"m-two","api_version":"2024-03-01"}`
	other := `{"deployment_id":"d-other","alias":"m-other","api_version":"2024-04-01","is_default":true}`
	for _, tt := range []struct{ of, name, config, model, url string }{
		{"S-106", "resource, deployment and version", with(resource, `"deployment_id":"d-1"`), "m", host + "d-1" + chat + "2024-06-01"},
		{"S-106", "with neutral options", node(`"provider":"cloud_c"`, `"api_key":"k"`, `"resource_name":"contoso"`, `"deployment_id":"d-1"`, `"api_version":"2024-06-01"`), "m", host + "d-1" + chat + "2024-06-01"},
		{"S-106", "the model names the deployment", resource, "m-1", host + "m-1" + chat + "2024-06-01"},
		{"S-107", "the alias that is the model", with(resource, `"deployments":[`+one+`,`+two+`,`+other+`]`), "m-one", host + "d-one" + chat + "2024-02-01"},
		{"S-107", "another alias", with(resource, `"deployments":[`+one+`,`+two+`,`+other+`]`), "m-two", host + "d-two" + chat + "2024-03-01"},
		{"S-107", "the default for no alias", with(resource, `"deployments":[`+other+`,`+one+`,`+two+`]`), "m-none", host + "d-other" + chat + "2024-04-01"},
		{"S-107", "an alias before the default", with(resource, `"deployments":[`+other+`,`+one+`]`), "m-one", host + "d-one" + chat + "2024-02-01"},
		{"S-107", "the alias that an override names", with(resource, `"deployments":[`+one+`,`+two+`]`, `"override_params":{"model":"m-two"}`), "m-one", host + "d-two" + chat + "2024-03-01"},
		{"S-107 S-106", "neither alias nor default", with(resource, `"deployments":[`+one+`]`, `"deployment_id":"d-1"`), "m-none", host + "d-1" + chat + "2024-06-01"},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			e := g.explained(t, tt.config, `"body":{"model":"`+tt.model+`","messages":[{"role":"user","content":"x"}]}`)
			if got := at(e, "attempt", "url"); got != tt.url {
				t.Errorf("the request would go to %v, want %s: %v", got, tt.url, e["error"])
			}
		})
	}
	for _, tt := range []struct{ of, name, config, path, url string }{
		{"S-110", "the region of cloud A", node(`"provider":"cloud_a"`, `"api_key":"k"`, `"cloud_a_region":"eu-west-1"`), "/v1/model/m/converse", "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse"},
		{"S-111", "the region of cloud B", node(`"provider":"cloud_b"`, `"api_key":"k"`, `"cloud_b_region":"europe-west4"`), "/v1/things", "https://europe-west4-aiplatform.googleapis.com/things"},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			e := g.explained(t, tt.config, `"path":"`+tt.path+`"`, `"body":{}`)
			if got := at(e, "attempt", "url"); got != tt.url {
				t.Errorf("the request would go to %v, want %s: %v", got, tt.url, e["error"])
			}
		})
	}
}

func TestOptionsOfVendorsAreSent(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	host := `"custom_host":"` + p.url + `"`
	prove(t, "S-108", "organisation and project", func(t *testing.T) {
		p.forget()
		g.ask(t, node(`"provider":"vendora"`, `"api_key":"k"`, host, `"vendora_organization":"org-1"`, `"vendora_project":"proj-1"`)).wantOK(t)
		in := p.only(t)
		if in.header.Get("Openai-Organization") != "org-1" || in.header.Get("Openai-Project") != "proj-1" {
			t.Errorf("the provider got\n%s", in.head)
		}
	})
	const messages = "/v1/messages"
	native := func(t *testing.T, config string, header ...string) received {
		t.Helper()
		p.forget()
		g.do(t, "POST", messages, messagesBody, append([]string{"x-gateway-api-key", bootstrapKey, "x-gateway-config", config}, header...)...).wantOK(t)
		return p.only(t)
	}
	prove(t, "S-109 S-563", "the beta parameter", func(t *testing.T) {
		in := native(t, node(`"provider":"vendorb"`, `"api_key":"k"`, host, `"vendorb_beta":"tools-2024,cache-2024"`))
		if got := in.header.Get("Anthropic-Beta"); got != "tools-2024,cache-2024" {
			t.Errorf("Anthropic-Beta at the provider = %q", got)
		}
	})
	prove(t, "S-108 S-109", "to no other vendor", func(t *testing.T) {
		all := `"vendora_organization":"org-1","vendora_project":"proj-1","vendorb_beta":"tools-2024"`
		for id, stranger := range map[string]string{"vendora": "tools-2024", "vendorb": "org-1", "groq": "tools-2024"} {
			in := native(t, node(`"provider":"`+id+`"`, `"api_key":"k"`, host, all))
			if strings.Contains(in.head, stranger) {
				t.Errorf("%s got what is meant for another vendor:\n%s", id, in.head)
			}
		}
	})
	prove(t, "S-113", "deployment name and version of cloud C", func(t *testing.T) {
		p.forget()
		g.ask(t, node(`"provider":"azure-ai"`, `"api_key":"k"`, host, `"cloud_c_deployment_name":"d-1"`, `"cloud_c_api_version":"2024-05-01"`)).wantOK(t)
		in := p.only(t)
		if in.header.Get("Azureml-Model-Deployment") != "d-1" || !strings.HasSuffix(in.uri, "?api-version=2024-05-01") {
			t.Errorf("the provider was asked for %s with\n%s", in.uri, in.head)
		}
	})
	prove(t, "S-003 S-113", "the neutral word with a deployment's name is the one that has deployments", func(t *testing.T) {
		p.forget()
		got := g.ask(t, node(`"provider":"cloud_c"`, `"api_key":"k"`, host, `"cloud_c_deployment_name":"d-1"`, `"cloud_c_deployment_type":"managed"`, `"cloud_c_region":"r"`, `"cloud_c_api_version":"2024-05-01"`)).wantOK(t)
		if id := got.header.Get("x-gateway-provider"); id != "azure-ai" {
			t.Errorf("x-gateway-provider = %q, want azure-ai", id)
		}
	})
}
