package server_test

import (
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/server"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

func TestNodesOfOneDatabaseHaveOneLog(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	here := gatewaytest.New(t, gatewaytest.Options{Database: dsn})
	there := gatewaytest.New(t, gatewaytest.Options{Database: dsn})
	res := here.Post("/chat/completions", chat)
	id := res.Header.Get("x-gateway-request-id")
	if here.Get("/logs/"+id).Status != 200 {
		t.Error("the node that served the exchange does not find it at once")
	}
	waittest.Until(t, "the other node has the exchange in its log", func() bool { return there.Get("/logs/"+id).Status == 200 })
}

func TestTheLogOfADatabaseThatIsAwayWaits(t *testing.T) {
	t.Parallel()
	pg := storetest.NewServer(t)
	g := gatewaytest.New(t, gatewaytest.Options{Database: pg.DSN(), MasterKey: master})
	pg.Stop()
	res := g.Post("/chat/completions", chat)
	if res.Status != 200 {
		t.Fatalf("a request while the log is away: %d %s", res.Status, res.Body)
	}
	path := "/logs/" + res.Header.Get("x-gateway-request-id")
	if got := g.Get(path); got.Status != 503 || !strings.Contains(string(got.Body), "unavailable") {
		t.Errorf("reading the log while it is away: %d %s; want 503", got.Status, got.Body)
	}
	pg.Start(t)
	waittest.Until(t, "the log has what waited", func() bool { return g.Get(path).Status == 200 })
}

func TestWhereTheLogIsKept(t *testing.T) {
	t.Parallel()
	const pg, other = "postgres://u@h/a", "postgresql://u@h/b"
	for _, tt := range []struct{ said, control, want string }{
		{"", "", ""},
		{"", "file:/data/modelgate.db", ""},
		{"", pg, pg},
		{"file", pg, ""},
		{other, pg, other},
		{other, "", other},
	} {
		got, err := server.LogsAddress(secret.New(tt.said), secret.New(tt.control))
		if err != nil || got.Reveal() != tt.want {
			t.Errorf("LogsAddress(%q, %q) = %q, %v; want %q", tt.said, tt.control, got.Reveal(), err, tt.want)
		}
	}
	if _, err := server.LogsAddress(secret.New("mysql://u:hush@h/a"), secret.String{}); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("LogsAddress() of another kind = %v; want an error without the address", err)
	}
}
