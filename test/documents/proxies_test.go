package documents_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"modelgate/internal/testing/waittest"
)

// proxyExample returns the first block of a language below a heading of the page of operations.
func proxyExample(t *testing.T, heading, language string) string {
	t.Helper()
	for _, s := range parse("operations.md", read(t, "operations.md")).sections {
		for _, b := range s.blocks {
			if s.heading == heading && b.language == language {
				return b.text
			}
		}
	}
	t.Fatalf("operations.md has no example of %s", heading)
	return ""
}

// TestCaddyOfTheDocument runs Caddy with the file of the document in front of two nodes, one of which
// is away. Only the certificate, which Caddy gets from a public authority, is given to it.
func TestCaddyOfTheDocument(t *testing.T) {
	m := start(t, "caddy")
	m.write(t, "/etc/modelgate/modelgate.yaml", "version: 1\n")
	m.node(t, nodeA+":8787")
	certificate, key := trusted(t).Issue(t, "gateway.example.com")
	m.write(t, "gateway.pem", certificate)
	m.write(t, "gateway.key", key)
	conf := proxyExample(t, "Caddy", "caddy")
	m.write(t, "Caddyfile", conf)
	m.run(t, "caddy validate --adapter caddyfile --config Caddyfile")
	m.write(t, "Caddyfile", "{\n admin off\n http_port 8081\n auto_https disable_redirects\n default_bind "+front+"\n}\n"+
		strings.Replace(conf, "{\n", "{\n tls gateway.pem gateway.key\n", 1))
	m.run(t, "XDG_DATA_HOME=$PWD XDG_CONFIG_HOME=$PWD caddy run --adapter caddyfile --config Caddyfile >caddy.log 2>&1 &")
	client, got := httpClient(t), ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(m.run(t, "cat caddy.log"))
		}
	})
	waittest.Until(t, "Caddy serves", func() bool {
		resp, err := client.Get("https://gateway.example.com/ready")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		got = string(text)
		return err == nil && resp.StatusCode == http.StatusOK
	})
	for range 10 { // some of which Caddy sends to the node that is away first
		resp, err := client.Get("https://gateway.example.com/ready")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("a request gets %d", resp.StatusCode)
		}
	}
	if strings.TrimSpace(got) != "ready" {
		t.Errorf("the gateway says %q", got)
	}
}

// TestTraefikOfTheDocument decodes the file of the document into the fields that Traefik documents:
// Debian has no package of the program.
// https://doc.traefik.io/traefik/reference/dynamic-configuration/file/
func TestTraefikOfTheDocument(t *testing.T) {
	var file struct {
		HTTP struct {
			Routers map[string]struct {
				Rule, Service string
				EntryPoints   []string `yaml:"entryPoints"`
				TLS           *struct {
					CertResolver string `yaml:"certResolver"`
				} `yaml:"tls"`
			}
			Services map[string]struct {
				LoadBalancer struct {
					Servers            []struct{ URL string }
					HealthCheck        struct{ Path, Interval, Timeout string } `yaml:"healthCheck"`
					ResponseForwarding struct {
						FlushInterval string `yaml:"flushInterval"`
					} `yaml:"responseForwarding"`
				} `yaml:"loadBalancer"`
			}
		}
	}
	if err := yaml.UnmarshalWithOptions([]byte(proxyExample(t, "Traefik", "yaml")), &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	router := file.HTTP.Routers["modelgate"]
	service := file.HTTP.Services[router.Service]
	if router.TLS == nil || !strings.Contains(router.Rule, "gateway.example.com") || len(service.LoadBalancer.Servers) != 2 || service.LoadBalancer.HealthCheck.Path != "/ready" {
		t.Errorf("the file says %+v", file)
	}
}
