package converse_test

import (
	"io"
	"slices"

	"modelgate/internal/format/eventstream"
	"modelgate/internal/format/sse"
)

// frames reads the messages of a stream as decoders are shown them.
func frames(r io.Reader) ([]sse.Event, error) {
	var list []sse.Event
	reader := eventstream.NewReader(r, 0)
	for {
		m, err := reader.Next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, sse.Event{Type: slices.Clone(m.Type()), Data: slices.Clone(m.Data())})
	}
}
