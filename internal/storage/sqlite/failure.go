package sqlite

import (
	"errors"
	"io/fs"
	"syscall"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// code returns the primary result code of err, zero when it is not SQLite's.
func code(err error) int { return extended(err) & 0xff }

// extended returns the code that says more.
// https://www.sqlite.org/rescode.html#extrc
func extended(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code()
	}
	return 0
}

// IsBusy reports whether another process held the lock for too long.
func IsBusy(err error) bool { c := code(err); return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED }

// IsFull reports whether there was no room: the disk is full.
func IsFull(err error) bool { return code(err) == lib.SQLITE_FULL }

// Conflict reports whether err is a conflict between rows: a duplicate key or a violated
// reference. A row that is invalid by itself, for example because a value is missing,
// is not a conflict.
func Conflict(err error) bool {
	switch extended(err) {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY, lib.SQLITE_CONSTRAINT_ROWID, lib.SQLITE_CONSTRAINT_FOREIGNKEY:
		return true
	}
	return false
}

// IsCorrupt reports whether the connection that gave err is better replaced: the
// file was moved, or the disk under it failed.
func IsCorrupt(err error) bool {
	switch code(err) {
	case lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_READONLY:
		return true
	}
	return false
}

// IsDamaged reports whether the content of the file is not a database, or not
// one that can be read.
func IsDamaged(err error) bool {
	c := code(err)
	return c == lib.SQLITE_CORRUPT || c == lib.SQLITE_NOTADB
}

// explained is an error of the driver or of the system with a text that says what to do.
type explained struct {
	text  string
	cause error
}

func (e *explained) Error() string { return e.text }

func (e *explained) Unwrap() error { return e.cause }

// Explain returns err as one sentence that says what to do, without the path of the
// file. An error that is neither the driver's nor the system's is returned as it is.
func Explain(err error) error {
	if text := advice(err); text != "" {
		return &explained{text, err}
	}
	return err
}

// advice returns what is wrong and what to do, empty for other errors.
func advice(err error) string {
	switch c := code(err); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "its folder does not exist; create the folder or choose another"
	case errors.Is(err, syscall.EISDIR):
		return "this is a folder; name a file in it"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS),
		c == lib.SQLITE_READONLY, c == lib.SQLITE_CANTOPEN, c == lib.SQLITE_PERM:
		return "not writable; give this user write permission to the file and its folder"
	case c == lib.SQLITE_NOTADB, c == lib.SQLITE_CORRUPT:
		return "not an SQLite database, or damaged; move the file away or restore a backup"
	case c == lib.SQLITE_FULL, errors.Is(err, syscall.ENOSPC):
		return "the disk is full; make room and start again"
	case c == lib.SQLITE_IOERR:
		return "the disk failed to read or write the file; check the disk, and that it is not full"
	case IsBusy(err):
		return "another process keeps it locked; stop that process and start again"
	}
	return ""
}
