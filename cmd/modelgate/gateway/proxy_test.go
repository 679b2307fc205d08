package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"modelgate/cmd/modelgate/gateway"
	"modelgate/internal/testing/proxytest"
)

func TestCallsOfTheCommandLineUseTheProxy(t *testing.T) {
	if proxytest.Server() != "" {
		call := func(address string) (string, error) {
			c, err := gateway.New(gateway.Options{Address: address, Key: "mg-canary"})
			if err != nil {
				t.Fatal(err)
			}
			text, err := c.Do(t.Context(), gateway.Request{Method: "GET", Path: "/v1/models"})
			return string(text), err
		}
		if text, err := call("https://example.com"); err != nil || text != "gateway" {
			t.Errorf("over TLS: %q, %v", text, err)
		}
		if text, err := call("http://example.com"); err != nil || text != "proxied example.com" {
			t.Errorf("without TLS: %q, %v", text, err)
		}
		for _, address := range []string{"https://gate.internal", "https://localhost:1"} {
			if text, err := call(address); err == nil {
				t.Errorf("%s: %q", address, text)
			}
		}
		return
	}
	gate := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("x-gateway-api-key") != "mg-canary" {
			t.Errorf("the gateway key is %q", r.Header.Get("x-gateway-api-key"))
		}
		io.WriteString(w, "gateway")
	}))
	defer gate.Close()
	if got, want := proxytest.Run(t, gate), []string{"CONNECT example.com:443", "GET example.com"}; !slices.Equal(got, want) {
		t.Errorf("the proxy got %q, want %q", got, want)
	}
}
