package server

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/oserr"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

const (
	alertTick    = time.Second          // between checks for alerts
	alertSlots   = 32                   // alerts sent concurrently
	alertLease   = 3 * time.Minute      // of the node that sends an alert; longer than all of its deliveries
	alertPause   = 5 * time.Second      // before the second attempt, doubled for each further one
	alertPauses  = time.Hour            // longest pause between attempts
	alertAge     = 3 * 24 * time.Hour   // of an alert that is no longer tried
	alertKept    = 100 * 24 * time.Hour // of an alert that is not forgotten, as it could be sent again
	mostReceive  = 100                  // recipients of one alert
	emailPrefix  = "email:"             // of a destination, before an address
	expiryNotice = 7 * 24 * time.Hour   // by default
)

// alertSender sends alerts that the database holds. If several gateways share it, each
// alert is sent by one of them; after a crash it may be sent again, with the same id.
type alertSender struct {
	*Server
	pruned  time.Time
	failed  bool
	sending sync.WaitGroup
	slots   chan struct{} // holds one value for each alert that is sent
}

// sendAlerts sends alerts until ctx ends.
func (s *Server) sendAlerts(ctx context.Context) {
	a := &alertSender{Server: s, slots: make(chan struct{}, alertSlots)}
	defer a.sending.Wait()
	for pause(ctx, alertTick); ctx.Err() == nil; pause(ctx, alertTick) {
		err := a.round(ctx, time.Now())
		switch {
		case ctx.Err() != nil:
		case err != nil && !a.failed:
			s.Logger.Error("alerts not read; retrying", "err", err.Error())
		case err == nil && a.failed:
			s.Logger.Info("alerts read again")
		}
		a.failed = err != nil
	}
}

// round begins to send the alerts that are due, as many as there are free slots: a slow
// destination does not delay what others wait for.
func (a *alertSender) round(ctx context.Context, now time.Time) error {
	set := a.current().settings
	if set == nil || !a.store.Ready() {
		return nil
	}
	if now.Sub(a.pruned) > time.Hour {
		if err := a.store.PruneAlerts(ctx, now.Add(-alertKept)); err != nil {
			return err
		}
		a.pruned = now
	}
	free := alertSlots - len(a.slots)
	if free == 0 {
		return nil
	}
	list, err := a.store.ClaimAlerts(ctx, now, alertLease, free)
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
func (a *alertSender) deliver(ctx context.Context, set *settings.Alerts, stored *store.Alert, now time.Time) {
	logger := a.Logger.With("alert", stored.ID, "type", stored.Type)
	sent := &alert.Alert{ID: stored.ID, Type: stored.Type, Time: stored.CreatedAt}
	var t attempt
	if t.err = json.Unmarshal(stored.Data, &sent.Data); t.err == nil {
		t = a.sendAll(ctx, set, stored, sent, logger)
	}
	var next time.Time
	switch {
	case t.waiting == 0 && t.err == nil:
	case ctx.Err() != nil:
		next = now // another gateway or the next start continues
	case now.Sub(stored.CreatedAt) > alertAge:
		a.metrics.alertsSent.WithLabelValues("any", "dropped").Inc()
		logger.Error("alert dropped; its destinations failed for three days", "err", t.err.Error())
	default:
		next = now.Add(backoff(stored.Attempts))
		logger.Warn("alert not sent; retrying", "attempt", stored.Attempts, "next", next.UTC().Format(time.RFC3339), "err", t.err.Error())
	}
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTime)
	defer cancel()
	if err := a.store.PutAlert(short, stored.ID, slices.Concat(stored.Delivered, t.done), next); err != nil {
		logger.Warn("alert result not stored; it may be sent again", "err", err.Error())
	}
}

// backoff returns the pause after an attempt: 5 seconds, doubled for each further one
// up to an hour, of which a random half is left out.
func backoff(attempts int) time.Duration {
	d := min(alertPause<<min(attempts-1, 20), alertPauses)
	return d - rand.N(d/2)
}

// attempt is the result of sending an alert to a destination, or to all.
type attempt struct {
	done    []string // destinations that have it, or rejected it for good
	waiting int      // destinations to be tried again
	err     error    // of one of them
}

func (t *attempt) add(u attempt) {
	t.done = append(t.done, u.done...)
	t.waiting += u.waiting
	if u.err != nil {
		t.err = u.err
	}
}

// sendAll sends to the destinations that do not have the alert.
func (a *alertSender) sendAll(ctx context.Context, set *settings.Alerts, stored *store.Alert, sent *alert.Alert, logger *slog.Logger) (sum attempt) {
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

func (a *alertSender) sendWebhook(ctx context.Context, w alert.Webhook, sent *alert.Alert, logger *slog.Logger) attempt {
	err := w.Send(ctx, a.engine.Client, sent, time.Now())
	a.metrics.alertsSent.WithLabelValues("webhook", outcomeOf(err)).Inc()
	switch {
	case errors.Is(err, alert.ErrGone):
		logger.Warn("alert rejected", "host", hostOf(w.URL), "err", err.Error())
	case err != nil:
		return attempt{waiting: 1, err: fmt.Errorf("%s: %w", hostOf(w.URL), err)}
	}
	return attempt{done: []string{webhookName(w.URL)}}
}

// sendEmail sends to the recipients that do not have the alert.
func (a *alertSender) sendEmail(ctx context.Context, set *settings.AlertEmail, stored *store.Alert, sent *alert.Alert, logger *slog.Logger) attempt {
	to, err := a.recipients(ctx, set, stored)
	if err != nil {
		return attempt{waiting: 1, err: err}
	}
	to = slices.DeleteFunc(to, func(address string) bool { return slices.Contains(stored.Delivered, emailPrefix+address) })
	if len(to) == 0 {
		return attempt{}
	}
	m, err := mailOf(set)
	if err == nil {
		m.Dial = a.dial
	}
	if err != nil {
		return attempt{waiting: len(to), err: err}
	}
	result, err := m.Send(ctx, sent, to, time.Now())
	t := attempt{waiting: len(to) - len(result.Sent) - len(result.Rejected), err: err}
	count := a.metrics.alertsSent
	count.WithLabelValues("email", "sent").Add(float64(len(result.Sent)))
	count.WithLabelValues("email", "dropped").Add(float64(len(result.Rejected)))
	count.WithLabelValues("email", "failed").Add(float64(t.waiting))
	if len(result.Rejected) > 0 {
		logger.Warn("alert rejected for recipients", "recipients", len(result.Rejected))
	}
	for _, address := range slices.Concat(result.Sent, result.Rejected) {
		t.done = append(t.done, emailPrefix+address)
	}
	return t
}

// recipients returns who gets an alert by e-mail: the admins of the organisation and
// the workspace, the user concerned, those of the key, and those of the settings.
func (a *alertSender) recipients(ctx context.Context, set *settings.AlertEmail, stored *store.Alert) ([]string, error) {
	var user string
	list := slices.Clone(set.To)
	switch stored.ResourceType {
	case "user":
		user = stored.ResourceID
	case "api_key":
		k, err := a.store.Key(ctx, stored.Organisation, stored.ResourceID)
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
	users, err := a.store.AlertRecipients(ctx, stored.Organisation, stored.Workspace, user)
	list = append(list, users...)
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(len(list), mostReceive)], err
}

// mailOf returns the mail server of the settings.
func mailOf(set *settings.AlertEmail) (*alert.Mail, error) {
	m := &alert.Mail{Server: set.Server, TLS: set.TLS, User: set.User, Password: set.Credential(), From: set.From}
	if m.TLS == "" {
		m.TLS = alert.StartTLS
	}
	if set.CA != "" {
		pem, err := os.ReadFile(set.CA)
		if err != nil {
			return nil, fmt.Errorf("reading the authorities of the mail server (ca): %w", oserr.File(err))
		}
		m.RootCAs = x509.NewCertPool()
		if !m.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("the file of the mail server's authorities contains no certificate")
		}
	}
	return m, nil
}

// webhookName names a destination without its address, which may be a secret.
func webhookName(address string) string {
	sum := sha256.Sum256([]byte(address))
	return "webhook:" + hex.EncodeToString(sum[:8])
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// noteExpiry marks keys and managed providers that have expired, and reports keys that
// are about to.
func (s *Server) noteExpiry(ctx context.Context, now time.Time) error {
	_, err := s.store.MarkExpired(ctx, now, func(k store.Key) *store.Audit {
		return expiryNote(now, "expired", keyData(k), &store.Alert{Type: alert.Expired})
	})
	err2 := s.store.MarkProvidersExpired(ctx, now, func(p store.Provider) *store.Audit {
		d := alert.Data{Organisation: p.Organisation, Workspace: p.Workspace, Object: "provider", ID: p.ID, Name: p.Name, ExpiresAt: &p.ExpiresAt}
		return expiryNote(now, "expired", d, &store.Alert{Type: alert.Ended})
	})
	notice := s.current().settings.Alerts.ExpiryNotice.Or(expiryNotice)
	if notice == 0 {
		return errors.Join(err, err2)
	}
	err3 := s.store.NoteExpiring(ctx, now, now.Add(notice), func(k store.Key) *store.Audit {
		return expiryNote(now, "expires_soon", keyData(k), &store.Alert{ID: store.ExpiryAlert(k), Type: alert.Expiring})
	})
	return errors.Join(err, err2, err3)
}

func keyData(k store.Key) alert.Data {
	return alert.Data{Organisation: k.Organisation, Workspace: k.Workspace, Object: "api_key", ID: k.ID, Name: k.Name, ExpiresAt: &k.ExpiresAt}
}

// expiryNote returns the audit event for an object that has expired or will, with an
// alert that describes it by d.
func expiryNote(now time.Time, action string, d alert.Data, a *store.Alert) *store.Audit {
	a.Data = d.JSON()
	id := reqlog.NewID(now).String()
	return &store.Audit{
		ID: id, RequestID: id, Organisation: d.Organisation, Workspace: d.Workspace, Time: now, UserType: "system", Status: http.StatusOK,
		ResourceType: d.Object, ResourceID: d.ID, Action: action, QueryParams: "{}", RequestHeaders: "{}", RequestBody: "{}", Alert: a,
	}
}
