package server

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"time"

	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/settings"
	"modelgate/internal/stateplane"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/responses"
	"modelgate/internal/storage/blob"
)

// openState creates the plane of objects that outlive a request.
func (s *Server) openState(set *settings.Settings) error {
	files, err := s.openFiles(&set.Blob, "files")
	if err != nil {
		return err
	}
	s.kept = stateplane.New(kept.Deps{
		DB: s.store, Contents: contents{files}, Logger: s.Logger, Now: time.Now,
		NewID:    func() string { return reqlog.NewID(time.Now()).String() },
		Limits:   keptLimits(set),
		Managed:  s.managedTarget,
		Queued:   func() { s.jobs.Notify() },
		Call:     func(w http.ResponseWriter, r *http.Request, c *dataplane.Call) { s.requests.Call(w, r, c) },
		KeyOwner: func(hash access.Hash, now time.Time) (*access.Identity, error) { return s.requests.KeyOwner(hash, now) },
	}, stateplane.Options{Responses: s.keptResponses(set), ResponsesAtOnce: cmp.Or(set.Responses.AtOnce, 32)})
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
		BatchFileBytes: set.Batches.MaxSize.Or(200 << 20),
		BatchLines:     cmp.Or(set.Batches.MaxLines, 50_000),
		KeepBatchFiles: time.Duration(cmp.Or(set.Files.KeepBatchDays, 30)) * 24 * time.Hour,
		AtOnce:         cmp.Or(set.Batches.Concurrency, 16),
		Unrecorded:     set.Files.Unrecorded == "pass",
	}
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

// contents keeps the contents of files.
type contents struct{ files blob.Store }

func (c contents) Put(ctx context.Context, _, name string, r io.Reader) (int64, error) {
	return c.files.Put(ctx, name, r)
}

func (c contents) Get(ctx context.Context, _, name string, offset, length int64) (io.ReadCloser, error) {
	body, err := c.files.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, body, offset); err != nil {
		body.Close()
		return nil, err
	}
	return body, nil
}

func (c contents) Delete(ctx context.Context, name string) error { return c.files.Delete(ctx, name) }
