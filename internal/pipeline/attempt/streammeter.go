package attempt

import (
	"io"

	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/pipeline/exchange"
)

// extension is the output, in tokens, for which more is reserved of a limit that a
// stream has used up.
const extension = 256

// streamMeter counts what a stream uses of limits that end responses, and ends it
// when nothing is left; see docs/limits.md.
type streamMeter struct {
	exchange.Stream
	attempt *attempt
	memory  *streamMemory        // counts what cutter keeps; nil for a translated stream
	cutter  dialect.StreamCutter // nil for a translated stream
	before  int                  // events that precede the first one, which no limit holds back
	ended   bool                 // the client has the end
}

// endsEarly reports whether the gateway can end the response to the attempt before
// the provider does: streams of conversations that do not run on without their client.
func (p *plan) endsEarly() bool {
	r := p.request
	return r.Upgrade != nil || r.Stream && r.Operation == r.Dialect.ConversationOperation() && p.jobber() == nil && !p.survivesClient()
}

// newMeter returns a meter for the stream, nil if no limit may have to end it.
func (a *attempt) newMeter(memory *streamMemory) *streamMeter {
	if !a.account.limits.MayEndStream() {
		return nil
	}
	m := &streamMeter{attempt: a, memory: memory}
	if a.translation != nil {
		a.translation.metered = true
		return m
	}
	m.cutter = a.plan.request.Client.NewCutter(a.plan.request.Received.Doc)
	return m
}

// Next implements [exchange.Stream]. If a limit ends the stream, the last event has the end.
func (m *streamMeter) Next() (sse.Event, error) {
	if m.before > 0 {
		m.before--
		e, err := m.Stream.Next()
		if err == nil {
			err = m.read(e)
		}
		return e, err
	}
	if m.attempt.Cut() {
		return m.end()
	}
	e, err := m.Stream.Next()
	if err == nil {
		err = m.count(e)
	}
	return e, err
}

// More implements [exchange.Stream].
func (m *streamMeter) More() bool {
	if m.attempt.Cut() {
		return m.before > 0 || !m.ended
	}
	return m.Stream.More()
}

// countUnsent counts an event that precedes the first one for the client. It
// reports whether the stream ends. A nil meter counts nothing.
func (m *streamMeter) countUnsent(e sse.Event) (cut bool, err error) {
	if m == nil || e.Data != nil {
		return false, nil
	}
	err = m.count(e)
	return m.attempt.Cut(), err
}

// read shows the cutter an event that the client gets.
func (m *streamMeter) read(e sse.Event) error {
	if m.cutter == nil || len(e.Data) == 0 {
		return nil
	}
	return m.memory.grow(0, m.cutter.Read(e))
}

// count counts an event that the client gets. If the limits have nothing left, it
// closes the connection to the provider and settles the attempt.
func (m *streamMeter) count(e sse.Event) error {
	if err := m.read(e); err != nil {
		return err
	}
	if seen := m.attempt.response.Tap.Info(); seen.Finished || seen.Terminated || seen.Failed != "" {
		return nil
	}
	u := usageSoFar(m.attempt)
	if acc := &m.attempt.account; !acc.open || acc.limits.Extend(m.attempt.plan.timers.context(), acc.use(u)) {
		return nil
	}
	m.attempt.cut = &u
	m.attempt.Release()
	return nil
}

// end returns the events that end the stream, and then io.EOF.
func (m *streamMeter) end() (sse.Event, error) {
	if m.ended {
		return sse.Event{}, io.EOF
	}
	m.ended = true
	var end []byte
	if t := m.attempt.translation; t != nil {
		end = t.cut(nil, *m.attempt.cut)
	} else {
		end = m.cutter.Cut(nil, *m.attempt.cut)
	}
	return sse.Event{Raw: end, Data: end}, nil
}
