package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	rands "math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"modelgate/internal/storage/postgres"
)

// Listener receives what [DB.Listen] notices. Its functions are called one at a time.
type Listener struct {
	// Changed is called when another process has made a change, and whenever a
	// notification may have been lost.
	Changed func()

	// Listening is called with nil when notifications have been seen to arrive, and with
	// the reason when they stop. Nil is not called.
	Listening func(err error)
}

// Listen passes notifications of changes to l until ctx ends. It returns at once for
// SQLite, which sends no notifications, and for a pooler of transactions without another way.
// With a bad network notifications may be late or
// lost, so callers must also poll [Queries.Revision].
func (db *DB) Listen(ctx context.Context, l Listener) {
	if db.engine.listen == nil {
		return
	}
	if l.Listening == nil {
		l.Listening = func(error) {}
	}
	const longest = 5 * time.Second
	pause := 100 * time.Millisecond
	for ctx.Err() == nil {
		began := time.Now()
		if err := db.engine.listen(ctx, l); ctx.Err() == nil {
			l.Listening(err) // polling covers it
		}
		if time.Since(began) > longest {
			pause = 100 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rands.N(pause/2)): // nodes do not reconnect all at once
		}
		pause = min(2*pause, longest)
	}
}

// pgListener receives notifications on a connection of its own, and proves from time to
// time that they arrive: a broken network gives no sign, and a pooler that assigns
// connections to transactions accepts LISTEN and drops what the server sends for it.
// https://www.pgbouncer.org/features.html
type pgListener struct {
	conn  *pgx.Conn
	probe func(ctx context.Context, channel string) error // notifies a channel, on another connection
	own   string                                          // the channel of the probes of this listener
}

const (
	changeChannel = "modelgate_revision"

	quietTime = 30 * time.Second // without a notification, until the next probe
	probeTime = 5 * time.Second  // for the notification of a probe to arrive
)

// errSwallowed means that the server accepted a notification that did not arrive.
var errSwallowed = errors.New("notifications do not arrive; if the address is a pooler of transactions, add pool_mode=transaction&direct=HOST:PORT to it")

// pgListen connects and listens until the connection fails or notifications do not arrive.
func pgListen(ctx context.Context, at *postgres.Server, probe func(ctx context.Context, channel string) error, l Listener) error {
	conn, err := at.Connect(ctx)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(end)
	}()
	p := &pgListener{conn, probe, "modelgate_probe_" + rand.Text()}
	for _, channel := range []string{changeChannel, p.own} {
		if _, err := conn.Exec(ctx, `LISTEN "`+channel+`"`); err != nil {
			return fmt.Errorf("listening: %w", err)
		}
	}
	l.Changed() // earlier notifications are lost
	for {
		if err := p.prove(ctx, l.Changed); err != nil {
			return fmt.Errorf("listening: %w", err)
		}
		l.Listening(nil)
		if err := p.receive(ctx, l.Changed); err != nil {
			return fmt.Errorf("listening: %w", err)
		}
	}
}

// prove returns nil once a probe has arrived.
func (p *pgListener) prove(ctx context.Context, changed func()) error {
	wait, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if err := p.probe(wait, p.own); err != nil {
		return err
	}
	for {
		n, err := p.conn.WaitForNotification(wait)
		switch {
		case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			return errSwallowed
		case err != nil:
			return err
		case n.Channel == p.own:
			return nil
		}
		changed()
	}
}

// receive passes notifications on until none has come for a while.
func (p *pgListener) receive(ctx context.Context, changed func()) error {
	for {
		wait, cancel := context.WithTimeout(ctx, quietTime)
		n, err := p.conn.WaitForNotification(wait)
		cancel()
		switch {
		case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			return nil
		case err != nil:
			return err
		case n.Channel == changeChannel:
			changed()
		}
	}
}
