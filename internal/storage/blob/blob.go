// Package blob stores files by name: in a local folder, or in a bucket of an
// S3-compatible server; as they are, or encrypted ([Sealed]).
//
// It guarantees that a file exists completely or not at all, even if writing is
// interrupted, and that files are written and read in bounded memory. Names are relative
// paths with slashes and cannot refer to anything outside. It does not define content,
// access or retention of files.
package blob

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"regexp"
	"strings"
	"time"
)

// Store stores files. It is safe for concurrent use. Failures outside of the program
// are of type *[Error].
type Store interface {
	// Put writes the data of r to a file, replacing one with this name, and returns its
	// size. If r or the store fails, no file is left, except by a bucket whose response
	// was lost.
	Put(ctx context.Context, name string, r io.Reader) (size int64, err error)

	// Get opens a file. If it does not exist the error is fs.ErrNotExist.
	Get(ctx context.Context, name string) (io.ReadCloser, error)

	// GetRange opens the part of a file that begins at offset and has length bytes, or
	// fewer if the file ends before. A length of -1 means to the end of the file. A part
	// that begins at or after the end is empty. If the file does not exist the error is
	// fs.ErrNotExist.
	GetRange(ctx context.Context, name string, offset, length int64) (*Reader, error)

	// Size returns the size of a file in bytes. If it does not exist the error is
	// fs.ErrNotExist.
	Size(ctx context.Context, name string) (int64, error)

	// List returns the files in a folder and in the folders below, in no particular
	// order. The empty folder contains all files. Files may be deleted while they are
	// listed. The iteration ends with the first error.
	List(ctx context.Context, folder string) iter.Seq2[Info, error]

	// Delete deletes a file and the remains of interrupted writes. A missing file is
	// not an error.
	Delete(ctx context.Context, name string) error

	// DeleteIncomplete deletes the remains of all writes that were interrupted before a
	// time. Writes in progress that began before it may fail.
	DeleteIncomplete(ctx context.Context, before time.Time) error

	// Link returns an address at which anyone may read the file for the duration of
	// life, saved as the name as. It is empty if the store has no addresses.
	Link(ctx context.Context, name, as string, life time.Duration) (string, error)
}

// Reader reads a part of a file. It must be closed, and be used by one goroutine at a
// time.
type Reader struct {
	io.ReadCloser
	Size int64 // of the complete file in bytes
}

// Info describes a stored file.
type Info struct {
	Name string
	Size int64     // in bytes
	Time time.Time // of the end of its last write, by the clock of the store
}

// Error is why a store failed. Reason contains no secrets.
type Error struct {
	Reason string
	cause  error
	status int // of a bucket's response; 0 if there was none
}

// Error implements error.
func (f *Error) Error() string { return f.Reason }

// Unwrap returns the error of the system or the server.
func (f *Error) Unwrap() error { return f.cause }

func fault(cause error, format string, args ...any) *Error {
	return &Error{Reason: fmt.Sprintf(format, args...), cause: cause}
}

// nameForm matches names that need no escaping in addresses and folders.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)

// maxName is the limit in bytes of a name. In nameForm it would take 2 ms of each start.
const maxName = 900

// part is in the names of incomplete files.
const part = ".part-"

// check returns an error unless name is a plain relative path.
func check(name string) error {
	if name == "." || len(name) > maxName || !fs.ValidPath(name) || !nameForm.MatchString(name) || strings.Contains(path.Base(name), part) {
		return fmt.Errorf("blob: %q is not a valid file name", name)
	}
	return nil
}

// checkRange returns an error unless name, offset and length are valid.
func checkRange(name string, offset, length int64) error {
	if offset < 0 || length < -1 {
		return fmt.Errorf("blob: %d bytes at %d are not a valid range", length, offset)
	}
	return check(name)
}

// clamp returns how many bytes a range has in a file of a size.
func clamp(size, offset, length int64) int64 {
	rest := max(size-offset, 0)
	if length < 0 || length > rest {
		return rest
	}
	return length
}

// limited is a reader of at most n bytes of a file, which it closes.
type limited struct {
	io.Reader
	io.Closer
}

func limit(r io.ReadCloser, n int64) io.ReadCloser { return limited{io.LimitReader(r, n), r} }
