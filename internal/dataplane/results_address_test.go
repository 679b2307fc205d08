package dataplane_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// vendorBatches answers like Anthropic's batches of messages, with addresses of results at
// the vendor's own host.
type vendorBatches struct {
	address string
	results atomic.Pointer[http.Header] // of the last request for results
}

func (v *vendorBatches) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/results") {
		v.results.Store(&r.Header)
		w.Header().Set("Content-Type", "application/x-jsonl")
		io.WriteString(w, `{"custom_id":"a","result":{"type":"succeeded","results_url":"https://api.anthropic.com/x"}}`+"\n")
		return
	}
	batch := `{ "id":"msgbatch_1","type":"message_batch","request_counts":{"processing":0, "succeeded":1},"results_url":"https://api.anthropic.com/first","results_url" : "` + v.address + `","note":"results_url" }`
	body := batch
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/batches") {
		body = `{"data":[` + batch + `,{"id":"msgbatch_2","results_url":null,"error":""},{"id":"msgbatch_3","results_url":"","error":""}],"has_more":false}`
	}
	if !strings.HasSuffix(r.URL.Path, "/cancel") { // which says nothing of its content
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	w.Header().Set("Etag", `"of the body"`)
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		io.WriteString(w, body)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	defer z.Close()
	io.WriteString(z, body)
}

// TestResultsOfBatchesAreReadAtTheGateway reads batches and follows the address of their
// results as Anthropic's client libraries do: as it is, with the key of the client.
func TestResultsOfBatchesAreReadAtTheGateway(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"at the vendor":            "https://api.anthropic.com/v1/messages/batches/msgbatch_1/results",
		"at another host":          "https://results.example.com/anthropic/v1/messages/batches/msgbatch_1/results",
		"written with escapes":     `https:\/\/api.anthropic.com\/v1\/messages\/batches\/msgbatch_1\/results`,
		"without a path that fits": "https://results.example.com/msgbatch_1",
	} {
		t.Run(name, func(t *testing.T) {
			v := &vendorBatches{address: address}
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: v, Settings: "version: 1\nfiles: {unrecorded: pass}\nproviders:\n  - {slug: claude, provider: anthropic, custom_host: SIMULATOR, api_key: \"${PAIR_KEY}\"}\n"})
			own := g.URL + "/messages/batches/msgbatch_1/results"
			want := `"` + own + `"`
			if name == "without a path that fits" {
				want = "null"
			}
			for _, ask := range []func(header ...string) gatewaytest.Response{
				func(header ...string) gatewaytest.Response {
					return g.Post("/messages/batches", `{"requests":[]}`, header...)
				},
				func(header ...string) gatewaytest.Response { return g.Get("/messages/batches/msgbatch_1", header...) },
				func(header ...string) gatewaytest.Response { return g.Get("/messages/batches?limit=2", header...) },
				func(header ...string) gatewaytest.Response {
					return g.Post("/messages/batches/msgbatch_1/cancel", ``, header...)
				},
			} {
				for _, header := range [][]string{
					{"x-gateway-api-key", "", "x-api-key", gatewaytest.Key, "x-gateway-provider", "@claude"},
					{"x-gateway-provider", "@claude", "accept-encoding", "gzip"},
				} {
					res := ask(append(header, "anthropic-version", "2023-06-01")...)
					body := string(res.Body)
					if res.Status != http.StatusOK || strings.Contains(body, "anthropic.com") || strings.Contains(body, "example.com") || !strings.Contains(body, `"results_url" : `+want+`,"note":"results_url"`) ||
						!strings.Contains(body, `{ "id":"msgbatch_1"`) || strings.Contains(body, "msgbatch_3") && !strings.Contains(body, `{"id":"msgbatch_3","results_url":"","error":""}`) {
						t.Errorf("status %d: %s, want the batch with %s and nothing else changed", res.Status, body, want)
					}
					if res.Header.Get("Etag")+res.Header.Get("Content-Encoding") != "" {
						t.Errorf("the headers %v are of the provider's body", res.Header)
					}
				}
			}
			if want == "null" {
				return
			}
			res := g.Get(strings.TrimPrefix(own, g.URL), "x-gateway-api-key", "", "x-api-key", gatewaytest.Key, "x-gateway-provider", "@claude")
			if res.Status != http.StatusOK || !strings.Contains(string(res.Body), "https://api.anthropic.com/x") {
				t.Errorf("results: status %d: %s, want the provider's bytes", res.Status, res.Body)
			}
			if at := v.results.Load(); at == nil || at.Get("X-Api-Key") == gatewaytest.Key || at.Get("X-Api-Key") == "" {
				t.Errorf("the provider got %v, want its own key", at)
			}
		})
	}
}

func TestAddressesInOtherBodiesStay(t *testing.T) {
	t.Parallel()
	const body = `{"results_url":"https://api.anthropic.com/v1/messages/batches/msgbatch_1/results"}`
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, body)
	})})
	for _, path := range []string{"/things", "/messages/batches-of-others"} {
		if res := g.Get(path); string(res.Body) != body {
			t.Errorf("GET %s = %s, want the provider's bytes", path, res.Body)
		}
	}
}

func TestUploadAddressesOfOtherHostsAreRemoved(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{
		Settings: "version: 1\nproviders:\n  - {slug: gem, provider: google, custom_host: SIMULATOR, api_key: \"${PAIR_KEY}\"}\n",
		Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Goog-Upload-Url", "https://elsewhere.example.com/upload/v1beta/files?upload_id=1")
			w.Header().Set("X-Goog-Upload-Status", "active")
		})})
	res := sendTo(t, g, http.MethodPost, "/upload/v1beta/files", `{"file":{}}`, "X-Goog-Upload-Command", "start", "x-gateway-provider", "@gem")
	if res.Header.Get("X-Goog-Upload-Status") != "active" || res.Header.Get("X-Goog-Upload-Url") != "" {
		t.Errorf("status %d with %v, want no address of another host, to which the client would send its key", res.Status, res.Header)
	}
}
