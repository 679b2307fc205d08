package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"modelgate/internal/postgres"
)

// Listen calls changed when another process has made a change, and whenever a
// notification may have been lost, until ctx ends. It returns at once for SQLite, which
// sends no notifications. With a bad network notifications may be late or lost, so
// callers must also poll [Queries.Revision].
func (db *DB) Listen(ctx context.Context, changed func()) {
	if db.engine.listen == nil {
		return
	}
	const longest = 5 * time.Second
	pause := 100 * time.Millisecond
	for ctx.Err() == nil {
		began := time.Now()
		db.engine.listen(ctx, changed) // polling covers errors
		if time.Since(began) > longest {
			pause = 100 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)): // nodes do not reconnect all at once
		}
		pause = min(2*pause, longest)
	}
}

// pgListen receives notifications on a connection of its own.
func pgListen(ctx context.Context, at *postgres.Server, changed func()) error {
	conn, err := at.Connect(ctx)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(end)
	}()
	if _, err := conn.Exec(ctx, `LISTEN modelgate_revision`); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	changed() // earlier notifications are lost
	for {
		err := waitForNotification(ctx, conn)
		if err != nil {
			return fmt.Errorf("listening: %w", err)
		}
		changed()
	}
}

// waitForNotification waits for a notification and checks the connection from time to
// time, because a broken network gives no sign.
func waitForNotification(ctx context.Context, conn *pgx.Conn) error {
	const quiet = 30 * time.Second
	for {
		wait, cancel := context.WithTimeout(ctx, quiet)
		_, err := conn.WaitForNotification(wait)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		ping, cancel := context.WithTimeout(ctx, 5*time.Second)
		err = conn.Ping(ping)
		cancel()
		if err != nil {
			return err
		}
	}
}
