package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"sync"
	"syscall"
	"time"

	"modelgate/internal/records/reqlog"
)

// Disk is a disk with faults. The zero value has none.
type Disk struct {
	mu   sync.Mutex
	full bool
	deaf bool // syncs fail

	// Writes and syncs that still work; zero means no such bound.
	lastWrites, lastSyncs int

	gate  chan struct{}
	held  chan struct{}
	syncs int
}

// On puts the ledger's files on d.
func (d *Disk) On(o Options) Options {
	o.wrap = func(f file) file { return &diskFile{f, d} }
	return o
}

// Fill makes writes fail, or work again.
func (d *Disk) Fill(full bool) { d.mu.Lock(); d.full = full; d.mu.Unlock() }

// FillAfter makes writes fail after n of them, and DeafenAfter syncs.
func (d *Disk) FillAfter(n int)   { d.mu.Lock(); d.lastWrites = n; d.mu.Unlock() }
func (d *Disk) DeafenAfter(n int) { d.mu.Lock(); d.lastSyncs = n; d.mu.Unlock() }

// Deafen makes syncs fail, or work again.
func (d *Disk) Deafen(deaf bool) { d.mu.Lock(); d.deaf = deaf; d.mu.Unlock() }

// Hang makes writes wait until release is called. held gets a value when one
// waits.
func (d *Disk) Hang() (held <-chan struct{}, release func()) {
	gate := make(chan struct{})
	d.held = make(chan struct{}, 1)
	d.mu.Lock()
	d.gate = gate
	d.mu.Unlock()
	return d.held, func() {
		d.mu.Lock()
		d.gate = nil
		d.mu.Unlock()
		close(gate)
	}
}

// Syncs returns how often files were synced.
func (d *Disk) Syncs() int { d.mu.Lock(); defer d.mu.Unlock(); return d.syncs }

type diskFile struct {
	file
	d *Disk
}

func (f *diskFile) WriteAt(b []byte, off int64) (int, error) {
	f.d.mu.Lock()
	full, gate := f.d.full, f.d.gate
	if f.d.lastWrites > 0 {
		f.d.lastWrites--
		f.d.full = f.d.lastWrites == 0
	}
	f.d.mu.Unlock()
	if gate != nil {
		ring(f.d.held)
		<-gate
	}
	if full { // part of it fits, as on a real disk
		n, _ := f.file.WriteAt(b[:len(b)/2], off)
		return n, syscall.ENOSPC
	}
	return f.file.WriteAt(b, off)
}

func (f *diskFile) Sync() error {
	f.d.mu.Lock()
	f.d.syncs++
	deaf := f.d.deaf
	if f.d.lastSyncs > 0 {
		f.d.lastSyncs--
		f.d.deaf = f.d.lastSyncs == 0
	}
	f.d.mu.Unlock()
	if deaf {
		return syscall.EIO
	}
	<-time.After(time.Millisecond)
	return f.file.Sync()
}

// Freeze keeps a ledger from changing until thaw is called.
func Freeze(l *Ledger) (thaw func()) { l.mu.Lock(); return l.mu.Unlock }

// SlowAfter is how long a write may take before callers stop waiting.
const SlowAfter = slowAfter

// HeadSize is the size of a segment's head.
const HeadSize = segmentHead

// IntentSize is the size of an intent's record, and MaxRow the longest of a row's.
const (
	IntentSize = intentSize
	MaxRow     = maxRow
)

// Records reads the records of a segment's bytes.
func Records(b []byte) (list []Record, damaged int, err error) {
	seed, _, err := parseHead(b)
	if err != nil {
		return nil, 0, err
	}
	for r := newReader(bytes.NewReader(b), seed, segmentHead, int64(len(b))); ; {
		rec, err := r.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return list, len(r.faults), err
			}
			return list, len(r.faults), nil
		}
		rec.Row = bytes.Clone(rec.Row)
		list = append(list, rec)
	}
}

// segmentID is that of every segment that Segment makes.
var segmentID = reqlog.NewID(time.Now()).String()

// Segment returns the bytes of a segment with these records.
func Segment(list []Record) []byte {
	s := &segment{seed: 7, id: segmentID}
	b := s.head()
	for _, r := range list {
		at := len(b)
		switch {
		case r.Intent != nil:
			b = appendIntent(b, int64(at), r.Intent)
		case r.Settle != nil:
			b = appendSettle(b, int64(at), r.Settle)
		default:
			b = appendRow(b, int64(at), r.Exchange, r.Row)
		}
		seal(b[at:], s.seed)
	}
	return b
}

// Mark says in a segment that Segment made that it was applied up to end.
func Mark(b []byte, end int) []byte {
	s := &segment{seed: 7}
	copy(b[markAt:], s.mark(int64(end)))
	return b
}

// Entries returns rows made of attempts without one.
func Entries(list []Record) []*reqlog.Entry {
	m := newRemains()
	for _, r := range list {
		m.take(r)
	}
	return m.entries()
}

// Rehead makes the checksum of a head right again.
func Rehead(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[16:], crc32.Checksum(b[:16], castagnoli))
	return b
}
