package security

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // to end the connections that notifications come by

	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// rotate gives a key another secret as token; the one before is accepted for
// some milliseconds more.
func (g *gateway) rotate(t *testing.T, token, id string, transition int) response {
	t.Helper()
	return g.as(t, token, "POST", "/v1/api-keys/"+id+"/rotate", fmt.Sprintf(`{"key_transition_period_ms":%d}`, transition))
}

func TestLeakedKeysAreCutOff(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g := launch(t, o)
		accepted := func(secret string) bool { return g.as(t, secret, "GET", "/v1/models", "").status == http.StatusOK }
		attack(t, "tokens", "a leaked secret is refused after a rotation with a transition of zero", func(t *testing.T) {
			k := g.mint(t, rootKey, `["models.list"]`, "")
			next := g.rotate(t, rootKey, k.id, 0).ok(t).text(t, "key")
			waittest.Until(t, "the leaked secret is refused", func() bool { return !accepted(k.secret) })
			g.as(t, next, "GET", "/v1/models", "").ok(t)
		})
		attack(t, "tokens", "a second rotation ends an open transition", func(t *testing.T) {
			k := g.mint(t, rootKey, `["models.list"]`, "")
			second := g.rotate(t, rootKey, k.id, 3_600_000).ok(t).text(t, "key")
			g.awaitKey(t, second)
			if !accepted(k.secret) {
				t.Error("the secret before is refused in its transition")
			}
			third := g.rotate(t, rootKey, k.id, 0).ok(t).text(t, "key")
			waittest.Until(t, "both secrets before are refused", func() bool { return !accepted(k.secret) && !accepted(second) })
			g.as(t, third, "GET", "/v1/models", "").ok(t)
		})
		attack(t, "tokens", "a secret of long ago comes back by no rotation", func(t *testing.T) {
			k := g.mint(t, rootKey, `["models.list"]`, "")
			for range 3 {
				g.awaitKey(t, g.rotate(t, rootKey, k.id, 3_600_000).ok(t).text(t, "key"))
			}
			waittest.Until(t, "the first secret is refused", func() bool { return !accepted(k.secret) })
		})
		attack(t, "tokens", "a stolen session of a key does not survive the deletion of the key", func(t *testing.T) {
			k := g.mint(t, rootKey, `["models.list"]`, "")
			g.rotate(t, rootKey, k.id, 3_600_000).ok(t)
			g.as(t, rootKey, "DELETE", "/v1/api-keys/"+k.id, "").ok(t)
			waittest.Until(t, "the secret before is refused, too", func() bool { return !accepted(k.secret) })
		})
		attack(t, "tokens", "a leaked key can't rotate itself out of reach", func(t *testing.T) {
			k := g.mint(t, rootKey, words(makes), "")
			next := g.rotate(t, k.secret, k.id, 0).ok(t).text(t, "key")
			g.as(t, rootKey, "DELETE", "/v1/api-keys/"+k.id, "").ok(t)
			waittest.Until(t, "the new secret is refused", func() bool { return !accepted(next) })
		})
		for _, bad := range []string{"-1", "7776000001", `"0"`, "1e30"} {
			attack(t, "tokens", "a transition of "+bad+" is refused", func(t *testing.T) {
				k := g.mint(t, rootKey, `["models.list"]`, "")
				g.as(t, rootKey, "POST", "/v1/api-keys/"+k.id+"/rotate", `{"key_transition_period_ms":`+bad+`}`).refused(t, http.StatusBadRequest, "key_transition_period_ms")
			})
		}
		attack(t, "tokens", "the audit log calls a rotation by its name and holds no secret", func(t *testing.T) {
			k := g.mint(t, rootKey, `["models.list"]`, "")
			next := g.rotate(t, rootKey, k.id, 0).ok(t).text(t, "key")
			rows := g.audits(t, rootKey)
			if !strings.Contains(rows, `"rotate"`) || !strings.Contains(rows, k.id) || strings.Contains(rows, next) || strings.Contains(rows, k.secret) {
				t.Errorf("the audit log: %.600s", rows)
			}
		})
	})
}

// TestEveryNodeRefusesARevokedKeyWithinASecond revokes on one node and asks
// another. A loaded machine is slow by itself, so the best of some tries counts.
func TestEveryNodeRefusesARevokedKeyWithinASecond(t *testing.T) {
	dsn := storetest.Postgres(t)
	here, there := launch(t, options{database: dsn}), launch(t, options{database: dsn})
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	deaf := func(t *testing.T) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'LISTEN%' AND datname = current_database()`); err != nil {
			t.Fatal(err)
		}
	}
	silent := func(*testing.T) {}
	refusedByTheOther(t, "", here, there, silent)
	refusedByTheOther(t, " whose notification is lost", here, there, deaf)
	// Processes that share a file have no notifications.
	one := launch(t, options{})
	refusedByTheOther(t, " in a file", one, launch(t, options{data: one.data}), silent)
}

// refusedByTheOther takes keys away at one gateway, after before, and waits for another.
func refusedByTheOther(t *testing.T, what string, here, there *gateway, before func(*testing.T)) {
	for name, cut := range map[string]func(*testing.T, made){
		"a deleted key": func(t *testing.T, k made) { here.as(t, rootKey, "DELETE", "/v1/api-keys/"+k.id, "").ok(t) },
		"a rotated key": func(t *testing.T, k made) { here.rotate(t, rootKey, k.id, 0).ok(t) },
	} {
		attack(t, "tokens", name+what+" is refused by the other node within a second", func(t *testing.T) {
			best := time.Hour
			for range 5 {
				k := here.mint(t, rootKey, `["models.list"]`, "")
				there.awaitKey(t, k.secret)
				before(t)
				cut(t, k)
				began := time.Now()
				waittest.Until(t, "the other node refuses it", func() bool { return there.as(t, k.secret, "GET", "/v1/models", "").status == http.StatusUnauthorized })
				if best = min(best, time.Since(began)); best <= time.Second {
					return
				}
			}
			t.Errorf("it took %s at best", best)
		})
	}
}
