package attempt

import (
	"io"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/sse"
	"modelgate/internal/pipeline/framing"
)

// smallStream is the memory in bytes up to which a stream is not counted.
const smallStream = 64 << 10

// streamMemory reserves body memory for a stream: for its largest event, for
// the neutral events of a translated stream, and for what is collected of it.
// The memory stays reserved until release, since buffers are reused. The frames
// read the stream through it. It is not safe for concurrent use.
type streamMemory struct {
	framing.Reader
	src        io.Reader
	pool       *bytepool.Pool
	share      *bytepool.Share
	translated bool

	unread    int // bytes since the last event
	largest   int // memory of an event
	collected int
	counted   *bytepool.Buffer // nil for a small stream
	reserved  int
}

// streamMemory returns the memory of the stream src, without its frames.
func (a *attempt) streamMemory(src io.Reader) *streamMemory {
	return &streamMemory{src: src, pool: a.plan.handler.Engine.Bounds.Pool, share: a.plan.request.Memory,
		translated: a.plan.wire.translatesConversation()}
}

// Read implements io.Reader for the frames.
func (m *streamMemory) Read(p []byte) (int, error) {
	n, err := m.src.Read(p)
	m.unread += n
	if full := m.grow(bytesPerCopy*m.unread, 0); full != nil {
		return 0, full
	}
	return n, err
}

// Next implements frames. An event in which the stream ended is not returned,
// since no client may receive half an event: the stream ends before it, and the
// response is complete or not without it. A translated stream is unreadable then.
func (m *streamMemory) Next() (sse.Event, error) {
	e, err := m.Reader.Next()
	m.unread = 0
	switch {
	case err != nil:
	case framing.IsTorn(e) && m.translated:
		err = framing.ErrTornEvent
	case framing.IsTorn(e):
		err = io.EOF
	case m.translated:
		err = m.grow(streamedSize(e.Data), 0)
	}
	return e, err
}

// grow reserves memory for an event of size bytes, and for collected further
// bytes.
func (m *streamMemory) grow(size, collected int) error {
	m.largest = max(m.largest, size)
	m.collected += collected
	more := m.largest + m.collected - m.reserved
	if more <= 0 || m.counted == nil && more <= smallStream {
		return nil
	}
	if m.counted == nil {
		counted, err := m.pool.GetShare(0, m.share)
		if err != nil {
			return apierr.BodyMemoryFull(err)
		}
		m.counted = counted
	}
	if err := m.counted.Reserve(more); err != nil {
		return apierr.BodyMemoryFull(err)
	}
	m.reserved += more
	return nil
}

func (m *streamMemory) release() {
	if m.counted != nil {
		m.counted.Release()
		m.counted = nil
	}
}
