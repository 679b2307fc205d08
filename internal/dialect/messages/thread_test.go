package messages_test

import (
	"errors"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect/messages"
)

// Official clients send only what is new as long as the server keeps their
// conversation. They find out that it doesn't by this answer.
func TestAConversationStoredByTheProviderIsRefusedInTheClientsDialect(t *testing.T) {
	const rest = `"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`
	_, err := messages.Dialect{}.DecodeRequest([]byte(`{"thread":{"type":"create"},` + rest))
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.Status() != 400 || e.Param != "thread" {
		t.Fatalf("DecodeRequest = %v, want a refusal of thread", err)
	}
	body := string(messages.Dialect{}.Error(e))
	if want := `"details":{"error_code":"thread_unsupported_request","unsupported":["thread"]}`; !strings.Contains(body, want) {
		t.Errorf("Error = %s, want %s in it", body, want)
	}
	if _, err := (messages.Dialect{}).DecodeRequest([]byte(`{"thread":null,` + rest)); err != nil {
		t.Errorf("without a thread: %v", err)
	}
}
