package webhooks_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/webhooks"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
	"modelgate/internal/upstream"
)

// masterKey seals the secrets of nodes that share a database.
const masterKey = "the master key of a test"

// TestANodeThatIsKilledWhileItSendsLosesNothing kills a process after an endpoint has got
// the event and before the process knows. Another one sends it again, as the same message.
func TestANodeThatIsKilledWhileItSendsLosesNothing(t *testing.T) {
	if dsn := os.Getenv("WEBHOOKS_TEST_DSN"); dsn != "" {
		runNode(t, dsn)
		return
	}
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		killed, kill := make(chan struct{}), make(chan struct{}, 9)
		first := true
		r := newReceiver(t, func(http.ResponseWriter, *http.Request) {
			if first {
				first = false
				kill <- struct{}{}
				<-killed
			}
		})
		mustAddEvent(t, db, r.URL)
		node := mustStart(t, dsn)
		waittest.Receive(t, kill, "the first request")
		node.Process.Kill()
		node.Wait()
		close(killed)
		mustStart(t, dsn)
		waittest.Until(t, "the delivery", func() bool {
			list, _, err := db.WebhookDeliveries(t.Context(), store.WebhookDeliveryQuery{Endpoint: "we_1", State: store.DeliveryDone}, store.Page{Size: 9})
			return err == nil && len(list) == 1
		})
		got := r.got()
		if len(got) != 2 || got[0].id() != got[1].id() || string(got[0].body) != string(got[1].body) {
			t.Fatalf("%d requests: %+v", len(got), got)
		}
		d, err := db.WebhookDelivery(t.Context(), got[0].id())
		if err != nil || d.Attempts != 1 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// mustAddEvent stores an endpoint and an event that it receives.
func mustAddEvent(t *testing.T, db *store.DB, address string) {
	t.Helper()
	sealed, err := sealer(t).Seal(t.Context(), "", secret.New("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
	if err != nil {
		t.Fatal(err)
	}
	e := store.WebhookEndpoint{
		ID: "we_1", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, URL: address,
		Types: []string{"batch.completed"}, Status: store.WebhookEnabled, Sealed: sealed, CreatedAt: time.Now(), UpdatedAt: time.Now(),
	}
	event := store.Event{Organisation: e.Organisation, Workspace: e.Workspace, Type: "batch.completed", Object: "batch_1"}
	err = db.Update(t.Context(), nil, func(tx *store.Tx) error {
		if err := tx.CreateWebhookEndpoint(t.Context(), e); err != nil {
			return err
		}
		return tx.EmitEvent(t.Context(), event)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mustStart starts a process that is a node until it is killed.
func mustStart(t *testing.T, dsn string) *exec.Cmd {
	t.Helper()
	node := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestANodeThatIsKilledWhileItSendsLosesNothing$")
	node.Env = append(os.Environ(), "WEBHOOKS_TEST_DSN="+dsn)
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		node.Process.Kill()
		node.Wait()
	})
	return node
}

// runNode sends until the process is killed, with a short lease.
func runNode(t *testing.T, dsn string) {
	db, err := store.Open(t.Context(), dsn, store.Options{Connections: 4})
	if err != nil {
		t.Fatal(err)
	}
	kind := webhooks.New(webhooks.Options{DB: db, Client: upstream.New(upstream.Options{TrustLoopback: true}), Secrets: sealer(t)}).Kind()
	kind.Lease, kind.Renew = 300*time.Millisecond, 20*time.Millisecond
	jobs.New(jobs.Options{DB: db, Node: filepath.Base(t.TempDir()), Kinds: []jobs.Kind{kind}, Poll: 20 * time.Millisecond}).Run(t.Context())
}
