// Package outbox sends what the database holds for others: alerts, and rows of the audit
// log, to the destinations of the settings.
//
// It guarantees that each is sent until its destination has it, over restarts, and by one
// of the gateways that share a database; after a crash it may be sent again, with the same
// id. It does not decide what is sent: alerts and rows are stored in the transaction of
// what they report. Formats of alerts are in [modelgate/internal/alert].
package outbox

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

const (
	tick        = time.Second      // between checks for something to send
	markTimeout = 10 * time.Second // of recording what was received, even while the gateway stops
)

// Outbox sends alerts and rows of the audit log. All fields are required.
type Outbox struct {
	Store    *store.DB
	Settings func() *settings.Settings // current ones, with the destinations
	Client   alert.Client              // of webhooks that receive alerts
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	Logger   *slog.Logger

	// CountAlerts and CountAudits count deliveries by destination and outcome: sent,
	// failed, dropped.
	CountAlerts, CountAudits func(destination, outcome string, n int)
}

// Run sends until ctx ends, and returns when no delivery is in progress.
func (o *Outbox) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { o.sendAlerts(ctx) })
	running.Go(func() { o.sendAuditsToWebhook(ctx) })
	running.Go(func() { o.sendAuditsToSyslog(ctx) })
	running.Wait()
}

// queue is what is sent by one goroutine.
type queue struct {
	send              func(context.Context, *settings.Settings) error // what is due
	retry             time.Duration                                   // until the next check after an error
	failed, recovered string                                          // log messages
	logger            *slog.Logger
}

// run checks a queue until ctx ends. It logs the first failure and the recovery.
func (o *Outbox) run(ctx context.Context, q queue) {
	failed, wait := false, tick
	for pause(ctx, wait); ctx.Err() == nil; pause(ctx, wait) {
		if !o.Store.Ready() {
			continue
		}
		err := q.send(ctx, o.Settings())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failed:
			q.logger.Error(q.failed, "err", err.Error())
		case err == nil && failed:
			q.logger.Info(q.recovered)
		}
		failed, wait = err != nil, tick
		if failed {
			wait = q.retry
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func outcomeOf(err error) string {
	if err != nil {
		return "failed"
	}
	return "sent"
}
