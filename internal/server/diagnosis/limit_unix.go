//go:build unix

package diagnosis

import (
	"io/fs"
	"syscall"
)

// openFileLimit returns how many files a process may have open, zero if it is unknown.
func openFileLimit() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return uint64(l.Cur)
}

// checkWritable returns an error for a folder in which this process cannot create files.
func checkWritable(path string) error {
	const write, search = 2, 1
	if err := syscall.Access(path, write|search); err != nil {
		return &fs.PathError{Op: "access", Path: path, Err: err}
	}
	return nil
}
