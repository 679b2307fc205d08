package ledger

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/server"
	"modelgate/internal/simulator"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

// accounts are what a ledger holds of each attempt, as text.
func accounts(t *testing.T, data string) (list []string, intents int) {
	t.Helper()
	err := ledger.Each(server.LedgerDir(data), func(r ledger.Record) {
		switch {
		case r.Intent != nil:
			intents++
		case r.Settle != nil:
			s := r.Settle
			text := fmt.Sprintf("%d %s %d", s.Attempt, s.Outcome, s.Status)
			if s.Usage.Known {
				text += fmt.Sprintf(" %d+%d", s.Usage.Prompt(), s.Usage.Completion())
			}
			if s.Usage.Estimated {
				text += " estimated"
			}
			if s.Priced {
				text += fmt.Sprintf(" %d by %s", s.Cost, s.Price)
			}
			list = append(list, text)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list, intents
}

func config(strategy, first, second string) string {
	return fmt.Sprintf(`{"strategy":{"mode":"fallback"},%s"targets":[{"provider":"@simulator","override_params":{"model":%q}},{"provider":"@simulator","override_params":{"model":%q}}]}`,
		strategy, first, second)
}

const (
	plain  = `{"model":"sim-1+tokens=8","messages":[{"role":"user","content":"Hello"}]}`
	stream = `{"model":"sim-1+tokens=8","stream":true,"messages":[{"role":"user","content":"Hello"}]}`
	usage  = `{"model":"sim-1+tokens=8","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hello"}]}`
)

func TestEachAttemptIsSettledOnce(t *testing.T) {
	for _, tt := range []struct {
		name, body, path, config string
		want                     []string
	}{
		{name: "whole", body: plain, want: []string{"1 answered 200 6+8 38000 by openai-compatible/sim-1*"}},
		{name: "stream with usage", body: usage, want: []string{"1 answered 200 6+8 38000 by openai-compatible/sim-1*"}},
		{name: "stream that the gateway asks for usage", body: stream, want: []string{"1 answered 200 6+8 38000 by openai-compatible/sim-1*"}},
		{name: "no price", body: strings.ReplaceAll(plain, "sim-1", "sim-2"), want: []string{"1 answered 200 6+8"}},
		{name: "refused", body: strings.ReplaceAll(plain, "tokens=8", "status=400"), want: []string{"1 refused 400"}},
		{name: "no response", body: strings.ReplaceAll(plain, "tokens=8", "reset"), want: []string{"1 failed 0"}},
		{name: "passed through", path: "/any/path", body: plain, want: []string{"1 answered 200 25+1 estimated 29000 by openai-compatible/sim-1*"}},
		{name: "retries", body: plain, config: `{"provider":"@simulator","retry":{"attempts":2,"on_status_codes":[503]},"override_params":{"model":"sim-1+status=503"}}`,
			want: []string{"1 refused 503", "2 refused 503", "3 refused 503"}},
		{name: "fallback", body: plain, config: config("", "sim-1+status=500", "sim-1+tokens=8"), want: []string{"1 refused 500", "2 answered 200 6+8 38000 by openai-compatible/sim-1*"}},
		{name: "hedge", body: plain, config: config(`"hedge":{"delay_ms":30,"max":1},`, "sim-1+headers=20s", "sim-1+tokens=8"), want: []string{"1 abandoned 0 6+0 estimated 6000 by openai-compatible/sim-1*", "2 answered 200 6+8 38000 by openai-compatible/sim-1*"}},
		{name: "refused before it is sent", body: `{"model":"sim-1","messages":3}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			g := gatewaytest.New(t, gatewaytest.Options{Data: data, Settings: "prices:\n  - {provider: openai-compatible, model: \"sim-1*\", input: 1, output: 4}\n"})
			path, provider := tt.path, "@simulator"
			if path == "" {
				path = "/chat/completions"
			}
			if tt.config != "" {
				provider = ""
			}
			g.Post(path, tt.body, "x-gateway-provider", provider, "x-gateway-config", tt.config)
			g.Stop()
			got, intents := accounts(t, data)
			if !slices.Equal(got, tt.want) || intents != len(tt.want) {
				t.Errorf("the ledger has %d intents and settled %q, want %q", intents, got, tt.want)
			}
		})
	}
}

// TestIntentIsWrittenBeforeTheAttemptIsSent reads the ledger where the provider
// has the request and has not answered it.
func TestIntentIsWrittenBeforeTheAttemptIsSent(t *testing.T) {
	data := t.TempDir()
	var mu sync.Mutex
	var arrivals []string // per request, what the ledger holds then
	provider := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		settled, intents := accounts(t, data)
		mu.Lock()
		arrivals = append(arrivals, fmt.Sprintf("%d intents, %d settled", intents, len(settled)))
		mu.Unlock()
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	g := gatewaytest.New(t, gatewaytest.Options{Data: data, Upstream: provider})
	g.Post("/chat/completions", plain, "x-gateway-provider", "",
		"x-gateway-config", `{"provider":"@simulator","retry":{"attempts":1,"on_status_codes":[503]}}`)
	g.Stop()
	// A settlement is written with what follows it, at the latest.
	if want := []string{"1 intents, 0 settled", "2 intents, 1 settled"}; !slices.Equal(arrivals, want) {
		t.Errorf("when requests arrived the ledger had %q, want %q", arrivals, want)
	}
}

func TestAClientThatLeavesIsSettled(t *testing.T) {
	data := t.TempDir()
	g := gatewaytest.New(t, gatewaytest.Options{Data: data, Simulator: recorder.Options{Options: simulator.Options{Pace: 50 * time.Millisecond}}})
	ctx, cancel := context.WithCancel(t.Context())
	res, err := http.DefaultTransport.RoundTrip(g.Request("POST", "/chat/completions", stream).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Read(make([]byte, 10))
	cancel()
	res.Body.Close()
	g.Stop()
	if got, _ := accounts(t, data); len(got) != 1 || !strings.HasPrefix(got[0], "1 abandoned 200 6+") || !strings.HasSuffix(got[0], "estimated") {
		t.Errorf("the ledger settled %q, want one attempt that was abandoned, with an estimate", got)
	}
}

func TestRowsComeFromTheLedgerIntoTheLog(t *testing.T) {
	data := t.TempDir()
	g := gatewaytest.New(t, gatewaytest.Options{Data: data})
	id := g.Post("/chat/completions", plain).Header.Get("x-gateway-request-id")
	g.Stop()
	want, err := reqlog.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	if log := logged(t, data); len(log) != 1 || len(log[want]) != 1 {
		t.Errorf("the log has %v, want the one exchange", log)
	}
	r, err := ledger.Verify(filepath.Join(data, "ledger"))
	if err != nil || !r.OK() || r.Exchanges != 1 || r.Segments[0].Waiting != 0 {
		t.Errorf("Verify = %+v, %v; want one row, applied", r, err)
	}
}
