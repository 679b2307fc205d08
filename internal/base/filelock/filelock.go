// Package filelock locks open files against other processes.
//
// A lock belongs to the open file: it ends when the file is closed, or with the process. It
// guarantees that of several processes that ask for a file, one at most gets it for itself.
// Locks do not keep other processes from reading or writing the file: all must ask.
package filelock

import "errors"

// ErrLocked means that another open file has a lock that excludes the one asked for.
var ErrLocked = errors.New("the file is locked by another process")
