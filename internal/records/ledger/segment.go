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
	"time"

	"modelgate/internal/base/filelock"
	"modelgate/internal/records/reqlog"
)

// A segment begins with a header of 64 bytes, numbers little-endian:
//
//	0   8  "mgledger"
//	8   4  version of the format
//	12  4  seed of the checksums of its records
//	16  4  CRC-32C of the previous 16 bytes
//	32  8  mark: end of the last applied record
//	40  4  CRC-32C of the mark, started with the seed
//	44  16 globally unique id
//	60  4  CRC-32C of the id, started with the seed
//
// The mark is rewritten from time to time; everything else is written once.
const (
	segmentHead    = 64
	segmentMagic   = "mgledger"
	segmentVersion = 1
	markAt         = 32
	markSize       = 12
	idAt           = 44
)

// File name extensions of segments and of quarantined segments.
const (
	segmentSuffix = ".seg"
	corruptSuffix = ".corrupt"
)

// file is the part of *os.File that a segment needs. Tests inject faults here.
type file interface {
	ReadAt(b []byte, off int64) (int, error)
	WriteAt(b []byte, off int64) (int, error)
	Sync() error
	Close() error
}

// segment is a file of the ledger, opened and locked by this process. Everything that
// changes is guarded by the ledger's lock.
type segment struct {
	file   file
	path   string
	number uint64
	seed   uint32
	id     string    // empty if unknown
	made   time.Time // derived from the id

	end       int64 // end of accepted records
	written   int64 // end of written records
	synced    int64 // end of synced records
	applied   int64 // end of applied records
	marked    int64 // the mark in the file
	counted   int64 // end of counted records
	uncounted int   // intents whose settlement was not counted
	open      int   // intents without a settlement
	foreign   bool  // begun by another process
	corrupt   bool  // quarantined
	left      place // position of the last intent that was rewritten to another segment
}

// create creates a segment with the next free number.
func create(dir string, after uint64, wrap func(file) file) (*segment, error) {
	for n := after + 1; ; n++ {
		path := filepath.Join(dir, fmt.Sprintf("%08d%s", n, segmentSuffix))
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("creating a ledger segment: %w", err)
		}
		s := &segment{file: wrap(f), path: path, number: n, seed: rand.Uint32()}
		id := reqlog.NewID(time.Now())
		s.id, s.made = id.String(), id.Time()
		s.end, s.written, s.applied, s.marked, s.counted = segmentHead, segmentHead, segmentHead, segmentHead, segmentHead
		if err := s.begin(f); err != nil {
			f.Close()
			os.Remove(path)
			return nil, fmt.Errorf("creating a ledger segment: %w", err)
		}
		return s, nil
	}
}

// begin locks the file, which other processes would otherwise take for abandoned, and
// writes its header.
func (s *segment) begin(f *os.File) error {
	if err := filelock.TryLock(f); err != nil {
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

// syncDir makes the names in a folder survive a power failure.
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

// readID reads the id from a segment's header. It stays empty for segments of earlier
// versions and for a damaged id.
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

// writeMark writes the applied position to the file.
func (s *segment) writeMark(applied int64) error {
	_, err := s.file.WriteAt(s.mark(applied), markAt)
	return err
}

var errHead = errors.New("the header of the segment is damaged")

// parseHead decodes a segment's header: its seed and mark. With an invalid mark nothing
// counts as applied.
func parseHead(b []byte) (seed uint32, applied int64, err error) {
	if len(b) < segmentHead || string(b[:8]) != segmentMagic || crc32.Checksum(b[:16], castagnoli) != binary.LittleEndian.Uint32(b[16:]) {
		return 0, 0, errHead
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != segmentVersion {
		return 0, 0, fmt.Errorf("the segment has version %d of a newer modelgate", v)
	}
	seed = binary.LittleEndian.Uint32(b[12:])
	applied = segmentHead
	if crc32.Update(seed, castagnoli, b[markAt:markAt+8]) == binary.LittleEndian.Uint32(b[markAt+8:]) {
		applied = max(applied, int64(binary.LittleEndian.Uint64(b[markAt:])))
	}
	return seed, applied, nil
}

// release closes the file, which releases its lock.
func (s *segment) release() error { return s.file.Close() }

// name is the file name of a segment.
type name struct {
	path    string
	number  uint64
	corrupt bool
}

// list returns the segments of a folder sorted by number. A missing folder has none.
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
