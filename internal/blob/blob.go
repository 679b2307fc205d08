// Package blob keeps files by name: in a folder of this machine, or in a bucket
// of a server that speaks S3.
//
// A file is there whole or not at all, whatever interrupts its writing, and is
// written as it is read, in bounded memory. Names are relative paths with
// slashes that lead nowhere else. What is in the files, who may read them and
// how long they are kept is left to callers.
package blob

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"time"
)

// Store keeps files. It is safe for concurrent use. What it can't do for reasons
// that lie outside is a *[Error].
type Store interface {
	// Put writes what r has to a file instead of one of this name, and
	// returns its size. Nothing is left of it when r or the store fails.
	Put(ctx context.Context, name string, r io.Reader) (size int64, err error)

	// Get opens a file. One that is not there is fs.ErrNotExist.
	Get(ctx context.Context, name string) (io.ReadCloser, error)

	// Delete takes a file away, and what is left of writing it that was
	// interrupted. One that is not there is no error.
	Delete(ctx context.Context, name string) error

	// Link returns an address that anybody may read the file at for so long,
	// where it is saved under a name. It is empty where the store has none.
	Link(ctx context.Context, name, as string, life time.Duration) (string, error)
}

// Error is why a store could not do something, in words that hold no secret.
type Error struct {
	Reason string
	cause  error
}

// Error implements error.
func (f *Error) Error() string { return f.Reason }

// Unwrap returns what the system or the server said.
func (f *Error) Unwrap() error { return f.cause }

func fault(cause error, format string, args ...any) *Error {
	return &Error{fmt.Sprintf(format, args...), cause}
}

// nameForm keeps to what is in an address and in a folder as it is.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,900}$`)

// check refuses names that are no plain relative paths.
func check(name string) error {
	if name == "." || !fs.ValidPath(name) || !nameForm.MatchString(name) {
		return fmt.Errorf("blob: %q is no name of a file", name)
	}
	return nil
}
