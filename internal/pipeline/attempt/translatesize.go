package attempt

import (
	"bytes"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// Factors for the memory in bytes that a JSON body takes while it is
// translated. Decoded and encoded it takes its own size twice more, an object
// or array becomes a struct of the neutral model, and each further value is a
// field or an element of a slice of numbers. Measured with bodies with many
// small parts in every dialect.
const (
	bytesPerCopy      = 2
	bytesPerStructure = 512
	bytesPerValue     = 48
	bytesPerNumber    = 16
)

// For a stream, each object or array takes more: neutral events that begin,
// fill and end a part, in a growing slice, and data of the part that a client's
// dialect repeats at its end. If collected, a part takes bytesPerPart, and the
// log probability of a token bytesPerLogprob.
const (
	bytesPerEvents  = 3 << 10
	bytesPerPart    = 2 << 10
	bytesPerLogprob = 128
)

// smallTranslation is the size up to which structures are counted without
// distinguishing text in strings.
const smallTranslation = 1 << 20

// reserveTranslation reserves body memory for the translation of the request.
// The caller releases the buffer. It is nil if nothing is translated.
func (p *plan) reserveTranslation() (*bytepool.Buffer, error) {
	if p.request.Received.Doc == nil || !p.wire.translates() {
		return nil, nil
	}
	counted, err := p.handler.Engine.Bounds.Pool.GetShare(0, p.request.Memory)
	if err != nil {
		return nil, apierr.BodyMemoryFull(err)
	}
	if err := counted.Reserve(translationSize(p.request.Received.Doc.Bytes())); err != nil {
		counted.Release()
		return nil, apierr.BodyMemoryFull(err)
	}
	return counted, nil
}

// translationSize estimates the memory that the translation of a JSON body
// takes in addition to the body: of a request or a complete response.
func translationSize(body []byte) int { return sizeWith(bytesPerStructure, body) }

// streamedSize estimates the same for a body that becomes stream events: the
// data of one event, or a complete response for a client that wants a stream.
func streamedSize(body []byte) int { return sizeWith(bytesPerEvents, body) }

func sizeWith(perStructure int, body []byte) int {
	structures := bytes.Count(body, []byte("{")) + bytes.Count(body, []byte("["))
	values, numbers := bytes.Count(body, []byte(",")), 0
	if structures*perStructure+values*bytesPerValue > smallTranslation {
		structures, values, numbers = countStructures(body)
	}
	return bytesPerCopy*len(body) + structures*perStructure + values*bytesPerValue + numbers*bytesPerNumber
}

// collectedSize estimates the memory of one frame's events if they are
// collected: for a client that wants a complete response, or by an encoder that
// repeats parts at their end. data is the frame's data.
func collectedSize(data []byte, events []llm.Event) (n int) {
	opaque := false
	for i := range events {
		e := &events[i]
		n += bytesPerCopy * (len(e.Text) + len(e.Signature.Value))
		n += len(e.Extra) * bytesPerValue
		for j := range e.Logprobs {
			n += (1 + len(e.Logprobs[j].Top)) * bytesPerLogprob
		}
		if e.Opened != nil {
			n += bytesPerPart
		}
		if e.Citation != nil {
			n += bytesPerStructure
		}
		opaque = opaque || e.Opened != nil || e.Citation != nil || len(e.Extra) > 0
	}
	if opaque {
		n += bytesPerCopy * len(data)
	}
	return n
}

// countStructures counts objects and arrays, and commas between values outside
// of strings: those before a number in numbers, the others in values.
func countStructures(body []byte) (structures, values, numbers int) {
	c := jsonedit.NewCursor(body)
	for {
		switch first, _ := c.Token(); first {
		case 0:
			return structures, values, numbers
		case '{', '[':
			structures++
		case ',':
			if next := c.Peek(); next == '-' || next >= '0' && next <= '9' {
				numbers++
			} else {
				values++
			}
		}
	}
}
