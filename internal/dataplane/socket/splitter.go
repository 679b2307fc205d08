package socket

import "bytes"

// eventSplitter divides a stream of server-sent events that arrives in pieces. The zero value
// is at the beginning of a stream.
type eventSplitter struct {
	rest  []byte // of an event that is not complete
	lines []byte // data of several lines
}

// split calls send with the name and the data of each event that ends in p. Comments have
// neither. The slices are valid until send returns.
func (s *eventSplitter) split(p []byte, send func(name, data []byte) error) error {
	if len(s.rest) > 0 {
		s.rest = append(s.rest, p...)
		p = s.rest
	}
	for {
		event, rest, ok := cutEvent(p)
		if !ok {
			break
		}
		p = rest
		if err := s.sendEvent(event, send); err != nil {
			return err
		}
	}
	s.rest = append(s.rest[:0], p...)
	return nil
}

// cutEvent returns the first event of p up to its blank line, and what follows.
func cutEvent(p []byte) (event, rest []byte, ok bool) {
	for at := 0; ; {
		i := bytes.IndexByte(p[at:], '\n')
		if i < 0 {
			return nil, nil, false
		}
		at += i + 1
		next := p[at:]
		switch {
		case len(next) > 0 && next[0] == '\n':
			return p[:at], next[1:], true
		case len(next) > 1 && next[0] == '\r' && next[1] == '\n':
			return p[:at], next[2:], true
		}
	}
}

func (s *eventSplitter) sendEvent(event []byte, send func(name, data []byte) error) error {
	var name, data []byte
	several := false
	for len(event) > 0 {
		var line []byte
		line, event, _ = bytes.Cut(event, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if v, ok := fieldOf(line, "event:"); ok {
			name = v
		}
		v, ok := fieldOf(line, "data:")
		switch {
		case !ok:
		case data == nil:
			data = v
		case !several:
			several = true
			s.lines = append(append(append(s.lines[:0], data...), '\n'), v...)
			data = s.lines
		default:
			s.lines = append(append(s.lines, '\n'), v...)
			data = s.lines
		}
	}
	if data == nil {
		return nil
	}
	return send(name, data)
}

// fieldOf returns the value of a line that is the field with this name.
func fieldOf(line []byte, name string) ([]byte, bool) {
	v, ok := bytes.CutPrefix(line, []byte(name))
	if !ok {
		return nil, false
	}
	return bytes.TrimPrefix(v, []byte(" ")), true
}
