// Package blob stores files by name: in a local folder, or in a bucket of an
// S3-compatible server.
//
// It guarantees that a file exists completely or not at all, even if writing is
// interrupted, and that files are written as they are read, in bounded memory. Names
// are relative paths with slashes and cannot refer to anything outside. It does not
// define content, access or retention of files.
package blob

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"time"
)

// Store stores files. It is safe for concurrent use. Failures outside of the program
// are of type *[Error].
type Store interface {
	// Put writes the data of r to a file, replacing one with this name, and returns its
	// size. If r or the store fails, no file is left.
	Put(ctx context.Context, name string, r io.Reader) (size int64, err error)

	// Get opens a file. If it does not exist the error is fs.ErrNotExist.
	Get(ctx context.Context, name string) (io.ReadCloser, error)

	// Delete deletes a file and the remains of interrupted writes. A missing file is
	// not an error.
	Delete(ctx context.Context, name string) error

	// Link returns an address at which anyone may read the file for the duration of
	// life, saved as the name as. It is empty if the store has no addresses.
	Link(ctx context.Context, name, as string, life time.Duration) (string, error)
}

// Error is why a store failed. Reason contains no secrets.
type Error struct {
	Reason string
	cause  error
}

// Error implements error.
func (f *Error) Error() string { return f.Reason }

// Unwrap returns the error of the system or the server.
func (f *Error) Unwrap() error { return f.cause }

func fault(cause error, format string, args ...any) *Error {
	return &Error{fmt.Sprintf(format, args...), cause}
}

// nameForm matches names that need no escaping in addresses and folders.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,900}$`)

// check returns an error unless name is a plain relative path.
func check(name string) error {
	if name == "." || !fs.ValidPath(name) || !nameForm.MatchString(name) {
		return fmt.Errorf("blob: %q is not a valid file name", name)
	}
	return nil
}
