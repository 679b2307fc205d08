package server_test

import (
	"database/sql"
	"net/http"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// readyText returns the text of /ready.
func readyText(g *gatewaytest.Gateway) string {
	req, err := http.NewRequest(http.MethodGet, g.Root+"/ready", nil)
	if err != nil {
		return err.Error()
	}
	return string(g.Do(req).Body)
}

func TestReadyTellsAPausedDatabase(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	g := gatewaytest.New(t, gatewaytest.Options{Database: s.DSN()})
	waittest.Until(t, "ready", func() bool { return readyText(g) == "ready\n" })
	resume := s.Pause(t)
	waittest.Until(t, "degraded by the database", func() bool { return strings.HasPrefix(readyText(g), "ready, degraded: the database") })
	resume()
	waittest.Until(t, "ready again", func() bool { return readyText(g) == "ready\n" })
}

// TestReadyTellsADatabaseWhoseChangesHang holds the lock that all changes wait for. Reads
// succeed all the time.
func TestReadyTellsADatabaseWhoseChangesHang(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	g := gatewaytest.New(t, gatewaytest.Options{Database: dsn})
	waittest.Until(t, "ready", func() bool { return readyText(g) == "ready\n" })
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`UPDATE revision SET value = value WHERE id = 1`); err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	go func() { done <- saveConfig(g, "hangs").Status }()
	waittest.Until(t, "degraded by changes that hang", func() bool {
		return strings.HasPrefix(readyText(g), "ready, degraded: the database has accepted no change for ")
	})
	if got := g.Post("/chat/completions", chat).Status; got != 200 {
		t.Errorf("a model request at the same time: %d", got)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, done, "the end of the change")
	waittest.Until(t, "ready again", func() bool { saveConfig(g, "more"); return readyText(g) == "ready\n" })
}
