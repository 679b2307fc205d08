package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// cut sends a part of a stream and breaks the connection off.
func cut(w http.ResponseWriter, r *http.Request, in received) {
	streams(chatEvents[:200])(w, r, in)
	http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// endless sends the first event of a stream and nothing more.
func endless(w http.ResponseWriter, r *http.Request, in received) {
	streams(strings.SplitAfter(chatEvents, "\n\n")[0])(w, r, in)
	http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

const failedEvent = "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\"}}\n\n"

// endings are responses of a provider to a stream, by the model that asks for
// them, with the outcome of the request.
var endings = []struct {
	model, outcome string
	say            behaviour
}{
	{"complete", "success", streams(chatEvents + done)},
	{"complete", "success", streams(chatEvents + done)},
	{"complete", "success", streams(chatEvents + done)},
	{"cut", "error", cut},
	{"failed", "error", streams(strings.SplitAfter(chatEvents, "\n\n")[0] + failedEvent)},
	{"truncated", "error", streams(strings.SplitAfter(chatEvents, "\n\n")[0])},
	{"refused", "error", says(500, "application/json", refusal)},
	{"left", "cancelled", endless},
	{"left", "cancelled", endless},
}

// byModel answers as the ending of the requested model says.
func byModel(w http.ResponseWriter, r *http.Request, in received) {
	for _, e := range endings {
		if strings.Contains(string(in.body), `"`+e.model+`"`) {
			e.say(w, r, in)
			return
		}
	}
}

// stream sends a request for an ending and returns its entry. A client of an
// endless stream leaves after the first event.
func (g *gateway) stream(t *testing.T, model string, header ...string) map[string]any {
	t.Helper()
	req := g.request(t, "POST", chatStream.path, strings.NewReader(strings.Replace(chatStream.body, `"m"`, `"`+model+`"`, 1)), header...)
	req.Header["Content-Type"] = []string{"application/json"}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if model == "left" {
		if _, err := io.ReadFull(res.Body, make([]byte, 20)); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	io.Copy(io.Discard, res.Body)
	return g.entry(t, response{status: res.StatusCode, header: res.Header})
}

// tally are the figures of groups, added up.
type tally struct{ requests, errors, cancelled, successes float64 }

// tallied adds up groups, and checks the rate of each.
func tallied(t *testing.T, path string, rows []map[string]any) (sum tally) {
	t.Helper()
	for _, row := range rows {
		n, _ := row["requests"].(float64)
		errors, _ := row["error_count"].(float64)
		cancelled, _ := row["cancelled_count"].(float64)
		rate, known := row["success_rate"].(float64)
		if known != (n > cancelled) {
			t.Errorf("%s: success_rate of %v is known: %t", path, row, known)
		}
		successes := rate * (n - cancelled) / 100
		if math.Abs(successes+errors+cancelled-n) > 1e-6 {
			t.Errorf("%s: %v: successes, errors and cancelled requests do not add up", path, row)
		}
		sum.requests, sum.errors, sum.cancelled, sum.successes = sum.requests+n, sum.errors+errors, sum.cancelled+cancelled, sum.successes+math.Round(successes)
	}
	return sum
}

func TestBrokenStreamsCountAsErrors(t *testing.T) {
	p := newProvider(t, byModel)
	g := launchFor(t, "version: 1\nproviders:\n  - {slug: main, provider: openai-compatible, custom_host: \""+p.url+"\"}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	h := &people{gateway: g}
	outcomes := map[string][]string{}
	for _, e := range endings {
		entry := g.stream(t, e.model, "x-gateway-api-key", bootstrapKey, "x-gateway-provider", "@main", "x-gateway-metadata", `{"suite":"outcomes"}`)
		want := map[string]string{"left": "499", "refused": "500"}[e.model]
		if want == "" {
			want = "200" // what the client was sent before the stream broke
		}
		if got := fmt.Sprint(entry["status"]); got != want || entry["outcome"] != e.outcome {
			t.Errorf("%s: status %s, outcome %v; want %s, %s", e.model, got, entry["outcome"], want, e.outcome)
		}
		outcomes[e.outcome] = append(outcomes[e.outcome], fmt.Sprint(entry["id"]))
	}
	want := tally{requests: 9, errors: 4, cancelled: 2, successes: 3}
	prove(t, "S-393 S-394", "broken streams are errors in every group, and the groups add up", func(t *testing.T) {
		for _, base := range []string{"/analytics/groups/", "/logs/groups/"} {
			for _, group := range append(slices.Clone(groupings), "upstream_model", "response_model", "target", "outcome") {
				for _, filter := range []string{"", "&metadata=" + url.QueryEscape(`{"suite":"outcomes"}`)} { // of rollups, and of entries
					path := base + group + "?columns=success_rate,error_count,cancelled_count" + filter
					if got := tallied(t, path, h.groups(t, bootstrapKey, path)); got != want {
						t.Errorf("GET %s: %+v, want %+v", path, got, want)
					}
				}
			}
		}
	})
	prove(t, "S-393", "graphs, filters, metrics, traces and exports tell the same", func(t *testing.T) {
		for graph, summary := range map[string]string{
			"errors": `{"total":4}`, "errors/stacks": `{"total":4}`, "errors/status-codes": `{"total_errors":4,"unique_error_codes":2}`,
		} {
			got := g.as(t, bootstrapKey, "GET", "/v1/analytics/graphs/"+graph, "").wantOK(t).object(t)
			if b, _ := json.Marshal(got["summary"]); string(b) != summary {
				t.Errorf("the summary of %s = %s, want %s", graph, b, summary)
			}
		}
		rate, _ := at(g.as(t, bootstrapKey, "GET", "/v1/analytics/graphs/errors/rate", "").wantOK(t).object(t), "summary", "rate").(json.Number).Float64()
		if math.Abs(rate-400.0/7) > 1e-9 {
			t.Errorf("the rate of errors = %v, want 4 of the 7 requests that were not cancelled", rate)
		}
		file := g.exported(t, "jsonl", "id", "is_success", "outcome")
		for outcome, ids := range outcomes {
			slices.Sort(ids)
			listed := g.as(t, bootstrapKey, "GET", "/v1/logs?outcome="+outcome, "").items(t, "id")
			slices.Sort(listed)
			if !slices.Equal(listed, ids) {
				t.Errorf("the log by outcome %s = %v, want %v", outcome, listed, ids)
			}
			if rows := h.groups(t, bootstrapKey, "/analytics/groups/provider?outcome="+outcome); len(rows) != 1 || rows[0]["requests"] != float64(len(ids)) {
				t.Errorf("analytics by outcome %s = %v, want %d requests", outcome, rows, len(ids))
			}
			if got := g.counted(t, `outcome="`+outcome+`"`); got < float64(len(ids)) {
				t.Errorf("the metrics have %v requests with the outcome %s, want %d", got, outcome, len(ids))
			}
			for _, id := range ids {
				if row := fmt.Sprintf(`{"id":%q,"is_success":%t,"outcome":%q}`, id, outcome == "success", outcome); !strings.Contains(file, row) {
					t.Errorf("the export lacks %s", row)
				}
			}
		}
		if got := g.counted(t, `provider="openai-compatible"`); got != 9 || g.counted(t, `outcome="error",provider="openai-compatible",status="200"`) != 3 {
			t.Errorf("the metrics have %v requests of the provider, want 9 with 3 broken streams", got)
		}
		if e := at(g.as(t, bootstrapKey, "GET", "/v1/logs/traces?outcome=error", "").wantOK(t).object(t), "data", 0, "errors"); fmt.Sprint(e) != "1" {
			t.Errorf("the trace of a failed request has %v errors, want 1", e)
		}
	})
	prove(t, "S-393", "modelgate tail shows broken streams alone", func(t *testing.T) {
		out, errText, code := command(t, "tail", "--url", g.root, "--key", bootstrapKey, "--follow=false", "--provider", "main", "--outcome", "error")
		if code != 0 || strings.Count(out, "\n") != 4 || !strings.Contains(out, "  cut  ") || strings.Contains(out, "  complete  ") {
			t.Errorf("exit code %d, %q %s", code, out, errText)
		}
	})
}
