package ledger

import (
	"errors"
	"fmt"
	"io"
	"os"

	"modelgate/internal/base/filelock"
	"modelgate/internal/model/catalog"
	"modelgate/internal/records/reqlog"
)

// Report describes the content of a ledger.
type Report struct {
	Segments []SegmentReport
	Sums

	// Unsettled are attempts without an end in segments that no process holds.
	Unsettled []reqlog.Intent
	// Running is the number of attempts without an end of running processes.
	Running int
}

// SegmentReport describes the content of a segment.
type SegmentReport struct {
	Path        string
	Bytes       int64
	Intents     int
	Settled     int
	Rows        int
	Waiting     int  // rows not marked as applied
	InUse       bool // a running process appends to it
	Quarantined bool // damaged and quarantined
	Damaged     int  // number of unreadable places
	Torn        int64
	Problem     string // why it cannot be read at all; empty if it can
}

// Sums are the totals of a ledger's settlements.
type Sums struct {
	Exchanges int // exchanges with a row
	Attempts  int // settled attempts
	Estimated int // estimated ones of those
	Input     int64
	Output    int64
	Cost      catalog.NanoDollars
	Unpriced  int // attempts with usage but without a known price
}

// Verify reads the ledger of a folder and changes nothing. If a process is writing the
// ledger, a segment may be removed while others are read; attempts settled in it then
// count as running.
func Verify(dir string) (*Report, error) {
	names, err := list(dir)
	if err != nil {
		return nil, err
	}
	c := verifier{report: new(Report), found: newRemains(), live: map[attempt]bool{}, settled: map[attempt]bool{}, rows: map[reqlog.ID]bool{}}
	for _, n := range names {
		c.report.Segments = append(c.report.Segments, c.segment(n))
	}
	for _, i := range c.found.unsettled() {
		if c.live[attempt{i.ID, i.Attempt}] {
			c.report.Running++
			continue
		}
		c.report.Unsettled = append(c.report.Unsettled, *i)
	}
	return c.report, nil
}

// OK reports whether every attempt is settled and everything is readable.
func (r *Report) OK() bool {
	for _, s := range r.Segments {
		if s.Damaged > 0 || s.Problem != "" {
			return false
		}
	}
	return len(r.Unsettled) == 0
}

// verifier counts the content of segments, each attempt and each row once.
type verifier struct {
	report  *Report
	found   *recovery
	live    map[attempt]bool
	settled map[attempt]bool
	rows    map[reqlog.ID]bool
}

func (c *verifier) segment(n name) SegmentReport {
	s := SegmentReport{Path: n.path, Quarantined: n.corrupt}
	f, err := os.Open(n.path)
	if errors.Is(err, os.ErrNotExist) { // completed and removed concurrently
		return s
	}
	if err != nil {
		s.Problem = err.Error()
		return s
	}
	defer f.Close()
	s.InUse = errors.Is(filelock.TryShare(f), filelock.ErrLocked)
	info, err := f.Stat()
	if err != nil {
		s.Problem = err.Error()
		return s
	}
	s.Bytes = info.Size()
	head := make([]byte, min(segmentHead, s.Bytes))
	if _, err := io.ReadFull(f, head); err != nil {
		s.Problem = err.Error()
		return s
	}
	seed, applied, err := parseHead(head)
	if err != nil {
		s.Problem = err.Error()
		return s
	}
	c.read(&s, newReader(f, seed, segmentHead, s.Bytes), applied)
	return s
}

func (c *verifier) read(s *SegmentReport, r *reader, applied int64) {
	for {
		at := r.at
		rec, err := r.next()
		s.Damaged, s.Torn = len(r.faults), r.torn
		if err != nil {
			if err != io.EOF {
				s.Problem = err.Error()
			}
			return
		}
		c.found.take(rec)
		switch {
		case rec.Intent != nil:
			s.Intents++
			c.live[attempt{rec.Intent.ID, rec.Intent.Attempt}] = s.InUse
		case rec.Settle != nil:
			s.Settled++
			c.sum(rec.Settle)
		case rec.Row != nil:
			s.Rows++
			if at >= applied {
				s.Waiting++
			}
			if !c.rows[rec.Exchange] {
				c.rows[rec.Exchange] = true
				c.report.Exchanges++
			}
		}
	}
}

func (c *verifier) sum(s *reqlog.Settlement) {
	key := attempt{s.ID, s.Attempt}
	if c.settled[key] {
		return
	}
	c.settled[key] = true
	r := c.report
	r.Attempts++
	if s.Outcome == reqlog.Estimated {
		r.Estimated++
		return
	}
	if !s.Usage.Known {
		return
	}
	r.Input += s.Usage.Prompt()
	r.Output += s.Usage.Completion()
	r.Cost += s.Cost
	if !s.Priced {
		r.Unpriced++
	}
}

// Each calls visit with every record in a folder's segments, including quarantined
// ones, in order. Unreadable parts are skipped. A row is valid until visit returns.
func Each(dir string, visit func(Record)) error {
	names, err := list(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := eachOf(n.path, visit); err != nil {
			return fmt.Errorf("reading the ledger: %w", err)
		}
	}
	return nil
}

func eachOf(path string, visit func(Record)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	head := make([]byte, min(segmentHead, info.Size()))
	if _, err := io.ReadFull(f, head); err != nil {
		return err
	}
	seed, _, err := parseHead(head)
	if err != nil {
		return nil
	}
	for r := newReader(f, seed, segmentHead, info.Size()); ; {
		rec, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		visit(rec)
	}
}
