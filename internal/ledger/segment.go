package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"modelgate/internal/reqlog"
)

// A segment begins with 64 bytes, numbers little-endian:
//
//	0   8  "mgledger"
//	8   4  version of the form
//	12  4  seed of the checksums of its records
//	16  4  CRC-32C of the 16 bytes before
//	32  8  how far it was applied, as the end of the last record
//	40  4  CRC-32C of those 8 bytes, begun with the seed
//	44  16 id, like no other segment's anywhere
//	60  4  CRC-32C of the id, begun with the seed
//
// What was applied is written again now and then; all else is written once.
const (
	segmentHead    = 64
	segmentMagic   = "mgledger"
	segmentVersion = 1
	markAt         = 32
	markSize       = 12
	idAt           = 44
)

// What a segment's file ends in, and that of one that is damaged.
const (
	segmentSuffix = ".seg"
	corruptSuffix = ".corrupt"
)

// file is what a segment needs of its file. Tests put faults here.
type file interface {
	ReadAt(b []byte, off int64) (int, error)
	WriteAt(b []byte, off int64) (int, error)
	Sync() error
	Close() error
}

// segment is one file of the ledger, opened and locked by this process. All
// that changes is guarded by the ledger's lock.
type segment struct {
	file   file
	path   string
	number uint64
	seed   uint32
	id     string    // empty when it is unknown
	made   time.Time // as the id says

	end       int64 // of the records that were accepted
	written   int64 // end of those that were written
	synced    int64 // end of those that no power cut takes away
	applied   int64 // end of those that were applied
	marked    int64 // what of applied is in the file
	counted   int64 // end of those that were counted
	uncounted int   // intents in it whose settlement was not counted
	open      int   // intents in it without a settlement
	foreign   bool  // another process began it
	corrupt   bool  // it was put aside and is kept
	left      place // where the last intent went that was noted again elsewhere
}

// create makes a segment with the next number that no other process has taken.
func create(dir string, after uint64, wrap func(file) file) (*segment, error) {
	for n := after + 1; ; n++ {
		path := filepath.Join(dir, fmt.Sprintf("%08d%s", n, segmentSuffix))
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("making a segment of the ledger: %w", err)
		}
		s := &segment{file: wrap(f), path: path, number: n, seed: rand.Uint32()}
		id := reqlog.NewID(time.Now())
		s.id, s.made = id.String(), id.Time()
		s.end, s.written, s.applied, s.marked, s.counted = segmentHead, segmentHead, segmentHead, segmentHead, segmentHead
		if err := s.begin(f); err != nil {
			f.Close()
			os.Remove(path)
			return nil, fmt.Errorf("making a segment of the ledger: %w", err)
		}
		return s, nil
	}
}

// begin locks the file, which others take for abandoned otherwise, and writes
// its head.
func (s *segment) begin(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(s.head(), 0); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(s.path))
}

// syncDir keeps the names in a folder from being taken away by a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (s *segment) head() []byte {
	b := make([]byte, 0, segmentHead)
	b = append(b, segmentMagic...)
	b = binary.LittleEndian.AppendUint32(b, segmentVersion)
	b = binary.LittleEndian.AppendUint32(b, s.seed)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	b = append(b, zeros[:markAt-len(b)]...)
	b = append(b, s.mark(segmentHead)...)
	if id, err := reqlog.ParseID(s.id); err == nil {
		b = append(b, id[:]...)
		b = binary.LittleEndian.AppendUint32(b, crc32.Update(s.seed, castagnoli, id[:]))
	}
	return append(b, zeros[:segmentHead-len(b)]...)
}

// readID takes the id from a segment's head. Of one that was made before there
// were ids, or whose id is damaged, it is unknown.
func (s *segment) readID(head []byte) {
	id := reqlog.ID(head[idAt : idAt+16])
	if crc32.Update(s.seed, castagnoli, id[:]) == binary.LittleEndian.Uint32(head[idAt+16:]) && id != (reqlog.ID{}) {
		s.id, s.made = id.String(), id.Time()
	}
}

func (s *segment) mark(applied int64) []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, markSize), uint64(applied))
	return binary.LittleEndian.AppendUint32(b, crc32.Update(s.seed, castagnoli, b))
}

// writeMark keeps in the file how far it was applied.
func (s *segment) writeMark(applied int64) error {
	_, err := s.file.WriteAt(s.mark(applied), markAt)
	return err
}

var errHead = errors.New("the head of the segment is damaged")

// parseHead reads a segment's head: its seed, and how far it was applied. A
// mark that does not hold means nothing was.
func parseHead(b []byte) (seed uint32, applied int64, err error) {
	if len(b) < segmentHead || string(b[:8]) != segmentMagic || crc32.Checksum(b[:16], castagnoli) != binary.LittleEndian.Uint32(b[16:]) {
		return 0, 0, errHead
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != segmentVersion {
		return 0, 0, fmt.Errorf("version %d of the segment is of a newer modelgate", v)
	}
	seed = binary.LittleEndian.Uint32(b[12:])
	applied = segmentHead
	if crc32.Update(seed, castagnoli, b[markAt:markAt+8]) == binary.LittleEndian.Uint32(b[markAt+8:]) {
		applied = max(applied, int64(binary.LittleEndian.Uint64(b[markAt:])))
	}
	return seed, applied, nil
}

// release closes the file, which gives up its lock.
func (s *segment) release() error { return s.file.Close() }

// name is a segment's file.
type name struct {
	path    string
	number  uint64
	corrupt bool
}

// list returns the segments of a folder by their number. A missing folder has
// none.
func list(dir string) ([]name, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	var names []name
	for _, e := range entries {
		base, corrupt := strings.CutSuffix(e.Name(), corruptSuffix)
		digits, ok := strings.CutSuffix(base, segmentSuffix)
		if n, err := strconv.ParseUint(digits, 10, 64); ok && err == nil {
			names = append(names, name{filepath.Join(dir, e.Name()), n, corrupt})
		}
	}
	slices.SortFunc(names, func(a, b name) int {
		if a.number != b.number {
			return int(int64(a.number) - int64(b.number))
		}
		return strings.Compare(a.path, b.path)
	})
	return names, nil
}
