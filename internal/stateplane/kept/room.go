package kept

import (
	"errors"
	"io/fs"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/blob"
)

// Room returns how many bytes the workspace may still keep. It returns an error if length,
// the announced size of what will be kept, is more; a negative length is unknown.
func (q *Request) Room(length int64) (left int64, err error) {
	used, err := q.Deps.DB.ObjectBytes(q.HTTP.Context(), q.From.Identity.Workspace)
	if err != nil {
		return 0, q.Deps.DB.ClientError(err)
	}
	left = q.Deps.Limits.WorkspaceBytes - used
	const fields = 64 << 10 // a form is larger than its file
	if left <= 0 || length-fields > left {
		return 0, q.NoRoom(used)
	}
	return left, nil
}

// NoRoom returns the error for a workspace without room.
func (q *Request) NoRoom(used int64) error { return NoRoom(q.Deps, used) }

// NoRoom is [Request.NoRoom] for work without a request.
func NoRoom(d *Deps, used int64) error {
	return apierr.New(apierr.TooLarge, "the files of this workspace have %d of at most %d bytes; delete some, or raise files.workspace_quota",
		used, d.Limits.WorkspaceBytes).WithParam("file").WithCode("quota_exceeded")
}

// StoreFailed returns the error for contents that could not be stored or read.
func StoreFailed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return apierr.New(apierr.NotFound, "the content of this file is gone").WithCode("content_missing").WithCause(err)
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Unavailable {
		return e
	}
	e := apierr.New(apierr.Unavailable, "the file could not be stored or read; try again later").WithCode("storage_unavailable").WithCause(err)
	if reason, ok := errors.AsType[*blob.Error](err); ok {
		e = apierr.New(apierr.Unavailable, "the file could not be stored or read: %s",
			reason.Reason).WithCode("storage_unavailable").WithCause(err)
	}
	return e
}
