package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"modelgate/internal/base/filelock"
)

// Copy copies the segments of a folder while processes write to them, together with
// snapshots of the databases that their records are applied to and counted in. A copy is
// begun before the snapshots, which keeps segments that are removed in the meantime, and ended
// after them, so that it has every record that a snapshot lacks. Records that a snapshot has
// too are recognised by the ledger that is opened on the copy: the segments of a copy are
// marked as applied up to where they were when it was begun, and rows after that are looked
// up.
type Copy struct {
	dir      string
	segments []*CopiedSegment
	last     uint64 // number of the newest segment when the copy was begun
}

// CopiedSegment is a segment of a [Copy].
type CopiedSegment struct {
	Name string // of the file
	Size int64  // once the copy has ended

	file *os.File
	head []byte
}

// ErrSegmentsGone means that segments were begun and removed while a copy was made, which
// has to be begun again.
var ErrSegmentsGone = errors.New("segments of the ledger were removed while they were copied; try again")

// BeginCopy opens the segments of a folder. A missing folder has none.
func BeginCopy(dir string) (*Copy, error) {
	c := &Copy{dir: dir}
	if err := c.open(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for _, s := range c.segments {
		s.head = make([]byte, segmentHead)
		n, err := s.file.ReadAt(s.head, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, errors.Join(fmt.Errorf("reading the ledger: %w", err), c.Close())
		}
		s.head = s.head[:n]
	}
	return c, nil
}

// End opens the segments begun since, and fixes the ends of all.
func (c *Copy) End() error {
	before := c.last
	if err := c.open(); err != nil {
		return err
	}
	missing := c.last - before
	for _, s := range c.segments {
		if s.head == nil { // nothing in it counts as applied
			missing--
			if err := s.unmark(); err != nil {
				return err
			}
		}
		info, err := s.file.Stat()
		if err != nil {
			return fmt.Errorf("reading the ledger: %w", err)
		}
		s.Size = info.Size()
	}
	if missing > 0 {
		return ErrSegmentsGone
	}
	return nil
}

// Segments returns the segments, the oldest first.
func (c *Copy) Segments() []*CopiedSegment { return c.segments }

// Close closes the segments.
func (c *Copy) Close() error {
	var errs []error
	for _, s := range c.segments {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}

// open opens the segments that are not open yet.
func (c *Copy) open() error {
	names, err := list(c.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		base := filepath.Base(n.path)
		if slices.ContainsFunc(c.segments, func(s *CopiedSegment) bool { return s.Name == base }) {
			continue
		}
		f, err := os.Open(n.path)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, so everything in it was applied and counted
		}
		if err != nil {
			return fmt.Errorf("reading the ledger: %w", err)
		}
		c.segments = append(c.segments, &CopiedSegment{Name: base, file: f})
		c.last = max(c.last, n.number)
	}
	return nil
}

// unmark reads the head of a segment and marks all rows as not applied.
func (s *CopiedSegment) unmark() error {
	head := make([]byte, segmentHead)
	n, err := s.file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the ledger: %w", err)
	}
	s.head = unmarked(head[:n])
	return nil
}

// unmarked returns the head of a segment with nothing applied. A damaged head stays.
func unmarked(head []byte) []byte {
	var s segment
	var err error
	if s.seed, _, err = parseHead(head); err == nil {
		copy(head[markAt:], s.mark(segmentHead))
	}
	return head
}

// Reader returns a reader of the segment's content.
func (s *CopiedSegment) Reader() io.Reader {
	head := int64(len(s.head))
	return io.MultiReader(bytes.NewReader(s.head), io.NewSectionReader(s.file, head, max(s.Size-head, 0)))
}

// Unmark marks the rows of all segments of a folder as not applied, so that the next ledger
// that is opened on it looks them up. No process may use the folder.
func Unmark(dir string) error {
	names, err := list(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := unmarkFile(n.path); err != nil {
			return fmt.Errorf("ledger segment %s: %w", filepath.Base(n.path), err)
		}
	}
	return nil
}

func unmarkFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, segmentHead)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil // too short for records
	}
	if _, err := f.WriteAt(unmarked(head), 0); err != nil {
		return err
	}
	return f.Sync()
}

// IsCopy reports whether a segment and the head of another file are of the same segment.
func IsCopy(path string, head []byte) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	own := make([]byte, segmentHead)
	if _, err := io.ReadFull(f, own); err != nil || len(head) < segmentHead {
		return false, nil
	}
	return bytes.Equal(own[:markAt], head[:markAt]) && bytes.Equal(own[idAt:], head[idAt:segmentHead]), nil
}

// InUse reports whether a process holds a segment of a folder, as every gateway that runs on it
// does.
func InUse(dir string) (bool, error) {
	names, err := list(dir)
	if err != nil {
		return false, err
	}
	for _, n := range names {
		f, err := os.Open(n.path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("reading the ledger: %w", err)
		}
		err = filelock.TryLock(f)
		f.Close()
		if errors.Is(err, filelock.ErrLocked) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading the ledger: %w", err)
		}
	}
	return false, nil
}
