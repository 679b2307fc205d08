package blob

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
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
		err = explain(rename(root, fresh, name))
	}
	if err != nil {
		root.Remove(fresh) // it may not exist
		return 0, err
	}
	return size, nil
}

// rename renames a file, and returns when the disk has its new name.
func rename(root *os.Root, from, to string) error {
	if err := root.Rename(from, to); err != nil {
		return err
	}
	folder, err := root.Open(path.Dir(to))
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
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
	// A buffer of this size receives a sealed chunk without another copy.
	size, err = io.CopyBuffer(struct{ io.Writer }{file}, src, make([]byte, sealedSize))
	if src.err == nil {
		err = explain(errors.Join(err, file.Sync(), file.Close()))
	} else {
		file.Close()
	}
	return size, errors.Join(err, ctx.Err())
}

// Get implements [Store]. The reader is an *os.File.
func (f Folder) Get(_ context.Context, name string) (io.ReadCloser, error) {
	file, _, err := f.open(name)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// GetRange implements [Store].
func (f Folder) GetRange(_ context.Context, name string, offset, length int64) (*Reader, error) {
	if err := checkRange(name, offset, length); err != nil {
		return nil, err
	}
	file, size, err := f.open(name)
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(min(offset, size), io.SeekStart); err != nil {
		file.Close()
		return nil, explain(err)
	}
	return &Reader{limit(file, clamp(size, offset, length)), size}, nil
}

// open opens a file and returns its size.
func (f Folder) open(name string) (file *os.File, size int64, err error) {
	if err := check(name); err != nil {
		return nil, 0, err
	}
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return nil, 0, explain(err)
	}
	defer root.Close()
	if file, err = root.Open(name); err != nil {
		return nil, 0, explain(err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		file.Close()
		return nil, 0, explain(err)
	}
	return file, info.Size(), nil
}

// Size implements [Store].
func (f Folder) Size(ctx context.Context, name string) (int64, error) {
	r, err := f.GetRange(ctx, name, 0, 0)
	if err != nil {
		return 0, err
	}
	return r.Size, r.Close()
}

// List implements [Store].
func (f Folder) List(ctx context.Context, folder string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		err := f.walk(ctx, folder, func(_ *os.Root, name string, info fs.FileInfo) error {
			if !incomplete(name) && !yield(Info{name, info.Size(), info.ModTime()}, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Info{}, err)
		}
	}
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

// DeleteIncomplete implements [Store].
func (f Folder) DeleteIncomplete(ctx context.Context, before time.Time) error {
	return f.deleteOlder(ctx, time.Time{}, before)
}

// DeleteOlder deletes files written before a time, and abandoned incomplete files.
func (f Folder) DeleteOlder(ctx context.Context, before time.Time) error {
	return f.deleteOlder(ctx, before, time.Now().Add(-idle))
}

// deleteOlder deletes complete and incomplete files last written before a time.
func (f Folder) deleteOlder(ctx context.Context, before, idleSince time.Time) error {
	return f.walk(ctx, "", func(root *os.Root, name string, info fs.FileInfo) error {
		at := before
		if incomplete(name) {
			at = idleSince
		}
		if !info.ModTime().Before(at) {
			return nil
		}
		if err := root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// incomplete reports whether a name is one of a file that is being written.
func incomplete(name string) bool { return strings.Contains(path.Base(name), part) }

// walk calls visit for the files in a folder and in the folders below. Files that
// disappear are skipped, and a missing folder is empty. With fs.SkipAll it ends.
func (f Folder) walk(ctx context.Context, folder string, visit func(root *os.Root, name string, info fs.FileInfo) error) error {
	if folder != "" {
		if err := check(folder); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return explain(err)
	}
	defer root.Close()
	return explain(fs.WalkDir(root.FS(), cmp.Or(folder, "."), func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil { // deleted, most likely
			return nil
		}
		return visit(root, name, info)
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
