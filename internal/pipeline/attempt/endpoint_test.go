package attempt_test

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/api"
	"modelgate/internal/base/secret"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
	"modelgate/internal/testing/pipelinetest"
)

// The other endpoint is another attempt: none begins after the deadline.
func TestTheOtherEndpointIsNotAskedAfterTheDeadline(t *testing.T) {
	for _, tt := range []struct {
		name  string
		left  time.Duration
		calls []string
	}{
		{"before", time.Second, []string{"/v1/chat/completions", "/v1/responses"}},
		{"after", -time.Second, []string{"/v1/chat/completions"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls []string
				p := rtServe(t, func(w http.ResponseWriter, r *http.Request) {
					calls = append(calls, r.URL.Path)
					rtRespond(404, "application/json", `{"error":{"message":"This model is only supported in v1/responses and not in v1/chat/completions.","code":null}}`)(w, r)
				})
				p.engine.Codecs = map[api.Dialect]dialect.ProviderCodec{api.DialectResponses: responses.Dialect{}}
				spec := *pipelinetest.Spec
				spec.BaseURL = "http://quirky.example.com/v1"
				spec.Paths = map[api.Operation]string{api.Chat: "/chat/completions", api.Responses: "/responses"}
				status := 0
				x, err := p.send(t.Context(), `{"provider":"quirky","api_key":"k"}`, rtHello, func(res *exchange.Response) error {
					status = res.Status
					_, err := io.Discard.Write(res.Bytes)
					return err
				}, func(x *pipelinetest.Request) {
					x.AttemptDeadline = time.Now().Add(tt.left)
					target, err := provider.NewTarget(&spec, provider.Settings{Key: secret.New("provider-key")})
					x.Leaves = []exchange.Leaf{{Target: target, Model: x.Model, Err: err}}
					x.Resolve = nil
				})
				if err != nil || status != 404 || !slices.Equal(calls, tt.calls) || len(x.Trail.Attempts) != len(tt.calls) {
					t.Errorf("status %d, %v; called %q in %d attempts, want %q", status, err, calls, len(x.Trail.Attempts), tt.calls)
				}
			})
		})
	}
}
