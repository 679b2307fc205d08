package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"modelgate/internal/server"
	"modelgate/internal/testing/gatewaytest"
)

// A pricing file is in cents per token: 3 tokens read and 2 written cost 0.07 cents.
const pricingFile = `{"m":{"pricing_config":{"pay_as_you_go":{"request_token":{"price":0.01},"response_token":{"price":0.02}}}}}`

func TestCostsFollowThePriceFiles(t *testing.T) {
	t.Setenv("SIM_KEY", "k")
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pricing/openai" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		io.WriteString(w, pricingFile)
	}))
	defer proxy.Close()
	address, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	local, data := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(local, "openai.json"), []byte(pricingFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(data, "blob", "prices"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "blob", "prices", "openai.json"), []byte(pricingFile), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]server.PriceFiles{
		"proxy": {Proxy: address}, "log store": {PricingLogStore: "prices"}, "local": {PricingLocal: local},
	} {
		t.Run(name, func(t *testing.T) {
			o := gatewaytest.Options{Upstream: http.HandlerFunc(served), PriceFiles: files, Settings: "providers:\n  - {slug: ours, provider: openai, custom_host: SIMULATOR, api_key: \"${SIM_KEY}\"}\nupstream: {trusted_hosts: [127.0.0.1]}\n"}
			if name == "log store" {
				o.Data = data
			}
			g := gatewaytest.New(t, o)
			var cost any
			for end := time.Now().Add(time.Minute); cost != 0.07 && time.Now().Before(end); {
				cost = g.Entry(g.Post("/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "x-gateway-provider", "@ours"))["cost"]
			}
			if cost != 0.07 {
				t.Errorf("the request costs %v cents, want 0.07", cost)
			}
		})
	}
}
