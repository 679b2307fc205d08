package store

import (
	"crypto/rand"
	"os"
)

// A reserve is a file that keeps space free, so that keys can be revoked on a full
// disk. Any process that has the database open may release a part.
type reserve struct{ path string }

const (
	reserveSize = 4 << 20
	reservePart = 1 << 20 // many times what a change needs: other writers take some of it
)

// release frees a part of the reserve. It returns false if there is none.
func (r reserve) release() bool {
	info, err := os.Stat(r.path)
	if err != nil || info.Size() == 0 {
		return false
	}
	return os.Truncate(r.path, max(info.Size()-reservePart, 0)) == nil
}

// fill makes the reserve as large as the disk allows. The content is random because
// some file systems do not store zeros.
func (r reserve) fill() {
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return
	}
	part := make([]byte, 64<<10)
	for size := info.Size(); size < reserveSize; size += int64(len(part)) {
		rand.Read(part)
		if _, err := f.Write(part); err != nil {
			return
		}
	}
}

// KeepReserve makes space for changes on a full disk, or returns what they used when
// there is space again. It does nothing for a database that is not a file.
func (db *DB) KeepReserve() {
	if db.reserve.path != "" {
		db.reserve.fill()
	}
}

// withReserve repeats a change that found the disk full, with space of the reserve, and
// takes what is left back.
func (db *DB) withReserve(change func() error) error {
	err := change()
	released := false
	for db.engine.full != nil && db.engine.full(err) && db.reserve.release() {
		released = true
		err = change()
	}
	if released {
		db.reserve.fill()
	}
	return err
}
