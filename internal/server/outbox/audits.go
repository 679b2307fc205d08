package outbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"modelgate/internal/settings"
	"modelgate/internal/store"
)

const (
	auditBatch   = 100              // rows in one delivery, at most
	auditTimeout = 5 * time.Second  // of one delivery
	auditLease   = 30 * time.Second // of the node that sends
	auditPause   = time.Minute      // after a failure
)

// auditQueue sends rows of the audit log to one destination, in order for each
// organisation, until they are received; a row may arrive twice. If several nodes share
// a database, one of them sends.
type auditQueue struct {
	out   *Outbox
	name  string // of the destination, in the database and in logs
	node  string // of this process, in the database
	write func(context.Context, *settings.Audit, []auditEvent) error
	held  bool // this node was the sender at the last check
	fewer int  // rows in the next delivery after one that took too long; 0 means auditBatch
}

// sendAuditsToWebhook sends rows of the audit log by HTTP until ctx ends.
func (o *Outbox) sendAuditsToWebhook(ctx context.Context) {
	hook := &auditWebhook{o.newAuditClient()}
	defer hook.client.CloseIdleConnections()
	o.sendAudits(ctx, &auditQueue{name: "webhook", write: hook.write})
}

// sendAuditsToSyslog sends rows of the audit log to a syslog server until ctx ends.
func (o *Outbox) sendAuditsToSyslog(ctx context.Context) {
	line := &syslogLine{dial: o.Dial}
	defer line.close()
	o.sendAudits(ctx, &auditQueue{name: "syslog", write: line.write})
}

// sendAudits sends rows until ctx ends. A failed delivery is retried from the last
// received row.
func (o *Outbox) sendAudits(ctx context.Context, a *auditQueue) {
	a.out, a.node = o, rand.Text()
	defer a.leave(ctx)
	o.run(ctx, queue{send: a.send, retry: auditPause, failed: "audit log not sent; retrying",
		recovered: "audit log sending recovered", logger: o.Logger.With("destination", a.name)})
}

// send sends the new rows of every organisation.
func (a *auditQueue) send(ctx context.Context, set *settings.Settings) error {
	if !slices.Contains(set.Audit.Destinations(), a.name) {
		return nil
	}
	waiting, err := a.out.Store.UnsentAudits(ctx, a.name)
	if err != nil {
		return err
	}
	for _, mark := range waiting {
		if err := a.deliver(ctx, &set.Audit, mark); err != nil {
			return err
		}
	}
	return nil
}

// deliver sends the rows of one organisation after a mark.
func (a *auditQueue) deliver(ctx context.Context, set *settings.Audit, mark store.AuditHead) error {
	for ctx.Err() == nil {
		held, err := a.out.Store.HoldAuditSender(ctx, a.name, a.node, time.Now(), auditLease)
		if a.held = held; err != nil || !held {
			return err
		}
		list, err := a.out.Store.AuditsAfter(ctx, mark.Organisation, mark.Sequence, a.batch())
		if err != nil || len(list) == 0 {
			return err
		}
		names, err := a.out.Store.AuditNames(ctx, mark.Organisation, list)
		if err != nil {
			return err
		}
		events := make([]auditEvent, len(list))
		for i := range list {
			events[i] = eventOf(&list[i], names[i])
		}
		sent, err := a.retry(ctx, set, events)
		if err != nil {
			return err
		}
		mark.Sequence = list[sent-1].Sequence
		if err := a.mark(ctx, mark); err != nil {
			return err
		}
	}
	return nil
}

// mark records what was received, even when the gateway is stopping.
func (a *auditQueue) mark(ctx context.Context, upTo store.AuditHead) error {
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	return a.out.Store.MarkAuditsSent(short, a.name, upTo)
}

// leave releases the lease, so that another node can send at once.
func (a *auditQueue) leave(ctx context.Context) {
	if !a.held {
		return
	}
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := a.out.Store.HoldAuditSender(short, a.name, a.node, time.Now(), 0); err != nil {
		a.out.Logger.Debug("audit log sender not released", "destination", a.name, "err", err.Error())
	}
}

// batch returns the number of rows in the next delivery.
func (a *auditQueue) batch() int { return cmp.Or(a.fewer, auditBatch) }

// retry sends events from the first one on, up to three times within the lease, and
// returns how many were received. After a delivery that took too long the next one has
// half as many rows, so that a slow destination gets them all in time.
func (a *auditQueue) retry(ctx context.Context, set *settings.Audit, events []auditEvent) (sent int, err error) {
	for wait := tick; ; wait *= 3 {
		short, cancel := context.WithTimeout(ctx, auditTimeout)
		err = a.write(short, set, events)
		// A connection may notice its deadline before the context does.
		late := errors.Is(short.Err(), context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
		cancel()
		a.out.CountAudits(a.name, outcomeOf(err), len(events))
		if err == nil {
			if a.fewer *= 2; a.fewer >= auditBatch {
				a.fewer = 0
			}
			return len(events), nil
		}
		if late {
			a.fewer = (len(events) + 1) / 2
			events = events[:a.fewer]
		}
		if ctx.Err() != nil || wait > 3*tick {
			return 0, err
		}
		pause(ctx, wait)
	}
}

// newAuditClient returns a client that follows no redirects, because rows must be sent only
// to the configured address.
func (o *Outbox) newAuditClient() *http.Client {
	return &http.Client{
		Timeout:       2 * auditTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: o.Dial, TLSHandshakeTimeout: 10 * time.Second,
			IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		},
	}
}

// auditWebhook sends events to the webhook of the settings.
type auditWebhook struct{ client *http.Client }

// write posts events with a signature of the time and the body.
func (w *auditWebhook) write(ctx context.Context, set *settings.Audit, events []auditEvent) error {
	body, err := json.Marshal(map[string]any{"object": "audit_events", "events": events})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, set.Webhook.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(set.Webhook.Key().Reveal()))
	mac.Write([]byte(at + "."))
	mac.Write(body)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Modelgate-Signature", "t="+at+",v1="+hex.EncodeToString(mac.Sum(nil)))
	res, err := w.client.Do(req)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("the webhook returned status %d", res.StatusCode)
	}
	return nil
}
