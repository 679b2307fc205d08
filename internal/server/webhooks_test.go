package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// TestAGatewaySendsEventsThatWereEmitted stores an event as the code that ends a batch does.
// A policy of the workspace then keeps the next one back.
func TestAGatewaySendsEventsThatWereEmitted(t *testing.T) {
	received := make(chan error, 9)
	verify := func(http.Header, []byte) error { return nil }
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- verify(r.Header, body)
	}))
	t.Cleanup(hook.Close)
	dsn := "file:" + filepath.Join(t.TempDir(), "modelgate.db")
	db := storetest.Open(t, dsn)
	g := gatewaytest.New(t, gatewaytest.Options{Database: dsn, MasterKey: "the master key of a test"})
	res := g.Post("/webhook_endpoints", fmt.Sprintf(`{"name":"n","url":%q,"event_types":["batch.completed"]}`, hook.URL))
	var e struct {
		ID     string
		Secret string `json:"signing_secret"`
	}
	if err := json.Unmarshal(res.Body, &e); err != nil || res.Status != http.StatusOK {
		t.Fatalf("%d %s, %v", res.Status, res.Body, err)
	}
	receiver, err := standard.NewWebhook(e.Secret)
	if err != nil {
		t.Fatal(err)
	}
	verify = func(head http.Header, body []byte) error { return receiver.Verify(body, head) }
	emit := func(batch string) {
		t.Helper()
		event := store.Event{Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Type: "batch.completed", Object: batch}
		if err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.EmitEvent(t.Context(), event) }); err != nil {
			t.Fatal(err)
		}
	}
	emit("batch_1")
	if err := waittest.Receive(t, received, "the event"); err != nil {
		t.Error(err)
	}
	waittest.Until(t, "the attempt is counted", func() bool {
		return strings.Contains(metricsOf(t, g), `modelgate_webhook_attempts_total{outcome="delivered"} 1`)
	})
	if res := g.Get("/admin/jobs?kind=webhook&state=done"); !strings.Contains(string(res.Body), `"kind":"webhook"`) {
		t.Errorf("jobs: %d %s", res.Status, res.Body)
	}
	put := g.Do(g.Request(http.MethodPut, "/admin/workspaces/"+store.DefaultWorkspace, `{"settings":{"egress_policy":{"custom_hosts":[]}}}`))
	if put.Status != http.StatusOK {
		t.Fatalf("%d %s", put.Status, put.Body)
	}
	emit("batch_2")
	waittest.Until(t, "an attempt that the policy refuses", func() bool {
		return strings.Contains(string(g.Get("/webhook_endpoints/"+e.ID+"/deliveries?state=pending").Body), "the egress policy does not allow the host")
	})
	if len(received) != 0 {
		t.Error("an event was sent to a host that the egress policy does not allow")
	}
}
