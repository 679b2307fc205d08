package logstore

import (
	"bytes"
	"slices"
	"time"

	"modelgate/internal/records/reqlog"
)

// write runs the writer's loop: wait, take all queued entries, store them.
func (s *Store) write() {
	defer close(s.written)
	spare := make([]*reqlog.Entry, 0, s.batch)
	w := &batchWriter{serial: time.Now().UnixNano()}
	var f rollupCompactor
	for s.await() {
		s.compactRollups(&f)
		batch := s.take(spare)
		s.finishBatch(len(batch), s.persist(w, batch))
		clear(batch) // release the entries
		spare = batch
	}
}

// await returns true when entries should be written, and false when the store is closed
// and everything is written.
func (s *Store) await() bool {
	var late <-chan time.Time
	for {
		waiting, now, closed := s.due()
		switch {
		case waiting && now:
			return true
		case closed:
			return false
		case waiting && late == nil:
			late = time.After(s.flush)
		}
		select {
		case <-s.wake:
		case <-late:
			return true
		}
	}
}

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
)

// persist stores batch, retrying with growing pauses until it is stored or Close runs
// out of time.
func (s *Store) persist(w *batchWriter, batch []*reqlog.Entry) bool {
	w.encode(batch)
	for pause, failed := firstPause, false; ; pause = min(2*pause, longestPause) {
		err := s.keeper.keep(s.giveUp, w)
		if err == nil {
			s.grew(w)
			if failed {
				s.log.Info("log write recovered")
			}
			return true
		}
		s.failing(err)
		if !failed {
			s.log.Error("log write failed; entries are queued", "err", err)
			failed = true
		}
		select {
		case <-time.After(pause):
		case <-s.giveUp.Done():
			return false
		}
	}
}

// slotBits is the time span of a block as bits of milliseconds: 1.024 s. It limits how
// many blocks overlap, and therefore what a reader must hold.
const slotBits = 10

// Limits of a block, which is always read completely.
const (
	blockEntries = 512
	blockBytes   = 256 << 10
)

// batchWriter encodes batches into blocks and reuses its buffers.
type batchWriter struct {
	serial  int64
	enc     encoder
	entries []*reqlog.Entry // entries of the batch, newest first
	blocks  []block
	bodies  []packedBodies // bodies of the batch
	rollups []rollup       // rollups of the batch
	data    []byte         // encoded blocks
}

// encode encodes batch, which it sorts, into blocks, newest entry first, and computes
// its rollups.
func (w *batchWriter) encode(batch []*reqlog.Entry) {
	slices.SortFunc(batch, func(a, b *reqlog.Entry) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	w.entries, w.blocks, w.data = batch, w.blocks[:0], w.data[:0]
	w.enc.reset()
	for i, e := range batch {
		if i > 0 && (w.enc.full() || slotOf(e.ID) != slotOf(batch[i-1].ID)) {
			w.cut(batch[i-w.enc.entries : i])
		}
		w.enc.add(e)
	}
	if n := w.enc.entries; n > 0 {
		w.cut(batch[len(batch)-n:])
	}
	w.bodies = packBodies(batch)
	w.rollups = sumUp(batch)
}

// cut ends the block of these entries.
func (w *batchWriter) cut(entries []*reqlog.Entry) {
	start := len(w.data)
	w.data = w.enc.appendBlock(w.data)
	w.serial++
	w.blocks = append(w.blocks, block{
		serial:  w.serial,
		last:    entries[0].ID,
		first:   entries[len(entries)-1].ID,
		entries: len(entries),
		data:    w.data[start:len(w.data):len(w.data)],
	})
	w.enc.reset()
}

func slotOf(id reqlog.ID) int64 { return millis(id) >> slotBits }

// millis returns the time of id in milliseconds.
func millis(id reqlog.ID) int64 {
	return int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5])
}
