package settings_test

import (
	"strings"
	"testing"

	"modelgate/internal/settings"
)

const weather = `{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":"io.example.team/Weather API","title":"Weather","description":"Forecasts",
	"version":"1.2.3","packages":[{"registryType":"npm","identifier":"weather"}],"remotes":[{"type":"sse","url":"https://old.example.com/sse"},
	{"type":"streamable-http","url":"https://{region}.example.com/mcp","variables":{"region":{"default":"eu"}},"headers":[
		{"name":"Authorization","value":"Bearer {token}","description":"The\ntoken","isRequired":true,"isSecret":true,"variables":{"token":{"description":"of your account","isSecret":true}}},
		{"name":"X-Unit","description":"metric or imperial"}]}]}`

func TestServerJSONBecomesAFile(t *testing.T) {
	file, err := settings.ServerJSON([]byte(weather))
	if err != nil {
		t.Fatal(err)
	}
	const env = "MCP_INTEGRATION_WEATHER_API_CUSTOM_HEADERS_AUTHORIZATION"
	for _, want := range []string{"# Set " + env + " to the header Authorization: `Bearer {token}`. The token {token} is: of your account\n",
		"# Left out, because it is optional: the header X-Unit. metric or imperial\n"} {
		if !strings.Contains(string(file), want) {
			t.Errorf("%q is missing in\n%s", want, file)
		}
	}
	s, err := settings.ParseState("f", file, settings.SecretResolver{Env: func(name string) (string, bool) { return "secret", name == env }})
	if err != nil || len(s.MCPIntegrations) != 1 {
		t.Fatalf("%v\n%s", err, file)
	}
	i := s.MCPIntegrations[0]
	if i.Slug != "weather-api" || i.URL != "https://eu.example.com/mcp" || i.Transport != "http" || i.Auth != "headers" || i.Name != "Weather" || len(i.Configurations.Headers) != 1 {
		t.Errorf("the integration is %+v", i)
	}
}

func TestServerJSONThatCannotBeUsedIsRefused(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"a package":             {`{"name":"a/b","packages":[{"registryType":"npm","identifier":"x"}]}`, "only a package"},
		"nothing":               {`{"name":"a/b"}`, "neither remotes nor packages"},
		"another transport":     {`{"name":"a/b","remotes":[{"type":"stdio","url":"https://a.example.com"}]}`, "no remote of the type"},
		"a variable":            {`{"name":"a/b","remotes":[{"type":"sse","url":"https://{tenant}.example.com","variables":{"tenant":{}}}]}`, "{tenant} without a default"},
		"a variable in another": {`{"name":"a/b","remotes":[{"type":"sse","url":"https://{a}.{b}","variables":{"a":{"default":"{b}"},"b":{"default":"x"}}}]}`, "{b} without a default"},
		"a long address": {`{"name":"a/b","remotes":[{"type":"sse","url":"https://` + strings.Repeat("{a}", 3000) + `","variables":{"a":{"default":"` + strings.Repeat("x", 1000) + `"}}}]}`,
			"more than 16384 bytes"},
		"a file":       {`{"name":"a/b","remotes":[{"type":"sse","url":"file:///etc/passwd"}]}`, "must begin with https://"},
		"a line break": {`{"name":"a/b","remotes":[{"type":"sse","url":"https://a.example.com\nmcp_servers: []"}]}`, "must begin with https://"},
		"no JSON":      {`name: a`, "not a server.json"},
		"no name":      {`{}`, "has no name"},
		"too long":     {`{"name":"` + strings.Repeat("a", 1<<20) + `"}`, "can have"},
	} {
		if _, err := settings.ServerJSON([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestServerJSONCannotAddToAFile has texts that try to leave their comment or their place.
func TestServerJSONCannotAddToAFile(t *testing.T) {
	evil := `x\nmcp_servers:\n  - {slug: evil}\n# \u2028 ${HOME}`
	file, err := settings.ServerJSON([]byte(`{"name":"a/` + evil + `","title":"` + evil + `","description":"` + evil + `","remotes":[{"type":"streamable-http","url":"https://a.example.com/mcp",
		"headers":[{"name":"X-A","value":"` + evil + `","description":"` + evil + `"},{"name":"X-B","description":"` + evil + `"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := settings.ParseState("f", file, settings.SecretResolver{Env: func(string) (string, bool) { return "secret", true }})
	if err != nil || len(s.MCPIntegrations) != 1 || s.MCPServers != nil {
		t.Errorf("%v, %+v\n%s", err, s, file)
	}
}
