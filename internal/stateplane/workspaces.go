package stateplane

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/batches"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// SweepWorkspaces deletes the records, the contents and the jobs of workspaces that were
// deleted some time ago. What they have at providers stays there: the providers were
// deleted with their workspace.
func (p *Plane) SweepWorkspaces(ctx context.Context) error {
	before := p.deps.Now().Add(-p.options.KeepDeleted)
	for {
		list, err := p.deps.DB.OrphanedObjects(ctx, before, sweepAtOnce)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			if err := p.deleteOrphaned(ctx, &list[i]); err != nil {
				return err
			}
		}
		p.deps.Logger.Info("objects of deleted workspaces were deleted", "count", len(list))
	}
}

// deleteOrphaned deletes an object with its jobs and its content.
func (p *Plane) deleteOrphaned(ctx context.Context, o *store.Object) error {
	blobs, err := blobsOf(o)
	if err != nil {
		return err
	}
	err = p.deps.DB.Transact(ctx, func(tx *store.Tx) error {
		if err := tx.DeleteJobsOf(ctx, o); err != nil {
			return err
		}
		return tx.DeleteObject(ctx, o)
	})
	if err != nil && !apierr.IsNotFound(err) {
		return err
	}
	return p.deps.DeleteBlobs(ctx, blobs)
}

// blobsOf returns the contents of an object.
func blobsOf(o *store.Object) ([]kept.Blob, error) {
	if o.Kind == store.ObjectChunk {
		return batches.BlobsOf(o)
	}
	c, err := kept.ContentOf(o)
	return c.Blobs, err
}
