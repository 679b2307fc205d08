package store_test

import (
	"strings"
	"testing"

	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// TestListenersSayWhetherNotificationsArrive drops notifications as a transaction-level
// pooler does, which accepts LISTEN and the connection stays open.
func TestListenersSayWhetherNotificationsArrive(t *testing.T) {
	dsn := storetest.Postgres(t)
	relay, through := storetest.NewRelay(t, dsn)
	relay.DropNotifications(true)
	listener, writer := storetest.Open(t, through), storetest.Open(t, dsn)
	states, changes := make(chan error, 1000), make(chan struct{}, 1000)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		listener.Listen(t.Context(), store.Listener{Changed: func() { changes <- struct{}{} }, Listening: func(err error) { states <- err }})
	}()
	t.Cleanup(func() { <-ended })
	if err := waittest.Receive(t, states, "the first state"); err == nil || !strings.Contains(err.Error(), "pooler") {
		t.Errorf("while notifications are dropped: %v, want an error that names the pooler", err)
	}
	relay.DropNotifications(false)
	for waittest.Receive(t, states, "a state without error") != nil {
	}
	for len(changes) > 0 {
		waittest.Receive(t, changes, "an earlier change")
	}
	mustCreate(t, writer, sampleKey("one"))
	waittest.Receive(t, changes, "the change")
	relay.Cut()
	if err := waittest.Receive(t, states, "the end of the connection"); err == nil {
		t.Error("a broken connection is not reported")
	}
	for waittest.Receive(t, states, "the next connection") != nil {
	}
}
