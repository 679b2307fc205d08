package webhooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/base/webhook"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/health"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
	"modelgate/internal/upstream"
)

// pauses are the pauses between the attempts of a delivery. They are those of Standard
// Webhooks, over a day.
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
var pauses = []time.Duration{
	5 * time.Second, 5 * time.Minute, 25 * time.Minute, 90 * time.Minute,
	3 * time.Hour, 5 * time.Hour, 4 * time.Hour, 6 * time.Hour, 4 * time.Hour,
}

// Client sends requests to allowed addresses; upstream.Client implements it.
type Client interface {
	webhook.Client

	// IsTrusted reports whether the operator trusts the host of an address.
	IsTrusted(u *url.URL) bool
}

// Options configure a [Sender].
type Options struct {
	DB      *store.DB
	Client  Client
	Secrets route.Sealer

	// Egress returns the egress policies of a workspace, nil for none. If nil there are
	// none.
	Egress func(organisation, workspace string) *egress.Policies

	// Count counts attempts by outcome: delivered, failed or gone. If nil, they are not
	// counted.
	Count func(outcome string)

	Logger *slog.Logger // nil is silent
	Keep   time.Duration
	Sweep  time.Duration // interval of deleting old deliveries; 1 h
	Now    func() time.Time
}

// keep is how long deliveries are kept.
const keep = 30 * 24 * time.Hour

func (o Options) withDefaults() Options {
	if o.Keep <= 0 {
		o.Keep = keep
	}
	if o.Sweep <= 0 {
		o.Sweep = time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Count == nil {
		o.Count = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Sender sends deliveries as jobs, and deletes old ones.
type Sender struct {
	Options
	lanes *lanes
}

// New returns a sender, whose jobs a [jobs.Runner] runs.
func New(o Options) *Sender {
	o = o.withDefaults()
	return &Sender{o, newLanes(o.Now)}
}

// Kind returns the kind of jobs that send deliveries.
func (s *Sender) Kind() jobs.Kind {
	return jobs.Kind{Name: store.JobWebhook, Run: s.deliver, AtOnce: atOnce, Pauses: pauses}
}

// Run deletes old deliveries until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	sweep := time.NewTicker(s.Sweep)
	defer sweep.Stop()
	for {
		if _, err := s.DB.PruneWebhookDeliveries(ctx, s.Now().Add(-s.Keep)); err != nil && ctx.Err() == nil {
			s.Logger.Warn("deleting old webhook deliveries failed", "err", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
		}
	}
}

// deliver makes an attempt of the delivery of a job.
func (s *Sender) deliver(ctx context.Context, j *jobs.Job) error {
	d, err := s.DB.WebhookDelivery(ctx, j.Subject)
	if err != nil {
		return s.DB.ClientError(err)
	}
	e, err := s.DB.WebhookEndpoint(ctx, d.Organisation, d.Workspace, d.Endpoint)
	if err != nil {
		return s.DB.ClientError(err)
	}
	if e.Status != store.WebhookEnabled {
		return finally("the webhook endpoint is disabled; enable it and retry the delivery")
	}
	leave, wait := s.lanes.enter(d.Organisation, d.Endpoint)
	if wait > 0 {
		return jobs.Later(wait)
	}
	defer leave()
	status, pause, failed := s.send(ctx, &e, webhook.Message{ID: d.ID, Body: d.Payload})
	if ctx.Err() != nil {
		return ctx.Err() // the node stops: another one, or the next start, sends it again
	}
	if err := s.record(ctx, j, &e, status, failed); pause == 0 || !errors.Is(err, failed) {
		return err
	}
	return jobs.After(failed, pause)
}

// record stores the result of an attempt and returns the error of the job.
func (s *Sender) record(ctx context.Context, j *jobs.Job, e *store.WebhookEndpoint, status int, failed error) error {
	now, text := s.Now(), publicText(failed)
	result := func(tx *store.Tx) error { return tx.RecordWebhookAttempt(ctx, j.Subject, status, text, now) }
	switch {
	case failed == nil:
		s.Count("delivered")
		return j.Finish(ctx, result)
	case status == http.StatusGone:
		s.Count("gone")
		s.Logger.Info("webhook endpoint disabled", "endpoint", e.ID, "status", status)
		return errors.Join(finally(text), j.Write(ctx, func(tx *store.Tx) error {
			if err := result(tx); err != nil {
				return err
			}
			return tx.TurnOffWebhookEndpoint(ctx, e.ID, text, now)
		}))
	}
	s.Count("failed")
	if err := j.Write(ctx, result); err != nil {
		return err
	}
	return failed
}

// publicText returns what is shown of an error, empty for none.
func publicText(err error) string {
	if err == nil {
		return ""
	}
	if e := apierr.From(err); e.Kind != apierr.Internal {
		return e.Message
	}
	return "internal error; see the gateway's process log"
}

// finally returns an error after which a delivery is not sent again by itself.
func finally(reason string) error { return jobs.Fail(reason, errors.New(reason)) }

// send posts an event to an endpoint, in the endpoint's format. It returns the status of the
// response, zero without one, and the pause that the endpoint asks for. The error says why it was
// not received, without secrets.
func (s *Sender) send(ctx context.Context, e *store.WebhookEndpoint, m webhook.Message) (status int, pause time.Duration, err error) {
	u, err := url.Parse(e.URL)
	if err == nil {
		err = s.checkDestination(e.Organisation, e.Workspace, u)
	}
	if err != nil {
		return 0, 0, err
	}
	if m.Body, err = encode(e.Format, m.Body); err != nil {
		return 0, 0, err
	}
	secrets, err := s.open(ctx, e)
	if err != nil {
		return 0, 0, err
	}
	response, err := m.Send(ctx, s.Client, e.URL, s.Now(), secrets...)
	status = response.Status
	switch {
	case err != nil:
		return 0, 0, connectionError(err)
	case status == http.StatusGone:
		err = apierr.New(apierr.UpstreamFailed, "the endpoint returned status 410, which says that it wants no more events")
	case status/100 == 3:
		err = apierr.New(apierr.UpstreamFailed, "the endpoint returned status %d; redirects are not followed", status)
	case status/100 != 2:
		err = apierr.New(apierr.UpstreamFailed, "the endpoint returned status %d", status)
		pause, _ = health.RetryAfter(response.Header, s.Now())
	}
	return status, min(pause, webhook.MaxRetryAfter), err
}

// connectionError describes an attempt without a response.
func connectionError(err error) error {
	reason := "the request failed"
	if f, ok := errors.AsType[*upstream.Failure](err); ok {
		reason = f.Reason()
		if f.Timeout() {
			reason = fmt.Sprintf("it did not respond within %v", webhook.Timeout)
		}
	}
	return apierr.New(apierr.UpstreamFailed, "the endpoint cannot be reached: %s", reason).WithCause(err)
}

// open returns the secrets that sign for an endpoint now: its secret and, during a
// rotation, the one before.
func (s *Sender) open(ctx context.Context, e *store.WebhookEndpoint) ([]secret.String, error) {
	sealed := []string{e.Sealed}
	if e.Previous != "" && s.Now().Before(e.PreviousUntil) {
		sealed = append(sealed, e.Previous)
	}
	var secrets []secret.String
	for _, text := range sealed {
		v, err := s.Secrets.Open(ctx, e.Organisation, text)
		if err != nil {
			return nil, fmt.Errorf("opening the secret of the webhook endpoint %s: %w", e.ID, err)
		}
		secrets = append(secrets, v)
	}
	return secrets, nil
}

// checkDestination returns an error unless events of a workspace may be sent to an address.
// Addresses of hosts are checked when a request is sent. A nil sender trusts no host.
func (s *Sender) checkDestination(organisation, workspace string, u *url.URL) error {
	if u.Scheme != "https" && (s == nil || !s.Client.IsTrusted(u)) {
		return apierr.New(apierr.Invalid, "the address must begin with https://, unless its host is listed in upstream.trusted_hosts")
	}
	if s == nil || s.Egress == nil {
		return nil
	}
	if s.Egress(organisation, workspace).Check(egress.Request{Managed: true, Host: u}) != nil {
		return apierr.New(apierr.Invalid, "the egress policy does not allow the host %s", u.Hostname())
	}
	return nil
}
