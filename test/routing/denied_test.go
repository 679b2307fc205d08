package routing

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// denied is a case of a first target whose guardrail denies, before a second one without.
type denied struct {
	name, place, codes string // of the guardrail, and on_status_codes
	status             int
	first, second      int // calls
}

var denials = []denied{
	{"response, 446 listed", "output_guardrails", `,"on_status_codes":[429,446]`, 200, 1, 1},
	{"response, nothing listed", "output_guardrails", ``, 200, 1, 1},
	{"response, 446 not listed", "output_guardrails", `,"on_status_codes":[429]`, 446, 1, 0},
	{"request, 446 listed", "input_guardrails", `,"on_status_codes":[429,446]`, 200, 0, 1},
	{"request, 446 not listed", "input_guardrails", `,"on_status_codes":[429]`, 446, 0, 0},
}

// TestFallbackLeavesATargetWhoseGuardrailDenies sends each case as JSON and as a stream.
// Every call is an attempt in the log, and is paid once: a response that was denied too.
func TestFallbackLeavesATargetWhoseGuardrailDenies(t *testing.T) {
	model := func(i int, stream bool, place string) string { return fmt.Sprintf("d%d%t%s", i, stream, place) }
	var prices []string
	for i := range denials {
		for _, name := range []string{model(i, false, "a"), model(i, false, "b"), model(i, true, "a"), model(i, true, "b")} {
			prices = append(prices, fmt.Sprintf("{provider: openai-compatible, model: %q, input: 1, output: 2}", name))
		}
	}
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "prices: [" + strings.Join(prices, ", ") + "]\n"})
	for i, tt := range denials {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%t", tt.name, stream), func(t *testing.T) {
				first, second := model(i, stream, "a"), model(i, stream, "b")
				config := fmt.Sprintf(`{"strategy":{"mode":"fallback"%s},"targets":[`+
					`{"provider":"@simulator","override_params":{"model":%q},%q:[{"id":"h","deny":true,"default.wordCount":{"minWords":100000,"maxWords":100001}}]},`+
					`{"provider":"@simulator","override_params":{"model":%q}}]}`, tt.codes, first, tt.place, second)
				body := fmt.Sprintf(`{"model":"asked","stream":%t,"messages":%s}`, stream, asked)
				res := g.Post("/chat/completions", body, "x-gateway-provider", "", "x-gateway-config", config)
				if res.Status != tt.status || res.Status == 446 && !strings.Contains(string(res.Body), "denied_by_guardrail") {
					t.Fatalf("status %d, want %d: %.400s", res.Status, tt.status, res.Body)
				}
				if a, b := g.Sim.Calls(first), g.Sim.Calls(second); a != tt.first || b != tt.second {
					t.Errorf("%d and %d calls, want %d and %d", a, b, tt.first, tt.second)
				}
				checkDenied(t, g, tt, g.Entry(res), first, second)
			})
		}
	}
}

// checkDenied checks what the log says of the calls of a case.
func checkDenied(t *testing.T, g *gatewaytest.Gateway, tt denied, entry map[string]any, models ...string) {
	t.Helper()
	var want []string
	cost := 0.0
	for i, calls := range []int{tt.first, tt.second} {
		if calls > 0 {
			want = append(want, fmt.Sprintf("config.targets[%d] 200", i))
			served := g.Sim.Served().Models[models[i]]
			cost += float64(served.Prompt+2*served.Completion) * 1e-4 // cents, at 1 and 2 dollars a million
		}
	}
	var got []string
	attempts, _ := entry["attempts"].([]any)
	for _, a := range attempts {
		a := a.(map[string]any)
		got = append(got, fmt.Sprint(a["target"], " ", a["status"]))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("attempts %v, want %v", got, want)
	}
	if paid, _ := entry["cost"].(float64); fmt.Sprintf("%.9f", paid) != fmt.Sprintf("%.9f", cost) || tt.first+tt.second > 0 && cost == 0 {
		t.Errorf("cost %v, want %v", entry["cost"], cost)
	}
}
