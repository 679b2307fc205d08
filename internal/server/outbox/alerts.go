package outbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/webhook"
	"modelgate/internal/provider/health"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

const (
	alertSlots      = 32                   // alerts sent concurrently
	alertLease      = 3 * time.Minute      // of the node that sends an alert; longer than all of its deliveries
	alertPause      = 5 * time.Second      // before the second attempt, doubled for each further one
	maxAlertPause   = time.Hour            // between attempts
	maxAlertAge     = 3 * 24 * time.Hour   // of an alert that is still tried
	alertRetention  = 100 * 24 * time.Hour // of a finished alert, so that it is not sent again
	maxRecipients   = 100                  // of one alert
	recipientPrefix = "email:"             // of a destination, before an address
)

// alertQueue sends alerts. If several gateways share the database, each alert is sent by
// one of them; after a crash it may be sent again, with the same id.
type alertQueue struct {
	out     *Outbox
	pruned  time.Time
	sending sync.WaitGroup
	slots   chan struct{} // holds one value for each alert that is sent
}

// sendAlerts sends alerts until ctx ends.
func (o *Outbox) sendAlerts(ctx context.Context) {
	a := &alertQueue{out: o, slots: make(chan struct{}, alertSlots)}
	defer a.sending.Wait()
	o.run(ctx, queue{send: a.send, retry: tick, failed: "alerts not read; retrying", recovered: "alerts read again", logger: o.Logger})
}

// send begins to send the alerts that are due, as many as there are free slots: a slow
// destination does not delay what others wait for.
func (a *alertQueue) send(ctx context.Context, set *settings.Settings) error {
	now := time.Now()
	if now.Sub(a.pruned) > time.Hour {
		if err := a.out.Store.PruneAlerts(ctx, now.Add(-alertRetention)); err != nil {
			return err
		}
		a.pruned = now
	}
	free := alertSlots - len(a.slots)
	if free == 0 {
		return nil
	}
	list, err := a.out.Store.ClaimAlerts(ctx, now, alertLease, free)
	for i := range list {
		a.slots <- struct{}{}
		a.sending.Go(func() {
			defer func() { <-a.slots }()
			a.deliver(ctx, &set.Alerts, &list[i], now)
		})
	}
	return err
}

// deliver sends an alert to the destinations that do not have it, and records the
// result.
func (a *alertQueue) deliver(ctx context.Context, set *settings.Alerts, stored *store.Alert, now time.Time) {
	logger := a.out.Logger.With("alert", stored.ID, "type", stored.Type)
	sent := &alert.Alert{ID: stored.ID, Type: stored.Type, Time: stored.CreatedAt}
	var t attempt
	if t.err = json.Unmarshal(stored.Data, &sent.Data); t.err == nil {
		a.addNames(ctx, &sent.Data)
		t = a.sendAll(ctx, set, stored, sent, logger)
	}
	var next time.Time
	switch {
	case t.waiting == 0 && t.err == nil:
	case ctx.Err() != nil:
		next = now // another gateway or the next start continues
	case now.Sub(stored.CreatedAt) > maxAlertAge:
		a.out.CountAlerts("any", "dropped", 1)
		logger.Error("alert dropped; its destinations failed for three days", "err", t.err.Error())
	default:
		next = now.Add(max(backoff(stored.Attempts), min(t.pause, webhook.MaxRetryAfter)))
		logger.Warn("alert not sent; retrying", "attempt", stored.Attempts, "next", next.UTC().Format(time.RFC3339), "err", t.err.Error())
	}
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	if err := a.out.Store.PutAlert(short, stored.ID, slices.Concat(stored.Delivered, t.done), next); err != nil {
		logger.Warn("alert result not stored; it may be sent again", "err", err.Error())
	}
}

// addNames adds the names of the organisation and the workspace. Those that cannot be read are
// left out: the alert has the ids.
func (a *alertQueue) addNames(ctx context.Context, d *alert.Data) {
	if o, err := a.out.Store.Organisation(ctx, d.Organisation); err == nil {
		d.OrganisationName = o.Name
	}
	if d.Workspace == "" {
		return
	}
	if w, err := a.out.Store.Workspace(ctx, d.Organisation, d.Workspace); err == nil {
		d.WorkspaceName = w.Name
	}
}

// backoff returns the pause after an attempt: 5 seconds, doubled for each further one
// up to an hour, of which a random half is left out.
func backoff(attempts int) time.Duration {
	d := min(alertPause<<min(attempts-1, 20), maxAlertPause)
	return d - rand.N(d/2)
}

// attempt is the result of sending an alert to a destination, or to all.
type attempt struct {
	done    []string      // destinations that have it, or rejected it for good
	waiting int           // destinations to be tried again
	err     error         // of one of them
	pause   time.Duration // that a destination asked for
}

func (t *attempt) add(u attempt) {
	t.done = append(t.done, u.done...)
	t.waiting += u.waiting
	t.pause = max(t.pause, u.pause)
	if u.err != nil {
		t.err = u.err
	}
}

// sendAll sends to the destinations that do not have the alert.
func (a *alertQueue) sendAll(ctx context.Context, set *settings.Alerts, stored *store.Alert,
	sent *alert.Alert, logger *slog.Logger) (sum attempt) {
	results := make([]attempt, len(set.Webhooks)+1)
	var sending sync.WaitGroup
	for i := range set.Webhooks {
		w := set.Webhooks[i].Webhook()
		if !slices.Contains(stored.Delivered, webhookName(w.URL)) {
			sending.Go(func() { results[i] = a.sendWebhook(ctx, w, sent, logger) })
		}
	}
	if set.Email.Server != "" {
		sending.Go(func() { results[len(set.Webhooks)] = a.sendEmail(ctx, &set.Email, stored, sent, logger) })
	}
	sending.Wait()
	for _, r := range results {
		sum.add(r)
	}
	return sum
}

func (a *alertQueue) sendWebhook(ctx context.Context, w alert.Webhook, sent *alert.Alert, logger *slog.Logger) attempt {
	err := w.Send(ctx, a.out.Client, sent, time.Now())
	a.out.CountAlerts("webhook", outcomeOf(err), 1)
	switch {
	case errors.Is(err, alert.ErrGone):
		logger.Warn("alert rejected", "host", w.Host(), "err", err.Error())
	case err != nil:
		t := attempt{waiting: 1, err: fmt.Errorf("%s: %w", w.Host(), err)}
		if refused, ok := errors.AsType[*alert.StatusError](err); ok {
			t.pause, _ = health.RetryAfter(refused.Header, time.Now())
		}
		return t
	}
	return attempt{done: []string{webhookName(w.URL)}}
}

// sendEmail sends to the recipients that do not have the alert.
func (a *alertQueue) sendEmail(ctx context.Context, set *settings.AlertEmail, stored *store.Alert,
	sent *alert.Alert, logger *slog.Logger) attempt {
	to, err := a.recipients(ctx, set, stored)
	if err != nil {
		return attempt{waiting: 1, err: err}
	}
	to = slices.DeleteFunc(to, func(address string) bool { return slices.Contains(stored.Delivered, recipientPrefix+address) })
	if len(to) == 0 {
		return attempt{}
	}
	m, err := set.Mail()
	if err != nil {
		return attempt{waiting: len(to), err: err}
	}
	m.Dial = a.out.Dial
	result, err := m.Send(ctx, sent, to, time.Now())
	t := attempt{waiting: len(to) - len(result.Sent) - len(result.Rejected), err: err}
	a.out.CountAlerts("email", "sent", len(result.Sent))
	a.out.CountAlerts("email", "dropped", len(result.Rejected))
	a.out.CountAlerts("email", "failed", t.waiting)
	if len(result.Rejected) > 0 {
		logger.Warn("alert rejected for recipients", "recipients", len(result.Rejected))
	}
	for _, address := range slices.Concat(result.Sent, result.Rejected) {
		t.done = append(t.done, recipientPrefix+address)
	}
	return t
}

// recipients returns who gets an alert by e-mail: the admins of the organisation and
// the workspace, the user concerned, those of the key, and those of the settings.
func (a *alertQueue) recipients(ctx context.Context, set *settings.AlertEmail, stored *store.Alert) ([]string, error) {
	var user string
	list := slices.Clone(set.To)
	switch stored.ResourceType {
	case "user":
		user = stored.ResourceID
	case "api_key":
		k, err := a.out.Store.Key(ctx, stored.Organisation, stored.ResourceID)
		if err != nil && apierr.From(err).Kind != apierr.NotFound {
			return nil, err
		}
		user = k.UserID
		var more []string
		if len(k.AlertEmails) > 0 {
			if err := json.Unmarshal(k.AlertEmails, &more); err != nil {
				return nil, fmt.Errorf("reading the recipients of a key: %w", err)
			}
		}
		list = append(list, more...)
	}
	users, err := a.out.Store.AlertRecipients(ctx, stored.Organisation, stored.Workspace, user)
	list = append(list, users...)
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(len(list), maxRecipients)], err
}

// webhookName names a destination without its address, which may be a secret.
func webhookName(address string) string {
	sum := sha256.Sum256([]byte(address))
	return "webhook:" + hex.EncodeToString(sum[:8])
}
