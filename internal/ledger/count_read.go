package ledger

import (
	"encoding/binary"
	"errors"
	"io"

	"modelgate/internal/reqlog"
)

// scan continues reading a segment.
func (c *settlementCounter) scan(s segmentState) error {
	p, r := c.parts[s.seg], &c.reader
	if p.read >= s.to {
		return nil
	}
	r.reset(s.seg, p.read, s.to)
	for !c.full() {
		read := r.raw
		if !s.seg.foreign {
			read = r.nextHeader // written by this process
		}
		b, err := read()
		if errors.Is(err, io.EOF) {
			p.read = s.to
			return nil
		}
		if err != nil {
			return err
		}
		p.read = r.at
		c.take(s.seg, p, b)
	}
	return nil
}

// take handles the record that ends where p was read to.
func (c *settlementCounter) take(s *segment, p *part, b []byte) {
	if b[13] != recordVersion {
		return
	}
	switch {
	case b[12] == kindIntent && len(b) == intentSize:
		key := attemptOf(b)
		if before, ok := c.open[key]; ok { // recorded again
			c.paid[before.seg]++
		}
		c.open[key] = openIntent{c.owner(b), s}
		p.open++
	case b[12] == kindSettle && len(b) == settleSize:
		t := parseSettle(b[headSize:], attemptOf(b).number)
		d, ok := c.open[attempt{t.ID, t.Attempt}]
		if ok {
			delete(c.open, attempt{t.ID, t.Attempt})
			c.paid[d.seg]++
		}
		if p.read <= p.mark {
			return
		}
		if !ok {
			c.l.o.Logger.Error("settlement without an intent not counted for budgets", "exchange", t.ID.String(), "attempt", t.Attempt)
			return
		}
		addTo(c.spent, d.owner, t)
		c.settled++
		if !s.foreign {
			addTo(c.ownSpent, d.owner, t)
			c.own++
		}
	}
}

func addTo(sums map[reqlog.SpendOwner]*reqlog.Spend, o reqlog.SpendOwner, t *reqlog.Settlement) {
	sum := sums[o]
	if sum == nil {
		sum = new(reqlog.Spend)
		sums[o] = sum
	}
	sum.AddSettlement(t)
}

// mostKnown is the limit of owners remembered by their strings.
const mostKnown = 1 << 14

// owner returns the owner of an intent, usually a remembered one.
func (c *settlementCounter) owner(b []byte) reqlog.SpendOwner {
	const texts = headSize + 32
	if o, ok := c.known[string(b[texts:])]; ok {
		return o
	}
	if len(c.known) >= mostKnown {
		clear(c.known)
	}
	i := parseIntent(b[headSize:], 0)
	o := reqlog.SpendOwner{Organisation: i.Organisation, Workspace: i.Workspace, KeyID: i.KeyID, Slug: i.Slug}
	c.known[string(b[texts:])] = o
	return o
}

// attemptOf returns the attempt of an intent or a settlement.
func attemptOf(b []byte) attempt {
	return attempt{reqlog.ID(b[headSize : headSize+16]), binary.LittleEndian.Uint16(b[14:])}
}

// reset makes r read a part of s.
func (r *reader) reset(s *segment, from, to int64) {
	*r = reader{file: s.file, seed: s.seed, at: from, end: to, off: from, buf: r.buf[:0]}
}

// nextHeader returns the bytes of the next record other than a row. It trusts the
// lengths in the headers of rows.
func (r *reader) nextHeader() ([]byte, error) {
	for {
		b, err := r.peek(headSize)
		if err != nil {
			return nil, err
		}
		if len(b) < headSize || b[12] != kindRow || binary.LittleEndian.Uint32(b[8:]) != uint32(r.at) {
			return r.raw()
		}
		size := int64(binary.LittleEndian.Uint32(b[4:]))
		if size < headSize || size > r.end-r.at {
			return r.raw()
		}
		r.at += size
	}
}
