package server

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
	"strconv"
	"time"

	"modelgate/internal/settings"
	"modelgate/internal/store"
)

const (
	auditTick  = time.Second      // between checks for new rows
	auditBatch = 100              // rows in one delivery, at most
	auditTime  = 10 * time.Second // limit of one delivery
	auditLease = 30 * time.Second // of the node that sends
	auditPause = time.Minute      // longest pause between attempts
)

// auditEvent is a row of the audit log in the form that is sent.
type auditEvent struct {
	ID           string `json:"id"`
	Sequence     int64  `json:"sequence"`
	Hash         string `json:"hash"`
	Time         string `json:"timestamp"`
	Organisation string `json:"organisation_id"`
	Workspace    string `json:"workspace_id,omitempty"`
	Action       string `json:"action"`
	ResourceType string `json:"resource_type"`
	ResourceID   string `json:"resource_id,omitempty"`
	UserID       string `json:"user_id"`
	UserType     string `json:"user_type"`
	ClientIP     string `json:"client_ip,omitempty"`
	Host         string `json:"host,omitempty"`
	Method       string `json:"method"`
	URI          string `json:"uri"`
	Status       int    `json:"response_status_code"`
	RequestID    string `json:"request_id"`
	Query        string `json:"query_params"`
	Headers      string `json:"request_headers"`
	Body         string `json:"request_body"`
}

func eventOf(a *store.Audit) auditEvent {
	return auditEvent{
		ID: a.ID, Sequence: a.Sequence, Hash: a.Hash, Time: a.Time.UTC().Format("2006-01-02T15:04:05.000Z"), Organisation: a.Organisation,
		Workspace: a.Workspace, Action: a.Action, ResourceType: a.ResourceType, ResourceID: a.ResourceID, UserID: a.UserID, UserType: a.UserType,
		ClientIP: a.ClientIP, Host: a.Host, Method: a.Method, URI: a.URI, Status: a.Status, RequestID: a.RequestID,
		Query: a.QueryParams, Headers: a.RequestHeaders, Body: a.RequestBody,
	}
}

// auditSender sends rows of the audit log to one destination, in order for each
// organisation, until they are received; a row may arrive twice. If several nodes share
// a database, one of them sends.
type auditSender struct {
	*Server
	name   string // of the destination, in the database and in logs
	node   string
	given  func(*settings.Audit) bool
	send   func(context.Context, *settings.Audit, []auditEvent) error
	held   bool // this node was the sender at the last check
	failed bool
	fewer  int // rows in the next delivery after one that took too long; 0 means auditBatch
}

// sendAudits sends rows of the audit log until ctx ends. Failed deliveries are retried
// from the last received row.
func (s *Server) sendAudits(ctx context.Context) {
	node := rand.Text()
	client := s.newAuditClient()
	defer client.CloseIdleConnections()
	webhook := &auditSender{Server: s, name: "webhook", node: node, send: (&auditWebhook{client}).send,
		given: func(a *settings.Audit) bool { return a.Webhook.URL != "" }}
	line := &syslogLine{dial: s.dial}
	syslog := &auditSender{Server: s, name: "syslog", node: node, send: line.send,
		given: func(a *settings.Audit) bool { return a.Syslog.Address != "" }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		webhook.run(ctx)
	}()
	syslog.run(ctx)
	line.close()
	<-done
}

func (a *auditSender) run(ctx context.Context) {
	defer a.leave(ctx)
	wait := auditTick
	for pause(ctx, wait); ctx.Err() == nil; pause(ctx, wait) {
		err := a.round(ctx)
		if ctx.Err() != nil {
			return
		}
		a.report(err)
		if wait = auditTick; err != nil {
			wait = auditPause
		}
	}
}

// round sends the new rows of every organisation.
func (a *auditSender) round(ctx context.Context) error {
	set := a.current().settings
	if set == nil || !a.given(&set.Audit) || !a.store.Ready() {
		return nil
	}
	waiting, err := a.store.UnsentAudits(ctx, a.name)
	if err != nil || len(waiting) == 0 {
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
func (a *auditSender) deliver(ctx context.Context, set *settings.Audit, mark store.AuditHead) error {
	for ctx.Err() == nil {
		held, err := a.store.HoldAuditSender(ctx, a.name, a.node, time.Now(), auditLease)
		if a.held = held; err != nil || !held {
			return err
		}
		list, err := a.store.AuditsAfter(ctx, mark.Organisation, mark.Sequence, a.batch())
		if err != nil || len(list) == 0 {
			return err
		}
		events := make([]auditEvent, len(list))
		for i := range list {
			events[i] = eventOf(&list[i])
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
func (a *auditSender) mark(ctx context.Context, upTo store.AuditHead) error {
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTime)
	defer cancel()
	return a.store.MarkAuditsSent(short, a.name, upTo)
}

// leave releases the lease, so that another node can send at once.
func (a *auditSender) leave(ctx context.Context) {
	if !a.held {
		return
	}
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTime/10)
	defer cancel()
	if _, err := a.store.HoldAuditSender(short, a.name, a.node, time.Now(), 0); err != nil {
		a.Logger.Debug("audit log sender not released", "destination", a.name, "err", err.Error())
	}
}

// batch returns the number of rows in the next delivery.
func (a *auditSender) batch() int { return cmp.Or(a.fewer, auditBatch) }

// retry sends events from the first one on, up to three times within the lease, and
// returns how many were received. After a delivery that took too long the next one has
// half as many rows, so that a slow destination gets them all in time.
func (a *auditSender) retry(ctx context.Context, set *settings.Audit, events []auditEvent) (sent int, err error) {
	for wait := auditTick; ; wait *= 3 {
		short, cancel := context.WithTimeout(ctx, auditTime/2)
		err = a.send(short, set, events)
		// A connection may notice its deadline before the context does.
		late := errors.Is(short.Err(), context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
		cancel()
		if a.metrics != nil {
			a.metrics.auditsSent.WithLabelValues(a.name, outcomeOf(err)).Add(float64(len(events)))
		}
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
		if ctx.Err() != nil || wait > 3*auditTick {
			return 0, err
		}
		pause(ctx, wait)
	}
}

func outcomeOf(err error) string {
	if err != nil {
		return "failed"
	}
	return "sent"
}

// report logs the first failure and the recovery.
func (a *auditSender) report(err error) {
	switch {
	case err != nil && !a.failed:
		a.Logger.Error("audit log not sent; retrying", "destination", a.name, "err", err.Error())
	case err == nil && a.failed:
		a.Logger.Info("audit log sending recovered", "destination", a.name)
	}
	a.failed = err != nil
}

// newAuditClient returns a client that follows no redirects, because rows must be sent only
// to the configured address.
func (s *Server) newAuditClient() *http.Client {
	return &http.Client{
		Timeout:       auditTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: s.dial, TLSHandshakeTimeout: 10 * time.Second,
			IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		},
	}
}

// auditWebhook sends events to the webhook of the settings.
type auditWebhook struct{ client *http.Client }

// send posts events with a signature of the time and the body.
func (w *auditWebhook) send(ctx context.Context, set *settings.Audit, events []auditEvent) error {
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
