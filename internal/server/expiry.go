package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

const expiryNotice = 7 * 24 * time.Hour // by default

// markEnded marks what has expired. Requests check the times themselves; the marks are
// for lists. Gateways that share a database take turns, and the second finds nothing to
// do.
func (s *Server) markEnded(ctx context.Context, now time.Time) {
	if !s.store.Ready() {
		return
	}
	err := s.noteExpiry(ctx, now)
	due, err2 := s.store.MarkRotationsDue(ctx, now, func(k store.Key) *store.Audit { return rotationDue(k, now) })
	if err = errors.Join(err, err2, s.store.MarkEnded(ctx, now)); err != nil && ctx.Err() == nil {
		s.Logger.Warn("expiry sweep failed", "err", err.Error())
	}
	for _, k := range due {
		s.Logger.Warn("gateway key rotation due", "key", k.ID, "name", k.Name, "due", k.RotationDueAt.Format(time.RFC3339))
	}
}

// rotationDue returns the audit event for a key that is due for rotation. The gateway
// does not rotate it, because no one would receive the new secret.
func rotationDue(k store.Key, now time.Time) *store.Audit {
	id := reqlog.NewID(now).String()
	return &store.Audit{
		ID: id, RequestID: id, Organisation: k.Organisation, Workspace: k.Workspace, Time: now, UserType: "system", Status: http.StatusOK,
		ResourceType: "api_key", ResourceID: k.ID, Action: "rotation_due", QueryParams: "{}", RequestHeaders: "{}", RequestBody: "{}",
	}
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
