package attempt_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/secret"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/provider"
	"modelgate/internal/testing/pipelinetest"
)

// rtEmbedding makes x a request for embeddings at a provider whose model takes
// one input at a time.
func rtEmbedding(x *pipelinetest.Request) {
	const op = api.Embeddings
	spec := &provider.Spec{ID: "apart", BaseURL: "http://apart.example.com", Dialect: api.DialectConverse, Auth: provider.Bearer(),
		Paths: map[api.Operation]string{op: "/embed", api.DialectConverse.ConversationOperation(): "/converse"}}
	x.Operation, x.Received.Path = op, "/embeddings"
	x.Resolve = func(*config.Config) (*provider.Target, error) {
		return provider.NewTarget(spec, provider.Settings{Key: secret.New("provider-key")})
	}
}

// Eight inputs are sent at a time, so that nine take twice as long as eight.
func TestTimeoutOfATargetIsThatOfAllItsInputsTogether(t *testing.T) {
	const each = 600 * time.Millisecond
	for _, tt := range []struct {
		inputs  int
		timeout time.Duration // zero for none
		code    string
		took    time.Duration
	}{
		{8, time.Second, "", each},
		{9, time.Second, "timeout", time.Second},
		{9, 2*each - time.Millisecond, "timeout", 2*each - time.Millisecond},
		{9, 2*each + time.Millisecond, "", 2 * each},
		{9, 0, "", 2 * each},
	} {
		t.Run(fmt.Sprintf("%d inputs in %v", tt.inputs, tt.timeout), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				p := rtServe(t, func(w http.ResponseWriter, r *http.Request) {
					sent.Add(1)
					io.Copy(io.Discard, r.Body)
					select {
					case <-time.After(each):
					case <-r.Context().Done():
						return
					}
					rtRespond(200, "application/json", `{"embedding":[1],"inputTextTokenCount":2}`)(w, r)
				})
				p.engine.Codecs = map[api.Dialect]dialect.ProviderCodec{api.DialectConverse: converse.Dialect{}}
				text := rtSingle
				if tt.timeout > 0 {
					text = fmt.Sprintf(`{"provider":"@a","request_timeout":%d}`, tt.timeout.Milliseconds())
				}
				body := `{"model":"amazon.titan-embed-text-v2:0","input":["a"` + strings.Repeat(`,"a"`, tt.inputs-1) + `]}`
				began := time.Now()
				_, err := p.send(t.Context(), text, body, nil, rtEmbedding)
				if took := time.Since(began); rtCode(err) != tt.code || took != tt.took {
					t.Errorf("error %v after %v and %d requests; want the code %q after %v", err, took, sent.Load(), tt.code, tt.took)
				}
				if len(p.ledger.settlements) != len(p.ledger.intents) || tt.code == "" && len(p.ledger.intents) != tt.inputs {
					t.Errorf("%d intents and %d settlements; want one of each for each of %d requests", len(p.ledger.intents), len(p.ledger.settlements), tt.inputs)
				}
			})
		})
	}
}
