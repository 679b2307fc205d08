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

// Listen calls changed when another process has changed something, and whenever
// that may have been missed, until ctx ends. It returns at once where the
// database does not tell: SQLite's. What is told may come late or never while
// the network is bad, so [Queries.Revision] is to be looked at as well.
func (db *DB) Listen(ctx context.Context, changed func()) {
	if db.engine.listen == nil {
		return
	}
	const longest = 5 * time.Second
	pause := 100 * time.Millisecond
	for ctx.Err() == nil {
		began := time.Now()
		db.engine.listen(ctx, changed) // its end is seen by who polls
		if time.Since(began) > longest {
			pause = 100 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)): // nodes don't come back all at once
		}
		pause = min(2*pause, longest)
	}
}

// pgListen holds a connection of its own for what the server tells.
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
	changed() // what was told before is lost
	for {
		err := waitForNotification(ctx, conn)
		if err != nil {
			return fmt.Errorf("listening: %w", err)
		}
		changed()
	}
}

// waitForNotification waits for a notification, and looks now and then whether the
// connection still stands: a network that went away says nothing.
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
