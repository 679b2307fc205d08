package server_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// requestLabels returns the names and labels of the gateway's own figures, without those by
// model, of which there is a limited number.
func requestLabels(t *testing.T, g *gatewaytest.Gateway) map[string]string {
	t.Helper()
	res, err := http.Get(g.AdminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	list := make(map[string]string)
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, "modelgate_") && !strings.HasPrefix(line, "modelgate_model_") {
			i := strings.LastIndexByte(line, ' ')
			list[line[:i]] = line[i+1:]
		}
	}
	return list
}

func TestClientTextNeverBecomesALabel(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	noise := func(i int) {
		word := fmt.Sprintf("canary%d", i)
		body := strings.Replace(chat, "sim-1", word, 1)
		g.Post("/chat/completions", body, "x-gateway-metadata", `{"`+word+`":"`+word+`"}`, "x-gateway-trace-id", word, "user-agent", word)
		g.Post("/"+word, body)
		g.Post("/chat/completions", body, "x-gateway-provider", word)
		g.Post("/chat/completions", body, "x-gateway-provider", "@"+word)
		g.Post("/chat/completions", body, "x-gateway-api-key", word)
		g.Post("/chat/completions", body, "x-gateway-config", word)
		g.Post("/chat/completions", strings.Replace(chat, "sim-1", "sim-1+status=503", 1), "x-gateway-trace-id", word)
		g.Do(g.Request("M"+word, "/x", ""))
	}
	noise(0)
	before := requestLabels(t, g)
	for i := range 20 {
		noise(i)
	}
	after := requestLabels(t, g)
	if len(after) != len(before) {
		t.Errorf("%d series before, %d after: what clients write makes new ones", len(before), len(after))
	}
	for name := range after {
		if strings.Contains(strings.ToLower(name), "canary") {
			t.Errorf("a client's word became a label: %s", name)
		}
	}
	requests := `modelgate_requests_total{operation="chat",outcome="success",provider="openai-compatible",status="200"}`
	if after[requests] != "21" {
		t.Errorf("%s = %s, want 21", requests, after[requests])
	}
	if after["modelgate_log_rows_lost_total"] != "0" {
		t.Errorf("modelgate_log_rows_lost_total = %s, want 0", after["modelgate_log_rows_lost_total"])
	}
}

func TestExchangesWithoutAPriceAreCounted(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "prices:\n  - {provider: openai-compatible, model: priced, input: 1, output: 1}\n"})
	for range 3 {
		g.Post("/chat/completions", strings.Replace(chat, "sim-1", "priced", 1))
		g.Post("/chat/completions", strings.Replace(chat, "sim-1", "unpriced", 1))
		g.Post("/chat/completions", strings.Replace(chat, "sim-1", "unpriced+status=500", 1)) // used nothing
	}
	const name = `modelgate_price_unknown_total{provider="openai-compatible"}`
	if got := requestLabels(t, g)[name]; got != "3" {
		t.Errorf("%s = %s, want 3", name, got)
	}
}
