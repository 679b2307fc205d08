package stateplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/batches"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// orphanAge is the age from which content without a record is deleted: a record is written
// right after its content.
const orphanAge = 24 * time.Hour

// SweepOrphans deletes content that no record refers to: a node was killed between writing
// one and the other.
func (p *Plane) SweepOrphans(ctx context.Context) error {
	before := p.deps.Now().Add(-orphanAge)
	err := p.deps.Contents.DeleteIncomplete(ctx, before)
	for info, listing := range p.deps.Contents.List(ctx) {
		if listing != nil {
			return errors.Join(err, listing)
		}
		if !info.Time.Before(before) {
			continue
		}
		used, reading := p.isUsed(ctx, info.Name)
		if reading != nil {
			return errors.Join(err, reading)
		}
		if !used {
			err = errors.Join(err, p.deps.Contents.Delete(ctx, info.Name))
		}
	}
	return err
}

// isUsed reports whether a record refers to content, whose name begins with its
// organisation and the object that it was made for.
func (p *Plane) isUsed(ctx context.Context, name string) (bool, error) {
	parts := strings.Split(name, "/")
	if len(parts) < 2 || !strings.HasPrefix(parts[1], "gw_") {
		return true, nil // not written by this plane
	}
	o, err := p.deps.DB.ObjectByID(ctx, parts[1])
	if apierr.IsNotFound(err) {
		return false, nil
	}
	if err != nil || len(parts) == 2 || o.Kind != store.ObjectBatch || o.EndedAt.IsZero() {
		return true, err
	}
	for _, id := range batches.FilesOf(&o) {
		file, err := p.deps.DB.ObjectByID(ctx, id)
		if apierr.IsNotFound(err) {
			continue
		}
		if err != nil {
			return true, err
		}
		content, err := kept.ContentOf(&file)
		if err != nil {
			return true, err
		}
		if slices.ContainsFunc(content.Blobs, func(b kept.Blob) bool { return b.Name == name }) {
			return true, nil
		}
	}
	return false, nil
}
