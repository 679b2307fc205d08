package exports

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/blob"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// file is the file of an export in progress.
type file struct {
	*Runner
	export store.Export
	lease  *jobs.Job
	names  []string // fields of the file
	rows   atomic.Int64
	bytes  atomic.Int64
}

// Page sizes of entries without bodies, entries with bodies, and entries with bodies
// that may be large.
const (
	pageOfEntries  = 1000
	pageWithBodies = 200
	bodiesAtOnce   = 8
)

// make writes the file. If it fails, no file is left.
func (f *file) make(ctx context.Context) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := f.write(ctx, w)
		w.CloseWithError(err) // nil is the end of the file
		done <- err
	}()
	_, err := f.Files.Put(ctx, f.export.File, r)
	r.CloseWithError(err) // unblocks the writer if the file cannot be written
	if made := <-done; made != nil && err == nil {
		err = made
	}
	return err
}

// write writes every row of the export to w.
func (f *file) write(ctx context.Context, w io.Writer) error {
	var filters Filters
	if err := json.Unmarshal(f.export.Filters, &filters); err != nil {
		return fmt.Errorf("reading filters: %w", err)
	}
	want, err := filters.compile()
	if err != nil {
		return err
	}
	denied, err := denied(ctx, f.DB.Queries, f.export.Organisation)
	if err != nil {
		return err
	}
	if f.names = allowedFields(f.export.Requested, denied); len(f.names) == 0 {
		return apierr.New(apierr.Forbidden, "every field that was requested is denied by the organisation")
	}
	if err := f.Flush(ctx); err != nil {
		return err
	}
	out := bufio.NewWriterSize(&limitedWriter{w, f}, 64<<10)
	enc, err := newEncoder(f.export.Format, out, columns(f.names))
	if err != nil {
		return err
	}
	if err := f.writePages(ctx, want, enc); err != nil {
		return err
	}
	if err := enc.close(); err != nil {
		return err
	}
	return out.Flush()
}

// writePages writes the rows that match want, page by page.
func (f *file) writePages(ctx context.Context, want *rowFilter, enc encoder) error {
	q := want.query
	q.Scope, q.Limit = want.scope(&f.export), pageOfEntries
	hasBodies := withBodies(f.names) && f.Bodies != nil
	if hasBodies {
		q.Limit = pageWithBodies
	}
	skip, room := want.skip, want.size
	for {
		began := time.Now()
		page, err := f.List(ctx, q)
		if err != nil {
			return err
		}
		found := page.Entries[:0]
		for _, e := range page.Entries {
			if !want.matches(e) {
				continue
			}
			if skip > 0 {
				skip--
				continue
			}
			found = append(found, e)
		}
		found = found[:min(len(found), room)]
		if err := f.writePage(ctx, found, hasBodies, enc); err != nil {
			return err
		}
		if room -= len(found); room == 0 || page.Next == "" {
			return nil
		}
		q.Cursor = page.Next
		if err := throttle(ctx, time.Since(began)); err != nil {
			return err
		}
	}
}

// writePage writes entries and releases their bodies as they are written.
func (f *file) writePage(ctx context.Context, entries []*reqlog.Entry, hasBodies bool, enc encoder) error {
	for len(entries) > 0 {
		some := entries[:min(len(entries), bodiesAtOnce)]
		entries = entries[len(some):]
		if hasBodies {
			if err := f.Bodies(ctx, some); err != nil {
				return err
			}
		}
		for i, e := range some {
			if err := enc.row(e); err != nil {
				return err
			}
			f.rows.Add(1)
			some[i] = nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// throttle pauses for as long as the page took, to leave capacity to others.
func throttle(ctx context.Context, took time.Duration) error {
	t := time.NewTimer(min(max(took, time.Millisecond), time.Second))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// limitedWriter counts the bytes written and limits their number.
type limitedWriter struct {
	w io.Writer
	f *file
}

// Write implements io.Writer.
func (c *limitedWriter) Write(b []byte) (int, error) {
	if n := c.f.bytes.Load() + int64(len(b)); n > c.f.MaxSize {
		return 0, apierr.New(apierr.TooLarge, "the file exceeds exports.max_size (%d bytes); narrow the time range, reduce the rows or drop the body fields", c.f.MaxSize)
	}
	n, err := c.w.Write(b)
	c.f.bytes.Add(int64(n))
	return n, err
}

// reason describes why an export failed, without secrets.
func reason(err error) string {
	if f, ok := errors.AsType[*blob.Error](err); ok {
		return "writing the file failed: " + f.Reason
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind != apierr.Internal {
		return e.Message
	}
	return "internal error; see the gateway's process log"
}
