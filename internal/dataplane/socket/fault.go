package socket

import (
	"bytes"
	"crypto/rand"
	"math"
	"strconv"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// errorEvent returns e as an event of a connection for responses, in the lane stream; empty
// is the lane without a name.
func errorEvent(e *apierr.Error, stream string) []byte {
	b := jsonedit.Append(make([]byte, 0, 256))
	b.Open('{')
	b.Name("type")
	b.String("error")
	b.Name("status")
	b.Int(int64(e.Status()))
	writeFault(&b, e)
	if e.RetryAfter > 0 {
		b.Name("headers")
		b.Open('{')
		b.Name("retry-after")
		b.String(strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
		b.Close('}')
	}
	writeStream(&b, stream)
	b.Close('}')
	return b.Bytes()
}

// realtimeError returns e as an event of the realtime protocol.
func realtimeError(e *apierr.Error) []byte {
	b := jsonedit.Append(make([]byte, 0, 256))
	b.Open('{')
	b.Name("type")
	b.String("error")
	b.Name("event_id")
	b.String("event_" + rand.Text())
	writeFault(&b, e)
	b.Close('}')
	return b.Bytes()
}

// noFault returns nil: the protocol reports errors by close frames only.
func noFault(*apierr.Error) []byte { return nil }

func writeFault(b *jsonedit.Builder, e *apierr.Error) {
	b.Name("error")
	b.Open('{')
	b.Name("type")
	b.String(e.Type())
	b.Name("code")
	b.String(e.CodeOrDefault())
	b.Name("message")
	b.String(e.Message)
	b.Name("param")
	if e.Param == "" {
		b.Null()
	} else {
		b.String(e.Param)
	}
	b.Name("source")
	b.String("gateway")
	b.Close('}')
}

func writeStream(b *jsonedit.Builder, stream string) {
	if stream != "" {
		b.Name("stream_id")
		b.String(stream)
	}
}

// withStream writes the JSON object event with the lane as its last member over dst.
func withStream(dst, event []byte, stream string) []byte {
	event = bytes.TrimSpace(event)
	dst = append(dst[:0], event[:len(event)-1]...)
	dst = append(dst, `,"stream_id":"`...)
	dst = append(dst, stream...) // its characters need no escapes
	return append(dst, `"}`...)
}
