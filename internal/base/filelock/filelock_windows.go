package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// beyond is where the locked byte is: locks on Windows keep others from reading what is
// locked, and no file is this long.
const beyond = 1 << 30 // in units of 4 GB

// TryLock locks f, which no other open file may have locked then. The error is [ErrLocked] if
// another has; it does not wait.
func TryLock(f *os.File) error { return lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// TryShare locks f together with others that share it, and returns [ErrLocked] if one has it
// for itself; it does not wait.
func TryShare(f *os.File) error { return lock(f, 0) }

func lock(f *os.File, how uint32) error {
	at := windows.Overlapped{OffsetHigh: beyond}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}
