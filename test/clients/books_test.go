package clients

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"modelgate/internal/testing/recorder"
)

// patience is how long an event may take that has to come.
const patience = time.Minute

// seen is what arrived at the provider, as the scripts read it.
type seen struct {
	Method   string            `json:"method"`
	URI      string            `json:"uri"`
	Headers  map[string]string `json:"headers"` // names in lower case, the first value each
	Body     string            `json:"body"`
	SHA256   string            `json:"sha256"`
	Canceled bool              `json:"canceled"`
}

// booksOf serves what the provider saw: GET /?mark=TEXT answers with the finished
// requests whose address, headers or body hold the text, as soon as there is one.
// With none=1 it answers at once.
func booksOf(sim *recorder.Recorder) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		if r.FormValue("none") != "" {
			cancel()
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(marked(ctx, sim, r.FormValue("mark")))
	})
}

// marked returns the finished requests that hold mark. It waits for the first
// of them until ctx ends.
func marked(ctx context.Context, sim *recorder.Recorder, mark string) []seen {
	for {
		finished := sim.Served().Requests
		list := []seen{}
		for _, q := range sim.Requests() {
			if holds(q, mark) {
				list = append(list, seenOf(q))
			}
		}
		if len(list) > 0 || sim.Wait(ctx, finished+1) != nil {
			return list
		}
	}
}

func holds(q recorder.Request, mark string) bool {
	if strings.Contains(q.URI, mark) || strings.Contains(string(q.Body), mark) {
		return true
	}
	for _, values := range q.Header {
		if strings.Contains(strings.Join(values, "\n"), mark) {
			return true
		}
	}
	return false
}

func seenOf(q recorder.Request) seen {
	headers := make(map[string]string, len(q.Header))
	for name := range q.Header {
		headers[strings.ToLower(name)] = q.Header.Get(name)
	}
	return seen{q.Method, q.URI, headers, string(q.Body), q.SHA256, q.Canceled}
}
