package ledger

import (
	"encoding/binary"
	"errors"
	"io"

	"modelgate/internal/records/reqlog"
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
	case b[12] == kindIntent && len(b) >= intentSize:
		key := attemptOf(b)
		if before, ok := c.open[key]; ok { // recorded again
			c.paid[before.seg]++
		}
		c.open[key] = openIntent{c.ownersOf(b), s}
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
		add(c.sums.Spent, c.sums.Counters, d.owners, t)
		c.settled++
		if !s.foreign {
			add(c.sums.Own, c.sums.OwnCounters, d.owners, t)
			c.own++
		}
	}
}

func add(spent map[reqlog.SpendOwner]*reqlog.Spend, counters map[string]*reqlog.Spend, o owners, t *reqlog.Settlement) {
	addTo(spent, o.owner, t)
	for _, name := range o.counters {
		addTo(counters, name, t)
	}
}

func addTo[K comparable](sums map[K]*reqlog.Spend, o K, t *reqlog.Settlement) {
	sum := sums[o]
	if sum == nil {
		sum = new(reqlog.Spend)
		sums[o] = sum
	}
	sum.AddSettlement(t)
}

// mostKnown is the limit of owners remembered by their strings.
const mostKnown = 1 << 14

// ownersOf returns what an intent is counted for, usually remembered.
func (c *settlementCounter) ownersOf(b []byte) owners {
	const texts = headSize + 32
	if o, ok := c.known[string(b[texts:])]; ok {
		return o
	}
	if len(c.known) >= mostKnown {
		clear(c.known)
	}
	remember := len(b) <= 2*intentSize
	i := parseIntent(b[headSize:], 0)
	o := owners{reqlog.SpendOwner{Organisation: i.Organisation, Workspace: i.Workspace, KeyID: i.KeyID, Slug: i.Slug}, i.Counters}
	if i.Provider == reqlog.ProviderTools { // a managed provider may have the slug of the server
		o.owner.Slug = ""
	}
	if remember {
		c.known[string(b[texts:])] = o
	}
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
