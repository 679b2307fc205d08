package oserr

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// fileError is an error of a file in plain words.
type fileError struct {
	text  string
	cause error
}

func (e *fileError) Error() string { return e.text }

func (e *fileError) Unwrap() error { return e.cause }

// causes are what may be wrong with a file or folder, %s being its path, the most
// specific first.
var causes = []struct {
	is   error
	text string
}{
	{syscall.ENOTDIR, "%s cannot be used: a part of its path is a file, not a folder"},
	{syscall.EISDIR, "%s is a folder, not a file"},
	{syscall.EROFS, "%s is on a read-only file system"},
	{syscall.ENOSPC, "the disk of %s is full"},
	{fs.ErrNotExist, "%s does not exist"},
	{fs.ErrPermission, "this user has no permission to use %s; change its owner or mode"},
}

// File returns err, an error of reading or writing a file, with a text that names the path
// and the cause. An error of another kind is returned as it is.
func File(err error) error {
	e, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	for _, c := range causes {
		if errors.Is(err, c.is) {
			return &fileError{fmt.Sprintf(c.text, e.Path), err}
		}
	}
	return err
}
