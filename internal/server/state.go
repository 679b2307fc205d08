package server

import (
	"cmp"
	"context"
	"io"
	"iter"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/model/catalog"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/settings"
	"modelgate/internal/stateplane"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/responses"
	"modelgate/internal/storage/blob"
	"modelgate/internal/store"
)

// openState creates the plane of objects that outlive a request.
func (s *Server) openState(set *settings.Settings) error {
	files, err := s.openFiles(&set.Blob, "files")
	if err != nil {
		return err
	}
	sealed := contents{files: files, shared: set.Blob.S3.Configured()}
	if sealed.shared {
		sealed.places = make(chan struct{}, cmp.Or(set.Files.UploadsAtOnce, 16))
	}
	if s.box != nil {
		sealed.ring = s.ring
	}
	s.kept = stateplane.New(kept.Deps{
		DB: s.store, Contents: sealed, Logger: s.Logger, Now: time.Now,
		NewID:    func() string { return reqlog.NewID(time.Now()).String() },
		Limits:   keptLimits(set),
		Managed:  s.managedTarget,
		KeyOwner: func(h access.Hash, now time.Time) (*access.Identity, error) { return s.holder.Load().KeyOwner(h, now) },
		Call:     func(w http.ResponseWriter, r *http.Request, c *dataplane.Call) { s.requests.Call(w, r, c) },
		Fetch:    func(r *http.Request) (*http.Response, error) { return s.engine.Client.Do(r, true) },
		Budgets: kept.Budgets{
			Counters: s.counters.holds, Policies: s.currentPolicies,
			MayBind: func(id *access.Identity) bool { return s.requests.HasBudgets(id) },
			Estimate: func(r *http.Request, id *access.Identity, line *exchange.BatchLine) ([]dataplane.BudgetUse, error) {
				return s.requests.EstimateBudgets(r, id, line)
			},
		},
		Prices: func() *catalog.PriceBook { return s.holder.Load().Prices },
		Record: func(ctx context.Context, e *reqlog.Entry) { s.recorder().Record(ctx, e) },
		Spent:  s.spender.act,
		Queued: func() { s.jobs.Notify() },
	}, stateplane.Options{
		BatchesAtOnce: cmp.Or(set.Batches.AtOnce, 4), Responses: s.keptResponses(set), ResponsesAtOnce: cmp.Or(set.Responses.AtOnce, 32),
		MeterCalls:  set.Realtime.MeterCalls == nil || *set.Realtime.MeterCalls,
		KeepDeleted: time.Duration(cmp.Or(set.Files.KeepDeleted, 30)) * 24 * time.Hour,
	})
	return nil
}

// keptResponses returns how responses are kept.
func (s *Server) keptResponses(set *settings.Settings) responses.Options {
	return responses.Options{
		Keep:    time.Duration(cmp.Or(set.Responses.KeepDays, 30)) * 24 * time.Hour,
		Own:     s.box != nil && cmp.Or(set.Responses.Store, "gateway") == "gateway",
		Records: set.Responses.Store != "off",
		Refuse:  set.Responses.Unkept == "refuse",
		DataKey: s.ring.Create,
	}
}

// keptLimits returns the limits of what workspaces keep.
func keptLimits(set *settings.Settings) kept.Limits {
	return kept.Limits{
		WorkspaceBytes: set.Files.WorkspaceQuota.Or(10 << 30),
		FileBytes:      set.Files.MaxSize.Or(512 << 20),
		CopyBytes:      set.Files.CopyLimit.Or(100 << 20),
		BatchFileBytes: set.Batches.MaxSize.Or(200 << 20),
		BatchLines:     cmp.Or(set.Batches.MaxLines, 50_000),
		KeepBatchFiles: time.Duration(cmp.Or(set.Files.KeepBatchDays, 30)) * 24 * time.Hour,
		AtOnce:         cmp.Or(set.Batches.Concurrency, 16),
		Unrecorded:     set.Files.Unrecorded == "pass",
		StrictBudgets:  set.Batches.OverBudget == "refuse",
	}
}

// useClientSecret stores that a client secret begins a session of an identity, and reports
// whether it is the first use by any gateway.
func (s *Server) useClientSecret(ctx context.Context, of *access.Identity, id string, until time.Time) (first bool, err error) {
	return s.store.UseClientSecret(ctx, store.SecretUse{
		ID: id, Organisation: of.Organisation, Workspace: of.Workspace, KeyID: of.KeyID, Time: time.Now(), ExpiresAt: until,
	})
}

// managedTarget returns the managed provider of a workspace with a slug, and the id of its
// integration if it is in the database.
func (s *Server) managedTarget(workspace, slug string) (t *provider.Target, integration string, ok bool) {
	m, ok := s.holder.Load().Managed(workspace, slug)
	if !ok || m.CheckUsable(time.Now()) != nil || m.Target == nil {
		return nil, "", false
	}
	return m.Target, "", true
}

// contents keeps the contents of files: sealed with the data key of their organisation, or
// as they are if there is no master key.
type contents struct {
	files blob.Store
	// shared is true for a bucket, in which other deployments may keep files too.
	shared bool
	ring   *datakey.Keyring // nil without a master key
	// places holds a value for each file that is being stored: one in a bucket takes a
	// buffer of 8 MB. Nil does not limit them.
	places chan struct{}
}

// uploadWait is how long a file waits to be stored. Its content is not read until then.
const uploadWait = 15 * time.Second

// enter waits for a place among the files that are being stored. The caller calls leave.
func (c contents) enter(ctx context.Context) (leave func(), err error) {
	if c.places == nil {
		return func() {}, nil
	}
	wait := time.NewTimer(uploadWait)
	defer wait.Stop()
	select {
	case c.places <- struct{}{}:
		return func() { <-c.places }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-wait.C:
	}
	e := apierr.New(apierr.Unavailable, "the gateway is storing %d files, which is the limit; try again shortly (files.uploads_at_once)", cap(c.places)).
		WithCode("uploads_busy")
	e.RetryAfter = uploadWait
	return nil, e
}

// of returns the store of an organisation.
func (c contents) of(ctx context.Context, organisation string) (blob.Store, error) {
	if c.ring == nil {
		return c.files, nil
	}
	key, err := c.ring.Create(ctx, organisation)
	if err != nil {
		return nil, err
	}
	return blob.Sealed{Files: c.files, Key: key}, nil
}

// Put implements [kept.Contents].
func (c contents) Put(ctx context.Context, organisation, name string, r io.Reader) (int64, error) {
	to, err := c.of(ctx, organisation)
	if err != nil {
		return 0, err
	}
	leave, err := c.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	return to.Put(ctx, name, r)
}

// Get implements [kept.Contents].
func (c contents) Get(ctx context.Context, organisation, name string, offset, length int64) (io.ReadCloser, error) {
	from, err := c.of(ctx, organisation)
	if err != nil {
		return nil, err
	}
	return from.GetRange(ctx, name, offset, length)
}

// Delete implements [kept.Contents].
func (c contents) Delete(ctx context.Context, name string) error { return c.files.Delete(ctx, name) }

// List implements [kept.Contents]. It lists nothing of a bucket: a file without a record here
// may have one in the database of another deployment.
func (c contents) List(ctx context.Context) iter.Seq2[blob.Info, error] {
	if c.shared {
		return func(func(blob.Info, error) bool) {}
	}
	return c.files.List(ctx, "")
}

// DeleteIncomplete implements [kept.Contents].
func (c contents) DeleteIncomplete(ctx context.Context, before time.Time) error {
	return c.files.DeleteIncomplete(ctx, before)
}
