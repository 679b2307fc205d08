package exports

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/quota"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// bootstrapKey is the id of the key in MODELGATE_BOOTSTRAP_KEY, which is not stored.
const bootstrapKey = "bootstrap"

// lateEntries is the time after a period at which its export starts: requests that began in the
// period and are still running are missing from it.
const lateEntries = 15 * time.Minute

// periodOf returns the beginning of the period that contains t, in the zone of t.
func periodOf(every string, t time.Time) time.Time {
	return periodAt(every, t, 0)
}

// periodAfter returns the end of the period that begins at from, in the zone of from.
func periodAfter(every string, from time.Time) time.Time {
	return periodAt(every, from, 1)
}

// periodAt returns the beginning of the n-th period after the one that contains t, in the zone of
// t. Days begin at the first moment of their date, which is not 00:00 where clocks change then.
func periodAt(every string, t time.Time, n int) time.Time {
	year, month, day := t.Date()
	switch every {
	case "hour":
		return t.Truncate(time.Hour).Add(time.Duration(n) * time.Hour)
	case "week":
		day += 7*n - (int(t.Weekday())+6)%7
	case "month":
		month, day = month+time.Month(n), 1
	default:
		day += n
	}
	return quota.Midnight(year, month, day, t.Location())
}

// runSchedules returns a task that starts the exports that are due. Several gateways may run it
// at once: each export is started by one of them.
func (f Routes) runSchedules(a *route.API) route.Task {
	return func(ctx context.Context, now time.Time, last bool) error {
		if last || a.Off[route.DataExports] || !a.DB.Ready() {
			return nil
		}
		due, err := a.DB.Background().DueExportSchedules(ctx, now)
		errs := []error{err}
		for i := range due {
			errs = append(errs, f.runSchedule(ctx, a, due[i], now))
		}
		return errors.Join(errs...)
	}
}

// maxMissed is the number of ended periods that a schedule makes up for, for instance after the
// gateway was off.
const maxMissed = 48

// runSchedule starts the exports of a schedule's next period, or stops the schedule if a right is
// missing.
func (f Routes) runSchedule(ctx context.Context, a *route.API, s store.ExportSchedule, now time.Time) error {
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		return err
	}
	next, action := s, "start"
	made, err := scheduledExports(ctx, a, &s, now)
	oldest := periodAt(s.Every, now.In(zone), -maxMissed)
	switch reason := reasonToStop(err); {
	case reason != "":
		made, action = nil, "stop"
		next.Status, next.Reason, next.UpdatedAt = store.ScheduleStopped, reason, now
		a.Logger.Warn("a schedule of exports was stopped", "schedule", s.ID, "reason", reason)
	case err != nil:
		return err
	case s.From.Before(oldest):
		made, action = nil, "skip"
		next.From = oldest
		a.Logger.Warn("a schedule of exports skips periods that ended too long ago", "schedule", s.ID, "from", s.From, "to", oldest)
	default:
		next.From, next.LastRunAt = periodAfter(s.Every, s.From.In(zone)), now
	}
	next.NextAt = periodAfter(s.Every, next.From.In(zone)).Add(lateEntries)
	audit := &store.Audit{
		ID: reqlog.NewID(now).String(), Organisation: s.Organisation, Time: now, UserID: cmp.Or(s.UserID, s.KeyID), UserType: "system",
		Status: http.StatusOK, ResourceType: "export_schedule", ResourceID: s.ID, Action: action,
	}
	err = a.DB.Update(ctx, audit, func(tx *store.Tx) error {
		if err := tx.CheckExportScheduleDue(ctx, s.ID, s.NextAt); err != nil {
			return err
		}
		for _, e := range made {
			job := store.Job{
				ID: reqlog.NewID(now).String(), Kind: store.JobExport, Subject: e.ID, Organisation: e.Organisation, Workspace: e.Workspace,
				NextAt: now, CreatedAt: now,
			}
			if err := errors.Join(tx.CreateExport(ctx, e), tx.AddJob(ctx, job)); err != nil {
				return err
			}
		}
		return tx.UpdateExportSchedule(ctx, next)
	})
	if apierr.IsNotFound(err) {
		return nil // another node was faster, or it is gone
	}
	if err == nil && len(made) > 0 && f.Started != nil {
		f.Started()
	}
	return err
}

// reasonToStop returns why an error stops a schedule, empty if it does not.
func reasonToStop(err error) string {
	if e, ok := errors.AsType[*apierr.Error](err); ok && (e.Kind == apierr.Forbidden || e.Kind == apierr.Invalid) {
		return e.Message
	}
	return ""
}

// scheduledExports returns the exports of a schedule's next period, one for each workspace. A
// right that the maker of the schedule no longer has is a Forbidden error.
func scheduledExports(ctx context.Context, a *route.API, s *store.ExportSchedule, now time.Time) ([]store.Export, error) {
	q := a.DB.Background()
	if err := checkKey(ctx, q, a, s, now); err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		return nil, err
	}
	var given scheduleFilters
	if err := json.Unmarshal(s.Filters, &given); err != nil {
		return nil, err
	}
	filters := given.filters(s.From, periodAfter(s.Every, s.From.In(zone)))
	text, err := json.Marshal(filters)
	if err != nil {
		return nil, err
	}
	workspaces, err := currentWorkspaces(ctx, q, s)
	if err != nil {
		return nil, err
	}
	list := make([]store.Export, 0, len(workspaces))
	for _, id := range workspaces {
		e := store.Export{
			ID: reqlog.NewID(now).String(), Organisation: s.Organisation, Workspace: id, Format: s.Format, Filters: text, Requested: s.Requested,
			Status: store.ExportRunning, Schedule: s.ID, UserID: s.UserID, CreatedBy: cmp.Or(s.UserID, s.KeyID),
			CreatedAt: now, UpdatedAt: now, StartedAt: now,
		}
		if e.Keys, err = visibleKeys(ctx, q, &e); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// currentWorkspaces returns the ids of the workspaces of a schedule, which its maker must still be
// able to name.
func currentWorkspaces(ctx context.Context, q store.Queries, s *store.ExportSchedule) ([]string, error) {
	m := store.Membership{}
	var err error
	if s.UserID != "" {
		if m, err = q.Membership(ctx, s.Organisation, s.UserID); err != nil {
			return nil, err
		}
	}
	active, _, err := q.Workspaces(ctx, store.WorkspaceQuery{Organisation: s.Organisation, Statuses: []string{store.Active}}, store.Page{})
	if err != nil {
		return nil, err
	}
	var all []string
	for _, w := range active {
		all = append(all, w.ID)
	}
	wanted := s.Workspaces
	if wanted == nil {
		if s.UserID != "" && m.Role != "owner" && m.Role != "admin" {
			return nil, forbidden("user %s does not administer the organisation any more", s.UserID)
		}
		wanted = all
	}
	for _, id := range wanted {
		if !slices.Contains(all, id) {
			return nil, forbidden("workspace %s is archived or deleted", id)
		}
		if s.UserID != "" && m.RoleIn(id) == "" {
			return nil, forbidden("user %s is not in workspace %s any more", s.UserID, id)
		}
	}
	return wanted, nil
}

// checkKey returns an error unless the key that made a schedule may still export.
func checkKey(ctx context.Context, q store.Queries, a *route.API, s *store.ExportSchedule, now time.Time) error {
	if s.KeyID == "" {
		return nil
	}
	k, err := q.Key(ctx, s.Organisation, s.KeyID)
	if apierr.IsNotFound(err) && a.Deps.Files != nil && s.Organisation == store.DefaultOrganisation {
		place := func(k store.Key) (string, string, string) { return k.ID, k.Workspace, "" }
		if declared, ok := route.FindDeclared(a.Deps.Files().Keys, "", s.KeyID, place); ok {
			k, err = declared, nil
		}
	}
	switch {
	case apierr.IsNotFound(err):
		return forbidden("key %s does not exist any more", s.KeyID)
	case err != nil:
		return err
	}
	if status := k.StatusAt(now); status == store.KeyRevoked || status == store.KeyExpired || k.Disabled {
		return forbidden("key %s is %s", s.KeyID, map[bool]string{true: "disabled", false: status}[k.Disabled])
	}
	if !k.Identity().Allows(scope) {
		return forbidden("key %s lacks the scope %s", s.KeyID, string(scope))
	}
	bound := k.Workspace
	if bound == "" || k.Identity().Allows(access.ScopeAll) {
		return nil
	}
	if len(s.Workspaces) != 1 || s.Workspaces[0] != bound {
		return forbidden("key %s belongs to another workspace", s.KeyID)
	}
	return nil
}

func forbidden(format string, args ...any) error {
	return apierr.New(apierr.Forbidden, format, args...)
}
