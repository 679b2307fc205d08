package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// Folder stores files in a local folder, for its owner only. The folder is created with
// the first file. The path must not be empty.
type Folder string

var _ Store = Folder("")

// part is in the names of incomplete files.
const part = ".part-"

// idle is how long an incomplete file may stay unchanged before it counts as abandoned.
// Writers write more often.
const idle = time.Hour

// Put implements [Store].
func (f Folder) Put(ctx context.Context, name string, r io.Reader) (size int64, err error) {
	if err := check(name); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return 0, explain(err)
	}
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return 0, explain(err)
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return 0, explain(err)
	}
	fresh := name + part + rand.Text()
	if size, err = fill(ctx, root, fresh, r); err == nil {
		err = explain(root.Rename(fresh, name))
	}
	if err != nil {
		root.Remove(fresh) // it may not exist
		return 0, err
	}
	return size, nil
}

// source distinguishes errors of reading the data from errors of writing the disk.
type source struct {
	r   io.Reader
	err error // of reading, except for the end
}

// Read implements io.Reader.
func (s *source) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// fill writes a file.
func fill(ctx context.Context, root *os.Root, name string, r io.Reader) (size int64, err error) {
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, explain(err)
	}
	src := &source{r: r}
	size, err = io.Copy(file, src)
	if src.err == nil {
		err = explain(errors.Join(err, file.Sync(), file.Close()))
	} else {
		file.Close()
	}
	return size, errors.Join(err, ctx.Err())
}

// Get implements [Store].
func (f Folder) Get(_ context.Context, name string) (io.ReadCloser, error) {
	if err := check(name); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return nil, explain(err)
	}
	defer root.Close()
	file, err := root.Open(name)
	if err != nil {
		return nil, explain(err)
	}
	return file, nil
}

// Delete implements [Store].
func (f Folder) Delete(_ context.Context, name string) error {
	if err := check(name); err != nil {
		return err
	}
	root, err := os.OpenRoot(string(f))
	if err == nil {
		defer root.Close()
		err = root.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return explain(err)
}

// Link implements [Store]: a folder has no addresses.
func (f Folder) Link(context.Context, string, string, time.Duration) (string, error) { return "", nil }

// DeleteOlder deletes files written before a time, and abandoned incomplete files.
func (f Folder) DeleteOlder(ctx context.Context, before time.Time) error {
	root, err := os.OpenRoot(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return explain(err)
	}
	defer root.Close()
	rested := time.Now().Add(-idle)
	return explain(fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		at := before
		if strings.Contains(path.Base(name), part) {
			at = rested
		}
		if info, err := d.Info(); err == nil && info.ModTime().Before(at) {
			return root.Remove(name)
		}
		return nil
	}))
}

// explain converts an error of the system to an [Error]. It returns nil and
// fs.ErrNotExist unchanged.
func explain(err error) error {
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault(err, "no room is left on the disk")
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fault(err, "the folder can't be written to")
	}
	return fault(fmt.Errorf("the folder of files: %w", err), "the disk can't be read or written")
}
