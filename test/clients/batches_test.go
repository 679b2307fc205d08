package clients

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// withBatches adds Anthropic's batches of messages to a simulator. A batch has ended when it
// is made, and its results_url is at the vendor's host, as Anthropic's is.
// https://docs.claude.com/en/api/creating-message-batches
func withBatches(sim http.Handler) http.Handler {
	const path, id = "/v1/messages/batches", "msgbatch_01HkcTjaV5uDC8jWR4ZsDV8d"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.Path, path)
		switch {
		case !ok:
			sim.ServeHTTP(w, r)
		case r.Header.Get("X-Api-Key") != providerKey:
			http.Error(w, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, http.StatusUnauthorized)
		case rest == "/"+id+"/results":
			w.Header().Set("Content-Type", "application/x-jsonl")
			io.WriteString(w, `{"custom_id":"a","result":{"type":"canceled"}}`+"\n"+`{"custom_id":"b","result":{"type":"expired"}}`+"\n")
		default:
			batch := fmt.Sprintf(`{"id":%q,"type":"message_batch","processing_status":"ended","request_counts":{"processing":0,"succeeded":0,"errored":0,"canceled":1,"expired":1},`+
				`"created_at":"2026-01-01T00:00:00Z","expires_at":"2026-01-02T00:00:00Z","ended_at":"2026-01-01T00:01:00Z","archived_at":null,"cancel_initiated_at":null,"results_url":"https://api.anthropic.com%s/%s/results"}`, id, path, id)
			if rest == "" && r.Method == http.MethodGet {
				batch = `{"data":[` + batch + `],"has_more":false,"first_id":"` + id + `","last_id":"` + id + `"}`
			}
			w.Header().Set("Content-Type", "application/json")
			io.Copy(w, strings.NewReader(batch))
		}
	})
}
