package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// TestTheDashboardShowsWhatTheGatewayHas reads every query of the dashboard and
// looks for its metrics, and the labels it chooses by, at a running gateway.
func TestTheDashboardShowsWhatTheGatewayHas(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	g.Post("/chat/completions", chat)
	g.Post("/chat/completions", strings.Replace(chat, "sim-1", "sim-1+status=503", 1))
	res, err := http.Get(g.AdminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{} // of one series each
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), "{")
		name, _, _ = strings.Cut(name, " ")
		labels[name] += rest
	}
	b, err := os.ReadFile("../../examples/grafana/modelgate.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	metric := regexp.MustCompile(`((?:modelgate|process|go)_[a-z_]+)(\{[^}]*\})?`)
	chosen := regexp.MustCompile(`([a-z]+)=~?"`)
	found := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, m := range metric.FindAllStringSubmatch(target.Expr, -1) {
				found++
				series, known := labels[m[1]]
				if !known {
					t.Errorf("%s: the gateway has no metric %s", p.Title, m[1])
				}
				for _, l := range chosen.FindAllStringSubmatch(m[2], -1) {
					if l[1] != "instance" && !strings.Contains(series, l[1]+"=") {
						t.Errorf("%s: %s has no label %s", p.Title, m[1], l[1])
					}
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("the dashboard asks for %d metrics; were its queries read?", found)
	}
}
